//! Errors of reads.

use rails_cache::Fault;
use rails_formats::{
    manifest::RegionOutside,
    reader::{ReadError, ReadFailure},
};
use std::io::ErrorKind;

/// An error in reading a region of a dataset.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StorageError {
    /// A file cannot be read, has changed, or has wrong bytes.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The read was cancelled, or the threads are gone.
    #[error("the read was cancelled")]
    Cancelled,
    /// A thread panicked while it read.
    #[error("a thread panicked while it read")]
    Panicked,
    /// The dataset has no array of that number.
    #[error("the dataset `{dataset}` has no array with the number {array}")]
    NoArray {
        /// The name of the dataset.
        dataset: String,
        /// The number.
        array: usize,
    },
    /// The array has not all of the region.
    #[error(transparent)]
    Region(#[from] RegionOutside),
}

impl StorageError {
    /// The fault as which a cache knows the error.
    pub fn fault(&self) -> Fault {
        match self {
            Self::Read(error) => fault_of(error),
            Self::NoArray { .. } | Self::Region(_) => Fault::Missing,
            Self::Cancelled | Self::Panicked => Fault::Unreachable,
        }
    }
}

impl From<ReadFailure> for StorageError {
    fn from(failure: ReadFailure) -> Self {
        match failure {
            ReadFailure::Read(error) => Self::Read(error),
            ReadFailure::Cancelled => Self::Cancelled,
            // The enum may grow, and the plan has not been carried out.
            _ => Self::Panicked,
        }
    }
}

fn fault_of(error: &ReadError) -> Fault {
    match error {
        ReadError::Open { error, .. } if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Fault::Missing
        }
        ReadError::Short { .. } | ReadError::NotAFile { .. } | ReadError::NoRoot { .. } => Fault::Missing,
        ReadError::Changed { .. } | ReadError::Presence { .. } => Fault::Changed,
        // A file server says so of a file that was replaced.
        ReadError::Read { error, .. } | ReadError::Metadata { error, .. } | ReadError::Open { error, .. }
            if error.kind() == ErrorKind::StaleNetworkFileHandle =>
        {
            Fault::Changed
        }
        ReadError::Chunk { .. }
        | ReadError::InlineChunk { .. }
        | ReadError::Shard { .. }
        | ReadError::Header { .. } => Fault::Corrupt,
        _ => Fault::Unreachable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rails_formats::{decode::DecodeError, manifest::ObjectPath, reader::Generation};
    use std::io;

    #[test]
    fn each_error_has_a_fault() {
        let path = || ObjectPath::new("a").unwrap();
        let open = |kind: ErrorKind| ReadError::Open { path: "a".into(), error: kind.into() };
        let generation = Generation { device: 1, inode: 2, bytes: 3, modified_ns: 4, changed_ns: 5 };
        let changed = ReadError::Changed { path: path(), before: generation.into(), now: generation.into() };
        let error = DecodeError::StoredTooLong { bytes: 2, max_bytes: 1 };
        let read = |error: io::Error| ReadError::Read { path: path(), offset: 0, bytes: 1, error };
        for (error, fault) in [
            (open(ErrorKind::NotFound), Fault::Missing),
            (open(ErrorKind::PermissionDenied), Fault::Unreachable),
            (ReadError::Short { path: path(), offset: 0, bytes: 2, file_bytes: 1 }, Fault::Missing),
            (changed, Fault::Changed),
            (ReadError::Presence { path: path(), was_there: true }, Fault::Changed),
            (read(ErrorKind::StaleNetworkFileHandle.into()), Fault::Changed),
            (read(ErrorKind::Other.into()), Fault::Unreachable),
            (ReadError::Chunk { path: path(), index: vec![0], error }, Fault::Corrupt),
        ] {
            let error = StorageError::from(error);
            assert_eq!(error.fault(), fault, "{error}");
        }
        assert_eq!(StorageError::from(ReadFailure::Cancelled).fault(), Fault::Unreachable);
    }
}
