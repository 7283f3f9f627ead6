//! The receiver's files in a dry run: they are looked at, and nothing is made, changed or locked.

use super::{Metadata, Old, Search, Twins, because, hash, prune::open_folder};
use crate::{
    calls::{Access, Guarantees},
    hash::FileHasher,
    message::{Compare, Held, Offer, Prefix, Settled},
    meta::{Meta, Modified},
    path::{LinkTarget, RelPath},
    reason::Reason,
};
use cap_std::{
    ambient_authority,
    fs::{Dir, MetadataExt as _, OpenOptions, OpenOptionsExt as _},
};
use std::{
    ffi::OsStr,
    fs::File,
    io,
    path::{Component, Path},
    sync::Arc,
};

/// The receiving folder of a dry run.
pub(crate) struct Trial {
    /// `None` if the folder is still to be made.
    root: Option<Dir>,
    /// The files that would become others, and have further names.
    replaced: Twins,
    pub(crate) guarantees: Guarantees,
}

/// An offered file, as a dry run finds it.
#[derive(Debug)]
pub(crate) enum Tried {
    /// The file stays, changed or not.
    Settled(Settled),
    /// The bytes that are there, the file under the final name, and what becomes of it if its bytes
    /// are the sender's.
    Held(Held, Option<Arc<Old>>, Option<Settled>),
}

impl Trial {
    /// Opens the receiving folder, if there is one.
    pub(crate) fn open(into: &Path, guarantees: Guarantees) -> io::Result<Self> {
        let root = match Dir::open_ambient_dir(into, ambient_authority()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            opened => Some(opened?),
        };
        Ok(Self { root, replaced: Twins::default(), guarantees })
    }

    /// Whether a folder is there or would be made.
    pub(crate) fn folder(&self, path: &RelPath) -> Result<Settled, Reason> {
        match self.inspect(path)? {
            Some((_, there)) if there.is_dir() => Ok(Settled::Made),
            // A folder takes the place of a link.
            Some((_, there)) if !there.is_symlink() => Err(Reason::new("receiver: a file of this name is there")),
            _ => Ok(Settled::Would),
        }
    }

    /// Whether a link is there or would be made.
    pub(crate) fn link(&self, path: &RelPath, target: &LinkTarget, meta: &Meta) -> Result<Settled, Reason> {
        let Some((dir, there)) = self.inspect(path)? else { return Ok(Settled::Would) };
        not_a_folder(&there)?;
        let is_same =
            there.is_symlink() && dir.read_link_contents(path.name()).is_ok_and(|found| found == target.as_path());
        let has_time = meta.modified.is_none_or(|modified| modified == Modified::of(&there));
        let has_owners = meta.extras.as_ref().is_none_or(|extras| extras.has_owners(&there));
        Ok(if is_same && has_time && has_owners { Settled::Made } else { Settled::Would })
    }

    /// Whether a hard link is there or would be made.
    pub(crate) fn twin(&self, path: &RelPath, target: &RelPath) -> Result<Settled, Reason> {
        let Some((_, there)) = self.inspect(path)? else { return Ok(Settled::Would) };
        not_a_folder(&there)?;
        let identity = (there.dev(), there.ino());
        let is_same = |(_, of): (Dir, Metadata)| (of.dev(), of.ino()) == identity && !self.replaced.has(identity);
        Ok(if self.inspect(target)?.is_some_and(is_same) { Settled::Made } else { Settled::Would })
    }

    /// A file that has further names would be sent.
    pub(crate) fn replace(&self, path: &RelPath) {
        if let Ok(Some((_, there))) = self.inspect(path) {
            self.replaced.add(&there);
        }
    }

    /// Finds the bytes of an offered file; stops if the sender no longer awaits the answer.
    pub(crate) fn look(&self, offer: &Offer, is_awaited: &dyn Fn() -> bool) -> Result<Tried, Reason> {
        let Some(dir) = self.folder_of(&offer.path)? else { return Ok(Tried::Held(Held::default(), None, None)) };
        let dir = Arc::new(dir);
        let size = offer.size;
        let there = inspect(&dir, offer.path.name())?;
        there.as_ref().map_or(Ok(()), not_a_folder)?;
        let there = there.filter(Metadata::is_file);
        let part = inspect(&dir, &offer.path.part_name())?;
        if offer.compare == Compare::Times
            && let Some(there) = &there
            && part.is_none()
            && there.len() == size
            && offer.meta.modified == Some(Modified::of(there))
        {
            return Ok(Tried::Settled(updated(&dir, offer.path.name(), there, &offer.meta)));
        }
        let (old, blocks) = match &there {
            Some(there) => Old::look(&dir, offer, there, |dir, name| Ok(open(dir, name)), is_awaited)?.unzip(),
            None => (None, None),
        };
        // A part that a receiver would not go on with is none.
        let is_usable = |part: &Metadata| part.is_file() && part.len() <= size && Access::of(part).is_ours_alone();
        let part = part.filter(is_usable).and_then(|part| Some((part.len(), open(&dir, &offer.path.part_name())?)));
        let part = match part {
            Some((len, mut part)) => {
                let mut hasher = FileHasher::default();
                let len = hash(&mut part, &mut hasher, len, is_awaited).map_err(because("read the part file"))?;
                (len > 0).then(|| Prefix { len, digest: hasher.finalize() })
            }
            None => None,
        };
        let becomes = there.as_ref().map(|there| updated(&dir, offer.path.name(), there, &offer.meta));
        Ok(Tried::Held(Held { there: blocks, part }, old, becomes))
    }

    /// Looks through a folder, if it is there: one that would be made has nothing in it.
    pub(crate) fn search(&self, path: Option<RelPath>) -> Result<Search, Reason> {
        let is_there = match &path {
            Some(path) => self.inspect(path)?.is_some_and(|(_, there)| there.is_dir()),
            None => true,
        };
        match &self.root {
            Some(root) if is_there => Search::begin(root, path, true).map_err(because("look through the folder")),
            _ => Ok(Search::nothing(true)),
        }
    }

    /// The entry of that path, in its folder.
    fn inspect(&self, path: &RelPath) -> Result<Option<(Dir, Metadata)>, Reason> {
        let Some(dir) = self.folder_of(path)? else { return Ok(None) };
        Ok(inspect(&dir, path.name())?.map(|there| (dir, there)))
    }

    /// The folder that holds an entry, if it is there. A link is none: the folder that the sender
    /// has sent would take its place.
    fn folder_of(&self, path: &RelPath) -> Result<Option<Dir>, Reason> {
        let opening = because("open the folder that holds it");
        let Some(root) = &self.root else { return Ok(None) };
        let mut dir = root.try_clone().map_err(&opening)?;
        for name in path.parent().unwrap_or(Path::new("")).components().map(Component::as_os_str) {
            match inspect(&dir, name)? {
                None => return Ok(None),
                Some(there) if there.is_symlink() => return Ok(None),
                Some(_) => dir = open_folder(&dir, name).map_err(&opening)?,
            }
        }
        Ok(Some(dir))
    }
}

/// Whether a file that stays would get other properties.
fn updated(dir: &Dir, name: &OsStr, there: &Metadata, meta: &Meta) -> Settled {
    let has_time = meta.modified.is_none_or(|modified| modified == Modified::of(there));
    let has_attributes = || {
        let Some(extras) = meta.extras.as_ref().filter(|_| meta.has_attributes()) else { return true };
        open(dir, name).is_some_and(|file| !extras.differ_from(&file))
    };
    if has_time && !meta.differs_from(there) && has_attributes() { Settled::Kept } else { Settled::Would }
}

/// Opens a regular file. One that may not be read can still be replaced; `None`.
fn open(dir: &Dir, name: &OsStr) -> Option<File> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW);
    let file = dir.open_with(name, &options).ok()?.into_std();
    file.metadata().is_ok_and(|there| there.is_file()).then_some(file)
}

fn inspect(dir: &Dir, name: &OsStr) -> Result<Option<Metadata>, Reason> {
    match dir.symlink_metadata(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        there => there.map(Some).map_err(because("inspect the entry of this name")),
    }
}

fn not_a_folder(there: &Metadata) -> Result<(), Reason> {
    if there.is_dir() { Err(Reason::new("receiver: a folder of this name is there")) } else { Ok(()) }
}
