//! The distribution of a NIC's interrupts over CPUs: decided from the model, without touching the
//! machine.

use crate::settings::Change;
use rails_topo::{CpuId, CpuSet, Interrupt, InterruptRole, Nic, Topology};

/// A choice among a NIC's interrupts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Vectors {
    /// All interrupts, also those that serve no queue.
    All,
    /// The interrupts of the queue of that index, for receiving and for sending.
    Queue(u32),
}

/// A way to distribute interrupts.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Distribution {
    /// Each interrupt on these CPUs; the kernel picks one of several.
    On(CpuSet),
    /// Queue by queue on one of these CPUs, in turn; interrupts without a queue on all of them.
    Spread(CpuSet),
    /// Queue by queue on a core of its own beside the NIC, and in turn if there are more queues
    /// than cores; interrupts without a queue on any CPU beside the NIC.
    NearestCores,
}

/// The error of distributing interrupts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DistributionError {
    /// The interface raises no interrupts, or none is known.
    #[error("no interrupt of {nic} is known")]
    NoInterrupts {
        /// The interface.
        nic: String,
    },
    /// No interrupt serves this queue, by the names of the interrupts.
    #[error("no interrupt of {nic} is known to serve queue {queue}")]
    NoSuchQueue {
        /// The interface.
        nic: String,
        /// The queue's index.
        queue: u32,
    },
    /// There is no CPU to place the interrupts on.
    #[error("the interrupts of {nic} cannot be placed on an empty set of CPUs")]
    EmptySet {
        /// The interface.
        nic: String,
    },
    /// CPUs that do not exist or are not online.
    #[error("the interrupts of {nic} cannot be placed on CPUs that are not online ({cpus})")]
    NotOnline {
        /// The interface.
        nic: String,
        /// The missing CPUs.
        cpus: CpuSet,
    },
    /// The NIC's locality is unknown, so no core is the nearest.
    #[error("it is not known which CPUs are beside {nic}")]
    UnknownLocality {
        /// The interface.
        nic: String,
    },
}

/// The changes that distribute these interrupts of `nic`, for
/// [`Host::apply`](crate::settings::Host::apply).
///
/// The nearest cores are those that this process may use, if there are any beside the NIC, and
/// otherwise the others: a process's cpuset does not bind an interrupt.
///
/// # Errors
/// [`DistributionError`].
pub fn distribute(
    topology: &Topology,
    nic: &Nic,
    vectors: Vectors,
    distribution: &Distribution,
) -> Result<Vec<Change>, DistributionError> {
    let name = || nic.name.clone();
    let meant = meant(nic, vectors)?;
    let (round, rest) = match distribution {
        Distribution::On(cpus) | Distribution::Spread(cpus) => {
            let offline = cpus.difference(topology.online_cpus());
            if cpus.is_empty() {
                return Err(DistributionError::EmptySet { nic: name() });
            }
            if !offline.is_empty() {
                return Err(DistributionError::NotOnline { nic: name(), cpus: offline });
            }
            let round = match distribution {
                Distribution::On(_) => vec![cpus.clone()],
                _ => cpus.iter().map(CpuSet::single).collect(),
            };
            (round, cpus.clone())
        }
        Distribution::NearestCores => {
            let beside = nic.locality(topology).ok_or_else(|| DistributionError::UnknownLocality { nic: name() })?;
            let allowed = beside.intersection(topology.allowed_cpus());
            let usable = if allowed.is_empty() { beside } else { allowed };
            (cores_first(topology, &usable).into_iter().map(CpuSet::single).collect::<Vec<_>>(), usable)
        }
    };
    let cpus_for = |role: InterruptRole| match role.queue() {
        Some(queue) => round[queue as usize % round.len()].clone(),
        None => rest.clone(),
    };
    Ok(meant.into_iter().map(|(interrupt, role)| Change::interrupt(interrupt.number, cpus_for(role))).collect())
}

fn meant(nic: &Nic, vectors: Vectors) -> Result<Vec<(&Interrupt, InterruptRole)>, DistributionError> {
    let nothing = match vectors {
        Vectors::All => DistributionError::NoInterrupts { nic: nic.name.clone() },
        Vectors::Queue(queue) => DistributionError::NoSuchQueue { nic: nic.name.clone(), queue },
    };
    let is_meant = |(_, role): &(&Interrupt, InterruptRole)| match vectors {
        Vectors::All => true,
        Vectors::Queue(queue) => role.queue() == Some(queue),
    };
    let meant: Vec<_> = nic.interrupt_roles().filter(is_meant).collect();
    if meant.is_empty() { Err(nothing) } else { Ok(meant) }
}

/// One CPU of each core, then the second of each, and so on.
fn cores_first(topology: &Topology, cpus: &CpuSet) -> Vec<CpuId> {
    let rank = |cpu: CpuId| match topology.core_of_cpu(cpu) {
        Some(core) => core.cpus.intersection(cpus).iter().take_while(|sibling| *sibling != cpu).count(),
        None => 0,
    };
    let mut ranked: Vec<(usize, CpuId)> = cpus.iter().map(|cpu| (rank(cpu), cpu)).collect();
    ranked.sort();
    ranked.into_iter().map(|(_, cpu)| cpu).collect()
}
