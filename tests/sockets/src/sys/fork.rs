//! fork(2).
//!
//! # Safety
//!
//! The child of a process with several threads may only call what a signal handler may (fork(2)).
//! The one block argues why this program's children may do more.
#![allow(unsafe_code)]

use nix::{
    sys::{
        prctl,
        signal::Signal,
        wait::{WaitStatus, waitpid},
    },
    unistd::{ForkResult, fork},
};
use std::io;

/// Runs `child` in a child process, which ends with it, or with its parent. This process drops what
/// `child` owns, waits, and returns the exit status.
pub(crate) fn forked(child: impl FnOnce() -> i32) -> io::Result<WaitStatus> {
    // SAFETY: a child may find a lock held for ever by a thread that it does not have. The only other
    // thread of this process is the one that watches the case; it sleeps from the case's first
    // instruction on, and holds no lock while it does. glibc makes its own allocator's locks usable
    // in the child (`__malloc_fork_unlock_child` of malloc/arena.c).
    match unsafe { fork() }? {
        ForkResult::Child => {
            // Without it, a parent that gave up would leave the child behind.
            let status = prctl::set_pdeathsig(Signal::SIGKILL).map_or(2, |()| child());
            // SAFETY: it ends the process, and returns to no one. The handlers of exit(3) are the parent's.
            unsafe { libc::_exit(status) }
        }
        ForkResult::Parent { child: process } => {
            drop(child);
            Ok(waitpid(process, None)?)
        }
    }
}
