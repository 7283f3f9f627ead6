//! The calls that a file system may refuse. A copy then continues without the guarantee, and
//! reports that once.

use crate::{
    guarantee::{Guarantee, LackingGuarantee},
    keep::Allows,
    meta::{FOLDER_BITS, Modified},
    observe::Observer,
    proto::Syncs,
    reason::Reason,
};
use cap_std::fs::{Dir, Metadata, MetadataExt as _};
use nix::{
    errno::Errno,
    fcntl::{AtFlags, FcntlArg, fcntl},
    sys::{
        stat::{UtimensatFlags, futimens, utimensat},
        statfs::{BTRFS_SUPER_MAGIC, EXT4_SUPER_MAGIC, F2FS_SUPER_MAGIC, XFS_SUPER_MAGIC, fstatfs},
        time::TimeSpec,
        utsname::uname,
    },
    unistd::{Gid, Uid, fchown, fchownat, syncfs},
};
use rustix::fs::{XattrFlags, fsetxattr};
use std::{
    ffi::OsStr,
    fmt,
    fs::{File, Permissions},
    io,
    os::unix::fs::{MetadataExt, PermissionsExt},
    sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

/// The calls that a file system may refuse.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Calls {
    pub(crate) lock: fn(&File) -> io::Result<()>,
    pub(crate) record_lock: fn(&File) -> io::Result<()>,
    pub(crate) record_unlock: fn(&File) -> io::Result<()>,
    pub(crate) sync: fn(&File) -> io::Result<()>,
    /// Puts the whole file system of a file on disk, where that does as much as `sync` for each
    /// file of it, and tells of a failure.
    pub(crate) sync_all: fn(&File) -> io::Result<()>,
    pub(crate) set_mode: fn(&File, u32) -> io::Result<()>,
    pub(crate) set_modified: fn(&File, Modified) -> io::Result<()>,
    pub(crate) set_link_modified: fn(&Dir, &OsStr, Modified) -> io::Result<()>,
    /// Sets a user, a group, or both.
    pub(crate) set_owner: fn(&File, Option<u32>, Option<u32>) -> io::Result<()>,
    pub(crate) set_link_owner: fn(&Dir, &OsStr, Option<u32>, Option<u32>) -> io::Result<()>,
    pub(crate) set_attribute: fn(&File, &[u8], &[u8]) -> io::Result<()>,
    pub(crate) access: fn(&File) -> io::Result<Access>,
}

/// Who may change a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) user: u32,
    /// Twelve permission bits.
    pub(crate) mode: u32,
    /// Number of names.
    pub(crate) names: u64,
}

/// Requests each guarantee, and records those that were refused. Several threads share one.
pub(crate) struct Guarantees {
    calls: Calls,
    /// Whether a refused guarantee is a failure.
    is_strict: bool,
    /// What the operator lets a sender set.
    allows: Allows,
    observer: Arc<dyn Observer>,
    /// The costs of putting files on disk.
    syncs: Mutex<Syncs>,
    lacking: Mutex<Vec<LackingGuarantee>>,
}

impl Calls {
    /// The kernel's calls.
    pub(crate) const KERNEL: Self = Self {
        lock: |file| Ok(file.try_lock()?),
        record_lock: |file| set_record_lock(file, libc::F_WRLCK),
        record_unlock: |file| set_record_lock(file, libc::F_UNLCK),
        sync: File::sync_all,
        sync_all,
        set_mode: |file, mode| file.set_permissions(Permissions::from_mode(mode)),
        set_modified: |file, modified| Ok(futimens(file, &TimeSpec::UTIME_OMIT, &time_spec(modified))?),
        set_link_modified: |dir, name, modified| {
            let itself = UtimensatFlags::NoFollowSymlink;
            Ok(utimensat(dir, name, &TimeSpec::UTIME_OMIT, &time_spec(modified), itself)?)
        },
        set_owner: |file, user, group| Ok(fchown(file, user.map(Uid::from_raw), group.map(Gid::from_raw))?),
        set_link_owner: |dir, name, user, group| {
            let (user, group) = (user.map(Uid::from_raw), group.map(Gid::from_raw));
            Ok(fchownat(dir, name, user, group, AtFlags::AT_SYMLINK_NOFOLLOW)?)
        },
        set_attribute: |file, name, value| Ok(fsetxattr(file, name, value, XattrFlags::empty())?),
        access: |file| Ok(Access::of(&Metadata::from_file(file)?)),
    };
}

impl Access {
    /// Who may change the file of that metadata.
    pub(crate) fn of(there: &Metadata) -> Self {
        Self { user: there.uid(), mode: there.mode() & 0o7777, names: there.nlink() }
    }

    /// Whether only this process's user can change the file: another owner, another user with write
    /// permission, or another hard link could change the arriving bytes.
    pub(crate) fn is_ours_alone(self) -> bool {
        self.user == nix::unistd::geteuid().as_raw() && self.mode & 0o022 == 0 && self.names == 1
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "user {}, mode {:03o}, {} names", self.user, self.mode, self.names)
    }
}

impl Guarantees {
    pub(crate) fn new(calls: Calls, is_strict: bool, observer: Arc<dyn Observer>) -> Self {
        let (syncs, lacking) = (Mutex::default(), Mutex::default());
        Self { calls, is_strict, allows: Allows::default(), observer, syncs, lacking }
    }

    /// As these, with other properties that a sender may set.
    pub(crate) fn allowing(self, allows: Allows) -> Self {
        Self { allows, ..self }
    }

    pub(crate) fn allows(&self) -> Allows {
        self.allows
    }

    pub(crate) fn calls(&self) -> &Calls {
        &self.calls
    }

    /// The guarantees that were refused so far, each once.
    pub(crate) fn lacking(&self) -> Vec<LackingGuarantee> {
        self.refused().clone()
    }

    /// Locks a part against other receivers.
    pub(crate) fn lock(&self, part: &File) -> Result<(), Reason> {
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::WouldBlock => Reason::new(BUSY),
            _ => because("lock the part file")(error),
        };
        // Takes both kinds of lock: another receiver may be refused either of them, and a lock of
        // one kind does not see the other.
        let has_record_lock = match (self.calls.record_lock)(part) {
            Err(error) if refuses(&error) => false,
            locked => locked.map(|()| true).map_err(failed)?,
        };
        let mut locked = (self.calls.lock)(part);
        if has_record_lock && locked.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
            // A file system whose server has a single kind of lock (CIFS) sees the first lock as
            // another owner's. There the second is enough.
            (self.calls.record_unlock)(part).map_err(failed)?;
            locked = (self.calls.lock)(part);
        }
        match locked {
            Err(error) if refuses(&error) && has_record_lock => Ok(()),
            Err(error) if refuses(&error) => self.without(Guarantee::Lock, "lock the part file", error),
            locked => locked.map_err(failed),
        }
    }

    /// Locks a part, as far as it can be locked; gives whether no other transfer writes it. On a
    /// file system that cannot lock, nobody knows.
    pub(crate) fn is_unlocked(&self, part: &File) -> bool {
        let locks = [(self.calls.record_lock)(part), (self.calls.lock)(part)];
        locks.iter().any(Result::is_ok) && locks.iter().flat_map(|lock| lock.as_ref().err()).all(refuses)
    }

    /// Puts a file's bytes, or a folder's names, on disk.
    pub(crate) fn sync(&self, file: &File, doing: &'static str) -> Result<(), Reason> {
        (self.calls.sync)(file).or_else(|error| self.without(Guarantee::Sync, doing, error))
    }

    /// Puts the bytes of several files on disk, together if that is quicker.
    ///
    /// `root` is a handle on their file system that is older than their bytes: syncfs(2) tells of
    /// the failures since it was opened. Files of other file systems are put on disk one by one.
    pub(crate) fn sync_several(
        &self,
        root: Option<&File>,
        files: &[&File],
        doing: &'static str,
    ) -> Vec<Result<(), Reason>> {
        let device = |file: &File| file.metadata().ok().map(|metadata| metadata.dev());
        let common = root.and_then(device);
        let is_of_root: Vec<bool> = files.iter().map(|file| common.is_some() && device(file) == common).collect();
        let count = is_of_root.iter().filter(|is_of_root| **is_of_root).count();
        let mut are_done = false;
        if let Some(root) = root
            && self.syncs().are_together(count)
        {
            let began = Instant::now();
            // Where it fails, each file's own call tells whether that concerns it.
            are_done = (self.calls.sync_all)(root).is_ok();
            match are_done {
                true => self.syncs().took_together(began.elapsed()),
                false => self.syncs().refuse_together(),
            }
        }
        let began = Instant::now();
        let done = |(file, is_of_root): (&&File, bool)| match are_done && is_of_root {
            true => Ok(()),
            false => self.sync(file, doing),
        };
        let done: Vec<_> = files.iter().zip(is_of_root).map(done).collect();
        if !are_done {
            self.syncs().took_alone(files.len(), began.elapsed());
        }
        done
    }

    /// Gives a file or folder its mode, and reads the mode back.
    pub(crate) fn set_mode(&self, file: &File, mode: u32, doing: &'static str) -> Result<(), Reason> {
        let set = (self.calls.set_mode)(file, mode);
        if set.as_ref().is_err_and(|error| !refuses(error)) {
            return set.map_err(because(doing));
        }
        if set.is_err() && mode & !FOLDER_BITS != 0 {
            // A filter may refuse set-id bits alone (systemd's `RestrictSUIDSGID=`).
            let _ = (self.calls.set_mode)(file, mode & FOLDER_BITS);
        }
        let there = self.access(file)?.mode & (FOLDER_BITS | mode);
        if there == mode {
            return Ok(());
        }
        let silent = || io::Error::new(io::ErrorKind::Unsupported, format!("it stays {there:03o}"));
        self.without(Guarantee::Mode, doing, set.err().unwrap_or_else(silent))
    }

    /// Gives a file or folder the time of its last change, to the precision of its file system.
    pub(crate) fn set_modified(&self, file: &File, modified: Modified, doing: &'static str) -> Result<(), Reason> {
        (self.calls.set_modified)(file, modified).or_else(|error| self.without(Guarantee::Times, doing, error))
    }

    /// Gives a symbolic link in a folder the time of its last change.
    pub(crate) fn set_link_modified(&self, dir: &Dir, name: &OsStr, modified: Modified) -> Result<(), Reason> {
        let set = (self.calls.set_link_modified)(dir, name, modified);
        set.or_else(|error| self.without(Guarantee::Times, "set the link's time", error))
    }

    /// Who may change the file.
    pub(crate) fn access(&self, file: &File) -> Result<Access, Reason> {
        (self.calls.access)(file).map_err(because("inspect the file"))
    }

    /// Continues with a part that others seem to be able to change, on a file system that shows all
    /// files like that.
    pub(crate) fn without_owner(&self, access: Access) -> Result<(), Reason> {
        let error = io::Error::new(io::ErrorKind::Unsupported, format!("it reads back as {access}"));
        self.without(Guarantee::Owner, "make a part file that is ours alone", error)
    }

    /// Continues although a folder may not be opened to put its names on disk.
    pub(crate) fn without_sync(&self, error: io::Error) -> Result<(), Reason> {
        self.without(Guarantee::Sync, "open the folder to put it on disk", error)
    }

    /// Continues without a guarantee if the error means that the call is unavailable, and if that
    /// is allowed.
    pub(crate) fn without(&self, guarantee: Guarantee, doing: &'static str, error: io::Error) -> Result<(), Reason> {
        if self.is_strict || !refuses(&error) {
            return Err(because(doing)(error));
        }
        self.tell(guarantee, Reason::new(format_args!("cannot {doing}: {error}")));
        Ok(())
    }

    /// Notes that a guarantee is lacking, and tells the observer the first time.
    pub(crate) fn tell(&self, guarantee: Guarantee, cause: Reason) {
        let mut refused = self.refused();
        if refused.iter().all(|lacking| lacking.guarantee != guarantee) {
            let lacking = LackingGuarantee { guarantee, cause };
            self.observer.lacking(&lacking);
            refused.push(lacking);
        }
    }

    fn syncs(&self) -> MutexGuard<'_, Syncs> {
        self.syncs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn refused(&self) -> MutexGuard<'_, Vec<LackingGuarantee>> {
        self.lacking.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn time_spec(modified: Modified) -> TimeSpec {
    TimeSpec::new(modified.seconds, modified.nanos.into())
}

/// syncfs(2), where it writes and waits as fsync(2) of each file would: since Linux 5.8, which
/// reports failures, and on local file systems. On FUSE, for one, it does not reach the server.
fn sync_all(file: &File) -> io::Result<()> {
    static REPORTS: LazyLock<bool> = LazyLock::new(|| {
        let release = uname().ok().and_then(|uname| {
            let release = uname.release().to_str()?.to_owned();
            let mut numbers = release.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
            Some((numbers.next()?, numbers.next()?))
        });
        release >= Some((5, 8))
    });
    let local = [EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC, BTRFS_SUPER_MAGIC, F2FS_SUPER_MAGIC];
    if !*REPORTS || !local.contains(&fstatfs(file)?.filesystem_type()) {
        return Err(io::ErrorKind::Unsupported.into());
    }
    Ok(syncfs(file)?)
}

/// Whether the error means that a call is unavailable here, and not that it failed (EIO, ENOSPC,
/// EDQUOT).
///
/// Reported of flock(2): ENOSYS (Lustre without `-o flock`), ENOLCK (NFS without lockd), EPERM
/// (filters); of fchmod(2): EPERM (vfat, CIFS), EOPNOTSUPP; of fsync(2) on a folder: EINVAL (CIFS,
/// 9p, FUSE). EACCES is a security module's.
pub(crate) fn refuses(error: &io::Error) -> bool {
    let refused = [Errno::ENOSYS, Errno::EOPNOTSUPP, Errno::EINVAL, Errno::EPERM, Errno::EACCES, Errno::ENOLCK];
    match error.raw_os_error() {
        Some(code) => refused.contains(&Errno::from_raw(code)),
        None => error.kind() == io::ErrorKind::Unsupported,
    }
}

/// The error as a [`Reason`] that names the receiver, the step and the cause.
pub(crate) fn because(doing: &'static str) -> impl Fn(io::Error) -> Reason {
    move |error| {
        let too_many = error.raw_os_error() == Some(Errno::EMFILE as i32);
        let step = if too_many { "; a higher `ulimit -n` allows more" } else { "" };
        Reason::new(format_args!("receiver: cannot {doing}: {error}{step}"))
    }
}

/// Locks all of a file for writing, while it is open, or unlocks it (`F_OFD_SETLK`, fcntl(2)).
fn set_record_lock(file: &File, kind: libc::c_int) -> io::Result<()> {
    // The length 0 reaches to the end of all files.
    let all = libc::flock { l_type: kind as _, l_whence: libc::SEEK_SET as _, l_start: 0, l_len: 0, l_pid: 0 };
    fcntl(file, FcntlArg::F_OFD_SETLK(&all))?;
    Ok(())
}

/// The failure of a file that another receiver writes.
pub(crate) const BUSY: &str = "receiver: another transfer is writing this file";
