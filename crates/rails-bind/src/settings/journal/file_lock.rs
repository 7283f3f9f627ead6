//! Locks of open files (`F_OFD_SETLK`, fcntl_locking(2)). The kernel drops them when the last
//! descriptor of the open file is closed, and lets no process take them twice through two open
//! files. (flock(2) does the same, but some filters refuse it, while every filter allows fcntl(2).)

use nix::{
    errno::Errno,
    fcntl::{FcntlArg, fcntl},
    libc,
};
use std::{fs::File, io};

/// Locks a file that is open for writing. Returns whether it is locked: another open file may have
/// the lock.
pub(super) fn try_lock(file: &File) -> io::Result<bool> {
    match fcntl(file, FcntlArg::F_OFD_SETLK(&whole(libc::F_WRLCK))) {
        Ok(_) => Ok(true),
        Err(Errno::EAGAIN | Errno::EACCES) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

/// Unlocks the file, also for forked children, which have the same open file.
pub(super) fn unlock(file: &File) -> io::Result<()> {
    fcntl(file, FcntlArg::F_OFD_SETLK(&whole(libc::F_UNLCK)))?;
    Ok(())
}

/// A lock on all of a file, at any length.
fn whole(kind: i32) -> libc::flock {
    libc::flock { l_type: kind as _, l_whence: libc::SEEK_SET as _, l_start: 0, l_len: 0, l_pid: 0 }
}
