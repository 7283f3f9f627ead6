//! Parts that the blocks of NICs and of other devices share.

use crate::render::{
    phrases,
    picture::block::{Block, Kind, Row, Tone},
};

/// A block for the devices that were left out, if any.
pub(super) fn more(names: Vec<String>, what: &str) -> Option<Block> {
    let text = format!("and {} more", phrases::count(names.len(), what));
    let mut block = Block::new(Kind::Device, vec![Row::text(10.0, &text, Tone::Dim)]);
    block.hint = names.join(", ");
    (!names.is_empty()).then_some(block)
}

/// The present and the fastest possible link, each on its own line.
pub(super) fn in_two(link: String) -> Vec<String> {
    link.split(", ").map(str::to_owned).collect()
}

/// Columns of a device's text; its hint has the whole.
pub(super) const CARD: usize = 34;
