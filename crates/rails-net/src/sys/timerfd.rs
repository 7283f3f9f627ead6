//! `timerfd_create(2)`: a timer that a runtime watches.
//!
//! # Safety
//! tokio requires that a watched descriptor stays open and keeps its file description. The one
//! block argues that it does.
#![allow(unsafe_code)]

use nix::sys::timerfd::{ClockId, TimerFd, TimerFlags};
use std::{
    io,
    os::fd::{AsFd, AsRawFd, RawFd},
};
use tokio::io::{Interest, unix::AsyncFd};

/// A timer of the monotonic clock, which blocks no thread.
#[derive(Debug)]
pub(crate) struct TimerDescriptor(TimerFd);

impl TimerDescriptor {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self(TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC)?))
    }

    pub(crate) fn timer(&self) -> &TimerFd {
        &self.0
    }

    /// Registers the timer with the calling thread's runtime.
    pub(crate) fn attach(self) -> io::Result<AsyncFd<Self>> {
        // SAFETY: "The file descriptor returned by inner.as_raw_fd() must be a valid, open file descriptor,
        // and it must remain open and refer to the same underlying file description for the entire
        // lifetime of the AsyncFd": the TimerFd owns its descriptor and closes it when it is
        // dropped, which the AsyncFd that owns it outlasts; the field is private to this file, in
        // which no code replaces it or borrows it mutably.
        let registered = unsafe { AsyncFd::register_with_interest(self, Interest::READABLE) };
        registered.map_err(|error| error.into_parts().1)
    }
}

impl AsRawFd for TimerDescriptor {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}
