//! The holes of files.

use cap_std::fs::{Metadata, MetadataExt as _};
use nix::{
    errno::Errno,
    unistd::{Whence, lseek},
};
use std::{fs::File, ops::Range};

/// The next bytes of a file of that size that are not in a hole, from `at` on, which need not begin
/// there. They are empty at the end of the file. The file's position moves.
pub(crate) fn next_data(file: &File, at: u64, size: u64) -> Range<u64> {
    let is_sparse = Metadata::from_file(file).is_ok_and(|metadata| metadata.blocks() < size.div_ceil(512));
    let seek = |from: u64, whence| {
        let from = i64::try_from(from).map_err(|_| Errno::EINVAL)?;
        lseek(file, from, whence).map(|to| u64::try_from(to).unwrap_or(size).min(size))
    };
    match if is_sparse { seek(at, Whence::SeekData) } else { Err(Errno::EINVAL) } {
        Ok(start) => start..seek(start, Whence::SeekHole).unwrap_or(size),
        // The hole reaches to the end.
        Err(Errno::ENXIO) => size..size,
        // A file system without holes (or a file that has none).
        Err(_) => at..size,
    }
}
