//! The bandwidth of rails, each by itself and all together.

use super::{Capacity, Expected, PlannedRail, plan_rails::Planner};
use rails_topo::{Bandwidth, JointBandwidth, Nic};

impl Planner<'_> {
    /// The bandwidth of a rail on that NIC alone.
    pub(super) fn capacity(&self, nic: Option<&Nic>) -> Capacity {
        let Some(nic) = nic else { return Capacity::default() };
        let JointBandwidth { bandwidth, narrow, .. } = self.locality.joint_bandwidth([nic]);
        let bound_by = match (narrow.last(), nic.speed, bandwidth) {
            (Some(link), ..) => format!("the PCI link of {}", link.function),
            (None, Some(_), _) => format!("the link of {}", nic.name),
            (None, None, _) => String::new(),
        };
        Capacity { bandwidth, bound_by }
    }

    /// The bandwidth of all rails at once; `None` if it is unknown, or no rail is on a NIC.
    pub(super) fn expected(&self) -> Option<Expected> {
        let on_nics = || self.rails.iter().filter_map(|rail| Some((rail, self.nic_of(rail)?)));
        let alone: Option<Vec<u64>> =
            on_nics().map(|(rail, _)| rail.capacity.bandwidth.map(Bandwidth::as_bits_per_second)).collect();
        let alone = alone.filter(|alone| !alone.is_empty())?;
        let joint = self.locality.joint_bandwidth(on_nics().map(|(_, nic)| nic));
        let (together, sum) = (joint.bandwidth?, alone.iter().sum::<u64>());
        let mut bound_by: Vec<String> = Vec::new();
        for link in &joint.narrow {
            let offered = link.offered.map(|offered| format!(" of {offered}")).unwrap_or_default();
            bound_by.push(format!("the PCI link of {} carries {}{offered}", link.function, link.bandwidth));
        }
        let mut names: Vec<&str> = on_nics().map(|(_, nic)| nic.name.as_str()).collect();
        names.sort_unstable();
        for name in names.chunk_by(|a, b| a == b).filter(|group| group.len() > 1).map(|group| group[0]) {
            bound_by.push(format!("rails share {name}"));
        }
        Some(Expected {
            rails: alone.len(),
            each: Bandwidth::bits_per_second(sum / alone.len() as u64),
            together,
            delta: if sum == 0 { 1.0 } else { (1e3 * together.as_bits_per_second() as f64 / sum as f64).round() / 1e3 },
            bound_by,
        })
    }

    fn nic_of(&self, rail: &PlannedRail) -> Option<&Nic> {
        rail.interface.as_deref().and_then(|name| self.topology.nic(name))
    }
}
