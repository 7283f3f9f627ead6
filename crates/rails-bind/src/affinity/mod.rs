//! The three properties that make a rail a rail, judged from what was read back.
//!
//! [`assess`] is a pure function: what it judges is in its arguments, and the same arguments give the same verdicts.
//! The properties are those of the Rails Toolkit paper, section II.B:
//! * *interrupt affine*: the NIC's interrupt is served on the processor that the NIC is attached to;
//! * *thread affine*: the application's thread runs on the CPU that serves the interrupt, or shares its last-level
//!   cache;
//! * *memory affine*: the thread's buffers lie on the node with the lowest latency from where it runs.

use crate::interrupt::InterruptStatus;
use rails_topo::{CpuId, CpuSet, Nic, NodeSet, Topology};
use serde::{Deserialize, Serialize};
use std::fmt;

mod interrupt;
mod memory;
mod thread;

/// Whether a property holds, and how that is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
#[must_use]
pub enum Verdict {
    /// The property holds.
    Holds {
        /// What shows it.
        evidence: String,
    },
    /// The property does not hold.
    Broken {
        /// What shows it.
        evidence: String,
        /// What would mend it.
        fix: String,
    },
    /// It cannot be told.
    Unknown {
        /// What is missing.
        reason: String,
    },
}

/// The verdicts on one rail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[must_use]
pub struct AffinityReport {
    /// Whether the interrupts are served beside the NIC.
    pub interrupt: Verdict,
    /// Whether the thread runs beside the interrupts.
    pub thread: Verdict,
    /// Whether the buffers lie beside the thread.
    pub memory: Verdict,
}

/// What is known of one rail, read back and not planned.
#[derive(Debug, Clone, Copy)]
pub struct Evidence<'a> {
    /// The rail's NIC, if it is known.
    pub nic: Option<&'a Nic>,
    /// The interrupts of the rail's lane ([`crate::interrupt::read`]); each of them has to be in place.
    pub interrupts: &'a [InterruptStatus],
    /// The CPUs that the rail's thread may run on ([`crate::thread::affinity_of`]).
    pub thread_cpus: &'a CpuSet,
    /// The CPU that it was last seen on; it goes into the evidence, the verdict rests on where the thread *may* run.
    pub current_cpu: Option<CpuId>,
    /// The nodes that its buffers lie on ([`crate::memory::node_of_page`]); `None` if nobody looked.
    pub buffer_nodes: Option<&'a NodeSet>,
}

/// Judges the three properties.
///
/// # Examples
/// ```no_run
/// use rails_bind::{affinity, interrupt, thread};
/// # fn doctor(topology: &rails_topo::Topology, nic: &rails_topo::Nic) -> Result<(), Box<dyn std::error::Error>> {
///
/// let interrupts = nic.interrupts.iter().map(|known| interrupt::read(known.number)).collect::<Result<Vec<_>, _>>()?;
/// let evidence = affinity::Evidence {
///     nic: Some(nic),
///     interrupts: &interrupts,
///     thread_cpus: &thread::current_affinity()?,
///     current_cpu: thread::current_cpu().ok(),
///     buffer_nodes: None,
/// };
/// println!("{}", affinity::assess(topology, &evidence));
/// # Ok(())
/// # }
/// ```
pub fn assess(topology: &Topology, evidence: &Evidence<'_>) -> AffinityReport {
    AffinityReport {
        interrupt: interrupt::assess(topology, evidence),
        thread: thread::assess(topology, evidence),
        memory: memory::assess(topology, evidence),
    }
}

impl Verdict {
    /// Whether the property is known to hold.
    pub fn holds(&self) -> bool {
        matches!(self, Self::Holds { .. })
    }

    /// Whether the property is known not to hold.
    pub fn is_broken(&self) -> bool {
        matches!(self, Self::Broken { .. })
    }

    fn unknown(reason: impl Into<String>) -> Self {
        Self::Unknown { reason: reason.into() }
    }
}

impl AffinityReport {
    /// Whether all three properties are known to hold: whether the rail is a rail.
    pub fn holds(&self) -> bool {
        self.interrupt.holds() && self.thread.holds() && self.memory.holds()
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Holds { evidence } => write!(f, "holds: {evidence}"),
            Self::Broken { evidence, fix } => write!(f, "broken: {evidence} (fix: {fix})"),
            Self::Unknown { reason } => write!(f, "unknown: {reason}"),
        }
    }
}

/// One line for each property.
impl fmt::Display for AffinityReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "interrupt affine: {}", self.interrupt)?;
        writeln!(f, "thread affine: {}", self.thread)?;
        write!(f, "memory affine: {}", self.memory)
    }
}

/// Where one interrupt is served, as far as the kernel says it.
fn served(interrupt: &InterruptStatus) -> Option<&CpuSet> {
    interrupt.effective.as_ref().filter(|cpus| !cpus.is_empty())
}

/// Why nothing can be said about a lane without interrupts.
fn no_interrupts(nic: Option<&Nic>) -> String {
    use rails_topo::NicKind;
    match nic {
        None => "the NIC is not known".to_owned(),
        Some(nic) => match nic.kind {
            NicKind::Loopback => format!("{} raises no interrupts", nic.name),
            NicKind::Virtual => format!("{} is made in software and raises no interrupts", nic.name),
            NicKind::Device => format!("no interrupt of {} is known", nic.name),
        },
    }
}

/// `CPU 3` or `CPUs 0-3`.
fn cpus(set: &CpuSet) -> String {
    format!("{} {set}", if set.len() == 1 { "CPU" } else { "CPUs" })
}

/// `node 0` or `nodes 0-1`.
fn nodes(set: &NodeSet) -> String {
    format!("{} {set}", if set.len() == 1 { "node" } else { "nodes" })
}
