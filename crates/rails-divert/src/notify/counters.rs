//! Numbers of connections, by their ends and reasons.

use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// Counts the calls of `connect(2)` by their ends.
#[derive(Debug, Default)]
pub struct Counters {
    passed: [AtomicU64; Passed::ALL.len()],
    plain: AtomicU64,
    diverted: AtomicU64,
    failed: AtomicU64,
    gone: AtomicU64,
}

/// Why a call went on in the kernel, and no [`Attempt`](super::Attempt) was made of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Passed {
    /// The address is of another family than IPv4 and IPv6: a Unix socket, netlink, or no address.
    Family,
    /// The address cannot be read, or is too short or too long. The kernel answers with an error.
    BadAddress,
    /// The destination is on the loopback device.
    Loopback,
    /// The destination names no host and port: unspecified, multicast, broadcast, or port 0.
    NoHost,
    /// The socket is not one of TCP: UDP, SCTP, MPTCP, or no socket at all.
    NotTcp,
    /// The socket is of one family, and the address of another.
    OtherFamily,
    /// The socket is connected, connects, listens, or has connected without success.
    InUse,
    /// The socket is bound to a source address.
    Source,
    /// The socket is bound to a device.
    Device,
    /// The socket has an option that no diverted connection can keep: TCP-AO, `TCP_REPAIR` or
    /// `TCP_FASTOPEN_CONNECT`.
    Special,
    /// The socket is in another network namespace.
    Network,
    /// There is no `::1` on this machine to which a socket of IPv6 could be diverted.
    NoLoopback,
    /// The kernel does not let this process read the task's memory or take its descriptor: the task
    /// is privileged, undumpable, or has lost its ancestors under `ptrace_scope` 1.
    Untouchable,
}

impl Counters {
    /// Calls that went on in the kernel for this reason.
    pub fn passed(&self, reason: Passed) -> u64 {
        self.passed[reason as usize].load(Relaxed)
    }

    /// Attempts that went on in the kernel because the caller said so, or dropped them.
    pub fn plain(&self) -> u64 {
        self.plain.load(Relaxed)
    }

    /// Attempts that were diverted.
    pub fn diverted(&self) -> u64 {
        self.diverted.load(Relaxed)
    }

    /// Attempts that could not be diverted, and went on in the kernel.
    pub fn failed(&self) -> u64 {
        self.failed.load(Relaxed)
    }

    /// Calls that their tasks ended before the answer: the task died, or a signal came on a kernel
    /// before 5.19.
    pub fn gone(&self) -> u64 {
        self.gone.load(Relaxed)
    }

    pub(super) fn count_passed(&self, reason: Passed) {
        self.passed[reason as usize].fetch_add(1, Relaxed);
    }

    pub(super) fn count_plain(&self) {
        self.plain.fetch_add(1, Relaxed);
    }

    pub(super) fn count_diverted(&self) {
        self.diverted.fetch_add(1, Relaxed);
    }

    pub(super) fn count_failed(&self) {
        self.failed.fetch_add(1, Relaxed);
    }

    pub(super) fn count_gone(&self) {
        self.gone.fetch_add(1, Relaxed);
    }
}

impl Passed {
    /// All reasons, in the order of the declaration.
    pub const ALL: [Self; 13] = [
        Self::Family,
        Self::BadAddress,
        Self::Loopback,
        Self::NoHost,
        Self::NotTcp,
        Self::OtherFamily,
        Self::InUse,
        Self::Source,
        Self::Device,
        Self::Special,
        Self::Network,
        Self::NoLoopback,
        Self::Untouchable,
    ];
}

impl fmt::Display for Passed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Family => "neither IPv4 nor IPv6",
            Self::BadAddress => "no readable address",
            Self::Loopback => "to this machine itself",
            Self::NoHost => "to no single host and port",
            Self::NotTcp => "not TCP",
            Self::OtherFamily => "an address of another family than the socket's",
            Self::InUse => "a socket in use",
            Self::Source => "a socket with a source address",
            Self::Device => "a socket bound to a device",
            Self::Special => "a socket with TCP-AO, TCP_REPAIR or TCP_FASTOPEN_CONNECT",
            Self::Network => "a socket of another network namespace",
            Self::NoLoopback => "no ::1 on this machine",
            Self::Untouchable => "a task that this process may not touch",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_a_counter_of_its_own() {
        let counters = Counters::default();
        for (index, reason) in Passed::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, index);
            counters.count_passed(reason);
        }
        assert!(Passed::ALL.into_iter().all(|reason| counters.passed(reason) == 1));
    }
}
