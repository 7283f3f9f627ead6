//! The common ancestor of two devices.

use super::{Device, Locality, device_localities::PackageLocality, pci_tree::slot};
use crate::{Nic, NodeId, PciAddress};
use std::fmt;

/// The innermost object that two devices share, as far as the model knows: if it knows little of
/// their PCI functions they may share a closer one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum CommonAncestor {
    /// The port of a card: both are interfaces of it, such as a function and its virtual functions.
    Port,
    /// The PCI function.
    Function(PciAddress),
    /// The card: functions of one PCI device, virtual functions of one physical one, or ports of
    /// one switch in a card.
    Card,
    /// A PCIe switch (or a bridge), by its lowest port above both.
    Switch(PciAddress),
    /// A port of the root complex.
    RootPort(PciAddress),
    /// A host bridge, by its root bus.
    HostBridge {
        /// The bus's domain.
        domain: u32,
        /// The bus.
        bus: u8,
    },
    /// A NUMA node.
    Node(NodeId),
    /// A package, by its place in [`Topology::packages`](crate::Topology::packages).
    Package(usize),
    /// Nothing but the machine.
    Machine,
}

impl Locality<'_> {
    /// The innermost object that two devices share; the order of the two does not matter. `None` is
    /// unknown: the model states neither that they share an object nor that they do not.
    pub fn common_ancestor(&self, a: &impl Device, b: &impl Device) -> Option<CommonAncestor> {
        self.common_interface(a.as_nic(), b.as_nic())
            .or_else(|| self.common_function(a.pci()?, b.pci()?))
            .or_else(|| self.common_object(a, b))
    }

    /// The part of a card that two interfaces share.
    fn common_interface(&self, a: Option<&Nic>, b: Option<&Nic>) -> Option<CommonAncestor> {
        let (a, b) = (a?, b?);
        if !self.same_card(a, b) {
            return None;
        }
        Some(match a.pci {
            _ if a.physical_port.is_some() && a.physical_port == b.physical_port => CommonAncestor::Port,
            Some(address) if a.pci == b.pci => CommonAncestor::Function(address),
            _ => CommonAncestor::Card,
        })
    }

    /// The part of the PCI tree that two functions share.
    fn common_function(&self, a: PciAddress, b: PciAddress) -> Option<CommonAncestor> {
        if a == b {
            return Some(CommonAncestor::Function(a));
        }
        if slot(&self.tree, a) == slot(&self.tree, b) {
            return Some(CommonAncestor::Card);
        }
        let (a, b) = (self.tree.find(a)?, self.tree.find(b)?);
        if let Some(at) = self.tree.lowest_above(a, b) {
            let bridge = self.tree.function(at);
            let is_top = bridge.parent.is_none() && bridge.reaches_root;
            let above = if is_top { CommonAncestor::RootPort } else { CommonAncestor::Switch };
            return Some(above(bridge.address));
        }
        let (a, b) = (self.tree.top(a), self.tree.top(b));
        let bus = |address: PciAddress| (address.domain, address.bus);
        let same = a.reaches_root && b.reaches_root && bus(a.address) == bus(b.address);
        same.then_some(CommonAncestor::HostBridge { domain: a.address.domain, bus: a.address.bus })
    }

    /// The object that the localities of two devices share.
    fn common_object(&self, a: &impl Device, b: &impl Device) -> Option<CommonAncestor> {
        let (a, b) = (self.device_locality(a)?, self.device_locality(b)?);
        match (a.node, b.node) {
            (Some(a), Some(b)) if a == b => return Some(CommonAncestor::Node(a)),
            _ => {}
        }
        match (a.package, b.package) {
            (PackageLocality::Unknown, _) | (_, PackageLocality::Unknown) => None,
            (PackageLocality::One(a), PackageLocality::One(b)) if a == b => Some(CommonAncestor::Package(a)),
            _ => Some(CommonAncestor::Machine),
        }
    }
}

impl fmt::Display for CommonAncestor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Port => f.write_str("port"),
            Self::Function(address) => write!(f, "PCI function {address}"),
            Self::Card => f.write_str("card"),
            Self::Switch(address) => write!(f, "PCIe switch {address}"),
            Self::RootPort(address) => write!(f, "root port {address}"),
            Self::HostBridge { domain, bus } => write!(f, "host bridge {domain:04x}:{bus:02x}"),
            Self::Node(node) => write!(f, "node {node}"),
            Self::Package(index) => write!(f, "package {index}"),
            Self::Machine => f.write_str("machine"),
        }
    }
}
