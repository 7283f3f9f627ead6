//! Traces: the reads of a program as a file of JSON lines.
//!
//! [`SiteOptions::trace`](crate::SiteOptions::trace), or the environment variable `LRAM_TRACE`, has
//! a site record the reads of its arrays. [`Trace::read`] reads such a file back, and
//! [`replay`](crate::replay) tries it with other settings.
//!
//! Each line is an object with one entry, whose name says its kind:
//!
//! | entry | content |
//! |---|---|
//! | `trace` | the first line: the version, the site's address and options |
//! | `path` | the way to the bytes as the site measures it; again when it has changed by a tenth |
//! | `array` | an array, before its first read; arrays are numbered from 0 |
//! | `tell` | regions that a handle announced; `goes_on` says that the next `tell` continues the list |
//! | `read` | a read: since the site was opened, by a handle, of a selection, and how long it waited |
//! | `end` | the last line: what was recorded, what was dropped, and the counters of the site's memory |
//!
//! A read is written when it has ended, so reads that overlap are out of order. Reads of small
//! arrays that come with the description are not recorded. A program that is killed leaves no
//! `end`, and perhaps a last line that is cut; [`Trace::read`] takes both.
//!
//! - `line`: the lines; `error`, `file`: files are read and checked; `recorder`: files are written.

mod error;
mod file;
mod line;
mod recorder;
#[cfg(test)]
mod tests;

pub use error::{LineProblem, TraceError};
pub use line::{ReadOutcome, TraceEnd, TraceHeader};
use rails_array::{Region, Selection, Shape};
use rails_cache::pattern::Path;
pub(crate) use recorder::{Recorder, TracedHandle};
use std::time::Duration;

/// The reads of one site, checked: their selections fit their arrays.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Trace {
    /// The site.
    pub header: TraceHeader,
    /// The way to the bytes, as the site measured it last.
    pub path: Path,
    /// The arrays, by their numbers.
    pub arrays: Vec<TracedArray>,
    /// The reads, in the order in which they began.
    pub reads: Vec<TracedRead>,
    /// The announcements, in their order.
    pub tells: Vec<Told>,
    /// The last line, unless the program ended at once.
    pub end: Option<TraceEnd>,
    /// The last line had no end, and was left out.
    pub is_cut: bool,
}

/// An array of one generation.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TracedArray {
    /// The dataset.
    pub dataset: String,
    /// The array's name.
    pub name: String,
    /// The shape.
    pub shape: Shape,
    /// The size of an element in bytes.
    pub element_bytes: u32,
    /// The shape of the blocks that the site was told of.
    pub block_shape: Shape,
}

/// A read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TracedRead {
    /// When it began, since the site was opened.
    pub at: Duration,
    /// The handle that read: one reader, whose pattern is watched.
    pub handle: u32,
    /// The number of the array.
    pub array: u32,
    /// The elements.
    pub selection: Selection,
    /// How long it took.
    pub waited: Duration,
    /// Whether it was served.
    pub outcome: ReadOutcome,
}

/// Regions that a handle announced.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Told {
    /// When, since the site was opened.
    pub at: Duration,
    /// The handle.
    pub handle: u32,
    /// The number of the array.
    pub array: u32,
    /// The regions.
    pub regions: Vec<Region>,
}

/// The environment variable that has a site record its reads.
pub const TRACE_VARIABLE: &str = "LRAM_TRACE";
/// The version of the format.
pub const TRACE_VERSION: u32 = 1;
/// The reads that a file has at most; a site counts those behind them as dropped.
pub const MAX_READS: usize = 1 << 20;
/// The arrays that a file has at most.
pub const MAX_ARRAYS: usize = 1 << 12;
/// The announced regions that a file has at most. An empty list counts as one.
pub const MAX_REGIONS: usize = 1 << 20;
/// The bytes of a line, its end among them.
pub const MAX_LINE_BYTES: u64 = 1 << 20;
