//! The GPUs and disks of planned rails.

use super::{
    DeviceKind, PlanError, PlannedDevice,
    cpus::{Place, serving_cpus},
    plan_rails::Planner,
};
use rails_topo::{BlockDevice, CpuSet, Gpu, Nic, NicKind};

/// A part of a rail that a name stands for.
pub(super) enum Named<'a> {
    Nic(&'a Nic),
    Gpu(&'a Gpu),
    Disk(&'a BlockDevice),
}

impl<'a> Planner<'a> {
    /// The NIC, GPU or disk of that name. A NIC comes first, as the name of an interface is the more usual one.
    pub(super) fn named(&self, name: &str) -> Result<Named<'a>, PlanError> {
        let topology = self.topology;
        let numbered =
            || name.strip_prefix("gpu").and_then(|digits| topology.gpus().get(digits.parse::<usize>().ok()?));
        let gpu = || topology.gpus().iter().find(|gpu| gpu.name == name).or_else(numbered);
        // A namespace of an NVMe controller: `nvme0` is `nvme0n1`.
        let of_controller = |disk: &&BlockDevice| {
            name.starts_with("nvme") && disk.name.strip_prefix(name).is_some_and(|rest| rest.starts_with('n'))
        };
        let disks = || topology.block_devices().iter();
        let disk = || disks().find(|disk| disk.name == name).or_else(|| disks().find(of_controller));
        let nic = topology.nic(name).map(Named::Nic);
        nic.or_else(|| gpu().map(Named::Gpu)).or_else(|| disk().map(Named::Disk)).ok_or_else(|| {
            let nics = topology.nics().iter().map(|nic| nic.name.clone());
            let gpus = topology.gpus().iter().map(|gpu| gpu.name.clone());
            let disks = disks().map(|disk| disk.name.clone());
            PlanError::NoSuchDevice { name: name.to_owned(), known: nics.chain(gpus).chain(disks).collect() }
        })
    }

    /// The places of a rail's NIC, GPUs and disks. A virtual NIC has those of the devices under it, and one without
    /// devices has none.
    pub(super) fn places(&self, nic: Option<&Nic>, devices: &[PlannedDevice]) -> Vec<Place> {
        let nics = nic.map(|nic| self.devices_of(nic)).unwrap_or_default();
        let is_somewhere = |nic: &&Nic| nic.kind == NicKind::Device || nic.node.is_some() || nic.local_cpus.is_some();
        let place = |name: &str, cpus| Place { device: name.to_owned(), cpus };
        let nics = nics.into_iter().filter(is_somewhere).map(|nic| place(&nic.name, self.locality.cpus_beside(nic)));
        let other = |device: &PlannedDevice| {
            let gpu = || self.topology.gpus().iter().find(|gpu| gpu.name == device.name);
            let disk = || self.topology.block_devices().iter().find(|disk| disk.name == device.name);
            let cpus = match device.kind {
                DeviceKind::Gpu => gpu().and_then(|gpu| self.locality.cpus_beside(gpu)),
                DeviceKind::Storage => disk().and_then(|disk| self.locality.cpus_beside(disk)),
            };
            place(&device.name, cpus)
        };
        nics.chain(devices.iter().map(other)).collect()
    }

    /// The CPUs that serve the interrupts of a NIC, or of the devices under it, as far as they are known.
    pub(super) fn serving(&self, nic: Option<&Nic>) -> CpuSet {
        let devices = nic.map(|nic| self.devices_of(nic)).unwrap_or_default();
        devices.into_iter().fold(CpuSet::new(), |all, device| all.union(&serving_cpus(device)))
    }
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
