//! The attachment of a device: its PCI function, its node and its local CPUs.

use super::root::Root;
use crate::{CpuId, CpuSet, NodeId, NumaNode, PciAddress};

/// The facts of the machine that decide whether a device's locality means anything.
pub(super) struct Surroundings<'a> {
    pub(super) online: &'a CpuSet,
    pub(super) nodes: &'a [NumaNode],
    pub(super) packages: usize,
}

/// The attachment of a device, as far as its files state it.
#[derive(Default)]
pub(super) struct Attachment {
    pub(super) pci: Option<PciAddress>,
    pub(super) node: Option<NodeId>,
    pub(super) local_cpus: Option<CpuSet>,
}

impl Surroundings<'_> {
    /// The node of a device; `None` for firmware's -1, and for a node that the machine does not
    /// have.
    pub(super) fn node(&self, root: &Root, device: &str) -> Option<NodeId> {
        let node = root.value::<u32>(&format!("{device}/numa_node")).map(NodeId)?;
        self.nodes.iter().any(|known| known.id == node).then_some(node)
    }

    /// The CPUs that the kernel calls local to a device.
    ///
    /// For a device of unknown locality it lists every CPU, which says nothing on a machine of
    /// several nodes or packages.
    pub(super) fn local_cpus(&self, root: &Root, device: &str) -> Option<CpuSet> {
        let cpus = root.set::<CpuId>(&format!("{device}/local_cpulist"), &format!("{device}/local_cpus"))?;
        let cpus = cpus.intersection(self.online);
        let several = self.nodes.len() > 1 || self.packages > 1;
        let says_nothing = cpus.is_empty() || (several && cpus == *self.online);
        (!says_nothing).then_some(cpus)
    }

    /// The attachment of the device at that path: that of its PCI function, or of the device itself
    /// without one.
    pub(super) fn attachment(&self, root: &Root, device: &str) -> Attachment {
        let function = pci_function(device);
        let (folder, pci) = function.map_or((device.to_owned(), None), |(folder, pci)| (folder, Some(pci)));
        Attachment { pci, node: self.node(root, &folder), local_cpus: self.local_cpus(root, &folder) }
    }
}

/// The PCI function that the device is, or that is its nearest ancestor (a virtio device is a child
/// of its function).
pub(super) fn pci_function(device: &str) -> Option<(String, PciAddress)> {
    let mut path = device;
    loop {
        let (parent, name) = path.rsplit_once('/')?;
        match name.parse() {
            Ok(address) => return Some((path.to_owned(), address)),
            Err(_) => path = parent,
        }
    }
}

/// The path of an entry of a class or a bus, relative to the root (`sys/devices/...`).
///
/// The text of the link names the device, also in a captured tree without the device; to follow the
/// link takes many times as long. Before Linux 2.6.26 the entry is a folder, and only its `device`
/// is a link.
pub(super) fn entry_path(root: &Root, entry: &str) -> Option<String> {
    let text = root.link(entry).and_then(|text| Some(format!("sys/devices/{}", text.split_once("devices/")?.1)));
    let real = |path: String| root.real_path(&path).filter(|path| path.starts_with("sys/devices/"));
    text.or_else(|| real(entry.to_owned())).or_else(|| real(format!("{entry}/device")))
}

/// Whether the device of that path was made in software.
pub(super) fn is_virtual(path: &str) -> bool {
    path.starts_with("sys/devices/virtual/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn function_behind_a_device_is_the_nearest_above() {
        let function = |path| pci_function(path).map(|(path, address)| (path, address.to_string()));
        let found = |path: &str, address: &str| Some((path.to_owned(), address.to_owned()));
        let virtio = "sys/devices/pci0000:00/0000:00:03.0/virtio2";
        assert_eq!(function(virtio), found("sys/devices/pci0000:00/0000:00:03.0", "0000:00:03.0"));
        let behind_bridge = "sys/devices/pci0000:00/0000:00:01.1/0000:02:00.0";
        assert_eq!(function(behind_bridge), found(behind_bridge, "0000:02:00.0"));
        assert_eq!(function("sys/devices/platform/soc/ethernet"), None);
    }
}
