//! The shape of the blocks in which an array is cached.

use rails_array::Shape;

/// The shape of blocks that come near to `block_bytes`, for an array of elements of so many bytes.
/// No block has more than `max_block_bytes`, unless one element has.
///
/// A small plane, that of the last two axes, stays whole, and blocks have as many of them as they
/// have room for. A large one is cut into tiles, so that a read of a box out of a plane fetches few
/// elements beside it. All blocks along an axis are of nearly one size.
///
/// `chunk` is the shape of the chunks, where one can be read only whole: blocks then are chunks
/// or boxes of several, as long as a chunk is no larger than a block may be.
pub(super) fn propose(
    shape: &Shape,
    element_bytes: u64,
    chunk: Option<&Shape>,
    block_bytes: u64,
    max_block_bytes: u64,
) -> Shape {
    let room = |bytes: u64| (bytes / element_bytes.max(1)).max(1);
    let (elements, max_elements) = (room(block_bytes.min(max_block_bytes)), room(max_block_bytes));
    let extents: Vec<u64> = shape.extents().iter().map(|extent| *extent.max(&1)).collect();
    let unit: Vec<u64> = match chunk {
        Some(chunk) => chunk.extents().iter().zip(&extents).map(|(chunk, extent)| *chunk.min(extent)).collect(),
        None => vec![1; extents.len()],
    };
    let block = if chunk.is_some() && product(&unit) <= max_elements {
        grown(&extents, unit, elements)
    } else {
        of_planes(&extents, elements)
    };
    Shape::new(block).expect("a block is no larger than its array, but for extents of zero")
}

/// Blocks of whole planes, or tiles of one.
fn of_planes(extents: &[u64], elements: u64) -> Vec<u64> {
    let mut block = vec![1; extents.len()];
    let [.., rows, columns] = *extents else {
        if let [extent] = *extents {
            block[0] = even(extent, elements);
        }
        return block;
    };
    if rows.saturating_mul(columns) <= elements {
        return grown(extents, block, elements);
    }
    let rank = extents.len();
    (block[rank - 2], block[rank - 1]) = tile(rows, columns, elements);
    block
}

/// A block that is a whole number of units along each axis, filled from the last axis on.
fn grown(extents: &[u64], unit: Vec<u64>, elements: u64) -> Vec<u64> {
    let mut block = unit;
    for axis in (0..extents.len()).rev() {
        let others = product(&block) / block[axis];
        let units = extents[axis].div_ceil(block[axis]);
        let fitting = (elements / others.saturating_mul(block[axis]).max(1)).max(1);
        let count = even(units, fitting);
        block[axis] = block[axis].saturating_mul(count).min(extents[axis]);
        if count < units {
            break;
        }
    }
    block
}

/// The rows and columns of the tiles of a plane that does not fit a block.
///
/// With these tiles a box of a quarter of the plane along both axes costs least, on average over
/// its places. A tile costs its elements, an eighth of a full one for its request, and half of the
/// gaps between its rows in a file, which the disk reads over: a disk is cheaper than a link.
fn tile(rows: u64, columns: u64, elements: u64) -> (u64, u64) {
    let side = elements.isqrt().max(1);
    let widths = (4..=16).map(|eighths| side.saturating_mul(eighths) / 8).chain([elements / rows.max(1), elements]);
    let tiles = widths.map(|width| {
        let columns = even(columns, width.clamp(1, elements));
        (even(rows, (elements / columns).max(1)), columns)
    });
    let touched = |extent: u64, part: u64| (1.0 + extent as f64 / 4.0 / part as f64).min(extent.div_ceil(part) as f64);
    let cost = |&(high, wide): &(u64, u64)| {
        let over = (columns - wide).min(ROW_GAP) as f64 / 2.0;
        let tile = high as f64 * (wide as f64 + over) + elements as f64 / 8.0;
        tile * touched(rows, high) * touched(columns, wide)
    };
    tiles.min_by(|one, other| cost(one).total_cmp(&cost(other))).expect("there are widths")
}

/// The largest part of an extent that is at most `limit`, if all parts but the last are alike and
/// the last is nearly as large.
fn even(extent: u64, limit: u64) -> u64 {
    extent.div_ceil(extent.div_ceil(limit.max(1)).max(1)).max(1)
}

/// The number of elements, which no array exceeds.
fn product(extents: &[u64]) -> u64 {
    extents.iter().fold(1, |product: u64, extent| product.saturating_mul(*extent))
}

/// The elements that are read over rather than asked for by another request: 4 KiB of four bytes
/// each.
const ROW_GAP: u64 = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::vec, option, prelude::*};

    const BYTES: u64 = 256 << 10;

    fn proposed(extents: &[u64], chunk: Option<&[u64]>) -> Vec<u64> {
        let shape = |extents: &[u64]| Shape::new(extents.iter().copied()).unwrap();
        propose(&shape(extents), 4, chunk.map(shape).as_ref(), BYTES, 4 << 20).extents().to_vec()
    }

    #[test]
    fn small_planes_stay_whole() {
        assert_eq!(proposed(&[1460, 36, 181, 288], None), [1, 1, 181, 288]);
        assert_eq!(proposed(&[1460, 36, 91, 135], None), [1, 5, 91, 135]);
        assert_eq!(proposed(&[1460, 3, 10, 20], None), [105, 3, 10, 20]);
        assert_eq!(proposed(&[7], None), [7]);
        assert_eq!(proposed(&[100_000], None), [50_000]);
        assert_eq!(proposed(&[], None), [0; 0]);
        assert_eq!(proposed(&[0, 5], None), [1, 5]);
    }

    #[test]
    fn large_planes_are_tiled() {
        assert_eq!(proposed(&[64, 36, 361, 540], None), [1, 1, 121, 540]);
        assert_eq!(proposed(&[5, 4096, 4096], None), [1, 128, 512]);
        // A long plane of few rows.
        assert_eq!(proposed(&[4, 1_000_000], None), [1, 62_500]);
    }

    #[test]
    fn chunks_are_not_cut() {
        assert_eq!(proposed(&[100, 361, 540], Some(&[1, 91, 135])), [1, 91, 540]);
        assert_eq!(proposed(&[100, 361, 540], Some(&[1, 361, 540])), [1, 361, 540]);
        // A chunk that is too large for a block is cut as an array without chunks is.
        assert_eq!(proposed(&[100, 361, 540], Some(&[100, 361, 540])), [1, 121, 540]);
    }

    proptest! {
        #[test]
        fn blocks_are_bounded(
            extents in vec(prop_oneof![0_u64..40, 0_u64..5000, Just(1 << 30)], 0..5),
            chunk in option::of(vec(1_u64..3000, 5)),
            (size, bytes, largest) in (1_u64..9, 0_u64..1 << 20, 0_u64..4 << 20),
        ) {
            prop_assume!(Shape::new(extents.iter().copied()).is_ok_and(|shape| shape.elements() < 1 << 60));
            let shape = Shape::new(extents.iter().copied()).unwrap();
            let chunk = chunk.map(|chunk| chunk[..extents.len()].to_vec());
            let chunk = chunk.and_then(|chunk| Shape::new(chunk).ok());
            let block = propose(&shape, size, chunk.as_ref(), bytes, largest);
            prop_assert!(block.elements() == 1 || block.elements() * size <= largest);
            prop_assert!(!block.is_empty());
            let within = block.extents().iter().zip(shape.extents()).all(|(block, extent)| block <= extent.max(&1));
            prop_assert!(within);
        }
    }
}
