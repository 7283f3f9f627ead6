//! The interrupts and the receive queues of exclusive rails.

use super::{addresses::UsedLane, problem::Problem, rail_plan::queues_of};
use crate::RailId;
use rails_bind::claims::{Number, Numbers, Resource, Resources};
use rails_topo::{Nic, NicKind, Topology};

/// The share of one exclusive rail in its NIC.
#[derive(Default)]
pub(super) struct NicShare {
    /// The interrupts and the receive queues; `None` if the NIC has none for the rail.
    pub(super) own: Option<(Numbers, Numbers)>,
    /// The reason of a share that lacks some.
    pub(super) reason: Option<String>,
}

/// Divides the interrupts and the receive queues of NICs among exclusive rails with these lanes;
/// other rails have no shares. If several rails are on one NIC, its interrupts and queues are the
/// first one's, for all of them: the rails of a plan belong to one process.
pub(super) fn divide_nics(problem: &Problem<'_>, lanes: &[UsedLane<'_>]) -> Vec<Option<NicShare>> {
    if !problem.request().exclusive {
        return lanes.iter().map(|_| None).collect();
    }
    let mut given = Numbers::new();
    let share = |(index, lane): (usize, &UsedLane<'_>)| {
        let Some(nic) = device(problem.topology(), lane.interface()) else { return NicShare::default() };
        if let Some(first) = lanes[..index].iter().position(|other| other.is_on(nic)) {
            let (name, first) = (&nic.name, RailId(first));
            let reason = format!("the interrupts and receive queues of {name} are rail {first}'s, which is on it too");
            return NicShare { own: None, reason: Some(reason) };
        }
        let interrupts: Numbers = nic.interrupts.iter().map(|irq| Number(irq.number)).collect();
        let unknown = || format!("no interrupt of {} is known, so it has none to itself", nic.name);
        let reason = interrupts.is_empty().then(unknown);
        // Two ports of a card may have the same interrupts.
        let own = interrupts.difference(&given);
        given = given.union(&interrupts);
        NicShare { own: Some((own, nic.rx_queues.iter().map(|queue| Number(queue.index)).collect())), reason }
    };
    lanes.iter().enumerate().map(share).map(Some).collect()
}

/// Why exclusive rails cannot have the NIC to themselves; `None` if they can, or need not.
pub(super) fn why_claimed(problem: &Problem<'_>, nic: &Nic) -> Option<String> {
    if !problem.request().exclusive || nic.kind != NicKind::Device {
        return None;
    }
    let claimed = &problem.request().claimed;
    let interrupts = nic.interrupts.iter().map(|irq| Resource::Interrupt(irq.number));
    let queues = queues_of(&nic.name, nic.rx_queues.iter().map(|queue| queue.index));
    let taken: Resources = interrupts.chain(queues).filter(|resource| claimed.contains(resource)).collect();
    (!taken.is_empty()).then(|| format!("another owner has claimed {taken}"))
}

/// The NIC of that interface. An interface without a device is none: its queues are the kernel's,
/// and no interrupt serves them.
fn device<'t>(topology: &'t Topology, interface: Option<&str>) -> Option<&'t Nic> {
    topology.nic(interface?).filter(|nic| nic.kind == NicKind::Device)
}
