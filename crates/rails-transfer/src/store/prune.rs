//! Looks through a folder for entries that the sender may not have, and removes those that it does
//! not.
//!
//! Folders are opened one by one and never as links, and an entry is removed by its name in the
//! folder that it was found in: no path of the sender leads to a removal.

use super::{because, inside};
use crate::{
    calls::Guarantees,
    message::{FoundEntry, FoundKind},
    path::{Name, RelPath},
    reason::Reason,
};
use cap_std::fs::{Dir, MetadataExt as _, OpenOptions, OpenOptionsExt as _, ReadDir};
use std::{
    ffi::{OsStr, OsString},
    io,
    mem::take,
    os::unix::ffi::OsStrExt,
    path::{Component, Path},
};

/// A search below a folder, depth first. It holds one handle for each folder on the way down.
pub(crate) struct Search {
    /// Whether nothing is removed.
    is_dry_run: bool,
    /// The receiving folder; `None` if there is nothing to find.
    root: Option<Dir>,
    levels: Vec<Level>,
    /// The entries of the last level that the sender was asked about.
    asked: Vec<FoundEntry>,
    removed: u64,
    /// The first failure, and the number of all.
    failure: Option<Reason>,
    failures: u64,
}

/// A folder on the way.
struct Level {
    dir: Dir,
    entries: ReadDir,
    /// `None` for the receiving folder.
    path: Option<RelPath>,
    /// Folders that are to be looked through, and folders that are empty now.
    inner: Vec<OsString>,
    emptied: Vec<OsString>,
    /// Whether something stays in the folder.
    stays: bool,
}

/// The next step of a search.
pub(crate) enum Next {
    /// The sender is asked about these entries of a folder.
    Ask(Option<RelPath>, Vec<FoundEntry>),
    /// The search is over: the number of removed entries, and the failures.
    Over(u64, Option<Reason>),
}

impl Search {
    /// A search in a folder below `root`, or in `root` itself.
    pub(crate) fn begin(root: &Dir, path: Option<RelPath>, is_dry_run: bool) -> io::Result<Self> {
        let top = Level::new(open_below(root, path.as_ref(), is_dry_run)?, path)?;
        Ok(Self { root: Some(root.try_clone()?), levels: vec![top], ..Self::nothing(is_dry_run) })
    }

    /// A search that finds nothing.
    pub(crate) fn nothing(is_dry_run: bool) -> Self {
        Self { is_dry_run, root: None, levels: Vec::new(), asked: Vec::new(), removed: 0, failure: None, failures: 0 }
    }

    /// Goes on to the next entries, or to the end.
    pub(crate) fn next(&mut self, guarantees: Option<&Guarantees>) -> Next {
        loop {
            let depth = self.levels.len();
            let Some(level) = self.levels.last_mut() else {
                let failure = self.failure.take();
                let others = self.failures.saturating_sub(1);
                let failure = failure.map(|first| match others {
                    0 => first,
                    _ => Reason::new(format_args!("{first}; and {others} others")),
                });
                return Next::Over(self.removed, failure);
            };
            if let Some(name) = level.inner.pop() {
                match level.enter(&name, self.is_dry_run) {
                    Ok(inner) => self.levels.push(inner),
                    Err(error) => self.stays(&name, "look through", &error),
                }
                continue;
            }
            let (entries, failed) = level.list(depth > 1, guarantees);
            if let Some(error) = failed {
                self.stays(OsStr::new("."), "list", &error);
            }
            let level = self.levels.last_mut().expect("a level was listed");
            if !entries.is_empty() {
                self.asked.clone_from(&entries);
                return Next::Ask(level.path.clone(), entries);
            }
            let over = self.levels.pop().expect("a level was listed");
            if let (Some(above), Some(path)) = (self.levels.last_mut(), &over.path) {
                above.stays |= over.stays;
                if !over.stays {
                    above.emptied.push(path.name().to_owned());
                }
            }
        }
    }

    /// Removes those of the entries that the sender does not have, and calls `removed` for each.
    ///
    /// Others may have moved the folder away while the sender chose, for as long as it liked: then
    /// the search ends.
    pub(crate) fn choose(&mut self, choices: &[bool], mut removed: impl FnMut(&RelPath)) {
        if let Err(error) = self.is_in_place() {
            self.stays(OsStr::new("."), "remove entries of", &error);
            self.levels.clear();
        }
        for (entry, goes) in take(&mut self.asked).into_iter().zip(choices) {
            let Some(level) = self.levels.last_mut() else { return };
            let name = entry.name.as_os_str();
            if !goes {
                level.stays = true;
                continue;
            }
            if entry.kind == FoundKind::Folder {
                level.inner.push(name.to_owned());
                continue;
            }
            let dir = &level.dir;
            let gone = match (self.is_dry_run, entry.kind) {
                (true, _) => Ok(()),
                (false, FoundKind::Emptied) => inside(dir, || dir.remove_dir(name)),
                (false, _) => inside(dir, || dir.remove_file(name)),
            };
            match gone {
                Ok(()) => {
                    self.removed += 1;
                    if let Ok(path) = RelPath::below(level.path.as_ref(), name.as_bytes()) {
                        removed(&path);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                // Another transfer has put something in.
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => level.stays = true,
                Err(error) => self.stays(name, "remove", &error),
            }
        }
    }

    /// Fails unless the last level still is the folder of its path.
    fn is_in_place(&self) -> io::Result<()> {
        let (Some(root), Some(level)) = (&self.root, self.levels.last()) else { return Ok(()) };
        let named = open_below(root, level.path.as_ref(), self.is_dry_run)?.dir_metadata()?;
        let held = level.dir.dir_metadata()?;
        match (named.dev(), named.ino()) == (held.dev(), held.ino()) {
            true => Ok(()),
            false => Err(io::Error::other("another folder has its name now")),
        }
    }

    /// An entry of the last level cannot be removed.
    fn stays(&mut self, name: &OsStr, doing: &str, error: &io::Error) {
        let Some(level) = self.levels.last_mut() else { return };
        level.stays = true;
        self.failures += 1;
        let path = level.path.as_ref().map_or(Path::new(""), RelPath::as_path).join(name);
        self.failure
            .get_or_insert_with(|| Reason::new(format_args!("receiver: cannot {doing} {}: {error}", path.display())));
    }
}

impl Level {
    fn new(dir: Dir, path: Option<RelPath>) -> io::Result<Self> {
        let entries = dir.entries()?;
        Ok(Self { dir, entries, path, inner: Vec::new(), emptied: Vec::new(), stays: false })
    }

    fn enter(&self, name: &OsStr, is_dry_run: bool) -> io::Result<Self> {
        let path = RelPath::below(self.path.as_ref(), name.as_bytes()).map_err(io::Error::other)?;
        let open = || open_folder(&self.dir, name);
        Self::new(if is_dry_run { open()? } else { inside(&self.dir, open)? }, Some(path))
    }

    /// The next entries, as many as fit a message; none at the end. `goes`: the folder is none of
    /// the sender's, and its parts are removed.
    fn list(&mut self, goes: bool, guarantees: Option<&Guarantees>) -> (Vec<FoundEntry>, Option<io::Error>) {
        let (mut found, mut bytes, mut failed) = (Vec::new(), 0, None);
        let mut add = |name: Name, kind| {
            bytes += name.as_bytes().len();
            found.push(FoundEntry { name, kind });
            found.len() < MAX_ENTRIES && bytes < MAX_NAMES
        };
        while let Some(name) = self.emptied.pop() {
            let Ok(name) = Name::try_from(name.as_bytes().to_vec()) else { continue };
            if !add(name, FoundKind::Emptied) {
                return (found, failed);
            }
        }
        while let Some(entry) = self.entries.next() {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            };
            let name = entry.file_name();
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            match RelPath::below(self.path.as_ref(), name.as_bytes()) {
                Ok(path) => {
                    let name = Name::of(&path);
                    if !add(name, if is_folder { FoundKind::Folder } else { FoundKind::Other }) {
                        break;
                    }
                }
                // The unfinished files of a folder that stays are for a later run.
                Err(_) if !RelPath::is_reserved(name.as_bytes()) => {
                    self.stays = true;
                    failed = Some(io::Error::other("a path below it is too long"));
                }
                Err(_) => {
                    let is_gone = goes && guarantees.is_none_or(|known| remove_part(&self.dir, &name, known).is_ok());
                    self.stays |= !is_gone;
                }
            }
        }
        (found, failed)
    }
}

/// Opens a folder below `root`, or `root` itself, and no link on the way.
fn open_below(root: &Dir, path: Option<&RelPath>, is_dry_run: bool) -> io::Result<Dir> {
    let names = path.map_or(Path::new(""), RelPath::as_path).components().map(Component::as_os_str);
    names.fold(root.try_clone(), |dir, name| {
        let dir = dir?;
        if is_dry_run { open_folder(&dir, name) } else { inside(&dir, || open_folder(&dir, name)) }
    })
}

/// Opens a folder by its name, and no link in its place.
pub(super) fn open_folder(dir: &Dir, name: &OsStr) -> io::Result<Dir> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW);
    Ok(Dir::from_std_file(dir.open_with(name, &options)?.into_std()))
}

/// Removes an unfinished file that no transfer is writing.
fn remove_part(dir: &Dir, name: &OsStr, guarantees: &Guarantees) -> Result<(), Reason> {
    let removing = || because("remove the part file");
    let there = dir.symlink_metadata(name).map_err(removing())?;
    if there.is_file() {
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW);
        let file = inside(dir, || dir.open_with(name, &options)).map_err(removing())?.into_std();
        if !guarantees.is_unlocked(&file) {
            return Err(Reason::new(crate::calls::BUSY));
        }
        return inside(dir, || dir.remove_file(name)).map_err(removing());
    }
    inside(dir, || dir.remove_file(name)).map_err(removing())
}

/// The entries of one question, and the bytes of their names: a message has 16 KiB, and a path 4 of
/// them.
const MAX_ENTRIES: usize = 512;
const MAX_NAMES: usize = 8 << 10;
