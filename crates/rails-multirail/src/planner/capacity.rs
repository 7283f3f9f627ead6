//! The bandwidth of rails, each by itself and all together.

use super::{Capacity, Expected, PlannedRail, plan_rails::Planner};
use rails_topo::{Bandwidth, Nic};

impl<'a> Planner<'a> {
    /// The bandwidth of a rail on that NIC alone.
    pub(super) fn capacity(&self, nic: Option<&Nic>) -> Capacity {
        let Some(nic) = nic else { return Capacity::default() };
        let devices = self.devices_of(nic);
        let joint = self.locality.joint_bandwidth(devices.iter().copied());
        let bandwidth = nic.speed.into_iter().chain(joint.bandwidth).min();
        let bound_by = match joint.narrow.last() {
            _ if bandwidth.is_none() => String::new(),
            _ if bandwidth == nic.speed => format!("the link of {}", nic.name),
            Some(link) => format!("the PCI link of {}", link.function),
            None => {
                let names: Vec<&str> = devices.iter().map(|device| device.name.as_str()).collect();
                format!("the wire of {}", names.join(", "))
            }
        };
        Capacity { bandwidth, bound_by }
    }

    /// The bandwidth of all rails at once; `None` if it is unknown, or no rail is on a NIC.
    pub(super) fn expected(&self) -> Option<Expected> {
        let on_nics = || self.rails.iter().filter_map(|rail| Some((rail, self.nic_of(rail)?)));
        let alone: Option<Vec<u128>> =
            on_nics().map(|(rail, _)| Some(rail.capacity.bandwidth?.as_bits_per_second().into())).collect();
        let alone = alone.filter(|alone| !alone.is_empty())?;
        let mut devices: Vec<&Nic> = on_nics().flat_map(|(_, nic)| self.devices_of(nic)).collect();
        let joint = self.locality.joint_bandwidth(devices.iter().copied());
        let sum = alone.iter().sum::<u128>();
        let together = u128::from(joint.bandwidth?.as_bits_per_second()).min(sum);
        let mut bound_by: Vec<String> = Vec::new();
        for link in &joint.narrow {
            let offered = link.offered.map(|offered| format!(" of {offered}")).unwrap_or_default();
            bound_by.push(format!("the PCI link of {} carries {}{offered}", link.function, link.bandwidth));
        }
        devices.sort_unstable_by_key(|device| &device.name);
        for group in devices.chunk_by(|a, b| a.name == b.name).filter(|group| group.len() > 1) {
            bound_by.push(format!("rails share {}", group[0].name));
        }
        Some(Expected {
            rails: alone.len(),
            // Neither is more than the largest capacity or than the joint one.
            each: Bandwidth::bits_per_second((sum / alone.len() as u128) as u64),
            together: Bandwidth::bits_per_second(together as u64),
            delta: if sum == 0 { 1.0 } else { (1e3 * together as f64 / sum as f64).round() / 1e3 },
            bound_by,
        })
    }

    /// The devices that carry the packets of a NIC: those under a virtual one as far as all are known, and else itself.
    pub(super) fn devices_of<'n>(&self, nic: &'n Nic) -> Vec<&'n Nic>
    where
        'a: 'n,
    {
        let lanes = self.topology.lanes_of(nic);
        if lanes.devices.is_empty() || !lanes.missing.is_empty() { vec![nic] } else { lanes.devices }
    }

    fn nic_of(&self, rail: &PlannedRail) -> Option<&'a Nic> {
        rail.interface.as_deref().and_then(|name| self.topology.nic(name))
    }
}
