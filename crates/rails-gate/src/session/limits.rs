//! The bounds of all connections with one peer, whatever session carries them.

use super::flow::{Flow, Windows};
use crate::wire::Refusal;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The channels and the bytes that a peer's sessions may have together.
#[derive(Debug)]
pub(crate) struct Limits {
    max_channels: usize,
    channels: AtomicUsize,
    windows: Windows,
}

/// There is no room for another channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Full {
    #[error("this gate carries as many connections with the peer as it may")]
    Channels,
    #[error("this gate keeps as many bytes of the peer as it may")]
    Bytes,
}

impl Limits {
    /// At most so many channels at a time, of both ends together, and so many bytes that arrived
    /// and wait for programs and services of this host.
    pub(crate) fn new(max_channels: usize, max_bytes: u64) -> Self {
        Self { max_channels, channels: AtomicUsize::new(0), windows: Windows::new(max_bytes) }
    }

    pub(super) fn max_channels(&self) -> usize {
        self.max_channels
    }

    pub(super) fn windows(&self) -> &Windows {
        &self.windows
    }

    /// Takes the room of a new channel, which [`give_back`](Self::give_back) returns.
    pub(super) fn take(&self) -> Result<(), Full> {
        let more = |channels: usize| (channels < self.max_channels).then(|| channels + 1);
        self.channels.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).map_err(|_| Full::Channels)?;
        if self.windows.take_first() {
            return Ok(());
        }
        self.channels.fetch_sub(1, Ordering::Relaxed);
        Err(Full::Bytes)
    }

    /// Gives the room of a channel back that has ended.
    pub(super) fn give_back(&self, flow: &Flow) {
        self.windows.give_back(flow);
        self.channels.fetch_sub(1, Ordering::Relaxed);
    }

    /// The channels at present, and the bytes of their windows.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn taken(&self) -> (usize, u64) {
        (self.channels.load(Ordering::Relaxed), self.windows.taken())
    }
}

impl From<Full> for Refusal {
    fn from(full: Full) -> Self {
        match full {
            Full::Channels => Self::TooMany,
            Full::Bytes => Self::NoMemory,
        }
    }
}
