//! The signals of a program that is started, and the end of this process by a signal.
//!
//! # Safety
//! The blocks argue that no function of this process is called where it must not be.
#![allow(unsafe_code)]

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, raise, sigaction};
use std::{io, os::unix::process::CommandExt, process::Command};

/// Has the program begin with the signals blocked that the calling thread blocks now.
pub(crate) fn begin_with_present_mask(command: &mut Command) -> io::Result<()> {
    let mask = SigSet::thread_get_mask()?;
    let set = move || mask.thread_set_mask().map_err(io::Error::from);
    // SAFETY: the closure runs between fork and exec, where only async-signal-safe functions may be
    // called: it makes one call, pthread_sigmask(3), which is one (signal-safety(7) names it), with a
    // set that it owns; and an error of nix becomes one of the standard library without an allocation.
    unsafe { command.pre_exec(set) };
    Ok(())
}

/// Gives the signal its default action, and raises it.
pub(crate) fn raise_with_default_action(number: i32) -> io::Result<()> {
    let signal = Signal::try_from(number)?;
    let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    // The kernel refuses another action of these two, and they need none.
    if !matches!(signal, Signal::SIGKILL | Signal::SIGSTOP) {
        // SAFETY: the default action is the kernel's, so no handler has to be safe to call; the former
        // handler is given up, and is not called by us.
        unsafe { sigaction(signal, &default) }?;
    }
    // A signal that this thread blocks is pending until here.
    raise(signal)?;
    SigSet::from(signal).thread_unblock()?;
    Ok(())
}
