//! The devices of rails: found by name, with the CPUs beside them.

use super::{
    DeviceKind, PlanError, PlannedDevice,
    cpus::{DevicePlace, serving_cpus},
};
use rails_topo::{BlockDevice, CpuSet, Gpu, Locality, Nic, NicKind, Topology};

/// A part of a rail that a name stands for.
pub(super) enum NamedPart<'a> {
    Nic(&'a Nic),
    Gpu(&'a Gpu),
    Disk(&'a BlockDevice),
}

/// The NIC, GPU or disk of that name. A NIC comes first, as the name of an interface is the more
/// usual one.
pub(super) fn named<'a>(topology: &'a Topology, name: &str) -> Result<NamedPart<'a>, PlanError> {
    let numbered = || name.strip_prefix("gpu").and_then(|digits| topology.gpus().get(digits.parse::<usize>().ok()?));
    let gpu = || topology.gpus().iter().find(|gpu| gpu.name == name).or_else(numbered);
    // A namespace of an NVMe controller: `nvme0` is `nvme0n1`.
    let of_controller = |disk: &&BlockDevice| {
        name.starts_with("nvme") && disk.name.strip_prefix(name).is_some_and(|rest| rest.starts_with('n'))
    };
    let disks = || topology.block_devices().iter();
    let disk = || disks().find(|disk| disk.name == name).or_else(|| disks().find(of_controller));
    let nic = topology.nic(name).map(NamedPart::Nic);
    nic.or_else(|| gpu().map(NamedPart::Gpu)).or_else(|| disk().map(NamedPart::Disk)).ok_or_else(|| {
        let nics = topology.nics().iter().map(|nic| nic.name.clone());
        let gpus = topology.gpus().iter().map(|gpu| gpu.name.clone());
        let disks = disks().map(|disk| disk.name.clone());
        PlanError::NoSuchDevice { name: name.to_owned(), known: nics.chain(gpus).chain(disks).collect() }
    })
}

/// The devices that carry the packets of a NIC: those under a virtual one as far as all are known,
/// and else itself.
pub(super) fn carriers<'a>(topology: &'a Topology, nic: &'a Nic) -> Vec<&'a Nic> {
    let lanes = topology.lanes_of(nic);
    if lanes.devices.is_empty() || !lanes.missing.is_empty() { vec![nic] } else { lanes.devices }
}

/// The places of the NICs that carry a rail's packets, and of its GPUs and disks. An interface
/// without a device has none.
pub(super) fn places(locality: &Locality<'_>, carriers: &[&Nic], devices: &[PlannedDevice]) -> Vec<DevicePlace> {
    let is_somewhere = |nic: &&&Nic| nic.kind == NicKind::Device || nic.node.is_some() || nic.local_cpus.is_some();
    let place = |name: &str, cpus| DevicePlace { device: name.to_owned(), cpus };
    let nics = carriers.iter().filter(is_somewhere).map(|nic| place(&nic.name, locality.cpus_beside(*nic)));
    let topology = locality.topology();
    let other = |device: &PlannedDevice| {
        let gpu = || topology.gpus().iter().find(|gpu| gpu.name == device.name);
        let disk = || topology.block_devices().iter().find(|disk| disk.name == device.name);
        let cpus = match device.kind {
            DeviceKind::Gpu => gpu().and_then(|gpu| locality.cpus_beside(gpu)),
            DeviceKind::Storage => disk().and_then(|disk| locality.cpus_beside(disk)),
        };
        place(&device.name, cpus)
    };
    nics.chain(devices.iter().map(other)).collect()
}

/// The CPUs that serve the interrupts of these NICs, as far as they are known.
pub(super) fn serving(carriers: &[&Nic]) -> CpuSet {
    carriers.iter().fold(CpuSet::new(), |all, nic| all.union(&serving_cpus(nic)))
}

impl From<&Gpu> for PlannedDevice {
    fn from(gpu: &Gpu) -> Self {
        Self { kind: DeviceKind::Gpu, name: gpu.name.clone(), pci: gpu.pci, node: gpu.node }
    }
}

impl From<&BlockDevice> for PlannedDevice {
    fn from(disk: &BlockDevice) -> Self {
        Self { kind: DeviceKind::Storage, name: disk.name.clone(), pci: disk.pci, node: disk.node }
    }
}
