//! The last stage: a plan with its reasons, in words.

use super::{
    Capacity, DeviceKind, LocalEnd, PlannedDevice, PlannedRail,
    addresses::Lane,
    capacity::capacity,
    cpus::{Candidate, CpuQuery, DevicePlace, FromInterrupt},
    exclusive::NicShare,
    lanes::{MemoryChoice, PlacedLane},
    problem::Problem,
    rail_plan::{exclusive_resources, plural},
    resolve::ResolvedRail,
    tasks::PlacedRail,
};
use rails_bind::claims::Resources;
use rails_topo::{CpuId, CpuSet, InterfaceAddress, NicKind, Topology};

/// The plan of a rail that has its places, its addresses and its share of an exclusive NIC.
pub(super) fn explain(
    problem: &Problem<'_>,
    placed: PlacedRail<'_>,
    addresses: Vec<InterfaceAddress>,
    share: Option<NicShare>,
) -> PlannedRail {
    let capacity = placed.lane.rail.nic().map(|nic| capacity(problem.locality(), nic)).unwrap_or_default();
    let mut reasons = reasons(problem.topology(), &placed, &capacity);
    let task_cpus = placed.task_cpus();
    let PlacedRail { lane: PlacedLane { rail, chosen, sought, memory, rejected, .. }, cores, .. } = placed;
    let nic = rail.nic();
    let (exclusive_cpus, interrupts, queues) = match share {
        None => Default::default(),
        Some(share) => {
            let (interrupts, queues) = share.own.unwrap_or_default();
            let interface = nic.map(|nic| nic.name.as_str());
            let own: Resources = exclusive_resources(interface, &cores, &interrupts, &queues).collect();
            reasons.extend(share.reason);
            reasons.push(describe_own(&own));
            (cores, interrupts, queues)
        }
    };
    let rejected_cpus = rejected.into_iter().filter_map(|told| told.without(&task_cpus)).collect();
    let (address, end) = rail.lane.map(|lane| (lane.address, lane.end)).unzip();
    PlannedRail {
        id: rail.id,
        interface: nic.map(|nic| nic.name.clone()),
        address: address.flatten(),
        end,
        addresses,
        speed: nic.and_then(|nic| nic.speed),
        devices: rail.devices,
        binding: rail.binding,
        cpu: chosen.cpu,
        task_cpus,
        exclusive_cpus,
        exclusive_interrupts: interrupts,
        exclusive_queues: queues,
        interrupt_cpus: sought.serving,
        node: memory.node(),
        capacity,
        reasons,
        rejected_cpus,
    }
}

/// The plan of an exclusive rail that stays as it is, with its share of the NIC.
pub(super) fn explain_kept(kept: &PlannedRail, share: NicShare) -> PlannedRail {
    let (exclusive_interrupts, exclusive_queues) =
        share.own.unwrap_or_else(|| (kept.exclusive_interrupts.clone(), kept.exclusive_queues.clone()));
    let rail = PlannedRail { exclusive_interrupts, exclusive_queues, ..kept.clone() };
    let own: Resources = rail.exclusive_resources().collect();
    let reasons = rail.reasons.iter().cloned().chain(share.reason).chain([describe_own(&own)]).collect();
    PlannedRail { reasons, ..rail }
}

/// The reasons for the places of a rail, one line each.
fn reasons(topology: &Topology, placed: &PlacedRail<'_>, capacity: &Capacity) -> Vec<String> {
    let PlacedLane { rail, chosen, sought, usable, asked, memory, .. } = &placed.lane;
    let mut reasons = describe_parts(rail);
    if let (Some(wanted), Some(asked)) = (rail.binding.cpus(), asked) {
        reasons.push(format!("CPUs {wanted} were asked for, of which {asked} may be used"));
    }
    let cpu = describe_cpu(chosen, *usable, sought);
    if rail.binding.is_bound() {
        reasons.push(cpu);
    } else {
        reasons.push("nothing is bound: the scheduler places the thread and its memory".to_owned());
        reasons.push(format!("a bound rail would have {cpu}"));
    }
    reasons.extend(describe_memory(topology, *memory, chosen.cpu));
    let speed = rail.nic().and_then(|nic| nic.speed);
    if let Some(bandwidth) = capacity.bandwidth.filter(|bandwidth| speed.is_none_or(|speed| *bandwidth < speed)) {
        reasons.push(format!("carries {bandwidth}, bound by {}", capacity.bound_by));
    }
    if !placed.tasks.is_empty() {
        reasons.push(describe_tasks(rail, &placed.task_cpus()));
    }
    reasons
}

/// The lane, the GPUs and the disks of a rail.
fn describe_parts(rail: &ResolvedRail<'_>) -> Vec<String> {
    let carriers: Vec<&str> = rail.carriers.iter().map(|nic| nic.name.as_str()).collect();
    let lane = match &rail.lane {
        Some(lane) => {
            let is_routed = lane.nic.is_some() && lane.end == LocalEnd::Any;
            let routed = if is_routed { ", or another address as the routes lead" } else { "" };
            Some(describe_lane(lane, &carriers) + routed)
        }
        None => rail.devices.is_empty().then(|| "cores alone, no lane".to_owned()),
    };
    lane.into_iter().chain(describe_devices(&rail.devices)).collect()
}

/// A lane on a NIC, and the devices that carry its packets.
fn describe_lane(Lane { nic, address, .. }: &Lane<'_>, devices: &[&str]) -> String {
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
        (NicKind::Unknown, ..) => format!("/sys does not show it; {speed}"),
    };
    format!("lane {}{address} ({place})", nic.name)
}

/// The GPUs and disks of a rail, one line each.
fn describe_devices(devices: &[PlannedDevice]) -> impl Iterator<Item = String> {
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

/// The chosen CPU, and the reasons for it.
fn describe_cpu(best: &Candidate, usable: usize, sought: &CpuQuery<'_>) -> String {
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
fn describe_places(best: &Candidate, places: &[DevicePlace]) -> Vec<String> {
    let told = |place: &&DevicePlace| Some(format!("{} (CPUs {})", place.device, place.cpus.as_ref()?));
    let is_near = |place: &&DevicePlace| place.cpus.as_ref().is_some_and(|cpus| cpus.contains(best.cpu));
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

/// The node of a rail's memory, if anything is bound.
fn describe_memory(topology: &Topology, memory: MemoryChoice, cpu: CpuId) -> Option<String> {
    Some(match memory {
        MemoryChoice::Unbound => return None,
        MemoryChoice::Asked(node) => format!("memory from node {node}, as was asked for"),
        MemoryChoice::Unwanted => "memory from anywhere, as was asked for".to_owned(),
        MemoryChoice::Nearest(Some(node)) => format!("memory from node {node}: the nearest to CPU {cpu}"),
        MemoryChoice::Nearest(None) if topology.nodes().is_empty() => {
            "memory from anywhere: the machine shows no NUMA nodes".to_owned()
        }
        MemoryChoice::Nearest(None) => {
            format!("memory from anywhere: which node is the nearest to CPU {cpu} is not known")
        }
    })
}

/// The CPUs for tasks of a rail that has some.
fn describe_tasks(rail: &ResolvedRail<'_>, tasks: &CpuSet) -> String {
    if !rail.binding.is_bound() {
        return format!("{} for tasks, bound to nothing", plural(tasks.len(), "thread"));
    }
    let elsewhere = rail.binding.cpus().map(|asked| tasks.difference(asked)).filter(|cpus| !cpus.is_empty());
    let elsewhere = elsewhere.map(|cpus| format!("; {cpus} not among the CPUs that were asked for"));
    format!("CPUs {tasks} for tasks, each on a further core{}", elsewhere.unwrap_or_default())
}

fn describe_own(own: &Resources) -> String {
    format!("has to itself: {own}")
}
