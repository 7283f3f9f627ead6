//! Parts of a list of slices.

use std::{io::IoSlice, ops::Range};

/// Calls `send` with the slices of the part. A part of few slices needs no heap memory.
pub(super) fn with_part<T>(slices: &[IoSlice<'_>], part: Range<usize>, send: impl FnOnce(&[IoSlice<'_>]) -> T) -> T {
    let mut few = [IoSlice::new(&[]); FEW];
    let mut count = 0;
    for piece in pieces(slices, part.clone()).take(FEW + 1) {
        match few.get_mut(count) {
            Some(place) => *place = IoSlice::new(piece),
            None => return send(&pieces(slices, part).map(IoSlice::new).collect::<Vec<_>>()),
        }
        count += 1;
    }
    send(&few[..count])
}

/// The bytes of the part, slice by slice.
fn pieces<'a>(slices: &'a [IoSlice<'_>], part: Range<usize>) -> impl Iterator<Item = &'a [u8]> {
    let mut position = 0;
    slices.iter().filter_map(move |slice| {
        let within = |at: usize| at.saturating_sub(position).min(slice.len());
        let (start, end) = (within(part.start), within(part.end));
        position += slice.len();
        (start < end).then(|| &slice[start..end])
    })
}

/// A datagram is a header and few pieces of payload.
const FEW: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_part_has_its_bytes_and_no_empty_slice(
            lengths in prop::collection::vec(0_usize..5, 0..60),
            start in 0_usize..200,
            length in 0_usize..200,
        ) {
            let lists: Vec<Vec<u8>> = lengths.iter().enumerate().map(|(i, n)| vec![i as u8; *n]).collect();
            let slices: Vec<IoSlice<'_>> = lists.iter().map(|list| IoSlice::new(list)).collect();
            let whole = lists.concat();
            let part = start.min(whole.len())..(start + length).min(whole.len());
            let got = with_part(&slices, start..start + length, |slices| {
                assert!(slices.iter().all(|slice| !slice.is_empty()));
                slices.iter().flat_map(|slice| slice.to_vec()).collect::<Vec<u8>>()
            });
            prop_assert_eq!(&got, &whole[part]);
        }
    }
}
