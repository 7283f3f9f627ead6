//! The chunk files that were read, and their generations.

use rails_formats::{
    manifest::ObjectPath,
    reader::{Generation, ReadError},
};
use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    mem,
    sync::{Mutex, PoisonError},
};

/// The generations of files that no manifest lists: those of one chunk or of a shard each.
///
/// A reader notices a file that changes while it is read. One that changes between two reads is
/// noticed here, as long as it is remembered: with `max_files`, the last half as many that were
/// read are.
#[derive(Debug)]
pub(super) struct ChunkFiles {
    max_files: usize,
    /// A path is known by a hash that nobody can foretell.
    hasher: RandomState,
    known: Mutex<Known>,
}

/// Two halves: when the young one is full, the old one is forgotten, and it becomes the old one.
#[derive(Debug, Default)]
struct Known {
    young: HashMap<u64, Option<Generation>>,
    old: HashMap<u64, Option<Generation>>,
}

impl ChunkFiles {
    pub(super) fn new(max_files: usize) -> Self {
        Self { max_files, hasher: RandomState::new(), known: Mutex::default() }
    }

    /// Compares a file with its last generation, if that is known, and remembers it; `None` is a
    /// file that is not there.
    ///
    /// # Errors
    /// [`ReadError::Changed`] and [`ReadError::Presence`].
    pub(super) fn note(&self, path: &ObjectPath, now: Option<Generation>) -> Result<(), ReadError> {
        let key = self.hasher.hash_one(path);
        // Nothing panics while it holds the lock.
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        match known.young.get(&key).or_else(|| known.old.get(&key)) {
            Some(before) if *before != now => return Err(difference(path, *before, now)),
            _ => (),
        }
        known.young.insert(key, now);
        if known.young.len() * 2 >= self.max_files {
            known.old = mem::take(&mut known.young);
        }
        Ok(())
    }
}

/// The error of a file that is not as it was.
pub(super) fn difference(path: &ObjectPath, before: Option<Generation>, now: Option<Generation>) -> ReadError {
    match (before, now) {
        (Some(before), Some(now)) => ReadError::Changed { path: path.clone(), before: before.into(), now: now.into() },
        (before, _) => ReadError::Presence { path: path.clone(), was_there: before.is_some() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(number: u64) -> ObjectPath {
        ObjectPath::new(format!("a/{number}")).unwrap()
    }

    fn generation(changed_ns: i128) -> Option<Generation> {
        Some(Generation { device: 1, inode: 2, bytes: 3, modified_ns: 4, changed_ns })
    }

    #[test]
    fn changes_are_noticed() {
        let files = ChunkFiles::new(8);
        files.note(&path(0), generation(1)).unwrap();
        files.note(&path(1), None).unwrap();
        files.note(&path(0), generation(1)).unwrap();
        assert!(matches!(files.note(&path(0), generation(2)), Err(ReadError::Changed { .. })));
        assert!(matches!(files.note(&path(0), None), Err(ReadError::Presence { was_there: true, .. })));
        assert!(matches!(files.note(&path(1), generation(1)), Err(ReadError::Presence { was_there: false, .. })));
        files.note(&path(0), generation(1)).unwrap();
    }

    #[test]
    fn memory_is_bounded() {
        let files = ChunkFiles::new(8);
        for number in 0..1000 {
            files.note(&path(number), generation(1)).unwrap();
            let known = files.known.lock().unwrap();
            assert!(known.young.len() + known.old.len() <= 8);
        }
        // The last four are known, and the first ones are not.
        assert!(files.note(&path(996), generation(2)).is_err());
        files.note(&path(0), generation(2)).unwrap();
    }
}
