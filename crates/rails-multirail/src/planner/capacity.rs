//! The bandwidth of rails: of each by itself, and of all together.

use super::{Capacity, Expected, PlannedRail, devices::carriers};
use rails_topo::{Bandwidth, Locality, Nic};

/// The bandwidth of a rail on that NIC alone.
pub(super) fn capacity(locality: &Locality<'_>, nic: &Nic) -> Capacity {
    let devices = carriers(locality.topology(), nic);
    let joint = locality.joint_bandwidth(devices.iter().copied());
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
pub(super) fn expected(locality: &Locality<'_>, rails: &[PlannedRail]) -> Option<Expected> {
    let topology = locality.topology();
    let nic = |rail: &PlannedRail| topology.nic(rail.interface.as_deref()?);
    let on_nics = || rails.iter().filter_map(|rail| Some((rail, nic(rail)?)));
    let alone: Option<Vec<u128>> =
        on_nics().map(|(rail, _)| Some(rail.capacity.bandwidth?.as_bits_per_second().into())).collect();
    let alone = alone.filter(|alone| !alone.is_empty())?;
    let mut devices: Vec<&Nic> = on_nics().flat_map(|(_, nic)| carriers(topology, nic)).collect();
    let joint = locality.joint_bandwidth(devices.iter().copied());
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
