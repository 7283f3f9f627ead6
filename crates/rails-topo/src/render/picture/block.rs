//! Blocks: the picture before its layout, as blocks in blocks, each with rows of text.

use crate::CpuId;

/// A box to be drawn.
#[derive(Debug, Clone)]
pub(super) struct Block {
    pub(super) kind: Kind,
    /// The rows of the block's own text, on top.
    pub(super) rows: Vec<Row>,
    /// All facts of the block, shown while the pointer is on it.
    pub(super) hint: String,
    /// The inner blocks: sections below each other, the blocks of each in rows.
    pub(super) sections: Vec<Vec<Block>>,
    /// The rails that the block belongs to, by their index in the overlay.
    pub(super) rails: Vec<usize>,
    /// The end of the lines of rails.
    pub(super) anchor: Option<Anchor>,
    /// The minimum width and height, so that blocks of a kind are alike with any text.
    pub(super) min_size: (f64, f64),
    /// The wanted ratio of width to height; `None` leaves it to the layout.
    pub(super) shape: Option<f64>,
}

/// The kind of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Machine,
    Package,
    Die,
    Node,
    /// Caches that several cores share.
    Cache,
    /// A core of that kind.
    Core(usize),
    /// A cache of one core.
    PrivateCache,
    Pu(PuState),
    /// Devices behind one PCI slot or switch.
    Pci,
    Nic,
    /// Any other device.
    Device,
    /// Blocks of unknown locality.
    Group,
    /// An entry of the legend.
    Key,
}

/// The limits of a PU.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct PuState {
    pub(super) forbidden: bool,
    pub(super) isolated: bool,
    pub(super) tickless: bool,
}

/// An end of a rail's line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Anchor {
    Nic(String),
    Cpu(CpuId),
}

/// Texts beside each other, all of one size.
#[derive(Debug, Clone)]
pub(super) struct Row {
    /// The size of the texts in pixels.
    pub(super) size: f64,
    pub(super) cells: Vec<Cell>,
}

/// A text.
#[derive(Debug, Clone)]
pub(super) struct Cell {
    pub(super) text: String,
    pub(super) tone: Tone,
}

/// The manner of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    Plain,
    Bold,
    Dim,
    /// A fact that could be better, such as a narrow link.
    Warning,
    /// In a small frame: the letter of a NIC's interrupts.
    Tag,
    /// In a small frame of the rail's colour.
    Rail(usize),
}

impl Block {
    pub(super) fn new(kind: Kind, rows: Vec<Row>) -> Self {
        Self {
            kind,
            rows,
            hint: String::new(),
            sections: Vec::new(),
            rails: Vec::new(),
            anchor: None,
            min_size: (0.0, 0.0),
            shape: None,
        }
    }

    /// Adds a section of blocks.
    pub(super) fn section(mut self, blocks: Vec<Block>) -> Self {
        if !blocks.is_empty() {
            self.sections.push(blocks);
        }
        self
    }
}

impl Kind {
    /// The room between a block's edge and its contents, and between the blocks in it.
    pub(super) fn gap(self) -> f64 {
        match self {
            Self::Machine => 12.0,
            Self::Package | Self::Die | Self::Node | Self::Group | Self::Pci => 7.0,
            Self::Cache => 5.0,
            Self::Core(_) | Self::PrivateCache | Self::Pu(_) => 3.0,
            Self::Nic | Self::Device | Self::Key => 5.0,
        }
    }
}

impl Row {
    pub(super) fn of(size: f64, cells: Vec<Cell>) -> Self {
        Self { size, cells }
    }

    /// One text, cut where it is too long.
    pub(super) fn text(size: f64, text: &str, tone: Tone) -> Self {
        Self::of(size, vec![Cell::new(&cut(text, LONGEST), tone)])
    }

    pub(super) fn width(&self) -> f64 {
        let cells: f64 = self.cells.iter().map(|cell| cell.width(self.size)).sum();
        cells + self.size / 2.0 * self.cells.len().saturating_sub(1) as f64
    }

    pub(super) fn height(&self) -> f64 {
        (self.size * 1.4).round()
    }
}

impl Cell {
    pub(super) fn new(text: &str, tone: Tone) -> Self {
        Self { text: text.to_owned(), tone }
    }

    pub(super) fn is_framed(&self) -> bool {
        matches!(self.tone, Tone::Tag | Tone::Rail(_))
    }

    pub(super) fn width(&self, size: f64) -> f64 {
        let frame = if self.is_framed() { 6.0 } else { 0.0 };
        self.text.chars().map(columns).sum::<usize>() as f64 * size * CHARACTER + frame
    }
}

/// A text cut to that many columns, with a mark where something is missing.
pub(super) fn cut(text: &str, most: usize) -> String {
    if text.chars().map(columns).sum::<usize>() <= most {
        return text.to_owned();
    }
    let mut taken = 1;
    let kept = text.chars().take_while(|c| {
        taken += columns(*c);
        taken <= most
    });
    kept.chain(['…']).collect()
}

/// The columns of a character in a font of fixed width; Chinese characters take two, and so does,
/// to be safe, every character outside Latin.
fn columns(c: char) -> usize {
    if c < '\u{250}' || c == '…' { 1 } else { 2 }
}

/// The widest of the usual fixed-width fonts (DejaVu Sans Mono, Menlo) advance by 0.602 of their
/// size.
const CHARACTER: f64 = 0.61;
/// Columns of a row; a hint has the whole text.
const LONGEST: usize = 110;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_cut_to_its_room() {
        assert_eq!(cut("0000:3b:00.0", 12), "0000:3b:00.0");
        assert_eq!(cut("0000:3b:00.0", 6), "0000:…");
        assert_eq!(cut("網路卡", 5), "網路…");
        assert_eq!(cut("網路卡", 4), "網…");
    }
}
