//! `pidfd_open(2)` and `pidfd_getfd(2)`: a copy of another process's descriptor.
//!
//! # Safety
//! Neither the C library everywhere nor nix has these calls. The blocks argue that they take
//! numbers alone, and that a descriptor that they return belongs to nobody else.
#![allow(unsafe_code)]

use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
};

/// The descriptor's meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whole {
    /// A process, by the number of its first thread.
    Process,
    /// One thread, with the table of descriptors that it uses. Since Linux 6.9.
    Thread,
}

/// Opens the task `tid`.
///
/// # Errors
/// `EINVAL`, or `ENOENT`, if it is not a first thread and a [process](Whole::Process) is wanted, or
/// if the kernel does not know [threads](Whole::Thread); `ESRCH` if there is no such task.
pub(crate) fn open(tid: u32, whole: Whole) -> io::Result<OwnedFd> {
    let flags = match whole {
        Whole::Process => 0,
        Whole::Thread => libc::PIDFD_THREAD,
    };
    // SAFETY: pidfd_open(pid, flags) takes two numbers and touches no memory.
    let result = unsafe { libc::syscall(libc::SYS_pidfd_open, tid as libc::pid_t, flags) };
    owned(result)
}

/// Copies descriptor number `fd` of the open task. "The close-on-exec flag is set" on the copy.
pub(crate) fn take(task: BorrowedFd<'_>, fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: pidfd_getfd(pidfd, targetfd, flags) takes three numbers and touches no memory; the first
    // descriptor is borrowed, so it is open.
    let result = unsafe { libc::syscall(libc::SYS_pidfd_getfd, task.as_raw_fd(), fd, 0) };
    owned(result)
}

fn owned(result: libc::c_long) -> io::Result<OwnedFd> {
    let descriptor = RawFd::try_from(result).expect("the kernel returns a descriptor or -1");
    if descriptor == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: both calls return "a new file descriptor", which nobody else knows yet.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs::File, io::Read, os::fd::AsFd, process};

    #[test]
    fn a_descriptor_of_this_process_is_copied() {
        let file = File::open("/proc/self/stat").expect("it is there");
        let task = open(process::id(), Whole::Process).expect("this process is there");
        let mut copy = File::from(take(task.as_fd(), file.as_raw_fd()).expect("own descriptors may be copied"));
        let mut text = String::new();
        copy.read_to_string(&mut text).expect("it is readable");
        assert!(text.starts_with(&process::id().to_string()), "{text}");
        let missing = take(task.as_fd(), 1 << 20).expect_err("no such descriptor");
        assert_eq!(missing.raw_os_error(), Some(libc::EBADF));
    }
}
