//! The GPUs and disks of planned rails.

use super::{DeviceKind, PlanError, PlannedDevice, plan_rails::Planner};
use rails_topo::{BlockDevice, CpuSet, Gpu};

/// A part of a rail that a name stands for.
pub(super) enum Named<'a> {
    Nic(&'a rails_topo::Nic),
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

    /// A GPU as a part of a rail, and the CPUs beside it, as far as they are known.
    pub(super) fn gpu(&self, gpu: &Gpu) -> (PlannedDevice, Option<CpuSet>) {
        let device = PlannedDevice { kind: DeviceKind::Gpu, name: gpu.name.clone(), pci: gpu.pci, node: gpu.node };
        (device, self.beside(gpu))
    }

    /// A disk as a part of a rail, and the CPUs beside it, as far as they are known.
    pub(super) fn disk(&self, disk: &BlockDevice) -> (PlannedDevice, Option<CpuSet>) {
        let device =
            PlannedDevice { kind: DeviceKind::Storage, name: disk.name.clone(), pci: disk.pci, node: disk.node };
        (device, self.beside(disk))
    }

    /// The CPUs beside a device, or the nearest usable ones.
    fn beside(&self, device: &impl rails_topo::Device) -> Option<CpuSet> {
        self.locality.closest_pus(device).map(|closest| closest.cpus.clone())
    }
}
