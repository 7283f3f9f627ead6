//! The three properties of a rail, judged by evidence from the kernel.
//!
//! [`assess`] is a pure function of its arguments. The properties are those of the Rails Toolkit
//! paper, section II.B:
//! * *interrupt affine*: the processor that the NIC is attached to serves the NIC's interrupt, and
//!   its packets are not handed on to another;
//! * *thread affine*: the application's thread runs on the CPU that serves the interrupt, or shares
//!   its last-level cache;
//! * *memory affine*: the thread's buffers lie on the node with the lowest latency from the
//!   thread's CPUs.
//!
//! An [`Observer`] gathers the evidence over an interval. [`InterruptAffinity`] and
//! [`ThreadAffinity`] establish the first two for a socket, as in the paper's Table III.

mod evidence;
mod interrupt_affinity;
mod interrupt_verdict;
mod memory_verdict;
mod observer;
mod thread_affinity;
mod thread_verdict;
mod verdict;

pub use evidence::{Evidence, MemoryOwner, ObservedInterrupt, ObservedMemory, ObservedThread};
pub use interrupt_affinity::{InterruptAffinity, InterruptAffinityError, InterruptOutcome};
pub use observer::{Observation, ObserveError, Observer};
use rails_topo::{CpuSet, Nic, NodeSet, Topology};
use serde::{Deserialize, Serialize};
use std::fmt;
pub use thread_affinity::{Nearness, ThreadAffinity, ThreadAffinityError};
pub use verdict::{Fix, Verdict};

/// The verdicts on one rail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[must_use]
pub struct AffinityReport {
    /// Whether the interrupts are served beside the NIC.
    pub interrupt: Verdict,
    /// Whether the threads run beside the interrupts.
    pub thread: Verdict,
    /// Whether the buffers lie beside the threads.
    pub memory: Verdict,
}

/// Judges the three properties.
///
/// # Examples
/// ```no_run
/// use rails_bind::{affinity::{self, ObservedInterrupt}, interrupt};
/// # fn doctor(topology: &rails_topo::Topology, nic: &rails_topo::Nic) -> Result<(), Box<dyn std::error::Error>> {
///
/// let statuses = nic.interrupts.iter().map(|known| interrupt::read(known.number));
/// let interrupts = statuses.map(|status| Ok(ObservedInterrupt::uncounted(status?)));
/// let interrupts = interrupts.collect::<Result<Vec<_>, interrupt::InterruptError>>()?;
/// let evidence = affinity::Evidence {
///     nic: Some(nic),
///     interrupts: &interrupts,
///     napi_threads: &[],
///     threads: &[],
///     memory: &[],
/// };
/// println!("{}", affinity::assess(topology, &evidence).interrupt);
/// # Ok(())
/// # }
/// ```
pub fn assess(topology: &Topology, evidence: &Evidence<'_>) -> AffinityReport {
    AffinityReport {
        interrupt: interrupt_verdict::assess(topology, evidence),
        thread: thread_verdict::assess(topology, evidence),
        memory: memory_verdict::assess(topology, evidence),
    }
}

impl AffinityReport {
    /// Whether all three properties are known to hold, which makes a rail.
    pub fn holds(&self) -> bool {
        self.verdicts().iter().all(|(_, verdict)| verdict.holds())
    }

    /// The three verdicts with their names.
    pub fn verdicts(&self) -> [(&'static str, &Verdict); 3] {
        [("interrupt affine", &self.interrupt), ("thread affine", &self.thread), ("memory affine", &self.memory)]
    }
}

/// One line for each property.
impl fmt::Display for AffinityReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = self.verdicts().map(|(property, verdict)| format!("{property}: {verdict}"));
        f.write_str(&lines.join("\n"))
    }
}

/// The reason why a lane without interrupts has no verdict.
fn no_interrupts(nic: Option<&Nic>) -> String {
    use rails_topo::NicKind;
    match nic {
        None => "the NIC is not known".to_owned(),
        Some(nic) if !nic.interrupts.is_empty() => {
            let numbers: Vec<u32> = nic.interrupts.iter().map(|interrupt| interrupt.number).collect();
            let which = interrupt_verdict::list(&numbers);
            format!("the CPUs that serve {which} of {} cannot be read (/proc/irq)", nic.name)
        }
        Some(nic) => match nic.kind {
            NicKind::Loopback => format!("{} raises no interrupts", nic.name),
            NicKind::Virtual => format!("{} is made in software and raises no interrupts", nic.name),
            NicKind::Device | NicKind::Unknown => format!("no interrupt of {} is known", nic.name),
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
