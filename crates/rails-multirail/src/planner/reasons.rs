//! The reasons of a plan, in words.

use super::plan_rails::{Candidate, FromInterrupt};
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

pub(super) fn describe_cpu(
    best: &Candidate,
    usable: usize,
    nic: Option<&Nic>,
    near: Option<&CpuSet>,
    serving: &CpuSet,
) -> String {
    let name = nic.map_or("the lane", |nic| nic.name.as_str());
    let mut because = vec![match near {
        Some(near) if !best.far => format!("near {name} (CPUs {near})"),
        Some(near) => format!("far from {name}: none of its CPUs {near} is among the usable ones"),
        None => format!("which CPUs are near {name} is not known"),
    }];
    match best.from_interrupt {
        FromInterrupt::Serves => because.push(format!("serves its interrupts (on CPUs {serving})")),
        FromInterrupt::SharesCache => {
            because.push(format!("shares a cache with CPUs {serving}, which serve its interrupts"));
        }
        FromInterrupt::Apart => {
            because.push(format!("shares no cache with CPUs {serving}, which serve its interrupts"))
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
    format!("CPU {} of {usable} usable: {}", best.cpu, because.join("; "))
}

pub(super) fn plural(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}
