//! `seccomp(2)`: a filter that notifies of `connect(2)` alone, and its notifications
//! (`seccomp_unotify(2)`).
//!
//! # Safety
//! nix does not have these calls. The blocks argue that the structs are the kernel's, and that the
//! kernel reads and writes no more than them.
#![allow(unsafe_code)]

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
};
use std::{
    io, mem,
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
    ptr,
};

/// The descriptor that gives the notifications of a filter.
#[derive(Debug)]
pub(crate) struct Listener(OwnedFd);

/// One `connect(2)` of a task that waits for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Notification {
    /// The notification's number. One filter's numbers are consecutive, from a random one on
    /// (`seccomp_next_notify_id` in kernel/seccomp.c).
    pub(crate) id: u64,
    /// The calling thread, as this process's PID namespace numbers it; 0 if it is not visible here.
    pub(crate) tid: u32,
    /// The call's first argument.
    pub(crate) fd: RawFd,
    /// The call's second argument.
    pub(crate) address: usize,
    /// The call's third argument.
    pub(crate) length: i32,
}

/// The way in which tasks wait for their answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// Once its notification was received, only a fatal signal ends the wait. Since Linux 5.19.
    Killable,
    /// Any signal ends the wait, and the call may begin anew.
    Interruptible,
}

/// The state of a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ready {
    /// [`receive`](Listener::receive) will not block.
    Notification,
    Nothing,
    /// No task has the filter any more.
    End,
}

/// Filters this thread, and all tasks that it will make: each `connect(2)` by this machine's own
/// system calls becomes a notification. Calls by numbers of another architecture pass.
///
/// The thread needs `no_new_privs` or `CAP_SYS_ADMIN`.
///
/// # Errors
/// `EBUSY` if the thread has a filter already that notifies; `EINVAL` or `ENOSYS` if the kernel
/// cannot notify or has no `waiting` of this kind; `EPERM` or `EACCES` if it is not allowed.
pub(crate) fn install(waiting: Waiting) -> io::Result<Listener> {
    let Some(mut instructions) = filter() else { return Err(io::ErrorKind::Unsupported.into()) };
    let program = libc::sock_fprog { len: instructions.len() as libc::c_ushort, filter: instructions.as_mut_ptr() };
    let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER
        | match waiting {
            Waiting::Killable => libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV,
            Waiting::Interruptible => 0,
        };
    // SAFETY: "args is a pointer to a struct sock_fprog": it is one, with as many instructions as it
    // says; both outlive the call, which copies them. The call changes this thread alone, for the
    // flag TSYNC is not set.
    let result = unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program) };
    let descriptor = RawFd::try_from(result).expect("the kernel returns a descriptor or -1");
    if descriptor == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: "return a new user-space notification file descriptor": nobody else knows it yet, and the
    // kernel sets close-on-exec on it.
    Ok(Listener(unsafe { OwnedFd::from_raw_fd(descriptor) }))
}

/// Calls `connect(2)` with no descriptor, which does nothing but notify. Returns the error of the
/// call.
pub(crate) fn connect_nothing() -> io::Error {
    // SAFETY: the kernel looks the descriptor up before all else, and there is none of number -1; the
    // address has length 0 and is not read.
    let result = unsafe { libc::connect(-1, ptr::null(), 0) };
    assert_eq!(result, -1, "no descriptor has the number -1");
    io::Error::last_os_error()
}

impl Listener {
    /// The listener that another process has sent.
    pub(crate) fn from_descriptor(descriptor: OwnedFd) -> Self {
        Self(descriptor)
    }

    /// Waits for a notification, or the end.
    pub(crate) fn wait(&self, timeout: PollTimeout) -> io::Result<Ready> {
        let mut waits = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
        let happened = loop {
            match poll(&mut waits, timeout) {
                Ok(_) => break waits[0].revents().unwrap_or(PollFlags::empty()),
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        };
        Ok(if happened.contains(PollFlags::POLLIN) {
            Ready::Notification
        } else if happened.intersects(PollFlags::POLLHUP | PollFlags::POLLERR) {
            Ready::End
        } else {
            Ready::Nothing
        })
    }

    /// Takes the oldest notification that nobody has taken; `None` if its task has ended its call
    /// in the meantime. Blocks where there was none.
    pub(crate) fn receive(&self) -> io::Result<Option<Notification>> {
        // SAFETY: the struct consists of numbers, for which all zeros are values.
        let mut notification: libc::seccomp_notif = unsafe { mem::zeroed() };
        // SAFETY: "The third ioctl(2) argument is a pointer to a structure of the following form": it is
        // that struct, zeroed as the kernel demands, exclusively borrowed, and its size is part of
        // the operation's number. The descriptor is owned, so it is open.
        let result = unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut notification) };
        if result == -1 {
            let error = io::Error::last_os_error();
            let ended = is_gone(&error) || error.kind() == io::ErrorKind::Interrupted;
            return if ended { Ok(None) } else { Err(error) };
        }
        let arguments = notification.data.args;
        Ok(Some(Notification {
            id: notification.id,
            tid: notification.pid,
            // The kernel, too, takes the lower halves of the registers.
            fd: arguments[0] as RawFd,
            address: arguments[1] as usize,
            length: arguments[2] as i32,
        }))
    }

    /// Lets the call go on in the kernel as if nobody had been notified.
    ///
    /// # Errors
    /// `ENOENT` if the task no longer waits, `EINPROGRESS` if nobody has received the notification.
    pub(crate) fn go_on(&self, id: u64) -> io::Result<()> {
        self.respond(id, 0, libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32)
    }

    /// Ends the call, with the error `errno`, or 0 for success.
    ///
    /// # Errors
    /// As [`go_on`](Self::go_on).
    pub(crate) fn answer(&self, id: u64, errno: i32) -> io::Result<()> {
        self.respond(id, -errno, 0)
    }

    /// Whether the task of this notification still waits.
    pub(crate) fn is_waiting(&self, id: u64) -> bool {
        // SAFETY: "The third ioctl(2) argument is a pointer to the cookie value": it is a number of 64
        // bits that outlives the call and is only read. The descriptor is owned, so it is open.
        let result = unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &raw const id) };
        result == 0
    }

    fn respond(&self, id: u64, error: i32, flags: u32) -> io::Result<()> {
        let response = libc::seccomp_notif_resp { id, val: 0, error, flags };
        // SAFETY: "The third ioctl(2) argument is a pointer to a structure of the following form": it is
        // that struct, outlives the call, is only read, and its size is part of the operation's
        // number. The descriptor is owned, so it is open.
        let result = unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw const response) };
        if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Whether an answer came too late: the task no longer waits.
pub(crate) fn is_gone(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ENOENT)
}

/// The filter's program, or `None` for an architecture whose number is not known here.
fn filter() -> Option<[libc::sock_filter; 6]> {
    let (architecture, connect) = (ARCHITECTURE?, u32::try_from(libc::SYS_connect).ok()?);
    let load = |offset: usize| instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, offset as u32);
    let unless = |value, skip| instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, skip, value);
    let end = |action| instruction(libc::BPF_RET | libc::BPF_K, 0, 0, action);
    // Both questions are about the architecture and the number alone, so the kernel remembers for all
    // other calls that they pass, and does not run the program for them (since Linux 5.11).
    Some([
        load(mem::offset_of!(libc::seccomp_data, arch)),
        unless(architecture, 3),
        // The calls of x32 have the architecture of x86-64, and numbers with bit 30 set.
        load(mem::offset_of!(libc::seccomp_data, nr)),
        unless(connect, 1),
        end(libc::SECCOMP_RET_USER_NOTIF),
        end(libc::SECCOMP_RET_ALLOW),
    ])
}

fn instruction(code: u32, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt, jf, k }
}

/// `AUDIT_ARCH_*` of include/uapi/linux/audit.h.
const ARCHITECTURE: Option<u32> = if cfg!(all(target_arch = "x86_64", target_pointer_width = "64")) {
    Some(0xc000_003e)
} else if cfg!(all(target_arch = "aarch64", target_pointer_width = "64", target_endian = "little")) {
    Some(0xc000_00b7)
} else {
    None
};
