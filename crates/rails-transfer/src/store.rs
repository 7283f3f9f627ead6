//! The receiver's files, all below one folder.
//!
//! Only [`Store::open`] uses ambient authority; all else goes through `cap_std` handles, for which
//! the kernel (`openat2(2)` with `RESOLVE_BENEATH`) refuses every path that leads out, by `..` or
//! by a link. A failure is a [`Reason`], because it concerns one entry and both peers report it.

mod old;
mod prune;
mod trial;
mod twin;

use crate::{
    calls::{Access, BUSY, Guarantees, because, refuses},
    hash::{BLOCK, FileHasher},
    holes::next_data,
    message::{Compare, Digest, Held, Offer, Prefix},
    meta::{FOLDER_BITS, MODE_BITS, Meta, Modified},
    path::{LinkTarget, Printable, RelPath},
    reason::Reason,
    stamp::mark,
};
use cap_std::{
    ambient_authority,
    fs::{Dir, DirBuilder, DirBuilderExt, Metadata, MetadataExt as _, OpenOptions, OpenOptionsExt},
};
use nix::{
    fcntl::{PosixFadviseAdvice, posix_fadvise},
    unistd::{Gid, getegid, geteuid, getgroups},
};
pub(crate) use old::Old;
pub(crate) use prune::{Next, Search};
use std::{
    ffi::{OsStr, OsString},
    fs::{self, File, Permissions},
    io::{self, Read, Seek, SeekFrom, Write},
    os::{
        fd::AsRawFd,
        unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt},
    },
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};
pub(crate) use trial::{Trial, Tried};
use twin::Twins;

/// The receiving folder.
pub(crate) struct Store {
    root: Dir,
    /// The root, as it was opened before anything was written below it; `None` if it may not be
    /// listed.
    oldest: Option<File>,
    /// The folder of the last entry, by its path below the root, and when it was opened: most
    /// entries have the folder of the one before.
    last: Mutex<Option<(PathBuf, Arc<Dir>, Instant)>>,
    /// The files to which further names may be linked.
    twins: Twins,
    /// The guarantees of the file systems below the folder.
    pub(crate) guarantees: Guarantees,
}

/// An offered file, as it is found here.
#[derive(Debug)]
pub(crate) enum Found {
    /// The sender's file: its size, time and mode are the same, and there is no part.
    Kept,
    /// Another one, or none.
    Other(Box<Incoming>, Held),
}

/// A file that is offered or being written.
#[derive(Debug)]
pub(crate) struct Incoming {
    /// The folder that holds the file.
    dir: Arc<Dir>,
    name: OsString,
    part_name: OsString,
    /// The properties that the file will have.
    meta: Meta,
    /// Whether other names of the file follow.
    has_twins: bool,
    /// The file under the final name, if it may have bytes of the offered one.
    old: Option<Arc<Old>>,
    /// That file, from the first byte on that is copied from it. Not before, because many files are
    /// offered at a time.
    copied: Option<File>,
    part: Option<Part>,
}

/// The unfinished file, locked until it is dropped.
#[derive(Debug)]
struct Part {
    file: File,
    hasher: FileHasher,
    len: u64,
    /// The kernel has been asked to put so many bytes on disk.
    begun: u64,
}

impl Part {
    /// Has the kernel begin to put the file's bytes on disk, if there are many: the later `fsync`
    /// waits for less. A kernel that does not costs time alone.
    fn begin_sync(&mut self) {
        let begun = self.begun..self.len;
        if begun.end - begun.start < SYNC_AHEAD {
            return;
        }
        self.begun = self.len;
        // Linux begins to write the dirty pages of the range, and drops from memory the clean ones alone.
        let (at, len) = (begun.start.cast_signed(), (begun.end - begun.start).cast_signed());
        let _ = posix_fadvise(&self.file, at, len, PosixFadviseAdvice::POSIX_FADV_DONTNEED);
    }
}

impl Store {
    /// Opens the receiving folder, and makes it if it does not exist.
    pub(crate) fn open(into: &Path, guarantees: Guarantees) -> io::Result<Self> {
        make_folder(into)?;
        let root = Dir::open_ambient_dir(into, ambient_authority())?;
        let oldest = root.open(".").map(cap_std::fs::File::into_std).ok();
        Ok(Self { root, oldest, last: Mutex::default(), twins: Twins::default(), guarantees })
    }

    /// Makes a folder, private to this user until it is sealed; an existing one stays as it is.
    pub(crate) fn make_folder(&self, path: &RelPath) -> Result<(), Reason> {
        let above = self.folder_of(path)?;
        let make = || inside(&above, || above.create_dir_with(path.name(), DirBuilder::new().mode(PRIVATE_FOLDER)));
        let is_link = || above.symlink_metadata(path.name()).is_ok_and(|there| there.is_symlink());
        let mut made = make();
        if made.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::AlreadyExists) && is_link() {
            inside(&above, || above.remove_file(path.name())).map_err(because("remove the link that is there"))?;
            made = make();
        }
        match made {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                self.root.open_dir(path.as_path()).map_err(because("open the folder that is there"))?;
                Ok(())
            }
            made => made.map_err(because("make the folder")),
        }
    }

    /// Makes a symbolic link, in place of a file or another link; one of the same target stays.
    pub(crate) fn make_link(&self, path: &RelPath, target: &LinkTarget, meta: &Meta) -> Result<(), Reason> {
        let dir = self.folder_of(path)?;
        let (name, target) = (path.name(), target.as_path());
        let there = match inside(&dir, || dir.symlink_metadata(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            there => Some(there.map_err(because("inspect the entry of this name"))?),
        };
        let is_same =
            |there: &Metadata| there.is_symlink() && dir.read_link_contents(name).is_ok_and(|of| of == target);
        let set_properties = |name: &OsStr, there: Option<&Metadata>| {
            self.guarantees.give_link(&dir, name, meta)?;
            match meta.modified {
                Some(modified) if there.map(Modified::of) != Some(modified) => {
                    self.guarantees.set_link_modified(&dir, name, modified)
                }
                _ => Ok(()),
            }
        };
        if there.as_ref().is_some_and(is_same) {
            return set_properties(name, there.as_ref());
        }
        let make = |name: &OsStr| dir.symlink_contents(target, name);
        place(&dir, path, there.as_ref(), make, |name| set_properties(name, None))
    }

    /// Puts a folder's names on disk and gives it its mode and its time.
    pub(crate) fn seal_folder(&self, path: &RelPath, meta: &Meta) -> Result<(), Reason> {
        let there = self.root.symlink_metadata(path.as_path()).map_err(because("inspect the folder"))?;
        if !there.is_dir() {
            return Err(Reason::new("receiver: something else than the folder has its name now"));
        }
        let dir = self.root.open_dir(path.as_path()).map_err(because("open the folder"))?;
        let handle = inside(&dir, || dir.open(".")).map_err(because("open the folder"))?.into_std();
        let given = self.guarantees.give(&handle, meta)?;
        if let Some(mode) = meta.mode {
            self.guarantees.set_mode(&handle, mode & (FOLDER_BITS | given.set_id_bits), "set the folder's mode")?;
        }
        if let Some(modified) = meta.modified {
            self.guarantees.set_modified(&handle, modified, "set the folder's time")?;
        }
        self.guarantees.sync(&handle, "put the folder on disk")
    }

    /// The mark of the receiving folder.
    pub(crate) fn mark(&self) -> Option<Digest> {
        mark(&self.root.dir_metadata().ok()?)
    }

    /// Puts the names in the receiving folder itself on disk.
    pub(crate) fn sync(&self) -> Result<(), Reason> {
        // A rename is durable only when its folder is (fsync(2)). Opened by `.` because the handle may be
        // an `O_PATH` one.
        match inside(&self.root, || self.root.open(".")) {
            Ok(handle) => self.guarantees.sync(&handle.into_std(), "put the folder on disk"),
            Err(error) => self.guarantees.without_sync(error),
        }
    }

    /// Finds the existing bytes of an offered file, and locks its unfinished part; stops if the
    /// sender no longer awaits the answer.
    pub(crate) fn look(&self, offer: &Offer, is_awaited: &dyn Fn() -> bool) -> Result<Found, Reason> {
        let dir = self.folder_of(&offer.path)?;
        let mut file = Incoming::new(dir, offer);
        let there = file.inspect()?;
        if offer.compare == Compare::Times
            && let Some(there) = &there
            && file.has_time_of(offer, there)
            && file.take_properties_of(offer, there, &self.guarantees)?
        {
            if offer.meta.has_twins {
                self.twins.add(there);
            }
            return Ok(Found::Kept);
        }
        let (old, there) = match there {
            Some(there) => Old::look(&file.dir, offer, &there, open_old, is_awaited)?.unzip(),
            None => (None, None),
        };
        file.old = old;
        let part = file.look_at_part(offer.size, is_awaited, &self.guarantees)?;
        Ok(Found::Other(Box::new(file), Held { there, part }))
    }

    /// Looks through a folder for entries that the sender may not have.
    pub(crate) fn search(&self, path: Option<RelPath>) -> Result<Search, Reason> {
        Search::begin(&self.root, path, false).map_err(because("look through the folder"))
    }

    /// Puts verified files on disk, and then gives them their final names.
    pub(crate) fn finish(&self, mut files: Vec<Incoming>) -> Vec<Result<(), Reason>> {
        // A part that a later run may go on with gets its properties first: one sync is enough then.
        let mut done: Vec<Result<(), Reason>> = files
            .iter()
            .map(|file| if file.stays_ours() { file.set_properties(&self.guarantees) } else { Ok(()) })
            .collect();
        let had_properties: Vec<bool> = done.iter().map(Result::is_ok).collect();
        self.sync_several(&files, &mut done, |_| true, "put the file on disk");
        for ((file, done), had_properties) in files.iter_mut().zip(&mut done).zip(had_properties) {
            match done {
                Ok(()) => *done = file.publish(),
                // After a failed fsync the kernel counts the lost pages as clean (fsync(2), "EIO"), so that a
                // later prefix check could read bytes from memory that are not on disk.
                Err(_) if had_properties => file.discard(),
                Err(_) => {}
            }
            // A crash between the name and the properties leaves a complete file that is too private, which
            // the next run repairs (see `keep`).
            if done.is_ok() && !file.stays_ours() {
                *done = file.set_properties(&self.guarantees);
            }
        }
        self.sync_several(&files, &mut done, |file| !file.stays_ours(), "put the file's properties on disk");
        for (file, _) in files.iter().zip(&done).filter(|(file, done)| file.has_twins && done.is_ok()) {
            // Without its identity the file gets no further name, which the sender hears of.
            let _ = Metadata::from_file(&file.part().file).map(|there| self.twins.add(&there));
        }
        done
    }

    /// Keeps the existing file, gives it the sender's properties, and removes an old part.
    pub(crate) fn keep(&self, file: Incoming, meta: &Meta) -> Result<(), Reason> {
        let has_twins = file.has_twins;
        let there = file.keep(meta, &self.guarantees)?;
        if has_twins {
            self.twins.add(&there);
        }
        Ok(())
    }

    /// Puts those of the files on disk that have not failed and that `needs` chooses.
    fn sync_several(
        &self,
        files: &[Incoming],
        done: &mut [Result<(), Reason>],
        needs: impl Fn(&Incoming) -> bool,
        doing: &'static str,
    ) {
        let at = files.iter().zip(done).filter(|(file, done)| done.is_ok() && needs(file));
        let (files, done): (Vec<_>, Vec<_>) = at.map(|(file, done)| (&file.part().file, done)).unzip();
        for (done, synced) in done.into_iter().zip(self.guarantees.sync_several(self.oldest.as_ref(), &files, doing)) {
            *done = synced;
        }
    }

    fn folder_of(&self, path: &RelPath) -> Result<Arc<Dir>, Reason> {
        let parent = path.parent().unwrap_or(Path::new(""));
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, dir, since)) = &*last
            && of == parent
            && since.elapsed() < MAX_AGE
        {
            return Ok(Arc::clone(dir));
        }
        let opened = match path.parent() {
            Some(parent) => self.root.open_dir(parent),
            None => self.root.try_clone(),
        };
        let dir = Arc::new(opened.map_err(because("open the folder that holds it"))?);
        *last = Some((parent.to_owned(), Arc::clone(&dir), Instant::now()));
        Ok(dir)
    }
}

impl Incoming {
    fn new(dir: Arc<Dir>, offer: &Offer) -> Self {
        let (name, part_name, has_twins) = (offer.path.name().to_owned(), offer.path.part_name(), offer.meta.has_twins);
        Self { dir, name, part_name, meta: Meta::default(), has_twins, old: None, copied: None, part: None }
    }

    /// The file under the final name, if it may have bytes of the offered one.
    pub(crate) fn old(&self) -> Option<Arc<Old>> {
        self.old.clone()
    }

    /// Begins to write at `offset`, which is 0 or the length of the reported prefix.
    pub(crate) fn start(&mut self, offset: u64, meta: Meta, guarantees: &Guarantees) -> Result<(), Reason> {
        self.meta = meta;
        let part = match &mut self.part {
            Some(part) => {
                // The part of an earlier run may have got the mode of the file that it was then.
                if guarantees.access(&part.file)?.mode & !PRIVATE_FILE != 0 {
                    guarantees.set_mode(&part.file, PRIVATE_FILE, "keep the part file private")?;
                }
                part
            }
            None => self.part.insert(self.create_part(guarantees)?),
        };
        if offset != part.len {
            part.file.set_len(0).map_err(because("empty the part file"))?;
            part.file.seek(SeekFrom::Start(0)).map_err(because("seek in the part file"))?;
            (part.hasher, part.len, part.begun) = (FileHasher::default(), 0, 0);
        }
        Ok(())
    }

    /// Appends bytes to the part.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), Reason> {
        let part = self.part.as_mut().expect("a file is written after it is started");
        part.file.write_all(bytes).map_err(because("write"))?;
        part.hasher.update(bytes);
        part.len += bytes.len() as u64;
        part.begin_sync();
        Ok(())
    }

    /// Appends zeros to the part, which take no room where the file system has holes.
    pub(crate) fn skip(&mut self, zeros: u64) -> Result<(), Reason> {
        let part = self.part.as_mut().expect("a file is written after it is started");
        part.file.set_len(part.len + zeros).map_err(because("write"))?;
        part.file.seek(SeekFrom::End(0)).map_err(because("seek in the part file"))?;
        part.hasher.update_zeros(zeros);
        part.len += zeros;
        Ok(())
    }

    /// Appends bytes that the file under the final name has at the same place.
    pub(crate) fn copy(&mut self, len: u64) -> Result<(), Reason> {
        let old = match self.copied.take() {
            Some(old) => old,
            None => self.old.as_ref().and_then(|old| old.open().transpose()).unwrap_or_else(|| Err(changed()))?,
        };
        let mut buffer = vec![0; usize::try_from(len).map_or(BLOCK, |len| len.min(BLOCK))];
        let mut at = self.part().len;
        let end = at + len;
        let mut data = at..at;
        while at < end {
            if data.end <= at {
                data = next_data(&old, at, end);
            }
            if at < data.start {
                self.skip(data.start - at)?;
                at = data.start;
                continue;
            }
            let some = usize::try_from(data.end - at).map_or(BLOCK, |left| left.min(BLOCK));
            match old.read_exact_at(&mut buffer[..some], at) {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Err(changed()),
                read => read.map_err(because("read the file that is there"))?,
            }
            self.write(&buffer[..some])?;
            at += some as u64;
        }
        self.copied = Some(old);
        Ok(())
    }

    /// Verifies the written file.
    pub(crate) fn verify(&mut self, expected: Digest) -> Result<(), Reason> {
        let digest = self.part().hasher.finalize();
        // Many verified files wait to be put on disk at a time.
        let (old, copied) = (self.old.take(), self.copied.take());
        if digest == expected {
            return Ok(());
        }
        self.discard();
        if old.zip(copied).is_some_and(|(old, copied)| !old.is_as_it_was(&copied)) {
            return Err(changed());
        }
        Err(Reason::new(format_args!("receiver: the bytes differ: sent {expected}, written {digest}")))
    }

    /// Gives the verified file its final name; its bytes are on disk.
    fn publish(&mut self) -> Result<(), Reason> {
        inside(&self.dir, || self.dir.rename(&self.part_name, &self.dir, &self.name)).map_err(|error| {
            self.discard();
            because("rename the part file to its final name")(error)
        })
    }

    /// Gives the file its properties; its time comes last, as the sign that it has the others.
    fn set_properties(&self, guarantees: &Guarantees) -> Result<(), Reason> {
        let given = guarantees.give(&self.part().file, &self.meta)?;
        if let Some(mode) = self.meta.mode {
            let kept = MODE_BITS | given.set_id_bits;
            guarantees.set_mode(&self.part().file, mode & kept, "set the file's mode")?;
        }
        if let Some(modified) = self.meta.modified {
            guarantees.set_modified(&self.part().file, modified, "set the file's time")?;
        }
        Ok(())
    }

    /// Whether the part remains one that a later run may write to when it has the file's
    /// properties.
    fn stays_ours(&self) -> bool {
        self.meta.extras.is_none()
            && self.meta.mode.is_none_or(|mode| mode & PRIVATE_FILE == PRIVATE_FILE && mode & OTHERS_WRITE == 0)
    }

    fn part(&self) -> &Part {
        self.part.as_ref().expect("a file is finished after it is started")
    }

    /// Keeps the existing file, and gives its properties as they were.
    fn keep(mut self, meta: &Meta, guarantees: &Guarantees) -> Result<Metadata, Reason> {
        if self.part.is_some() {
            self.discard();
        }
        let old = self.old.take().expect("a file is kept after it was compared");
        let whole = &old.open()?.filter(|whole| old.is_as_it_was(whole)).ok_or_else(changed)?;
        let there = Metadata::from_file(whole).map_err(because("inspect the file that is there"))?;
        let given = guarantees.give(whole, meta)?;
        let mode = given.mode_for(meta, &there);
        let modified = meta.modified.filter(|modified| *modified != Modified::of(&there));
        if let Some(mode) = mode {
            guarantees.set_mode(whole, mode, "set the mode of the file that is there")?;
        }
        if let Some(modified) = modified {
            // The bytes may be in memory only, if an earlier run was interrupted before it had synced
            // them to disk. The time comes after them: a file that has it is on disk.
            guarantees.sync(whole, "put the file that is there on disk")?;
            guarantees.set_modified(whole, modified, "set the time of the file that is there")?;
        }
        if mode.is_some() || modified.is_some() || given.has_changed {
            guarantees.sync(whole, "put the file's properties on disk")?;
        }
        Ok(there)
    }

    /// Stops writing, and leaves the part for a later run unless it is empty.
    pub(crate) fn park(mut self) {
        if self.part.as_ref().is_some_and(|part| part.len == 0) {
            self.discard();
        }
    }

    /// Removes the part, whose lock is still held: no other receiver is writing to it.
    fn discard(&mut self) {
        // If this fails too, the part stays, and the next run compares it before it uses it.
        let _ = inside(&self.dir, || self.dir.remove_file(&self.part_name));
        self.part = None;
    }

    /// The metadata of a regular file of the final name.
    fn inspect(&self) -> Result<Option<Metadata>, Reason> {
        // `symlink_metadata`, so that a link or a pipe of this name is not opened: a rename will replace
        // it.
        match inside(&self.dir, || self.dir.symlink_metadata(&self.name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(because("inspect the entry of this name")(error)),
            Ok(there) if there.is_dir() => Err(Reason::new("receiver: a folder of this name is there")),
            Ok(there) => Ok(Some(there).filter(Metadata::is_file)),
        }
    }

    /// Whether the file that is there has the offered size and time, and no part.
    /// Its bytes are on disk: a file gets its time after they are, and one of another program is
    /// that program's.
    fn has_time_of(&self, offer: &Offer, there: &Metadata) -> bool {
        let has_part = || inside(&self.dir, || self.dir.symlink_metadata(&self.part_name)).is_ok();
        there.len() == offer.size && offer.meta.modified == Some(Modified::of(there)) && !has_part()
    }

    /// Gives the file that is there the offered properties but for the time, if it has others;
    /// returns whether it could be opened for that.
    fn take_properties_of(&self, offer: &Offer, there: &Metadata, guarantees: &Guarantees) -> Result<bool, Reason> {
        let meta = &offer.meta;
        if !meta.differs_from(there) && !meta.has_attributes() {
            return Ok(true);
        }
        let Some(file) = open_old(&self.dir, &self.name)? else { return Ok(false) };
        let given = guarantees.give(&file, meta)?;
        let mode = given.mode_for(meta, there);
        if let Some(mode) = mode {
            guarantees.set_mode(&file, mode, "set the mode of the file that is there")?;
        }
        if mode.is_some() || given.has_changed {
            guarantees.sync(&file, "put the file's properties on disk")?;
        }
        Ok(true)
    }

    fn look_at_part(
        &mut self,
        size: u64,
        is_awaited: &dyn Fn() -> bool,
        guarantees: &Guarantees,
    ) -> Result<Option<Prefix>, Reason> {
        let Some(mut file) = self.open_part(guarantees)? else { return Ok(None) };
        let len = file.metadata().map_err(because("inspect the part file"))?.len();
        let mut hasher = FileHasher::default();
        if len > size {
            // The part is of another file. A length other than 0 makes `start` empty it.
            self.part = Some(Part { file, hasher, len, begun: len });
            return Ok(None);
        }
        let len = hash(&mut file, &mut hasher, len, is_awaited).map_err(because("read the part file"))?;
        let digest = hasher.finalize();
        self.part = Some(Part { file, hasher, len, begun: len });
        Ok((len > 0).then_some(Prefix { len, digest }))
    }

    /// Opens and locks the existing part, if there is one.
    fn open_part(&self, guarantees: &Guarantees) -> Result<Option<File>, Reason> {
        let open = || self.dir.open_with(&self.part_name, OpenOptions::new().read(true).write(true));
        let file = match inside(&self.dir, open) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(because("open the part file"))?.into_std(),
        };
        self.lock(&file, guarantees)?;
        let access = guarantees.access(&file)?;
        if access.is_ours_alone() {
            return Ok(Some(file));
        }
        // Some file systems show every file as another user's, or as open to all: vfat, CIFS and 9p
        // by mount options, NFS to root.
        if self.access_of_a_new_file(guarantees) == Some(access) {
            guarantees.without_owner(access)?;
            return Ok(Some(file));
        }
        Err(Reason::new(format_args!(
            "receiver: the part file is not ours alone ({access}); look at it, and remove it"
        )))
    }

    fn create_part(&self, guarantees: &Guarantees) -> Result<Part, Reason> {
        let file = match self.create_private(&self.part_name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(Reason::new(BUSY)),
            created => created.map_err(because("make the part file"))?,
        };
        self.lock(&file, guarantees)?;
        let access = guarantees.access(&file)?;
        if !access.is_ours_alone()
            && let Err(reason) = guarantees.without_owner(access)
        {
            let _ = inside(&self.dir, || self.dir.remove_file(&self.part_name));
            return Err(reason);
        }
        Ok(Part { file, hasher: FileHasher::default(), len: 0, begun: 0 })
    }

    fn create_private(&self, name: &OsStr) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(PRIVATE_FILE);
        Ok(inside(&self.dir, || self.dir.open_with(name, &options))?.into_std())
    }

    /// Who may change a file that this process makes here; `None` if it cannot make one.
    fn access_of_a_new_file(&self, guarantees: &Guarantees) -> Option<Access> {
        // No part has this name: parts with that suffix have a digest in place of `probe`.
        let name = OsString::from(format!(".probe-{}.rails-part-long", std::process::id()));
        let access = guarantees.access(&self.create_private(&name).ok()?);
        let _ = inside(&self.dir, || self.dir.remove_file(&name));
        access.ok()
    }

    /// Locks the part against other receivers, and checks that it still is the part.
    fn lock(&self, file: &File, guarantees: &Guarantees) -> Result<(), Reason> {
        guarantees.lock(file)?;
        // Between opening and locking, the receiver that held the lock may have renamed the part to its
        // final name, and writing on would spoil a finished file. This also refuses a link in the
        // part's place.
        let opened = file.metadata().map_err(because("inspect the part file"))?;
        let named = inside(&self.dir, || self.dir.symlink_metadata(&self.part_name));
        let named = named.map_err(because("inspect the part file"))?;
        let is_same = opened.ino() == named.ino() && opened.dev() == named.dev();
        if !is_same || !opened.is_file() {
            return Err(Reason::new("receiver: the part file was replaced, or is not a regular file"));
        }
        Ok(())
    }
}

/// Opens the file that is there. A file that may not be read can still be replaced; `None`.
fn open_old(dir: &Dir, name: &OsStr) -> Result<Option<File>, Reason> {
    // Since the inspection it may have become a pipe, whose opening would wait for a writer.
    let mut options = OpenOptions::new();
    let options = options.read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW);
    let file = match inside(dir, || dir.open_with(name, options)) {
        Err(error) if error.raw_os_error() == Some(libc::EMFILE) => {
            return Err(because("open the file that is there")(error));
        }
        Err(_) => return Ok(None),
        Ok(file) => file.into_std(),
    };
    let is_file = file.metadata().map_err(because("inspect the entry of this name"))?.is_file();
    Ok(Some(file).filter(|_| is_file))
}

fn changed() -> Reason {
    Reason::new("receiver: the file that is there changed after it was compared")
}

/// Makes a link under a name that something may have. Its meaning then changes at once: a cut
/// leaves the old entry, or the link. `finish` completes the link before the rename.
fn place(
    dir: &Dir,
    path: &RelPath,
    there: Option<&Metadata>,
    make: impl Fn(&OsStr) -> io::Result<()>,
    finish: impl Fn(&OsStr) -> Result<(), Reason>,
) -> Result<(), Reason> {
    if there.is_some_and(Metadata::is_dir) {
        return Err(Reason::new("receiver: a folder of this name is there"));
    }
    if there.is_none() {
        inside(dir, || make(path.name())).map_err(because("make the link"))?;
        return finish(path.name());
    }
    let link_name = path.link_name();
    let make = || inside(dir, || make(&link_name));
    let remove = || inside(dir, || dir.remove_file(&link_name));
    let mut made = make();
    if made.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::AlreadyExists) {
        remove().map_err(because("remove the link of an earlier run"))?;
        made = make();
    }
    made.map_err(because("make the link"))?;
    let placed = finish(&link_name).and_then(|()| {
        let renamed = inside(dir, || dir.rename(&link_name, dir, path.name()));
        renamed.map_err(because("rename the link to its final name"))
    });
    if placed.is_err() {
        let _ = remove();
    }
    placed
}

/// Calls `call`, which reads or changes the names of a folder. If the folder's mode forbids that to
/// its owner, and the process is the owner, calls it again with u+rwx added meanwhile.
fn inside<T>(dir: &Dir, call: impl Fn() -> io::Result<T>) -> io::Result<T> {
    match call() {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            // One at a time: another thread's change of the same folder would be put back too early.
            let _alone = WIDENING.lock().unwrap_or_else(PoisonError::into_inner);
            match Writable::make(dir) {
                Some(_until_the_end) => call(),
                None => Err(error),
            }
        }
        called => called,
    }
}

/// A guard that lets the owner list and write in a folder.
struct Writable<'a> {
    dir: &'a Dir,
    /// The folder's own mode.
    mode: u32,
}

impl<'a> Writable<'a> {
    /// Adds to the mode; `None` if the mode is not the obstacle, or cannot be changed and put back.
    fn make(dir: &'a Dir) -> Option<Self> {
        let there = dir.dir_metadata().ok()?;
        let (user, mode) = (there.uid(), there.mode() & 0o7777);
        if user != geteuid().as_raw() || mode & OWNER_ALL == OWNER_ALL {
            return None;
        }
        // chmod(2) takes the bit from a folder of a group that the process is not in.
        if mode & SET_GROUP_ID != 0 && !is_of_group(Gid::from_raw(there.gid())) {
            return None;
        }
        set_mode(dir, mode | OWNER_ALL).ok()?;
        Some(Self { dir, mode })
    }
}

impl Drop for Writable<'_> {
    fn drop(&mut self) {
        // If this fails, sealing the folder sets its mode.
        let _ = set_mode(self.dir, self.mode);
    }
}

/// Whether the process is in the group, or root.
fn is_of_group(group: Gid) -> bool {
    geteuid().is_root() || getegid() == group || getgroups().is_ok_and(|groups| groups.contains(&group))
}

/// Sets a folder's mode by the name that `/proc` has for the handle, which fchmod(2) does not take
/// if it is an `O_PATH` one.
fn set_mode(dir: &Dir, mode: u32) -> io::Result<()> {
    fs::set_permissions(format!("/proc/self/fd/{}", dir.as_raw_fd()), Permissions::from_mode(mode))
}

/// Hashes up to `len` bytes, and returns their number. Fails once the sender is gone: a large file
/// takes minutes.
fn hash(file: &mut File, hasher: &mut FileHasher, len: u64, is_awaited: &dyn Fn() -> bool) -> io::Result<u64> {
    let mut buffer = vec![0; usize::try_from(len).map_or(BLOCK, |len| len.min(BLOCK))];
    let mut hashed = 0;
    while hashed < len {
        if !is_awaited() {
            return Err(io::Error::other("the sender is gone"));
        }
        let want = usize::try_from(len - hashed).map_or(BLOCK, |left| left.min(BLOCK));
        match file.read(&mut buffer[..want]) {
            Ok(0) => break,
            Ok(count) => {
                hasher.update(&buffer[..count]);
                hashed += count as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(hashed)
}

/// Makes a folder and its parents, and puts their names on disk if that is allowed; existing
/// folders stay as they are.
///
/// # Errors
/// The system's error.
pub fn make_folder(folder: &Path) -> io::Result<()> {
    let missing: Vec<&Path> =
        folder.ancestors().take_while(|above| !above.as_os_str().is_empty() && !above.exists()).collect();
    std::fs::create_dir_all(folder).map_err(|error| {
        let there = folder.ancestors().find(|above| above.exists());
        there.filter(|there| !there.is_dir()).map_or(error, |file| {
            let text = format!("{} is there already, and is no folder", Printable(file));
            io::Error::new(io::ErrorKind::NotADirectory, text)
        })
    })?;
    for made in missing {
        let above = made.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
        match File::open(above).and_then(|above| above.sync_all()) {
            Err(error) if !refuses(&error) => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// How long a folder's handle serves further entries: others may move the folder away meanwhile, as
/// they may while an entry is open.
const MAX_AGE: Duration = Duration::from_millis(100);
/// Only the owner reads an unfinished file, even one whose final mode is wider, which it gets when
/// it is whole.
const PRIVATE_FILE: u32 = 0o600;
const PRIVATE_FOLDER: u32 = 0o700;
/// The permissions of the group and of others to write.
const OTHERS_WRITE: u32 = 0o022;
/// The owner's permissions to list a folder and to change its names.
const OWNER_ALL: u32 = 0o700;
const SET_GROUP_ID: u32 = 0o2000;
/// So many bytes are put on disk together, before all of them are there.
const SYNC_AHEAD: u64 = 8 << 20;
/// Held while a folder's mode is changed for a call.
static WIDENING: Mutex<()> = Mutex::new(());

#[cfg(test)]
mod tests;
