//! Times at which the kernel lets datagrams leave.

use crate::{
    Pacing, UdpError, UdpRoute,
    netlink::{self, Qdisc},
};
use netlink_packet_route::tc::TcHandle;
use nix::{
    sys::socket::{setsockopt, sockopt},
    time::{ClockId, clock_gettime},
};
use serde::Serialize;
use std::{
    error::Error,
    fmt, io,
    os::fd::AsFd,
    sync::{
        PoisonError, RwLock,
        atomic::{AtomicI32, Ordering::Relaxed},
    },
    time::Instant,
};

/// Whether a socket's datagrams may be sent with a time at which they leave, and why not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
#[non_exhaustive]
pub enum PacingUse {
    /// Datagrams may be sent with their times.
    InUse {
        /// The interface of the route.
        interface: String,
        /// The queueing discipline that holds datagrams back: `fq` or `etf`.
        qdisc: String,
    },
    /// The options do not request pacing.
    Off,
    /// The socket is neither connected nor bound to a device, so its interface is unknown.
    NoRoute,
    /// The interface's queueing disciplines do not all heed the time, so some datagrams would leave
    /// at once.
    NoQdisc {
        /// The interface of the route.
        interface: String,
        /// The queueing disciplines found there.
        found: Vec<String>,
    },
    /// The kernel refuses the option.
    Refused {
        /// The interface of the route.
        interface: String,
        /// The queueing discipline that would heed the time.
        qdisc: String,
        /// The error of the operating system; `etf` takes `CAP_NET_ADMIN`.
        reason: String,
    },
    /// The route or the queueing disciplines could not be read.
    Unknown {
        /// The errors, from call to cause.
        reason: String,
    },
}

/// The state of a socket's pacing.
#[derive(Debug)]
pub(super) struct Pacer {
    wanted: Pacing,
    /// The clock of the times, or [`NO_CLOCK`].
    clock: AtomicI32,
    in_use: RwLock<PacingUse>,
}

impl PacingUse {
    /// Whether the kernel heeds times.
    pub fn is_in_use(&self) -> bool {
        matches!(self, Self::InUse { .. })
    }
}

impl Pacer {
    pub(super) fn new(wanted: Pacing) -> Self {
        let in_use = if wanted == Pacing::Off { PacingUse::Off } else { PacingUse::NoRoute };
        Self { wanted, clock: NO_CLOCK.into(), in_use: RwLock::new(in_use) }
    }

    pub(super) fn is_wanted(&self) -> bool {
        self.wanted == Pacing::Auto
    }

    pub(super) fn in_use(&self) -> PacingUse {
        self.in_use.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Decides for a socket with this route.
    pub(super) fn decide(&self, socket: impl AsFd, route: Result<Option<UdpRoute>, UdpError>) {
        let (clock, in_use) = match route {
            Ok(Some(route)) => match netlink::qdiscs(route.index) {
                Ok(qdiscs) => ask(socket, route.interface, &qdiscs),
                Err(error) => (NO_CLOCK, PacingUse::Unknown { reason: format!("RTM_GETQDISC failed: {error}") }),
            },
            Ok(None) => (NO_CLOCK, PacingUse::NoRoute),
            Err(error) => (NO_CLOCK, PacingUse::Unknown { reason: chain(&error) }),
        };
        self.set(clock, in_use);
    }

    /// Decides for a socket whose route leads by an interface with these queueing disciplines.
    #[cfg(test)]
    pub(super) fn decide_by(&self, socket: impl AsFd, qdiscs: &[Qdisc]) {
        let (clock, in_use) = ask(socket, "eth0".to_owned(), qdiscs);
        self.set(clock, in_use);
    }

    fn set(&self, clock: libc::clockid_t, in_use: PacingUse) {
        self.clock.store(clock, Relaxed);
        *self.in_use.write().unwrap_or_else(PoisonError::into_inner) = in_use;
    }

    /// The time in nanoseconds of the clock that the queueing discipline goes by.
    pub(super) fn stamp(&self, at: Instant) -> io::Result<u64> {
        let clock = self.clock.load(Relaxed);
        if clock == NO_CLOCK {
            return Err(io::ErrorKind::Unsupported.into());
        }
        // An `Instant` does not reveal its clock's time, so its distance from now is added to the
        // time of the clock.
        let now = clock_gettime(ClockId::from_raw(clock))?;
        let now = now.tv_sec() as i128 * 1_000_000_000 + i128::from(now.tv_nsec());
        let here = Instant::now();
        let ahead = at.saturating_duration_since(here).as_nanos() as i128;
        let behind = here.saturating_duration_since(at).as_nanos() as i128;
        let clamped = (now + ahead - behind).clamp(0, i64::MAX.into());
        Ok(u64::try_from(clamped).unwrap_or_default())
    }
}

impl fmt::Display for PacingUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse { interface, qdisc } => write!(f, "paced by {qdisc} on {interface}"),
            Self::Off => write!(f, "not paced: not asked for"),
            Self::NoRoute => write!(f, "not paced: neither connected nor bound to a device"),
            Self::NoQdisc { interface, found } if found.is_empty() => write!(f, "not paced: no qdisc on {interface}"),
            Self::NoQdisc { interface, found } => {
                write!(f, "not paced: {interface} has {}, neither fq nor etf alone", found.join(", "))
            }
            Self::Refused { interface, qdisc, reason } => {
                write!(f, "not paced: SO_TXTIME is refused for {qdisc} on {interface}: {reason}")
            }
            Self::Unknown { reason } => write!(f, "not paced: {reason}"),
        }
    }
}

/// No clock has this number.
const NO_CLOCK: libc::clockid_t = -1;

/// Sets the option for the queueing discipline that heeds times, if there is one.
fn ask(socket: impl AsFd, interface: String, qdiscs: &[Qdisc]) -> (libc::clockid_t, PacingUse) {
    let Some(qdisc) = pacing_qdisc(qdiscs) else {
        let mut found: Vec<String> = qdiscs.iter().map(|qdisc| qdisc.kind.clone()).collect();
        found.dedup();
        return (NO_CLOCK, PacingUse::NoQdisc { interface, found });
    };
    // fq goes by CLOCK_MONOTONIC, and etf is set up with CLOCK_TAI alone (`fq_packet_beyond_horizon` in
    // net/sched/sch_fq.c, `validate_input_params` in net/sched/sch_etf.c).
    let clock = if qdisc == "fq" { libc::CLOCK_MONOTONIC } else { libc::CLOCK_TAI };
    let qdisc = qdisc.to_owned();
    match setsockopt(&socket, sockopt::TxTime, &libc::sock_txtime { clockid: clock, flags: 0 }) {
        Ok(()) => (clock, PacingUse::InUse { interface, qdisc }),
        Err(errno) => {
            let reason = io::Error::from(errno).to_string();
            (NO_CLOCK, PacingUse::Refused { interface, qdisc, reason })
        }
    }
}

/// The kind of the queueing discipline that heeds times, if every datagram meets it: it is the
/// interface's root, or is below each hardware queue of a multiqueue root.
fn pacing_qdisc(qdiscs: &[Qdisc]) -> Option<&str> {
    let heeds = |qdisc: &Qdisc| matches!(&*qdisc.kind, "fq" | "etf");
    let root = qdiscs.iter().find(|qdisc| qdisc.parent == TcHandle::ROOT)?;
    if heeds(root) {
        return Some(&root.kind);
    }
    let mut queues = qdiscs
        .iter()
        .filter(|qdisc| root.kind == "mq" && qdisc.parent != TcHandle::ROOT && qdisc.parent.major == root.handle.major);
    let first = queues.next().filter(|first| heeds(first))?;
    queues.all(|queue| queue.kind == first.kind).then_some(&first.kind)
}

fn chain(error: &UdpError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::time::TimeValLike;
    use std::time::Duration;

    fn qdisc(kind: &str, handle: u16, parent: TcHandle) -> Qdisc {
        Qdisc { kind: kind.to_owned(), handle: TcHandle { major: handle, minor: 0 }, parent }
    }

    #[test]
    fn times_need_a_qdisc_that_all_datagrams_meet() {
        let root = TcHandle::ROOT;
        let queue = |minor| TcHandle { major: 0, minor };
        let mq = qdisc("mq", 0, root);
        assert_eq!(pacing_qdisc(&[]), None);
        assert_eq!(pacing_qdisc(&[qdisc("fq", 1, root)]), Some("fq"));
        assert_eq!(pacing_qdisc(&[qdisc("etf", 1, root), qdisc("clsact", 0xffff, TcHandle::CLSACT)]), Some("etf"));
        assert_eq!(pacing_qdisc(&[mq.clone(), qdisc("fq", 0, queue(1)), qdisc("fq", 0, queue(2))]), Some("fq"));
        assert_eq!(pacing_qdisc(&[mq.clone(), qdisc("fq", 0, queue(1)), qdisc("fq_codel", 0, queue(2))]), None);
        assert_eq!(pacing_qdisc(&[mq]), None);
        // A class of htb takes only the datagrams that a filter sends there.
        assert_eq!(pacing_qdisc(&[qdisc("htb", 1, root), qdisc("fq", 2, TcHandle { major: 1, minor: 10 })]), None);
    }

    #[test]
    fn a_time_is_stamped_by_the_clock() {
        let pacer = Pacer::new(Pacing::Auto);
        let refused = pacer.stamp(Instant::now()).expect_err("there is no clock");
        assert_eq!(refused.kind(), io::ErrorKind::Unsupported);
        for clock in [ClockId::CLOCK_MONOTONIC, ClockId::CLOCK_TAI] {
            pacer.clock.store(clock.as_raw(), Relaxed);
            let nanoseconds = || clock_gettime(clock).expect("it exists").num_nanoseconds() as u64;
            let second = Duration::from_secs(1);
            let (before, at) = (nanoseconds(), Instant::now() + second);
            let stamp = pacer.stamp(at).expect("there is a clock");
            let (after, stamp) = (nanoseconds(), stamp - 1_000_000_000);
            // The two clocks are read one after the other, within this time, and the stamp may be off by as
            // much.
            let between = after - before;
            assert!(before - between <= stamp && stamp <= after, "{clock:?}: {before} {stamp} {after}");
        }
    }
}
