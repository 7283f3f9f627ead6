//! Turns the sources named by the caller into the list of entries to offer.

use crate::{
    error::SendError,
    filter::Filter,
    keep::{Keeps, Lost},
    list::FileList,
    message::Totals,
    meta::Meta,
    path::{LinkTarget, PathError, RelPath},
    proto::MAX_TWINS,
    reason::Reason,
    stamp::Identity,
    summary::{NotKept, Skipped},
};
use cap_std::{
    ambient_authority,
    fs::{Dir, Metadata, MetadataExt as _, OpenOptions, OpenOptionsExt},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    fmt, fs, io,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
    sync::Arc,
};

/// All entries that a batch will offer, in the order of the offers.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// A folder comes before its contents, and a file before its further names, which are last.
    pub(crate) entries: Vec<Entry>,
    pub(crate) totals: Totals,
    pub(crate) skipped: Vec<Skipped>,
    /// The unreadable sources, each named in its reason.
    pub(crate) unreadable: Vec<Reason>,
    /// Whether a source stands for its contents, so that the receiving folder is one of those sent.
    pub(crate) has_root: bool,
    /// The paths of special files, which the sender has and does not send.
    pub(crate) special: BTreeSet<RelPath>,
    /// The folders whose contents the receiving folder gets: those that sources are in, and those
    /// that stand for their contents.
    pub(crate) bases: Vec<PathBuf>,
    /// The names that appear directly in the receiving folder, and the source each comes from.
    tops: BTreeMap<OsString, PathBuf>,
    pub(crate) filter: Filter,
    pub(crate) keeps: Keeps,
    pub(crate) not_kept: NotKept,
    /// The entry of each file that has several names, most of which may be elsewhere.
    firsts: BTreeMap<Identity, usize>,
    /// The files of which the batch has further names, by their entries.
    pub(crate) twins: BTreeMap<usize, Identity>,
    /// Further names of files.
    others: Vec<Entry>,
}

/// One folder or file.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) path: RelPath,
    pub(crate) kind: EntryKind,
}

impl Entry {
    /// The file's size in bytes; 0 for any other entry.
    pub(crate) fn size(&self) -> u64 {
        if let EntryKind::File { size, .. } = self.kind { size } else { 0 }
    }
}

/// The kind of an entry.
#[derive(Debug, Clone)]
pub(crate) enum EntryKind {
    Folder {
        /// The entry's properties when the sender listed it.
        meta: Meta,
    },
    Link {
        /// The link's place at the sender.
        source: Place,
        target: LinkTarget,
        /// The entry's properties when the sender listed it.
        meta: Meta,
    },
    File {
        /// The file's place at the sender.
        source: Place,
        /// The file's size when it was listed, in bytes.
        size: u64,
        /// The entry's properties when the sender listed it.
        meta: Meta,
    },
    /// A further name of a file.
    Twin {
        /// The name's place at the sender.
        source: Place,
        /// The file's size when it was listed, in bytes.
        size: u64,
        /// The entry's properties when the sender listed it.
        meta: Meta,
        /// The entry of the file.
        first: usize,
    },
}

impl EntryKind {
    /// Removes the file or link if it is as it was listed.
    pub(crate) fn remove(&self) -> io::Result<()> {
        let (source, size, meta) = match self {
            Self::Folder { .. } => return Ok(()),
            Self::File { source, size, meta } | Self::Twin { source, size, meta, .. } => (source, Some(*size), meta),
            Self::Link { source, meta, .. } => (source, None, meta),
        };
        let there = source.inspect_itself()?;
        let is_kind = if size.is_some() { there.is_file() } else { there.is_symlink() };
        if !is_kind || size.is_some_and(|size| size != there.len()) || !meta.is_of(&there) {
            return Err(io::Error::other("it is another one than the one that was listed"));
        }
        match source {
            Place::Named(path) => fs::remove_file(path),
            Place::Below(root, path) => root.remove_file(path),
        }
    }
}

impl Place {
    /// Opens the file that is read, or a folder.
    ///
    /// Between listing and opening, a file may have become a pipe, whose opening would wait for a
    /// writer, or a link. `O_NONBLOCK` means nothing to a regular file (open(2)).
    pub(crate) fn open(&self) -> io::Result<fs::File> {
        match self {
            Self::Named(path) => {
                let mut options = fs::OpenOptions::new();
                std::os::unix::fs::OpenOptionsExt::custom_flags(options.read(true), libc::O_NONBLOCK).open(path)
            }
            Self::Below(root, path) => {
                let mut options = OpenOptions::new();
                options.read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW);
                root.open_with(path, &options).map(cap_std::fs::File::into_std)
            }
        }
    }

    /// The metadata of the file that is read; of a link that the caller named, its target's.
    pub(crate) fn inspect(&self) -> io::Result<Metadata> {
        match self {
            Self::Named(path) => fs::metadata(path).map(Metadata::from_just_metadata),
            Self::Below(..) => self.inspect_itself(),
        }
    }

    /// The metadata of the entry itself: of a link, the link's.
    fn inspect_itself(&self) -> io::Result<Metadata> {
        match self {
            Self::Named(path) => fs::symlink_metadata(path).map(Metadata::from_just_metadata),
            Self::Below(root, path) => root.symlink_metadata(path),
        }
    }
}

/// The place of a file at the sender.
#[derive(Debug, Clone)]
pub(crate) enum Place {
    /// A path that the caller named; a link stands for its target.
    Named(PathBuf),
    /// A path below a folder that the caller named, opened from that folder's handle, so that no
    /// folder on the way that became a link leads elsewhere.
    Below(Arc<Dir>, PathBuf),
}

/// Walks the sources. All errors that make the batch impossible are found here, before a byte is
/// sent.
///
/// A folder arrives under its own name, with its contents; a source that ends in `.` or `..`, or is
/// `/`, has no name of its own, and its contents arrive directly in the receiving folder (as with
/// `cp -r`).
///
/// With a list, the one source has what is listed, and no more. What the filter leaves out is not
/// in the plan at all.
pub(crate) fn plan(
    sources: &[PathBuf],
    filter: Filter,
    list: Option<&FileList>,
    keeps: Keeps,
) -> Result<Plan, SendError> {
    let mut plan = Plan { filter, keeps, ..Plan::default() };
    plan.bases = sources.iter().map(|source| base_of(source)).collect();
    if let Some(list) = list {
        let [source] = sources else { return Err(SendError::FileList("is for one source")) };
        return match inspect(source, keeps)? {
            (path, Seen { kind: SeenKind::Folder, .. }) => plan.walk_listed(source, path.as_ref(), list),
            _ => Err(SendError::FileList("is for a source that is a folder")),
        }
        .map(|()| plan.ended());
    }
    for source in sources {
        match inspect(source, keeps)? {
            (Some(path), seen) if plan.filter.leaves_out(&path, matches!(seen.kind, SeenKind::Folder)) => {}
            (Some(path), seen @ Seen { kind: SeenKind::File { .. }, .. }) => {
                plan.add(path, source, seen, Place::Named(source.clone()))?;
            }
            (path, _) => plan.walk(source, path.as_ref())?,
        }
    }
    Ok(plan.ended())
}

/// Checks sources before there is a receiver: each is there, is a file or a folder, and arrives
/// under a name of its own. Folders are not listed.
///
/// # Errors
/// As [`send`](crate::send) would fail.
pub fn check(sources: &[PathBuf]) -> Result<(), SendError> {
    let mut plan = Plan::default();
    for source in sources {
        if let (Some(path), _) = inspect(source, plan.keeps)? {
            plan.claim(&path, source)?;
        }
    }
    Ok(())
}

/// The folder that the receiving one stands for.
fn base_of(source: &Path) -> PathBuf {
    match (own_name(source), source.parent()) {
        (Some(_), Some(parent)) if parent.as_os_str().is_empty() => PathBuf::from("."),
        (Some(_), Some(parent)) => parent.to_owned(),
        _ => source.to_owned(),
    }
}

/// The name under which a source arrives, if it has one, and the source: a file or a folder.
fn inspect(source: &Path, keeps: Keeps) -> Result<(Option<RelPath>, Seen), SendError> {
    let seen = fs::metadata(source)
        .map(|metadata| Seen::of(keeps, &Metadata::from_just_metadata(metadata), || fs::read_link(source)))
        .map_err(|error| SendError::Source { path: source.to_owned(), source: error })?;
    let path = own_name(source)
        .map(|name| RelPath::parse(name.as_bytes()))
        .transpose()
        .map_err(|error| SendError::Name { path: source.to_owned(), source: error })?;
    match seen.kind {
        SeenKind::Folder => Ok((path, seen)),
        SeenKind::File { .. } if path.is_some() => Ok((path, seen)),
        _ => Err(SendError::Special { path: source.to_owned() }),
    }
}

impl Plan {
    /// Adds a folder with all entries below it. Entries are opened from the folder's handle, so
    /// that neither the length of its own path nor folders that turn into links matter.
    fn walk(&mut self, source: &Path, base: Option<&RelPath>) -> Result<(), SendError> {
        let failed = |error| SendError::Source { path: source.to_owned(), source: error };
        let root = self.open(source, base)?;
        self.has_root |= base.is_none();
        // The remaining paths, relative to the root, the next one last.
        let mut left = list(&root, Path::new(""), self.keeps).map_err(failed)?;
        while let Some((inside, seen)) = left.pop() {
            // A folder is left out with its contents, whose paths are longer still.
            let Some(path) = self.path(source, base, &inside) else { continue };
            if let Ok(seen) = &seen
                && self.filter.leaves_out(&path, matches!(seen.kind, SeenKind::Folder))
            {
                continue;
            }
            let at = source.join(&inside);
            let seen = match seen {
                Ok(seen) => seen,
                Err(error) => {
                    self.unreadable("inspect", &at, error);
                    continue;
                }
            };
            let is_folder = matches!(seen.kind, SeenKind::Folder);
            self.add(path, &at, seen, Place::Below(root.clone(), inside.clone()))?;
            if is_folder {
                match list(&root, &inside, self.keeps) {
                    Ok(listed) => left.extend(listed),
                    Err(error) => self.unreadable("list", &at, error),
                }
            }
        }
        Ok(())
    }

    /// Adds a folder with the listed entries below it, and the folders above these.
    fn walk_listed(&mut self, source: &Path, base: Option<&RelPath>, list: &FileList) -> Result<(), SendError> {
        if base.is_some_and(|base| self.filter.leaves_out(base, true)) {
            return Ok(());
        }
        let root = self.open(source, base)?;
        // The last folder that is none, or is left out, with all that is below it. Paths are in order.
        let mut closed: Option<(PathBuf, bool)> = None;
        for (inside, is_listed) in list.paths() {
            let at = source.join(inside);
            if let Some((above, is_left_out)) = closed.as_ref().filter(|(above, _)| inside.starts_with(above)) {
                if is_listed && !is_left_out {
                    let above = source.join(above);
                    self.unreadable("send", &at, format_args!("{} is no folder", short(&above)));
                }
                continue;
            }
            let Some(path) = self.path(source, base, inside) else {
                closed = Some((inside.to_owned(), true));
                continue;
            };
            // No folder above it is a link, or this is not reached.
            let seen = match root.symlink_metadata(inside) {
                Ok(there) => Seen::of(self.keeps, &there, || root.read_link_contents(inside)),
                Err(error) => {
                    if is_listed {
                        self.unreadable("inspect", &at, error);
                    }
                    closed = Some((inside.to_owned(), false));
                    continue;
                }
            };
            let is_folder = matches!(seen.kind, SeenKind::Folder);
            let is_left_out = self.filter.leaves_out(&path, is_folder);
            if !is_folder || is_left_out {
                closed = Some((inside.to_owned(), is_left_out));
            }
            if !is_left_out && (is_folder || is_listed) {
                self.add(path, &at, seen, Place::Below(root.clone(), inside.to_owned()))?;
            }
        }
        Ok(())
    }

    /// Opens a source that is a folder, and adds it, if it has a name of its own.
    fn open(&mut self, source: &Path, base: Option<&RelPath>) -> Result<Arc<Dir>, SendError> {
        let failed = |error| SendError::Source { path: source.to_owned(), source: error };
        let root = Arc::new(Dir::open_ambient_dir(source, ambient_authority()).map_err(failed)?);
        if let Some(base) = base {
            let seen = Seen::of(self.keeps, &root.dir_metadata().map_err(failed)?, || fs::read_link(source));
            self.add(base.clone(), source, seen, Place::Below(root.clone(), PathBuf::from(".")))?;
        }
        Ok(root)
    }

    /// The path under which an entry of a source arrives; one without is skipped or fails.
    fn path(&mut self, source: &Path, base: Option<&RelPath>, inside: &Path) -> Option<RelPath> {
        let path = below(base, inside);
        match &path {
            Ok(_) => {}
            Err(error @ PathError::Reserved) => self.skip(source.join(inside), error),
            Err(error) => self.unreadable("send", &source.join(inside), error),
        }
        path.ok()
    }

    /// Adds one entry of a source.
    fn add(&mut self, path: RelPath, at: &Path, seen: Seen, place: Place) -> Result<(), SendError> {
        let Seen { kind, mut meta, drops_set_id, twin } = seen;
        if path.parent().is_none() && !matches!(kind, SeenKind::Special) {
            self.claim(&path, at)?;
        }
        if matches!(kind, SeenKind::File { .. } | SeenKind::Folder) {
            self.not_kept.set_id_bits += u64::from(drops_set_id);
            for lost in self.add_attributes(&mut meta, &place) {
                self.skip(at.to_owned(), lost);
            }
        }
        match kind {
            SeenKind::File { size } => self.add_file(path, size, meta, place, twin),
            SeenKind::Link(target) => match target.map(|target| target.into_os_string().into_vec().try_into()) {
                Ok(Ok(target)) => {
                    self.entries.push(Entry { path, kind: EntryKind::Link { source: place, target, meta } });
                }
                Ok(Err(error)) => self.unreadable("send", at, error),
                Err(error) => self.unreadable("read the link", at, error),
            },
            SeenKind::Special => {
                self.special.insert(path);
                self.skip(at.to_owned(), "a special file");
            }
            SeenKind::Folder => {
                self.totals.folders += 1;
                self.entries.push(Entry { path, kind: EntryKind::Folder { meta } });
            }
        }
        Ok(())
    }

    /// Reads the attributes of an entry, if they are kept; gives those that are not.
    fn add_attributes(&self, meta: &mut Meta, place: &Place) -> Vec<Lost> {
        match self.keeps.has_attributes().then(|| place.open()) {
            None => Vec::new(),
            Some(Ok(file)) => self.keeps.add_attributes(meta, &file),
            Some(Err(error)) => vec![Lost::all(error)],
        }
    }

    /// Adds a file; or a further name of one, if those are kept.
    fn add_file(&mut self, path: RelPath, size: u64, meta: Meta, source: Place, twin: Option<Identity>) {
        if let Some(identity) = twin {
            match self.firsts.get(&identity).copied() {
                Some(first) if self.keeps.hard_links && self.link_to(first, identity) => {
                    return self.others.push(Entry { path, kind: EntryKind::Twin { source, size, meta, first } });
                }
                Some(_) => self.not_kept.hard_links += 1,
                None => drop(self.firsts.insert(identity, self.entries.len())),
            }
        }
        self.totals.files += 1;
        self.totals.bytes += size;
        self.entries.push(Entry { path, kind: EntryKind::File { source, size, meta } });
    }

    /// Whether further names of a file may be links to it: the receiver knows a bounded number of
    /// such files.
    fn link_to(&mut self, first: usize, identity: Identity) -> bool {
        let EntryKind::File { meta, .. } = &mut self.entries[first].kind else {
            unreachable!("the first of several names is a file's")
        };
        if self.twins.len() < MAX_TWINS {
            self.twins.insert(first, identity);
            meta.has_twins = true;
        }
        meta.has_twins
    }

    /// The plan, with further names of files behind all else.
    fn ended(mut self) -> Self {
        self.entries.append(&mut self.others);
        self.firsts.clear();
        self
    }

    fn skip(&mut self, source: PathBuf, reason: impl fmt::Display) {
        self.skipped.push(Skipped { source, reason: Reason::new(reason) });
    }

    fn unreadable(&mut self, doing: &str, at: &Path, error: impl fmt::Display) {
        self.unreadable.push(Reason::new(format_args!("sender: cannot {doing} {}: {error}", short(at))));
    }

    fn claim(&mut self, path: &RelPath, source: &Path) -> Result<(), SendError> {
        let name = path.top().to_owned();
        match self.tops.insert(name.clone(), source.to_owned()) {
            None => Ok(()),
            Some(first) => Err(SendError::Clash { name, first, second: source.to_owned() }),
        }
    }
}

/// The name under which a source arrives; `None` for one that stands for its contents.
fn own_name(source: &Path) -> Option<&std::ffi::OsStr> {
    // `Path` drops a final `.`, so the bytes are examined.
    let bytes = source.as_os_str().as_bytes();
    if bytes == b"." || bytes.ends_with(b"/.") { None } else { source.file_name() }
}

/// A listed entry of the sender, much smaller than its metadata: a folder may have millions.
#[derive(Debug)]
struct Seen {
    kind: SeenKind,
    /// The entry's properties, without its attributes.
    meta: Meta,
    /// Whether it has set-id bits that are not kept.
    drops_set_id: bool,
    /// A file that has other names.
    twin: Option<Identity>,
}

#[derive(Debug)]
enum SeenKind {
    Folder,
    File {
        size: u64,
    },
    /// A symbolic link, and its target if that can be read.
    Link(io::Result<PathBuf>),
    Special,
}

impl Seen {
    /// `target` reads the target of a link.
    fn of(keeps: Keeps, metadata: &Metadata, target: impl FnOnce() -> io::Result<PathBuf>) -> Self {
        let kind = if metadata.is_dir() {
            SeenKind::Folder
        } else if metadata.is_file() {
            SeenKind::File { size: metadata.len() }
        } else if metadata.is_symlink() {
            SeenKind::Link(target())
        } else {
            SeenKind::Special
        };
        let twin = (metadata.is_file() && metadata.nlink() > 1).then(|| (metadata.dev(), metadata.ino()));
        Self { kind, meta: keeps.meta(metadata), drops_set_id: keeps.drops_set_id(metadata), twin }
    }
}

/// The path of a folder's entry, relative to the root, and the entry.
type Listed = (PathBuf, io::Result<Seen>);

/// The entries of a folder, in descending order: two runs over one tree offer the same entries in
/// the same order.
fn list(root: &Dir, folder: &Path, keeps: Keeps) -> io::Result<Vec<Listed>> {
    // The empty path is opened as `.`. Links are not followed: the folder may have become one since
    // it was inspected.
    let name = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW);
    let opened = Dir::from_std_file(root.open_with(name, &options)?.into_std());
    let entries = opened.entries()?.map(|entry| {
        let entry = entry?;
        let name = entry.file_name();
        let seen = entry.metadata().map(|metadata| Seen::of(keeps, &metadata, || opened.read_link_contents(&name)));
        Ok((folder.join(&name), seen))
    });
    let mut listed = entries.collect::<io::Result<Vec<Listed>>>()?;
    listed.sort_unstable_by(|(a, _), (b, _)| b.cmp(a));
    Ok(listed)
}

fn below(base: Option<&RelPath>, inside: &Path) -> Result<RelPath, PathError> {
    let mut bytes = base.map(|base| [base.as_bytes(), b"/"].concat()).unwrap_or_default();
    bytes.extend_from_slice(inside.as_os_str().as_bytes());
    RelPath::parse(bytes)
}

/// A path for people: of a long one, the beginning and the end.
fn short(path: &Path) -> String {
    let text: Vec<char> = path.to_string_lossy().chars().collect();
    if text.len() <= 2 * SHOWN {
        return text.into_iter().collect();
    }
    let (beginning, end) = (&text[..SHOWN], &text[text.len() - SHOWN..]);
    beginning.iter().chain(&['.'; 3]).chain(end).collect()
}

/// Characters of either end of a long path.
const SHOWN: usize = 60;

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(sources: &[PathBuf]) -> Result<Plan, SendError> {
        plan(sources, Filter::new(), None, Keeps::default())
    }

    fn names(plan: &Plan) -> Vec<String> {
        plan.entries.iter().map(|entry| entry.path.to_string()).collect()
    }

    #[test]
    fn folder_by_its_name_and_by_its_dot() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("dir");
        fs::create_dir_all(dir.join("sub")).unwrap();
        fs::write(dir.join("sub/file"), "x").unwrap();
        fs::write(dir.join("a"), "x").unwrap();
        for named in [dir.clone(), dir.join("")] {
            assert_eq!(names(&planned(&[named]).unwrap()), ["dir", "dir/a", "dir/sub", "dir/sub/file"]);
        }
        for contents in [dir.join("."), dir.join("sub/..")] {
            assert_eq!(names(&planned(&[contents]).unwrap()), ["a", "sub", "sub/file"]);
        }
    }

    #[test]
    fn two_sources_of_one_name_are_an_error() {
        let root = tempfile::tempdir().unwrap();
        for dir in ["x", "y"] {
            fs::create_dir(root.path().join(dir)).unwrap();
            fs::write(root.path().join(dir).join("same"), dir).unwrap();
        }
        let (x, y) = (root.path().join("x/same"), root.path().join("y/same"));
        assert!(matches!(planned(&[x.clone(), y]), Err(SendError::Clash { name, .. }) if name == "same"));
        assert!(matches!(planned(&[x.clone(), x.clone()]), Err(SendError::Clash { .. })));
        let same = root.path().join("y/../x/same");
        assert!(matches!(check(&[x.clone(), same]), Err(SendError::Clash { .. })));
        assert!(check(&[x.clone(), root.path().join("x/."), root.path().join("y")]).is_ok());
        assert!(matches!(planned(&[x, root.path().join("y/.")]), Err(SendError::Clash { .. })));
    }

    #[test]
    fn a_kept_link_and_a_followed_one() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("dir");
        fs::create_dir(&dir).unwrap();
        fs::write(root.path().join("file"), "abc").unwrap();
        std::os::unix::fs::symlink("../file", dir.join("link")).unwrap();
        std::os::unix::fs::symlink("dir", root.path().join("to-dir")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(dir.join("socket")).unwrap();
        fs::write(dir.join(".old.rails-part"), "x").unwrap();

        let folder = planned(&[root.path().join("to-dir")]).unwrap();
        assert_eq!(names(&folder), ["to-dir", "to-dir/link"]);
        let EntryKind::Link { target, .. } = &folder.entries[1].kind else { panic!("{:?}", folder.entries[1]) };
        assert_eq!(target.as_path(), Path::new("../file"));
        let skipped: Vec<_> = folder.skipped.iter().map(|skip| skip.reason.as_str()).collect();
        assert_eq!(skipped.len(), 2);
        assert!(skipped[0].contains("rails-part") && skipped[1..] == ["a special file"]);

        let file = planned(&[dir.join("link")]).unwrap();
        assert_eq!((names(&file), file.totals.bytes), (vec!["link".to_owned()], 3));
        assert!(matches!(planned(&[dir.join("socket")]), Err(SendError::Special { .. })));
        assert!(matches!(planned(&[dir.join("none")]), Err(SendError::Source { .. })));
    }

    #[test]
    fn listed_entries_alone() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("dir");
        fs::create_dir_all(dir.join("a/b")).unwrap();
        fs::create_dir_all(root.path().join("outside")).unwrap();
        for file in ["dir/a/b/f", "dir/a/b/g", "dir/a-x", "dir/file", "outside/f"] {
            fs::write(root.path().join(file), "x").unwrap();
        }
        std::os::unix::fs::symlink("a", dir.join("link")).unwrap();
        std::os::unix::fs::symlink("../outside", dir.join("out")).unwrap();
        let text = b"a/b/f\na-x\nlink\nout/f\nlink/b/g\nfile/x\nnone\nno/way\n";
        let list = FileList::parse(text, b'\n').unwrap();
        let planned = |source: PathBuf, list: &FileList| plan(&[source], Filter::new(), Some(list), Keeps::default());
        let some = planned(dir.join("."), &list).unwrap();
        assert_eq!(names(&some), ["a", "a/b", "a/b/f", "a-x", "link"]);
        let told: Vec<_> = some.unreadable.iter().map(Reason::as_str).collect();
        assert_eq!(told.len(), 5, "{told:?}");
        let faults = ["file is no folder", "link is no folder", "no is no folder", "none: No such", "out is no folder"];
        for (told, fault) in told.iter().zip(faults) {
            assert!(told.contains(fault), "{told}");
        }
        let named = planned(dir.clone(), &FileList::parse(b"a\0", 0).unwrap()).unwrap();
        assert_eq!(names(&named), ["dir", "dir/a"]);
        for sources in [&[][..], &[dir.join("file")], &[dir.clone(), root.path().join("outside")]] {
            assert!(matches!(plan(sources, Filter::new(), Some(&list), Keeps::default()), Err(SendError::FileList(_))));
        }
    }

    #[cfg(feature = "patterns")]
    #[test]
    fn left_out_folders_are_not_listed() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("dir");
        for folder in ["keep/cache", "cache", "lost"] {
            fs::create_dir_all(dir.join(folder)).unwrap();
            fs::write(dir.join(folder).join("f"), "x").unwrap();
        }
        // A folder that nobody could list is no failure if it is left out.
        fs::set_permissions(dir.join("lost"), std::os::unix::fs::PermissionsExt::from_mode(0o000)).unwrap();
        let filter = Filter::new().exclude("/dir/lost").unwrap().exclude("cache/").unwrap();
        let planned = plan(std::slice::from_ref(&dir), filter, None, Keeps::default()).unwrap();
        assert_eq!(names(&planned), ["dir", "dir/keep"]);
        assert_eq!((planned.totals.files, planned.skipped.len(), planned.unreadable.len()), (0, 0, 0));
        let all =
            plan(&[dir.join("cache/f"), dir], Filter::new().exclude("*").unwrap(), None, Keeps::default()).unwrap();
        assert_eq!(names(&all), [""; 0]);
    }
}
