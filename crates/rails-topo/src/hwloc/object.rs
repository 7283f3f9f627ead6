//! The facts of one object of hwloc.

use super::sets;
use crate::{CpuSet, NodeId, PciAddress};
use hwlocality::{
    Topology as Hwloc,
    object::{
        TopologyObject,
        attributes::{ObjectAttributes, PCIDeviceAttributes},
    },
};

/// A textual attribute of an object; an empty one counts as missing.
pub(super) fn info(object: &TopologyObject, name: &str) -> Option<String> {
    let text = object.info(name)?.to_string_lossy().trim().to_owned();
    (!text.is_empty()).then_some(text)
}

/// The kernel's number of an object.
pub(super) fn os_index(object: &TopologyObject) -> Option<u32> {
    object.os_index()?.try_into().ok()
}

pub(super) fn cpus_of(object: &TopologyObject) -> CpuSet {
    object.cpuset().map(|bitmap| sets::cpus(&bitmap)).unwrap_or_default()
}

/// The locality of a device: its first ancestor that is no I/O object.
///
/// hwloc attaches a device of unknown locality to the whole machine, so on a machine with several
/// nodes that ancestor means unknown.
pub(super) fn locality(hwloc: &Hwloc, device: &TopologyObject) -> (Option<NodeId>, Option<CpuSet>) {
    let Some(ancestor) = device.first_non_io_ancestor() else { return (None, None) };
    let nodes = ancestor.nodeset().map(|bitmap| sets::node_set(&bitmap)).unwrap_or_default();
    let only_node = nodes.first().filter(|_| nodes.len() == 1);
    let cpus = cpus_of(ancestor);
    let unplaced = only_node.is_none() && cpus == sets::cpus(&hwloc.cpuset());
    (only_node, (!unplaced && !cpus.is_empty()).then_some(cpus))
}

/// The PCI function that the device belongs to.
pub(super) fn pci(device: &TopologyObject) -> Option<PciAddress> {
    device.ancestors().find_map(|object| match object.attributes() {
        Some(ObjectAttributes::PCIDevice(pci)) => Some(address(pci)),
        _ => None,
    })
}

pub(super) fn address(attributes: &PCIDeviceAttributes) -> PciAddress {
    PciAddress {
        domain: u32::from(attributes.domain()),
        bus: attributes.bus_id(),
        device: attributes.bus_device(),
        function: attributes.function(),
    }
}
