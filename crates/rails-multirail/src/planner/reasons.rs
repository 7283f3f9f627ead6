//! The reasons of a plan, in words.

use super::{
    DeviceKind, PlannedDevice,
    cpus::{Candidate, FromInterrupt, Sought},
};
use rails_topo::{CpuSet, Nic, NicKind};
use std::net::IpAddr;

pub(super) fn describe_lane(nic: Option<&Nic>, address: Option<IpAddr>) -> String {
    let address = address.map(|address| format!(" from {address}")).unwrap_or_default();
    let Some(nic) = nic else {
        return format!("lane{address} by the interface of the route");
    };
    let speed = nic.speed.map_or("speed unknown".to_owned(), |speed| speed.to_string());
    let place = match (nic.kind, nic.pci, nic.node) {
        (NicKind::Loopback, ..) => "loopback: no device, no interrupt".to_owned(),
        (NicKind::Virtual, ..) => format!("made in software: no device, no interrupt; {speed}"),
        (NicKind::Device, Some(pci), Some(node)) => format!("PCI {pci} on node {node}; {speed}"),
        (NicKind::Device, Some(pci), None) => format!("PCI {pci}, node unknown; {speed}"),
        (NicKind::Device, None, _) => format!("a device without a PCI address; {speed}"),
    };
    format!("lane {}{address} ({place})", nic.name)
}

/// The GPUs and disks of a rail, one line each.
pub(super) fn describe_devices(devices: &[PlannedDevice]) -> impl Iterator<Item = String> {
    devices.iter().map(|PlannedDevice { kind, name, pci, node }| {
        let kind = match kind {
            DeviceKind::Gpu => "GPU",
            DeviceKind::Storage => "disk",
        };
        let pci = pci.map_or("PCI function unknown".to_owned(), |pci| format!("PCI {pci}"));
        let node = node.map_or("node unknown".to_owned(), |node| format!("on node {node}"));
        format!("{kind} {name} ({pci}, {node})")
    })
}

pub(super) fn describe_cpu(best: &Candidate, usable: usize, nic: Option<&Nic>, sought: &Sought<'_>) -> String {
    let name = nic.map_or("the rail's devices", |nic| nic.name.as_str());
    let serving = &sought.serving;
    let near = sought.near.iter().map(CpuSet::to_string).collect::<Vec<_>>().join(" and ");
    let mut because = vec![match (sought.near.is_empty(), best.far) {
        (true, _) => format!("which CPUs are near {name} is not known"),
        (false, 0) => format!("near {name} (CPUs {near})"),
        (false, far) if far < sought.near.len() => {
            format!("near {} of its {} devices (CPUs {near})", sought.near.len() - far, sought.near.len())
        }
        (false, _) => format!("far from {name}: none of its CPUs {near} is among the usable ones"),
    }];
    match best.from_interrupt {
        FromInterrupt::Serves => because.push(format!("serves its interrupts (on CPUs {serving})")),
        FromInterrupt::Sibling => {
            because.push(format!("a hardware thread beside CPUs {serving}, which serve its interrupts"));
        }
        FromInterrupt::SharesCache => {
            because.push(format!("shares a cache with CPUs {serving}, which serve its interrupts"));
        }
        FromInterrupt::SamePackage | FromInterrupt::Apart => {
            because.push(format!("shares no cache with CPUs {serving}, which serve its interrupts"));
        }
        FromInterrupt::Unknown if nic.is_some_and(|nic| nic.kind == NicKind::Device) => {
            because.push("which CPU serves its interrupts is not known".to_owned());
        }
        // Without a device there are none, and the lane's own line says so.
        FromInterrupt::Unknown => {}
    }
    because.push(match (best.rails_on_cpu, best.rails_on_core) {
        (0, 0) => "no other rail on its core".to_owned(),
        (0, others) => format!("{} on its core, on another CPU", plural(others, "other rail")),
        (others, _) => format!("{} on it already", plural(others, "other rail")),
    });
    if best.other_nics > 0 {
        because.push(format!("its core serves interrupts of {} too", plural(best.other_nics, "other NIC")));
    }
    format!("CPU {} of {usable} usable: {}", best.cpu, because.join("; "))
}

pub(super) fn plural(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}
