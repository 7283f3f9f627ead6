//! Errors of reading.

use super::generation::Generation;
use crate::{decode::DecodeError, header::HeaderError, manifest::ObjectPath};
use std::io;

/// An error in reading a file of a dataset.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// A file or folder cannot be opened.
    #[error("cannot open `{path}`")]
    Open {
        /// The path below the root, or that of the root.
        path: String,
        /// The cause.
        #[source]
        error: io::Error,
    },
    /// A path is no regular file.
    #[error("`{path}` is no regular file")]
    NotAFile {
        /// The path.
        path: ObjectPath,
    },
    /// The facts about a file cannot be read.
    #[error("cannot read the size and the times of `{path}`")]
    Metadata {
        /// The file.
        path: ObjectPath,
        /// The cause.
        #[source]
        error: io::Error,
    },
    /// A read failed.
    #[error("cannot read {bytes} bytes of `{path}` from byte {offset} on")]
    Read {
        /// The file.
        path: ObjectPath,
        /// The offset of the first byte.
        offset: u64,
        /// The number of bytes.
        bytes: usize,
        /// The cause.
        #[source]
        error: io::Error,
    },
    /// A file ends before the bytes that are to be read.
    #[error("`{path}` has {file_bytes} bytes, and {bytes} are to be read from byte {offset} on")]
    Short {
        /// The file.
        path: ObjectPath,
        /// The offset of the first byte.
        offset: u64,
        /// The number of bytes.
        bytes: usize,
        /// The size of the file.
        file_bytes: u64,
    },
    /// A file has changed since it was opened.
    #[error("`{path}` has changed: it was {before}, and is {now}")]
    Changed {
        /// The file.
        path: ObjectPath,
        /// The generation at opening.
        before: Box<Generation>,
        /// The generation now.
        now: Box<Generation>,
    },
    /// A file is there that was not, or is gone, since it was looked for.
    #[error("`{path}` {}", if *was_there { "is gone" } else { "has appeared" })]
    Presence {
        /// The file.
        path: ObjectPath,
        /// Whether it was there before.
        was_there: bool,
    },
    /// The bytes of a chunk are wrong.
    #[error("the chunk {index:?} in `{path}` is wrong")]
    Chunk {
        /// The file.
        path: ObjectPath,
        /// The chunk's place in the grid of its section.
        index: Vec<u64>,
        /// The cause.
        #[source]
        error: DecodeError,
    },
    /// The bytes of a chunk that a manifest itself holds are wrong.
    #[error("the chunk {index:?}, which the manifest holds, is wrong")]
    InlineChunk {
        /// The chunk's place in the grid of its section.
        index: Vec<u64>,
        /// The cause.
        #[source]
        error: DecodeError,
    },
    /// The index of a file of several chunks is wrong.
    #[error("the shard `{path}` is wrong")]
    Shard {
        /// The file.
        path: ObjectPath,
        /// The cause.
        #[source]
        error: DecodeError,
    },
    /// A chunk is in a file without a number, and no root is given.
    #[error("`{path}` is a file of one chunk or of a shard, which is read below a root alone")]
    NoRoot {
        /// The file.
        path: ObjectPath,
    },
    /// The header of a file is wrong.
    #[error("the header of `{path}` is wrong")]
    Header {
        /// The file.
        path: ObjectPath,
        /// The cause.
        #[source]
        error: HeaderError,
    },
}
