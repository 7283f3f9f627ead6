//! The attempts of a notifier, in a runtime.

use super::notifier::{Attempt, Notifier};
use crate::sys::readiness::Watched;
use std::{io, os::fd::AsFd};
use tokio::io::{Interest, unix::AsyncFd};

/// A [`Notifier`] that is awaited in a runtime of tokio.
#[derive(Debug)]
pub struct Attempts {
    ready: AsyncFd<Watched>,
    notifier: Notifier,
}

impl Attempts {
    /// Registers a notifier with the runtime of the calling thread.
    ///
    /// # Errors
    /// As `epoll_ctl(2)`; the notifier is dropped, so that the program's connections go on in the
    /// kernel.
    ///
    /// # Panics
    /// If no runtime with I/O runs this thread.
    pub fn new(notifier: Notifier) -> io::Result<Self> {
        Ok(Self { ready: Watched::attach(notifier.as_fd())?, notifier })
    }

    /// Waits for the next attempt; `None` once no task has the filter any more. A wait that is
    /// dropped loses no attempt.
    ///
    /// # Errors
    /// As [`Notifier::next`].
    pub async fn next(&self) -> io::Result<Option<Attempt>> {
        self.ready.async_io(Interest::READABLE, |_| self.notifier.try_next()).await
    }
}
