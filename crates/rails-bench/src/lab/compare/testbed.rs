//! The testbed of a contest: the links, the CPUs, and the kernel's counters.

use super::{ContestError, Link, Terms, keys::Keys, link};
use nix::sys::resource::{UsageWho, getrusage};
use procfs::{CurrentSI, KernelStats};
use rails_lab::{LinkLab, Side};
use rails_topo::CpuSet;
use std::{path::PathBuf, process::Command, time::Duration};

/// The links, CPUs and terms, the same for every contender.
pub(crate) struct Testbed {
    pub(crate) lab: LinkLab,
    pub(crate) links: Vec<Link>,
    pub(crate) sender_cpus: CpuSet,
    pub(crate) receiver_cpus: CpuSet,
    pub(crate) time: Duration,
    pub(crate) congestion: String,
    /// The keys of encrypted streams.
    pub(super) keys: Keys,
    /// This program, whose `serve` and `stream` are run.
    pub(crate) program: PathBuf,
}

/// The kernel's counts up to a moment.
pub(super) struct Counters {
    tx_bytes: Vec<u64>,
    retransmitted: u64,
    children: Duration,
    busy: Duration,
}

/// The kernel's counts between two moments.
pub(super) struct Counted {
    /// Bytes that the sender's end of each link sent.
    pub(super) tx_bytes: Vec<u64>,
    /// Segments that TCP retransmitted, at both ends.
    pub(super) retransmitted: u64,
    /// CPU time of the processes that were started and have ended.
    pub(super) children: Duration,
    /// Time in which CPUs of the machine were not idle, summed over the CPUs.
    pub(super) busy: Duration,
}

impl Testbed {
    /// Makes the links, with one congestion control for all.
    pub(crate) fn build(
        links: &[Link],
        (sender_cpus, receiver_cpus): (CpuSet, CpuSet),
        time: Duration,
        terms: &Terms,
    ) -> Result<Self, ContestError> {
        let lab = link::build(links)?;
        lab.set_congestion_control(&terms.congestion)?;
        let (keys, congestion) = (Keys::make()?, terms.congestion.clone());
        let program = terms.program.clone();
        Ok(Self { lab, links: links.to_vec(), sender_cpus, receiver_cpus, time, congestion, keys, program })
    }

    /// The command of a program at one end.
    pub(crate) fn command(&self, side: Side, program: impl AsRef<std::ffi::OsStr>) -> Command {
        self.lab.side(side).command(program)
    }

    /// The CPUs of one end's process.
    pub(crate) fn cpus(&self, side: Side) -> &CpuSet {
        match side {
            Side::A => &self.sender_cpus,
            Side::B => &self.receiver_cpus,
        }
    }

    /// The counts up to now.
    pub(super) fn counters(&self) -> Result<Counters, ContestError> {
        let tx = |link| self.lab.counters(Side::A, link).map(|counters| counters.tx_bytes);
        let retransmitted = |side| self.lab.transport_counters(side).map(|counters| counters.retransmitted_segments);
        Ok(Counters {
            tx_bytes: (0..self.lab.link_count()).map(tx).collect::<Result<_, _>>()?,
            retransmitted: retransmitted(Side::A)? + retransmitted(Side::B)?,
            children: children()?,
            busy: busy()?,
        })
    }

    /// The counts since then.
    pub(super) fn since(&self, before: &Counters) -> Result<Counted, ContestError> {
        let now = self.counters()?;
        Ok(Counted {
            tx_bytes: now.tx_bytes.iter().zip(&before.tx_bytes).map(|(now, before)| now - before).collect(),
            retransmitted: now.retransmitted - before.retransmitted,
            children: now.children.saturating_sub(before.children),
            busy: now.busy.saturating_sub(before.busy),
        })
    }
}

/// CPU time of every child that has ended and been waited for.
fn children() -> Result<Duration, ContestError> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).map_err(|errno| ContestError::Usage { source: errno.into() })?;
    let time = |time: nix::sys::time::TimeVal| {
        Duration::from_secs(time.tv_sec() as u64) + Duration::from_micros(time.tv_usec() as u64)
    };
    Ok(time(usage.user_time()) + time(usage.system_time()))
}

/// Time in which CPUs of the machine were not idle, since it started (/proc/stat): including
/// interrupts, whose time the kernel may charge to any process or to none.
fn busy() -> Result<Duration, ContestError> {
    let time = KernelStats::current().map_err(|source| ContestError::Busy { source })?.total;
    let parts = [Some(time.user_ms()), Some(time.nice_ms()), Some(time.system_ms()), time.irq_ms(), time.softirq_ms()];
    Ok(Duration::from_millis(parts.into_iter().flatten().sum()))
}

/// The CPUs of the sender and of the receiver: a half each, so that the two do not compete; with a
/// single CPU, that one for both.
pub(crate) fn halves(allowed: &CpuSet) -> (CpuSet, CpuSet) {
    if allowed.len() < 2 {
        return (allowed.clone(), allowed.clone());
    }
    let half = allowed.len() / 2;
    (allowed.iter().take(half).collect(), allowed.iter().skip(half).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_end_has_half_of_the_cpus() {
        let set = |text: &str| text.parse::<CpuSet>().unwrap();
        assert_eq!(halves(&set("0-4")), (set("0-1"), set("2-4")));
        assert_eq!(halves(&set("3")), (set("3"), set("3")));
    }
}
