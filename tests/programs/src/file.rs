//! Files of bytes that no program can compress, and what is in them.

use anyhow::{Context, Result};
use std::{
    fs::File,
    io::{self, BufWriter, Write},
    path::Path,
};

/// Writes a file of that many bytes, which are the same for the same seed.
pub(crate) fn make(path: &Path, bytes: u64, seed: &str) -> Result<()> {
    let mut stream = blake3::Hasher::new().update(seed.as_bytes()).finalize_xof();
    let mut file = BufWriter::new(File::create(path).with_context(|| format!("{} cannot be made", path.display()))?);
    io::copy(&mut io::Read::take(&mut stream, bytes), &mut file)?;
    Ok(file.flush()?)
}

/// The digest of a file.
pub(crate) fn digest(path: &Path) -> Result<blake3::Hash> {
    let file = File::open(path).with_context(|| format!("{} cannot be read", path.display()))?;
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(file)?;
    Ok(hasher.finalize())
}

/// Whether two files have the same bytes.
pub(crate) fn are_equal(one: &Path, other: &Path) -> Result<bool> {
    Ok(digest(one)? == digest(other)?)
}
