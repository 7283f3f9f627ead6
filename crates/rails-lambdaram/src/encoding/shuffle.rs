//! The bytes of elements by their significance.
//!
//! Neighbours in an array mostly have the same sign and exponent, and low bytes that differ. A
//! compressor finds the equal bytes where they lie side by side. The order is that of HDF5's filter
//! `shuffle`, and of Blosc's.

/// Writes the first bytes of all elements, then their second bytes, and so on. Bytes behind the
/// last whole element keep their place.
///
/// # Panics
/// If the lengths differ.
pub(super) fn shuffle(elements: &[u8], element_bytes: usize, shuffled: &mut [u8]) {
    assert_eq!(elements.len(), shuffled.len(), "a block is as long when it is shuffled");
    match element_bytes {
        2 => shuffle_sized::<2>(elements, shuffled),
        4 => shuffle_sized::<4>(elements, shuffled),
        8 => shuffle_sized::<8>(elements, shuffled),
        _ => shuffle_any(elements, element_bytes, shuffled),
    }
}

/// Undoes [`shuffle`].
///
/// # Panics
/// If the lengths differ.
pub(super) fn unshuffle(shuffled: &[u8], element_bytes: usize, elements: &mut [u8]) {
    assert_eq!(elements.len(), shuffled.len(), "a block is as long when it is shuffled");
    match element_bytes {
        2 => unshuffle_sized::<2>(shuffled, elements),
        4 => unshuffle_sized::<4>(shuffled, elements),
        8 => unshuffle_sized::<8>(shuffled, elements),
        _ => unshuffle_any(shuffled, element_bytes, elements),
    }
}

/// The size is known to the compiler, which makes vector instructions of the inner loop.
fn shuffle_sized<const BYTES: usize>(elements: &[u8], shuffled: &mut [u8]) {
    let (whole, rest) = elements.as_chunks::<BYTES>();
    let (planes, behind) = shuffled.split_at_mut(whole.len() * BYTES);
    behind.copy_from_slice(rest);
    if whole.is_empty() {
        return;
    }
    for (byte, plane) in planes.chunks_exact_mut(whole.len()).enumerate() {
        for (to, element) in plane.iter_mut().zip(whole) {
            *to = element[byte];
        }
    }
}

fn unshuffle_sized<const BYTES: usize>(shuffled: &[u8], elements: &mut [u8]) {
    let (whole, rest) = elements.as_chunks_mut::<BYTES>();
    let (planes, behind) = shuffled.split_at(whole.len() * BYTES);
    rest.copy_from_slice(behind);
    if whole.is_empty() {
        return;
    }
    for (byte, plane) in planes.chunks_exact(whole.len()).enumerate() {
        for (element, from) in whole.iter_mut().zip(plane) {
            element[byte] = *from;
        }
    }
}

fn shuffle_any(elements: &[u8], element_bytes: usize, shuffled: &mut [u8]) {
    let count = elements.len().checked_div(element_bytes).unwrap_or(0);
    if element_bytes < 2 || count < 2 {
        return shuffled.copy_from_slice(elements);
    }
    let (planes, behind) = shuffled.split_at_mut(count * element_bytes);
    for (at, element) in elements.chunks_exact(element_bytes).enumerate() {
        for (byte, from) in element.iter().enumerate() {
            planes[byte * count + at] = *from;
        }
    }
    behind.copy_from_slice(&elements[count * element_bytes..]);
}

fn unshuffle_any(shuffled: &[u8], element_bytes: usize, elements: &mut [u8]) {
    let count = elements.len().checked_div(element_bytes).unwrap_or(0);
    if element_bytes < 2 || count < 2 {
        return elements.copy_from_slice(shuffled);
    }
    let (planes, behind) = shuffled.split_at(count * element_bytes);
    for (at, element) in elements.chunks_exact_mut(element_bytes).enumerate() {
        for (byte, to) in element.iter_mut().enumerate() {
            *to = planes[byte * count + at];
        }
    }
    elements[count * element_bytes..].copy_from_slice(behind);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::vec, prelude::*};

    #[test]
    fn bytes_of_one_place_lie_side_by_side() {
        for (element_bytes, expected) in [
            (2, [0, 2, 4, 6, 1, 3, 5, 7, 8]),
            (3, [0, 3, 6, 1, 4, 7, 2, 5, 8]),
            (4, [0, 4, 1, 5, 2, 6, 3, 7, 8]),
            (8, [0, 1, 2, 3, 4, 5, 6, 7, 8]),
            (0, [0, 1, 2, 3, 4, 5, 6, 7, 8]),
            (usize::MAX, [0, 1, 2, 3, 4, 5, 6, 7, 8]),
        ] {
            let mut shuffled = [0; 9];
            shuffle(&[0, 1, 2, 3, 4, 5, 6, 7, 8], element_bytes, &mut shuffled);
            assert_eq!(shuffled, expected, "{element_bytes}");
        }
    }

    proptest! {
        #[test]
        fn sizes_have_one_order(elements in vec(any::<u8>(), 0..200)) {
            for element_bytes in [2, 4, 8] {
                let (mut sized, mut any) = (vec![0; elements.len()], vec![0; elements.len()]);
                shuffle(&elements, element_bytes, &mut sized);
                shuffle_any(&elements, element_bytes, &mut any);
                prop_assert_eq!(sized, any);
            }
        }

        #[test]
        fn shuffling_is_undone(elements in vec(any::<u8>(), 0..200), element_bytes in 0_usize..20) {
            let (mut shuffled, mut back) = (vec![0; elements.len()], vec![0; elements.len()]);
            shuffle(&elements, element_bytes, &mut shuffled);
            unshuffle(&shuffled, element_bytes, &mut back);
            prop_assert_eq!(back, elements);
        }
    }
}
