//! Folders, files and links in memory.

use crate::linux::{Kind, MAX_LINKS, Source};
use std::{
    collections::{BTreeMap, btree_map},
    io,
};

/// The entries of a capture.
///
/// Links may have any text: like a [`Source`] of a folder, the tree follows none out of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Tree {
    entries: Entries,
}

/// The entries of a folder, by name.
pub(super) type Entries = BTreeMap<String, Entry>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Entry {
    Folder(Entries),
    Link(String),
    /// A plain file; empty also if the recorder saw it and no reader asked for its bytes.
    File(Vec<u8>),
}

/// The fault of an entry that cannot be put where it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Misplaced {
    /// A component in the middle of the entry's path is no folder.
    BelowNoFolder,
    /// Another entry has the path.
    Taken,
}

impl Tree {
    #[cfg(feature = "captures")]
    pub(super) fn entries(&self) -> &Entries {
        &self.entries
    }

    /// The entry at a path without links; the empty path is the root, which is no entry.
    pub(super) fn at(&self, path: &str) -> Option<&Entry> {
        let mut names = path.split('/');
        let first = self.entries.get(names.next()?)?;
        names.try_fold(first, |entry, name| match entry {
            Entry::Folder(entries) => entries.get(name),
            Entry::Link(_) | Entry::File(_) => None,
        })
    }

    /// Puts an entry at a path without links, into a folder that exists. An empty folder leaves the
    /// folder at its path as it is, and a file replaces its own beginning.
    pub(super) fn insert(&mut self, path: &str, entry: Entry) -> Result<(), Misplaced> {
        let mut folder = &mut self.entries;
        let mut name = path;
        while let Some((first, rest)) = name.split_once('/') {
            match folder.get_mut(first) {
                Some(Entry::Folder(entries)) => folder = entries,
                _ => return Err(Misplaced::BelowNoFolder),
            }
            name = rest;
        }
        match folder.entry(name.to_owned()) {
            btree_map::Entry::Vacant(vacant) => drop(vacant.insert(entry)),
            btree_map::Entry::Occupied(mut known) => match (known.get(), &entry) {
                (Entry::Folder(_), Entry::Folder(new)) if new.is_empty() => {}
                (Entry::File(old), Entry::File(new)) if new.starts_with(old) => drop(known.insert(entry)),
                _ => return Err(Misplaced::Taken),
            },
        }
        Ok(())
    }

    /// Calls `edit` with the path and the bytes of each file.
    pub(super) fn edit_files(&mut self, edit: &mut dyn FnMut(&str, &mut Vec<u8>)) {
        edit_below(&mut self.entries, String::new(), edit);
    }

    /// The names on the way to a path, with their entries. The last component is followed only on
    /// request.
    fn resolve<'a>(&'a self, path: &'a str, follow_last: bool) -> Option<Vec<(&'a str, &'a Entry)>> {
        let mut ahead: Vec<&str> = path.split('/').rev().collect();
        let mut place: Vec<(&str, &Entry)> = Vec::new();
        let mut links = 0;
        while let Some(name) = ahead.pop() {
            let folder = match place.last() {
                None => &self.entries,
                Some((_, Entry::Folder(entries))) => entries,
                Some(_) => return None,
            };
            match name {
                "" | "." => {}
                ".." => drop(place.pop()?),
                name => match folder.get(name)? {
                    Entry::Link(target) if follow_last || !ahead.is_empty() => {
                        links += 1;
                        if links > MAX_LINKS || target.starts_with('/') {
                            return None;
                        }
                        ahead.extend(target.split('/').rev());
                    }
                    entry => place.push((name, entry)),
                },
            }
        }
        Some(place)
    }

    /// The entry at the end of the path, all links followed; `None` also for the root itself.
    fn entry<'a>(&'a self, path: &'a str) -> Option<&'a Entry> {
        self.resolve(path, true)?.last().map(|(_, entry)| *entry)
    }
}

impl Source for Tree {
    fn file(&self, path: &str, longest: u64) -> io::Result<Vec<u8>> {
        match self.entry(path) {
            Some(Entry::File(bytes)) => {
                Ok(bytes[..bytes.len().min(usize::try_from(longest).unwrap_or(usize::MAX))].to_vec())
            }
            Some(Entry::Folder(_) | Entry::Link(_)) | None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn is_folder(&self, path: &str) -> io::Result<bool> {
        Ok(matches!(self.entry(path), Some(Entry::Folder(_))))
    }

    fn names(&self, path: &str) -> io::Result<Vec<String>> {
        match self.entry(path) {
            Some(Entry::Folder(entries)) => Ok(entries.keys().cloned().collect()),
            Some(Entry::File(_) | Entry::Link(_)) => Err(io::ErrorKind::NotADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn link(&self, path: &str) -> io::Result<String> {
        match self.resolve(path, false).as_deref().and_then(<[_]>::last) {
            Some((_, Entry::Link(target))) => Ok(target.clone()),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn real_path(&self, path: &str) -> io::Result<String> {
        let place = self.resolve(path, true).ok_or(io::ErrorKind::NotFound)?;
        let names: Vec<&str> = place.into_iter().map(|(name, _)| name).collect();
        Ok(names.join("/"))
    }

    fn kind(&self, path: &str) -> io::Result<Kind> {
        Ok(match self.resolve(path, false).ok_or(io::ErrorKind::NotFound)?.last() {
            Some((_, Entry::Folder(_))) | None => Kind::Folder,
            Some((_, Entry::Link(_))) => Kind::Link,
            Some((_, Entry::File(_))) => Kind::File,
        })
    }
}

fn edit_below(entries: &mut Entries, above: String, edit: &mut dyn FnMut(&str, &mut Vec<u8>)) {
    for (name, entry) in entries {
        let path = format!("{above}{name}");
        match entry {
            Entry::Folder(entries) => edit_below(entries, path + "/", edit),
            Entry::File(bytes) => edit(&path, bytes),
            Entry::Link(_) => {}
        }
    }
}
