//! The interrupts and the receive queues of exclusive rails.

use super::{PlannedRail, plan_rails::Planner, rail_plan::queues_of};
use rails_bind::claims::{Number, Numbers, Resource, Resources};
use rails_topo::{Nic, NicKind, Topology};

/// Gives each rail the interrupts and the receive queues of its NIC, and lists all that it has to itself. If several
/// rails are on one NIC, its interrupts and queues are the first one's, for all of them: the rails of a plan belong to
/// one process.
pub(super) fn add_interrupts_and_queues(topology: &Topology, rails: &mut [PlannedRail]) {
    let mut given = Numbers::new();
    for index in 0..rails.len() {
        let (earlier, rest) = rails.split_at_mut(index);
        let rail = &mut rest[0];
        if let Some(nic) = device(topology, rail) {
            match earlier.iter().find(|other| other.interface == rail.interface) {
                Some(first) => rail.reasons.push(format!(
                    "the interrupts and receive queues of {} are rail {}'s, which is on it too",
                    nic.name, first.id
                )),
                None => {
                    let interrupts: Numbers = nic.interrupts.iter().map(|irq| Number(irq.number)).collect();
                    if interrupts.is_empty() {
                        rail.reasons.push(format!("no interrupt of {} is known, so it has none to itself", nic.name));
                    }
                    // Two ports of a card may have the same ones.
                    rail.exclusive_interrupts = interrupts.difference(&given);
                    rail.exclusive_queues = nic.rx_queues.iter().map(|queue| Number(queue.index)).collect();
                    given = given.union(&interrupts);
                }
            }
        }
        let own: Resources = rail.exclusive_resources().collect();
        rail.reasons.push(format!("has to itself: {own}"));
    }
}

impl Planner<'_> {
    /// Why exclusive rails cannot have the NIC to themselves; `None` if they can, or need not.
    pub(super) fn why_claimed(&self, nic: &Nic) -> Option<String> {
        if !self.request.exclusive || nic.kind != NicKind::Device {
            return None;
        }
        let claimed = &self.request.claimed;
        let interrupts = nic.interrupts.iter().map(|irq| Resource::Interrupt(irq.number));
        let queues = queues_of(&nic.name, nic.rx_queues.iter().map(|queue| queue.index));
        let taken: Resources = interrupts.chain(queues).filter(|resource| claimed.contains(resource)).collect();
        (!taken.is_empty()).then(|| format!("another owner has claimed {taken}"))
    }
}

/// The NIC of a rail. An interface without a device is none: its queues are the kernel's, and nobody's interrupts serve
/// them.
fn device<'t>(topology: &'t Topology, rail: &PlannedRail) -> Option<&'t Nic> {
    let nic = topology.nic(rail.interface.as_deref()?)?;
    (nic.kind == NicKind::Device).then_some(nic)
}
