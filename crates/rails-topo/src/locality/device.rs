//! Devices with a locality.

use super::Locality;
use crate::{BlockDevice, CpuSet, Gpu, Nic, NodeId, PciAddress, PciDevice, RdmaDevice, Topology};

/// A device of the model: a NIC, an RDMA device, a GPU, a disk, or a PCI function.
///
/// NICs, RDMA devices, GPUs, disks and PCI functions implement it, and nothing else does.
pub trait Device: sealed::Sealed {
    /// The PCI function behind the device.
    fn pci(&self) -> Option<PciAddress>;
    /// The node of the device's attachment, as the device states it; `None` is unknown.
    fn node(&self) -> Option<NodeId>;
    /// The device's local CPUs, as the device states them; `None` is unknown.
    fn local_cpus(&self) -> Option<&CpuSet>;
    /// The interface, if the device is one.
    #[doc(hidden)]
    fn as_nic(&self) -> Option<&Nic> {
        None
    }
}

/// The stated locality of a device: its own, or, if it has none, that of the PCI function behind
/// it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stated<'d> {
    pub(super) node: Option<NodeId>,
    pub(super) local_cpus: Option<&'d CpuSet>,
}

impl<'d> Stated<'d> {
    pub(super) fn of(topology: &'d Topology, device: &'d (impl Device + ?Sized)) -> Self {
        let own = Self { node: device.node(), local_cpus: device.local_cpus() };
        let function = || device.pci().and_then(|address| topology.pci_device(address));
        match (own, function()) {
            (Self { node: None, local_cpus: None }, Some(function)) => {
                Self { node: function.node, local_cpus: function.local_cpus.as_ref() }
            }
            _ => own,
        }
    }

    /// The online CPUs beside the device: its local CPUs, else those of its node, else, on a
    /// machine of one package and one node, all.
    pub(super) fn beside(self, topology: &Topology) -> Option<CpuSet> {
        let of_node = || topology.nodes().iter().find(|node| Some(node.id) == self.node).map(|node| &node.cpus);
        let online = |cpus: &CpuSet| Some(cpus.intersection(topology.online_cpus())).filter(|cpus| !cpus.is_empty());
        let is_single = topology.packages().len() == 1 && topology.nodes().len() <= 1;
        self.local_cpus
            .and_then(online)
            .or_else(|| of_node().and_then(online))
            .or_else(|| is_single.then(|| topology.online_cpus().clone()))
    }

    /// The nodes of the device: the stated one, else those of the CPUs beside it.
    pub(super) fn nodes(self, topology: &Topology, beside: Option<&CpuSet>) -> Vec<NodeId> {
        let nodes = topology.nodes();
        match self.node.filter(|said| nodes.iter().any(|node| node.id == *said)) {
            Some(node) => vec![node],
            None => {
                let holds = |cpus: &CpuSet| beside.is_some_and(|beside| beside.intersects(cpus));
                nodes.iter().filter(|node| holds(&node.cpus)).map(|node| node.id).collect()
            }
        }
    }
}

impl Nic {
    /// The online CPUs beside this interface: its local CPUs, else those of its node; if both are
    /// unknown, those of the PCI function behind it.
    ///
    /// On a machine with one package and at most one node that is every online CPU. `None` is
    /// unknown. They need not be allowed: see
    /// [`Locality::closest_pus`](crate::Locality::closest_pus).
    pub fn locality(&self, topology: &Topology) -> Option<CpuSet> {
        Stated::of(topology, self).beside(topology)
    }
}

impl Locality<'_> {
    /// The online CPUs beside a device of this model, by the same rule as [`Nic::locality`]; `None`
    /// is unknown. They need not be allowed: see [`closest_pus`](Self::closest_pus).
    pub fn cpus_beside(&self, device: &impl Device) -> Option<CpuSet> {
        Stated::of(self.topology, device).beside(self.topology)
    }
}

mod sealed {
    pub trait Sealed {}
}

/// The types differ in the field that holds the address of their function.
macro_rules! device {
    ($type:ty, $self:ident => $pci:expr $(, $nic:expr)?) => {
        impl sealed::Sealed for $type {}

        impl Device for $type {
            fn pci(&$self) -> Option<PciAddress> {
                $pci
            }
            fn node(&self) -> Option<NodeId> {
                self.node
            }
            fn local_cpus(&self) -> Option<&CpuSet> {
                self.local_cpus.as_ref()
            }
            $(fn as_nic(&$self) -> Option<&Nic> {
                $nic
            })?
        }
    };
}

device!(Nic, self => self.pci, Some(self));
device!(RdmaDevice, self => self.pci);
device!(Gpu, self => self.pci);
device!(BlockDevice, self => self.pci);
device!(PciDevice, self => Some(self.address));
