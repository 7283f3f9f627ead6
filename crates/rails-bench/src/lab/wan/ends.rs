//! The parts that the ends of all transports share: their progress, their message, and their
//! runtime.

use crate::lab::compare::ContestError;
use rails_bind::{thread::current_tid, usage::ThreadUsage};
use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
};
use tokio::runtime::Builder;

/// The progress of both ends.
#[derive(Default)]
pub(super) struct Progress {
    /// Payload that arrived so far.
    pub(super) arrived: AtomicU64,
    /// Retransmitted segments so far, if the kernel does not count them.
    pub(super) retransmitted: AtomicU64,
    /// Whether the measured time has begun.
    pub(super) counts: AtomicBool,
    pub(super) is_over: AtomicBool,
    pub(super) cpu_nanoseconds: AtomicU64,
}

impl Progress {
    /// Whether the measured time is over.
    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Relaxed)
    }

    /// Runs one end, and adds the CPU time of its thread.
    pub(super) fn timed(&self, run: impl FnOnce() -> io::Result<()>) -> Result<(), ContestError> {
        let outcome = run();
        self.add_cpu_time();
        outcome.map_err(|source| ContestError::Transfer { source })
    }

    /// Adds the CPU time of the calling thread so far.
    pub(super) fn add_cpu_time(&self) {
        let usage = ThreadUsage::of(current_tid()).ok();
        let used = usage.map(|usage| usage.cpu_time.unwrap_or(usage.user + usage.system)).unwrap_or_default();
        self.cpu_nanoseconds.fetch_add(used.as_nanos() as u64, Relaxed);
    }
}

/// A runtime that runs all of an end on its thread.
pub(super) fn runtime() -> io::Result<tokio::runtime::Runtime> {
    Builder::new_current_thread().enable_all().build()
}

/// The unspecified address of the peer's family.
pub(super) fn any(peer: SocketAddr) -> SocketAddr {
    match peer {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    }
}

/// The message of the thesis' benchmark: 320 ms at 500 Mbit/s.
pub(crate) const MESSAGE: usize = 20_000_000;
