//! A NIC's interrupts moved to the processor that it is attached to (RTK paper, Table III).

use super::{ObservedInterrupt, interrupt_verdict::LocalCpus};
use crate::{
    interrupt::{
        self, Distribution, DistributionError, InterruptError, Vectors,
        irqbalance::{self, BalancerPlan},
    },
    settings::{ApplyError, Change, Host, Journal, JournalError, Refusals, SettingsGuard},
    socket::{self, SocketError},
};
use rails_topo::{CpuSet, DetectError, Nic, Topology};
use std::os::fd::AsFd;

/// The interrupts of a NIC, placed on the processor that it is attached to.
///
/// Dropping this puts the moved interrupts back. Interrupts that may not be moved stay, and
/// [`ThreadAffinity::to`](super::ThreadAffinity::to), which takes no privilege, binds a thread to
/// them.
#[derive(Debug)]
#[must_use = "dropping it puts the interrupts back at once"]
pub struct InterruptAffinity {
    host: Host,
    topology: Topology,
    nic: Nic,
    attached: CpuSet,
    outcome: InterruptOutcome,
}

/// The outcome for the interrupts.
#[derive(Debug)]
#[non_exhaustive]
pub enum InterruptOutcome {
    /// All interrupts were in place; nothing was changed.
    InPlace,
    /// The other interrupts have been moved, or refused, one by one ([`SettingsGuard::changes`]);
    /// each moves when it next fires.
    Moved(SettingsGuard),
    /// No interrupt could be moved, and each is where it was.
    Refused(ApplyError),
    /// irqbalance runs, accepts no bans, and would move the interrupts back; each is where it was.
    LeftToBalancer(BalancerPlan),
}

/// The error of placing interrupts.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InterruptAffinityError {
    /// The socket's NIC is unknown.
    #[error("the socket's NIC is not known")]
    Socket(#[from] SocketError),
    /// The machine could not be read.
    #[error("the machine cannot be read")]
    Topology(#[from] DetectError),
    /// The NIC's interrupts cannot be placed on any machine.
    #[error(transparent)]
    Distribution(#[from] DistributionError),
    /// The processor that the NIC is attached to is unknown.
    #[error("{reason}")]
    UnknownProcessor {
        /// The missing evidence.
        reason: String,
    },
    /// An interrupt could not be read.
    #[error(transparent)]
    Interrupt(#[from] InterruptError),
}

impl InterruptAffinity {
    /// Finds the NIC that a connected socket sends through, by route, and places its interrupts on
    /// the processor that it is attached to.
    ///
    /// This reads the machine ([`Topology::detect`]) and uses its [`Journal::standard`];
    /// [`of_nic`](Self::of_nic) takes both.
    ///
    /// # Privileges
    /// Moving an interrupt takes write permission to its file: user 0 or `CAP_DAC_OVERRIDE`.
    /// Without it the outcome is [`InterruptOutcome::Refused`].
    ///
    /// # Errors
    /// [`InterruptAffinityError`]; a NIC that raises no interrupts is
    /// [`DistributionError::NoInterrupts`].
    ///
    /// # Examples
    /// ```no_run
    /// use rails_bind::affinity::{InterruptAffinity, ThreadAffinity};
    ///
    /// let socket = std::net::TcpStream::connect("10.0.1.2:7575")?;
    /// let interrupt = InterruptAffinity::of_socket(&socket)?;
    /// let thread = ThreadAffinity::to(&interrupt)?;
    /// println!("the thread runs on {}, where the interrupts are served", thread.outcome().got());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn of_socket(socket: &impl AsFd) -> Result<Self, InterruptAffinityError> {
        let topology = Topology::detect()?;
        let nic = socket::nic_of(socket, &topology)?.clone();
        Self::place(&Host::this(), &topology, nic, Journal::standard)
    }

    /// Places the interrupts of a NIC.
    ///
    /// # Errors
    /// As [`of_socket`](Self::of_socket).
    pub fn of_nic(
        host: &Host,
        topology: &Topology,
        journal: &Journal,
        nic: &Nic,
    ) -> Result<Self, InterruptAffinityError> {
        Self::place(host, topology, nic.clone(), || Ok(journal.clone()))
    }

    fn place(
        host: &Host,
        topology: &Topology,
        nic: Nic,
        journal: impl FnOnce() -> Result<Journal, JournalError>,
    ) -> Result<Self, InterruptAffinityError> {
        // A NIC without interrupts is an error before any other.
        let mut changes = interrupt::distribute(topology, &nic, Vectors::All, &Distribution::NearestCores)?;
        let local =
            LocalCpus::of(topology, &nic).map_err(|reason| InterruptAffinityError::UnknownProcessor { reason })?;
        let mut astray = Vec::new();
        for known in &nic.interrupts {
            // The CPUs of an interrupt that is about to move are the future ones.
            let served = served(host, known.number)?;
            if !served.is_subset(&local.cpus) {
                astray.push(known.number);
            }
        }
        changes.retain(|change| astray.iter().any(|number| change.is_of_interrupt(*number)));
        let outcome = match changes.is_empty() {
            true => InterruptOutcome::InPlace,
            false => moved(host, changes, journal),
        };
        Ok(Self { host: host.clone(), topology: topology.clone(), nic, attached: local.cpus, outcome })
    }

    /// The NIC.
    pub fn nic(&self) -> &Nic {
        &self.nic
    }

    /// The CPUs of the processor that the NIC is attached to.
    pub fn attached(&self) -> &CpuSet {
        &self.attached
    }

    /// The outcome for the NIC's interrupts.
    pub fn outcome(&self) -> &InterruptOutcome {
        &self.outcome
    }

    /// Reads the changes once more: a pending interrupt may have moved since.
    pub fn refresh(&mut self) -> &InterruptOutcome {
        if let InterruptOutcome::Moved(guard) = &mut self.outcome {
            guard.refresh();
        }
        &self.outcome
    }

    /// The CPUs that serve the NIC's queues, read anew; for an interrupt that has not fired since
    /// it was moved, those that will serve it.
    ///
    /// # Errors
    /// [`InterruptError`].
    pub fn served_on(&self) -> Result<CpuSet, InterruptError> {
        let has_queues = self.nic.interrupt_roles().any(|(_, role)| role.serves_queues());
        let mut on = CpuSet::new();
        for (known, role) in self.nic.interrupt_roles() {
            if has_queues && !role.serves_queues() {
                continue;
            }
            on = on.union(&served(&self.host, known.number)?);
        }
        Ok(on)
    }

    pub(super) fn topology(&self) -> &Topology {
        &self.topology
    }
}

fn moved(
    host: &Host,
    changes: Vec<Change>,
    journal: impl FnOnce() -> Result<Journal, JournalError>,
) -> InterruptOutcome {
    // If the process list hides whether irqbalance runs, the interrupts are moved, as without it.
    let (plan, changes) = irqbalance::heed(host.root(), changes.clone()).unwrap_or((BalancerPlan::None, changes));
    if changes.is_empty() {
        return InterruptOutcome::LeftToBalancer(plan);
    }
    let journal = journal().map_err(ApplyError::from);
    match journal.and_then(|journal| host.apply(&journal, &changes, Refusals::Report)) {
        // If all changes were refused, there is nothing to put back, and the first refusal stands
        // for all.
        Ok(mut guard) => match guard.take_refusal() {
            Some(error) => InterruptOutcome::Refused(error.into()),
            None => InterruptOutcome::Moved(guard),
        },
        Err(error) => InterruptOutcome::Refused(error),
    }
}

/// The CPUs that serve an interrupt, or will once it fires; those that may, if the kernel does not
/// state them.
fn served(host: &Host, interrupt: u32) -> Result<CpuSet, InterruptError> {
    let status = interrupt::read_under(host.root(), interrupt)?;
    let requested = status.requested.clone();
    Ok(ObservedInterrupt::uncounted(status).served_on().unwrap_or(requested))
}
