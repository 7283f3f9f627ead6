//! The reasons of a plan, in words.

use super::{
    DeviceKind, PlannedDevice, PlannedRail,
    cpus::{Candidate, FromInterrupt, Place, Sought},
    nics::NOT_SHOWN,
};
use rails_topo::{Nic, NicKind};
use std::net::IpAddr;

/// A lane on a NIC, and the devices that carry its packets.
pub(super) fn describe_lane(nic: Option<&Nic>, address: Option<IpAddr>, devices: &[&str]) -> String {
    let address = address.map(|address| format!(" from {address}")).unwrap_or_default();
    let Some(nic) = nic else {
        return format!("lane{address} by the interface of the route");
    };
    let speed = nic.speed.map_or("speed unknown".to_owned(), |speed| speed.to_string());
    let place = match (nic.kind, nic.pci, nic.node) {
        (NicKind::Loopback, ..) => "loopback: no device, no interrupt".to_owned(),
        (NicKind::Virtual, ..) if devices != [nic.name.as_str()] => {
            format!("made in software, over {}; {speed}", devices.join(" and "))
        }
        (NicKind::Virtual, ..) => format!("made in software: no device, no interrupt; {speed}"),
        (NicKind::Device, Some(pci), Some(node)) => format!("PCI {pci} on node {node}; {speed}"),
        (NicKind::Device, Some(pci), None) => format!("PCI {pci}, node unknown; {speed}"),
        (NicKind::Device, None, _) => format!("a device without a PCI address; {speed}"),
        (NicKind::Unknown, ..) => format!("{NOT_SHOWN}; {speed}"),
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

pub(super) fn describe_cpu(best: &Candidate, usable: usize, sought: &Sought<'_>) -> String {
    let serving = &sought.serving;
    let mut because = describe_places(best, &sought.near);
    match best.from_interrupt {
        FromInterrupt::Serves => because.push(format!("serves its interrupts (on CPUs {serving})")),
        FromInterrupt::Sibling => {
            because.push(format!("a hardware thread beside CPUs {serving}, which serve its interrupts"));
        }
        FromInterrupt::SharesCache => {
            because.push(format!("shares a cache with CPUs {serving}, which serve its interrupts"));
        }
        FromInterrupt::SamePackage | FromInterrupt::Apart if !best.is_cache_known => {
            because.push(format!("not known to share a cache with CPUs {serving}, which serve its interrupts"));
        }
        FromInterrupt::SamePackage | FromInterrupt::Apart => {
            because.push(format!("shares no cache with CPUs {serving}, which serve its interrupts"));
        }
        FromInterrupt::Unknown if sought.near.iter().any(|place| sought.nics.contains(&place.device.as_str())) => {
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

/// The devices that the CPU is near, and those that it is far from.
fn describe_places(best: &Candidate, places: &[Place]) -> Vec<String> {
    let told = |place: &&Place| Some(format!("{} (CPUs {})", place.device, place.cpus.as_ref()?));
    let is_near = |place: &&Place| place.cpus.as_ref().is_some_and(|cpus| cpus.contains(best.cpu));
    let near: Vec<String> = places.iter().filter(is_near).filter_map(|place| told(&place)).collect();
    let far: Vec<String> = places.iter().filter(|place| !is_near(place)).filter_map(|place| told(&place)).collect();
    let unknown = places.iter().filter(|place| place.cpus.is_none());
    let unknown = unknown.map(|place| format!("which CPUs are near {} is not known", place.device));
    let known = match (near.is_empty(), far.is_empty()) {
        (true, true) => None,
        (false, true) => Some(format!("near {}", near.join(" and "))),
        (false, false) => Some(format!("near {}, far from {}", near.join(" and "), far.join(" and "))),
        (true, false) => Some(format!("far from {}, as all of these are", far.join(" and "))),
    };
    known.into_iter().chain(unknown).collect()
}

/// The CPUs for tasks of a rail that has some.
pub(super) fn describe_tasks(rail: &PlannedRail) -> String {
    let tasks = &rail.task_cpus;
    if rail.bound_cpu().is_none() {
        return format!("{} for tasks, bound to nothing", plural(tasks.len(), "thread"));
    }
    let elsewhere = rail.binding.cpus().map(|asked| tasks.difference(asked)).filter(|cpus| !cpus.is_empty());
    let elsewhere = elsewhere.map(|cpus| format!("; {cpus} not among the CPUs that were asked for"));
    format!("CPUs {tasks} for tasks, each on a further core{}", elsewhere.unwrap_or_default())
}

pub(super) fn plural(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}
