//! Signals that come all the time, as those by which Go's runtime preempts its threads do.
//!
//! # Safety
//!
//! A handler may interrupt any code. The one block argues that this one does no harm.
#![allow(unsafe_code)]

use std::{io, mem, ptr};

/// Has the process interrupted every half a millisecond from now on, by signals after which calls
/// are taken up again.
pub(crate) fn begin() -> io::Result<()> {
    extern "C" fn nothing(_signal: libc::c_int) {}
    let often = libc::timeval { tv_sec: 0, tv_usec: 500 };
    let timer = libc::itimerval { it_interval: often, it_value: often };
    // SAFETY: the handler does nothing, which every code may be interrupted by. The structure is plain
    // integers, for which zero is no flag and an empty set; it and the timer outlive the calls, which
    // only read them, and old values are not asked for.
    let result = unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as libc::sighandler_t;
        action.sa_flags = libc::SA_RESTART;
        match libc::sigaction(libc::SIGALRM, &raw const action, ptr::null_mut()) {
            0 => libc::setitimer(libc::ITIMER_REAL, &raw const timer, ptr::null_mut()),
            failed => failed,
        }
    };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
