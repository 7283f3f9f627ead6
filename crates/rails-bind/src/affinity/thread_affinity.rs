//! A thread moved to the CPUs that serve a NIC's interrupts (RTK paper, Table III).

use super::InterruptAffinity;
use crate::{
    BindError,
    interrupt::InterruptError,
    socket::{self, SocketError},
    thread::{self, ThreadGuard},
};
use rails_topo::{CpuSet, Topology};
use std::os::fd::AsFd;

/// The wanted distance of a thread from the interrupt.
///
/// The paper's thread affinity is the same processor; its poster distinguishes cores as well: with
/// TCP a core beside the one that serves the interrupt may be better, because both have work to do;
/// with UDP the same core.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Nearness {
    /// On the CPU that serves the interrupt.
    SameCpu,
    /// On that CPU's core: the CPU or the core's other hardware threads.
    SameCore,
    /// On another core, which shares that CPU's last-level cache.
    NeighbourCore,
    /// Anywhere on that CPU's package.
    SamePackage,
}

/// Moves threads to interrupts.
///
/// The type only holds functions, like the paper's class.
#[derive(Debug)]
pub struct ThreadAffinity(());

/// The error of moving a thread.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ThreadAffinityError {
    /// The CPU that serves the interrupt is unknown.
    #[error(transparent)]
    Interrupt(#[from] InterruptError),
    /// The CPU that handles the socket's packets is unknown.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The socket has not received anything yet.
    #[error("no packet of the socket has been handled yet, so it is not known on which CPU they are")]
    NoPacketYet,
    /// This process may use no known CPU at that distance.
    #[error("no CPU that may be used is {nearness:?} to {served}")]
    NoCpuAtDistance {
        /// The wanted distance.
        nearness: Nearness,
        /// The CPUs that serve the interrupts.
        served: CpuSet,
    },
    /// The thread could not be bound.
    #[error(transparent)]
    Bind(#[from] BindError),
}

impl ThreadAffinity {
    /// Binds the calling thread to the CPUs that serve the interrupts, and reads the binding back.
    /// The guard gives the thread its former CPUs back.
    ///
    /// # Privileges
    /// None.
    ///
    /// # Errors
    /// [`ThreadAffinityError`]; the thread is then where it was.
    pub fn to(interrupt: &InterruptAffinity) -> Result<ThreadGuard, ThreadAffinityError> {
        Self::near(interrupt, Nearness::SameCpu)
    }

    /// Binds the calling thread to the CPUs at that distance from those that serve the interrupts.
    ///
    /// # Privileges
    /// None.
    ///
    /// # Errors
    /// [`ThreadAffinityError`]; the thread is then where it was.
    pub fn near(interrupt: &InterruptAffinity, nearness: Nearness) -> Result<ThreadGuard, ThreadAffinityError> {
        bind(interrupt.topology(), interrupt.served_on()?, nearness)
    }

    /// Binds the calling thread to the CPUs at that distance from the one that handles the packets
    /// of a socket (`SO_INCOMING_CPU`). Neither the binding nor the query takes privilege, so a
    /// thread can be beside interrupts that may not be moved.
    ///
    /// # Privileges
    /// None.
    ///
    /// # Errors
    /// [`ThreadAffinityError`]; the thread is then where it was.
    pub fn following(
        socket: &impl AsFd,
        topology: &Topology,
        nearness: Nearness,
    ) -> Result<ThreadGuard, ThreadAffinityError> {
        let cpu = socket::incoming_cpu(socket)?.ok_or(ThreadAffinityError::NoPacketYet)?;
        bind(topology, CpuSet::single(cpu), nearness)
    }
}

impl Nearness {
    /// The CPUs of the machine at that distance from all of `served`, whether or not this process
    /// may use them; empty if there are none, or if the model does not have the CPUs of `served`.
    pub fn cpus(self, topology: &Topology, served: &CpuSet) -> CpuSet {
        let of_all = |reach: &dyn Fn(rails_topo::CpuId) -> CpuSet| {
            served.iter().fold(CpuSet::new(), |near, cpu| near.union(&reach(cpu)))
        };
        let core = |cpu| topology.core_of_cpu(cpu).map_or(CpuSet::single(cpu), |core| core.cpus.clone());
        match self {
            Self::SameCpu => served.clone(),
            Self::SameCore => of_all(&core),
            Self::NeighbourCore => {
                let sharing = |cpu| topology.sharing_last_level_cache(cpu).cloned().unwrap_or_default();
                of_all(&sharing).difference(&of_all(&core))
            }
            Self::SamePackage => {
                of_all(&|cpu| topology.package_of_cpu(cpu).map(|package| package.cpus.clone()).unwrap_or_default())
            }
        }
    }
}

fn bind(topology: &Topology, served: CpuSet, nearness: Nearness) -> Result<ThreadGuard, ThreadAffinityError> {
    let near = nearness.cpus(topology, &served).intersection(topology.allowed_cpus());
    if near.is_empty() {
        return Err(ThreadAffinityError::NoCpuAtDistance { nearness, served });
    }
    Ok(thread::bind_current(&near)?)
}
