//! The text of a selection, which people write.

use super::texts;
use rails_array::{BlockGrid, CopyPlan, MAX_RANK, Region, Selection, SelectionText, Shape};
use std::sync::LazyLock;

/// A text that is read prints as one that reads back. What it selects lies in the array, prints as
/// a text that selects the same, and can be asked for.
pub(crate) fn text(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(selected) = text.parse::<SelectionText>() else { return };
    assert_eq!(selected.to_string().parse().as_ref(), Ok(&selected));
    for shape in ARRAYS.iter() {
        if let Ok(selection) = selected.resolve(shape) {
            ask(&selection, shape);
        }
    }
}

fn ask(selection: &Selection, shape: &Shape) {
    assert!(selection.bounds().is_within(shape), "{selection} of {shape}");
    let text: SelectionText = selection.to_string().parse().expect("a selection prints as its text");
    assert_eq!(text.resolve(shape).as_ref(), Ok(selection));
    let array = Region::whole(shape);
    let plan = CopyPlan::new(&array, selection, 1).expect("elements of one byte are as many bytes");
    assert_eq!(plan.bytes(), selection.elements(), "{selection} of {shape}");
    let blocks = Shape::new(shape.extents().iter().map(|extent| extent / 3 + 1)).expect("blocks are smaller");
    let grid = BlockGrid::new(array, blocks).expect("the blocks fit");
    let range = grid.blocks_of_selection(selection).expect("the ranks are equal");
    assert_eq!(range.clone().next().is_some(), !selection.is_empty());
    for block in range.clone().take(100) {
        assert!(range.contains(block) && selection.within(&grid.block_region(block)).is_some());
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    texts([
        "ozone[0:64, 3, :, 100:250]",
        "[..., -1]",
        "[]",
        "a/b [1] [ 0 : 60 : 7 , -4 : ]",
        "[9223372036854775808::9223372036854775807]",
        "[:, ::2, ..., 5:5]",
    ])
}

pub(crate) const WORDS: &[&str] = &["[", "]", "...", "::", ", ", "-1", "18446744073709551615"];

static ARRAYS: LazyLock<Vec<Shape>> = LazyLock::new(|| {
    let shapes: [&[u64]; 5] = [&[], &[64, 36, 361, 540], &[5, 0, 7], &[u64::MAX], &[1; MAX_RANK]];
    shapes.into_iter().map(|extents| Shape::new(extents.iter().copied()).expect("the shape is valid")).collect()
});
