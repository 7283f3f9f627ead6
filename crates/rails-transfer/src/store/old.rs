//! A file that is there already, under the name of one that is offered.

use super::{Metadata, because};
use crate::{
    hash::{BLOCK, block_digest},
    message::{BlockDigest, MAX_DIGESTS, Offer, There},
    reason::Reason,
    stamp::Stamp,
};
use cap_std::fs::Dir;
use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io,
    os::unix::fs::FileExt as _,
    sync::Arc,
};

/// A file that is there, as it was before it was read. The receiver does not keep it open, because
/// many files are offered at a time.
#[derive(Debug)]
pub(crate) struct Old {
    dir: Arc<Dir>,
    name: OsString,
    stamp: Stamp,
    opens: Opens,
}

/// Opens a regular file of a folder; `None` if it may not be read.
pub(super) type Opens = fn(&Dir, &OsStr) -> Result<Option<File>, Reason>;

impl Old {
    /// Looks at a file, and hashes its first blocks, if it may have bytes of the offered one.
    pub(super) fn look(
        dir: &Arc<Dir>,
        offer: &Offer,
        there: &Metadata,
        opens: Opens,
        is_awaited: &dyn Fn() -> bool,
    ) -> Result<Option<(Arc<Self>, There)>, Reason> {
        let len = there.len();
        // Of files of two sizes only whole blocks can be equal.
        if len != offer.size && len.min(offer.size) < BLOCK as u64 {
            return Ok(None);
        }
        let old = Self { dir: Arc::clone(dir), name: offer.path.name().to_owned(), stamp: Stamp::of(there), opens };
        let Some(file) = old.open()?.filter(|file| old.is_as_it_was(file)) else { return Ok(None) };
        // One that cannot be read, or is being written, can still be replaced.
        let Ok(blocks) = old.hash(&file, 0, is_awaited) else { return Ok(None) };
        Ok(Some((Arc::new(old), There { len, blocks })))
    }

    /// The digests from a block on; none if the file is another one, or cannot be read any more.
    pub(crate) fn digests(&self, block: u64, is_awaited: &dyn Fn() -> bool) -> Vec<BlockDigest> {
        let Ok(Some(file)) = self.open() else { return Vec::new() };
        self.hash(&file, block, is_awaited).unwrap_or_default()
    }

    /// Opens the file; `None` if its name has another one now, or its size has changed, or it may
    /// not be read. Its times may have changed: a file of several names gets those of an entry
    /// that stays.
    pub(super) fn open(&self) -> Result<Option<File>, Reason> {
        let Some(file) = (self.opens)(&self.dir, &self.name)? else { return Ok(None) };
        let there = Stamp::of(&Metadata::from_file(&file).map_err(because("inspect the file that is there"))?);
        let is_it = (there.identity, there.size) == (self.stamp.identity, self.stamp.size);
        Ok(Some(file).filter(|_| is_it))
    }

    /// Whether the opened file is as it was when it was looked at.
    pub(super) fn is_as_it_was(&self, file: &File) -> bool {
        Metadata::from_file(file).is_ok_and(|there| Stamp::of(&there) == self.stamp)
    }

    /// Hashes some blocks. Fails once the sender is gone.
    fn hash(&self, file: &File, block: u64, is_awaited: &dyn Fn() -> bool) -> io::Result<Vec<BlockDigest>> {
        let (mut digests, size) = (Vec::new(), self.stamp.size);
        let mut at = block.saturating_mul(BLOCK as u64);
        let mut buffer = vec![0; usize::try_from(size.saturating_sub(at)).map_or(BLOCK, |left| left.min(BLOCK))];
        while at < size && digests.len() < MAX_DIGESTS {
            if !is_awaited() {
                return Err(io::Error::other("the sender is gone"));
            }
            let len = usize::try_from(size - at).map_or(BLOCK, |left| left.min(BLOCK));
            file.read_exact_at(&mut buffer[..len], at)?;
            digests.push(block_digest(block + digests.len() as u64, &buffer[..len]));
            at += len as u64;
        }
        Ok(digests)
    }
}
