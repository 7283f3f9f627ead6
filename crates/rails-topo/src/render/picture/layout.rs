//! The layout: a pure function from blocks to rectangles.
//!
//! Blocks are put in rows as words are in lines, each block's own contents first. The width of a
//! block is chosen so that it is about as wide as high; the best shape for the picture as a whole
//! is found by trying several.

use super::block::{Block, Cell};

/// The positions of all blocks.
pub(super) struct Layout<'a> {
    pub(super) width: f64,
    pub(super) height: f64,
    /// The areas; each comes after the one that holds it.
    pub(super) areas: Vec<Area<'a>>,
}

/// A block in its place.
pub(super) struct Area<'a> {
    pub(super) block: &'a Block,
    pub(super) rect: Rect,
    /// The index of the area that holds this one.
    #[cfg_attr(not(test), expect(dead_code, reason = "the tests hold areas against those around them"))]
    pub(super) parent: Option<usize>,
    pub(super) texts: Vec<Text<'a>>,
}

/// A text in its place.
pub(super) struct Text<'a> {
    pub(super) cell: &'a Cell,
    pub(super) size: f64,
    /// The rectangle that bounds the text.
    pub(super) rect: Rect,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Rect {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

/// Places a block and all that is in it, in about the shape of a screen.
pub(super) fn layout(block: &Block) -> Layout<'_> {
    let tried = SHAPES.iter().map(|shape| measure(block, *shape, SCREEN));
    let best = tried.min_by(|a, b| cost(a.size, SCREEN).total_cmp(&cost(b.size, SCREEN)));
    let Some(measured) = best else { return Layout { width: 0.0, height: 0.0, areas: Vec::new() } };
    let mut areas = Vec::new();
    let (width, height) = measured.size;
    let rect = Rect { x: 0.0, y: 0.0, width, height };
    place(block, &measured, rect, None, &mut areas);
    Layout { width, height, areas }
}

/// A block's size, and the positions of its contents.
struct Measured {
    size: (f64, f64),
    inner: Vec<Vec<Inner>>,
}

struct Inner {
    at: (f64, f64),
    /// The height of the highest block of the row, if the block has contents.
    height: f64,
    measured: Measured,
}

/// `shape` is the wanted ratio of width to height of everything in the block, `own` that of the
/// block itself.
fn measure(block: &Block, shape: f64, own: f64) -> Measured {
    let gap = block.kind.gap();
    let inside = |one: &Block| measure(one, shape, one.shape.unwrap_or(shape));
    let inner: Vec<Vec<Measured>> = block.sections.iter().map(|section| section.iter().map(inside).collect()).collect();
    let text = block.rows.iter().map(|row| row.width()).fold(0.0, f64::max);
    let head: f64 = block.rows.iter().map(|row| row.height()).sum();
    let sizes: Vec<Vec<(f64, f64)>> =
        inner.iter().map(|section| section.iter().map(|one| one.size).collect()).collect();
    let size = |width: f64| {
        let (mut widest, mut body) = (text, head);
        for sizes in &sizes {
            let (wide, high) = extent(&spots(sizes, width, gap));
            (widest, body) = (wide.max(widest), body + high + if body > 0.0 { gap } else { 0.0 });
        }
        ((widest + 2.0 * gap).max(block.min_size.0), (body + 2.0 * gap).max(block.min_size.1))
    };
    let mut best = (size(text), text);
    for width in widths(&sizes, gap).into_iter().map(|width| width.max(text)) {
        let tried = size(width);
        if cost(tried, own) < cost(best.0, own) {
            best = (tried, width);
        }
    }
    let (size, width) = best;
    let mut y = gap + head;
    let mut placed = Vec::new();
    for (section, sizes) in inner.into_iter().zip(&sizes) {
        y += if y > gap { gap } else { 0.0 };
        let spots = spots(sizes, width, gap);
        let inner = section.into_iter().zip(&spots).map(|(measured, spot)| {
            let height = if measured.inner.is_empty() { measured.size.1 } else { spot.height };
            Inner { at: (gap + spot.x, y + spot.y), height, measured }
        });
        placed.push(inner.collect());
        y += extent(&spots).1;
    }
    Measured { size, inner: placed }
}

/// The share of a screen of that shape that a block of that size takes: the less, the larger the
/// block appears.
fn cost((width, height): (f64, f64), shape: f64) -> f64 {
    // Of two blocks that fill a screen equally, the smaller is better.
    width.max(height * shape) + (width + height) / 1e3
}

/// The widths to try: those at which one more block fits into the first row of a section.
fn widths(sections: &[Vec<(f64, f64)>], gap: f64) -> Vec<f64> {
    let mut widths = Vec::new();
    for sizes in sections {
        let every = sizes.len() / MAX_TRIED + 1;
        let mut width = 0.0;
        for (index, (one, _)) in sizes.iter().enumerate() {
            width += one + if index == 0 { 0.0 } else { gap };
            if index < MAX_TRIED / 2 || index % every == 0 || index + 1 == sizes.len() {
                widths.push(width);
            }
        }
        // A section of unlike blocks may be as wide as its widest.
        widths.push(sizes.iter().map(|(one, _)| *one).fold(0.0, f64::max));
    }
    widths
}

/// The place of each block, in rows of at most that width (or of a single wider block); all blocks
/// of a row are as high as the highest.
fn spots(sizes: &[(f64, f64)], width: f64, gap: f64) -> Vec<Rect> {
    let mut spots: Vec<Rect> = Vec::with_capacity(sizes.len());
    let (mut x, mut y, mut first) = (0.0, 0.0, 0);
    for (index, (one, height)) in sizes.iter().enumerate() {
        if x > 0.0 && x + one > width + ROUNDING {
            (x, y, first) = (0.0, y + level(&mut spots[first..]) + gap, index);
        }
        spots.push(Rect { x, y, width: *one, height: *height });
        x += one + gap;
    }
    level(&mut spots[first..]);
    spots
}

/// The size that the blocks take together.
fn extent(spots: &[Rect]) -> (f64, f64) {
    let furthest = |(x, y): (f64, f64), spot: &Rect| (x.max(spot.x + spot.width), y.max(spot.y + spot.height));
    spots.iter().fold((0.0, 0.0), furthest)
}

/// Makes all blocks of a row as high as the highest, and returns that height.
fn level(row: &mut [Rect]) -> f64 {
    let height = row.iter().map(|rect| rect.height).fold(0.0, f64::max);
    row.iter_mut().for_each(|rect| rect.height = height);
    height
}

fn place<'a>(block: &'a Block, measured: &Measured, rect: Rect, parent: Option<usize>, areas: &mut Vec<Area<'a>>) {
    let gap = block.kind.gap();
    let mut texts = Vec::new();
    let mut y = rect.y + gap;
    for row in &block.rows {
        let mut x = rect.x + gap;
        for cell in &row.cells {
            let width = cell.width(row.size);
            texts.push(Text { cell, size: row.size, rect: Rect { x, y, width, height: row.height() } });
            x += width + row.size / 2.0;
        }
        y += row.height();
    }
    let index = areas.len();
    areas.push(Area { block, rect, parent, texts });
    for (section, inner) in block.sections.iter().zip(&measured.inner) {
        for (block, inner) in section.iter().zip(inner) {
            let (x, y) = inner.at;
            let inside = Rect { x: rect.x + x, y: rect.y + y, width: inner.measured.size.0, height: inner.height };
            place(block, &inner.measured, inside, Some(index), areas);
        }
    }
}

/// Width over height of a browser's window on a usual screen.
const SCREEN: f64 = 1.7;
/// The shapes to try for the contents: two packages beside each other should be high, one alone
/// wide.
const SHAPES: [f64; 10] = [0.5, 0.6, 0.7, 0.85, 1.0, 1.25, 1.7, 2.2, 2.8, 4.0];
/// The number of widths to try for each section, however many blocks it has.
const MAX_TRIED: usize = 48;
/// Sums of the same widths in another order differ in their last digits.
const ROUNDING: f64 = 1e-6;
