//! The holes of files.

use cap_std::fs::{Metadata, MetadataExt as _};
use nix::{
    errno::Errno,
    unistd::{Whence, lseek},
};
use std::{fs::File, ops::Range};

/// The next bytes before `end` that are not in a hole of a file, from `at` on, which need not begin
/// there. They are empty at the end. The file's position moves.
pub(crate) fn next_data(file: &File, at: u64, end: u64) -> Range<u64> {
    let is_sparse = Metadata::from_file(file).is_ok_and(|there| there.blocks() < there.len().div_ceil(512));
    let seek = |from: u64, whence| {
        let from = i64::try_from(from).map_err(|_| Errno::EINVAL)?;
        lseek(file, from, whence).map(|to| u64::try_from(to).unwrap_or(end).min(end))
    };
    match if is_sparse { seek(at, Whence::SeekData) } else { Err(Errno::EINVAL) } {
        Ok(start) => start..seek(start, Whence::SeekHole).unwrap_or(end),
        // The hole reaches to the end.
        Err(Errno::ENXIO) => end..end,
        // A file system without holes (or a file that has none).
        Err(_) => at..end,
    }
}
