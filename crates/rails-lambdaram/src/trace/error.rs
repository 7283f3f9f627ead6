//! Files that are no traces.

use super::{MAX_LINE_BYTES, TRACE_VERSION};
use rails_array::{GridError, ResolveError, SelectionTextError};
use std::io;

/// Why a file is no trace.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The file cannot be read.
    #[error("line {line} cannot be read")]
    Read {
        /// The number of the line, from 1.
        line: u64,
        /// The cause.
        #[source]
        error: io::Error,
    },
    /// A line is wrong.
    #[error("line {line}")]
    Line {
        /// The number of the line, from 1.
        line: u64,
        /// The fault.
        #[source]
        problem: Box<LineProblem>,
    },
    /// The file ends too soon.
    #[error("the file ends without a line `{missing}`")]
    Short {
        /// The kind of the line.
        missing: &'static str,
    },
}

/// The fault of a line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LineProblem {
    /// The line is too long.
    #[error("it has more than {MAX_LINE_BYTES} bytes")]
    Long,
    /// The line is no JSON of a trace.
    #[error("it is no line of a trace")]
    Json(#[from] serde_json::Error),
    /// The file does not begin with a header.
    #[error("a trace begins with a line `trace`")]
    NoHeader,
    /// The version is unknown.
    #[error("it is of version {version}, and this program knows {TRACE_VERSION}")]
    Version {
        /// The version.
        version: u32,
    },
    /// A line of this kind does not belong there.
    #[error("a line `{kind}` does not belong here")]
    Place {
        /// The kind.
        kind: &'static str,
    },
    /// There are more than a file has.
    #[error("a trace has at most {max} {what}")]
    TooMany {
        /// The kind of thing.
        what: &'static str,
        /// The limit.
        max: usize,
    },
    /// A number is out of its range.
    #[error("`{name}` is {value}, and has to be from {min} to {max}")]
    Range {
        /// The name.
        name: &'static str,
        /// The number.
        value: u64,
        /// The least.
        min: u64,
        /// The most.
        max: u64,
    },
    /// Arrays are numbered in their order.
    #[error("the next array has the number {expected}, and this one has {found}")]
    ArrayNumber {
        /// The number that comes next.
        expected: usize,
        /// The number of the line.
        found: u32,
    },
    /// The blocks do not divide the array.
    #[error("the blocks do not divide the array")]
    Blocks(#[from] GridError),
    /// There is no such array.
    #[error("there is no array of the number {array} before")]
    NoArray {
        /// The number.
        array: u32,
    },
    /// A handle reads one array alone.
    #[error("the handle {handle} is one of the array {known}, and not of {array}")]
    Handle {
        /// The handle.
        handle: u32,
        /// Its array.
        known: u32,
        /// The array of the line.
        array: u32,
    },
    /// The text is no selection.
    #[error(transparent)]
    Text(#[from] SelectionTextError),
    /// The selection does not fit its array.
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    /// A selection has a name, no element, or steps where it must have none.
    #[error("`{selection}` {fault}")]
    Selection {
        /// The text.
        selection: String,
        /// The fault.
        fault: &'static str,
    },
}
