//! Errors of opening datasets.

use rails_formats::{
    header::IndexError,
    manifest::{ManifestError, ObjectPath},
    reader::{OpenError, OpenZarrError, ReadError},
};
use std::{io, path::PathBuf};

/// An error in opening a dataset.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CatalogueError {
    /// The system refuses the facts about a file, its first bytes, or the list of a folder.
    #[error("cannot {call} `{path}`", path = path.display())]
    Path {
        /// The deed.
        call: &'static str,
        /// The path.
        path: PathBuf,
        /// The cause.
        #[source]
        error: io::Error,
    },
    /// The name of a file is not UTF-8.
    #[error("the name of `{path}` is not UTF-8", path = path.display())]
    NotText {
        /// The path.
        path: PathBuf,
    },
    /// A pattern is none.
    #[error("`{pattern}` is no pattern: {reason}")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// The cause.
        reason: String,
    },
    /// There is no dataset, nor a file that might be one.
    #[error("no dataset is in `{path}`", path = path.display())]
    Nothing {
        /// The folder, or the pattern.
        path: PathBuf,
    },
    /// There are more files than are looked at.
    #[error("`{path}` has more than {max_entries} entries", path = path.display())]
    TooMany {
        /// The folder, or the pattern.
        path: PathBuf,
        /// The largest number.
        max_entries: usize,
    },
    /// The format of a file is known, and is not read.
    #[error("`{path}` is not read: it is a file of {format}", path = path.display())]
    NotRead {
        /// The file.
        path: PathBuf,
        /// The format.
        format: &'static str,
    },
    /// The format of a file is unknown.
    #[error("the format of `{path}` is unknown; a dataset file (TOML) can describe it as raw", path = path.display())]
    Unknown {
        /// The file.
        path: PathBuf,
    },
    /// A path is neither a regular file nor a folder.
    #[error("`{path}` is neither a file nor a folder", path = path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// The dataset of a dataset file cannot be opened.
    #[error("cannot open the dataset of `{path}`", path = path.display())]
    Dataset {
        /// The dataset file.
        path: PathBuf,
        /// The cause.
        #[source]
        error: Box<OpenError>,
    },
    /// A Zarr folder cannot be opened.
    #[error("cannot open the Zarr folder `{path}`", path = path.display())]
    Zarr {
        /// The folder.
        path: PathBuf,
        /// The cause.
        #[source]
        error: Box<OpenZarrError>,
    },
    /// A file cannot be read.
    #[error("cannot read `{path}`", path = path.display())]
    Read {
        /// The file or folder that was to be opened.
        path: PathBuf,
        /// The cause.
        #[source]
        error: Box<ReadError>,
    },
    /// The data of a file do not fit its header.
    #[error("`{path}` does not fit its header", path = path.display())]
    Index {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        error: IndexError,
    },
    /// The coordinates of an axis make no array beside the others.
    #[error("the coordinates of `{path}` make no arrays", path = path.display())]
    Coordinates {
        /// The dataset file.
        path: PathBuf,
        /// The cause.
        #[source]
        error: Box<ManifestError>,
    },
    /// A dataset has no array that is read.
    #[error("`{path}` has no array that is read{}", if *refused == 0 { String::new() } else { format!("; {refused} are refused") })]
    NoArray {
        /// The file or folder.
        path: PathBuf,
        /// The number of arrays that cannot be read.
        refused: usize,
    },
    /// A dataset file asks for blocks that are too large.
    #[error("the blocks of the array `{array}` of `{path}` have {bytes} bytes, and {max_block_bytes} are allowed", path = path.display())]
    BlockBytes {
        /// The dataset file.
        path: PathBuf,
        /// The array.
        array: String,
        /// The size of a block.
        bytes: u64,
        /// The largest size.
        max_block_bytes: u64,
    },
    /// Two datasets have one name.
    #[error("`{first}` and `{second}` both are the dataset `{name}`", first = first.display(), second = second.display())]
    DuplicateName {
        /// The name.
        name: String,
        /// The one source.
        first: PathBuf,
        /// The other one.
        second: PathBuf,
    },
    /// A dataset has another name than when it was opened first.
    #[error("`{path}` is the dataset `{name}` now, and was `{before}`", path = path.display())]
    Renamed {
        /// The source.
        path: PathBuf,
        /// The name now.
        name: String,
        /// The name before.
        before: String,
    },
    /// The path of a file is none of a manifest.
    #[error("the name of `{path}` is too long", path = path.display())]
    Name {
        /// The path.
        path: PathBuf,
    },
    /// A file changed while the dataset was opened.
    #[error("`{file}` of `{path}` changed while it was opened", path = path.display())]
    Changed {
        /// The source.
        path: PathBuf,
        /// The file.
        file: ObjectPath,
    },
}
