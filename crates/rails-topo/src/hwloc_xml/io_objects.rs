//! PCI functions below their bridges, and the kernel's devices of each function.

use super::object::Object;
use crate::{CpuSet, NicKind, NodeId, PciAddress, PciDevice, Topology};
use std::collections::BTreeMap;

/// Attaches all devices to the objects of the machine.
pub(super) fn attach_devices(topology: &Topology, machine: &mut Object) {
    let mut named = named(topology);
    named.iter_mut().for_each(|device| device.pci = device.pci.filter(|pci| pci.domain <= HIGHEST_DOMAIN));
    let mut bus = Bus::of(topology, &named);
    for device in named {
        match device.pci {
            Some(pci) => bus.named.entry(pci).or_default().push(device.object),
            None => machine.smallest(&device.cpus).devices.push(device.object),
        }
    }
    for ((domain, first, cpus), roots) in bus.roots(topology) {
        let mut host = Object::io("Bridge");
        host.devices = roots.iter().map(|root| bus.function(*root, 1)).collect();
        let last = roots.iter().map(|root| bus.last_bus(*root)).max().unwrap_or(first);
        host.attributes = vec![
            ("bridge_type", "0-1".to_owned()),
            ("depth", "0".to_owned()),
            ("bridge_pci", format!("{domain:04x}:[{first:02x}-{last:02x}]")),
        ];
        machine.smallest(&cpus).devices.push(host);
    }
}

/// A device with the kernel's name, and its attachment: a function, or CPUs.
struct Named {
    pci: Option<PciAddress>,
    cpus: CpuSet,
    object: Object,
}

fn named(topology: &Topology) -> Vec<Named> {
    type Infos = Vec<(&'static str, Option<String>)>;
    let device = |name: &str, kind: u8, pci, local: (Option<NodeId>, &Option<CpuSet>), infos: Infos| {
        let mut object = Object::io("OSDev").infos(infos);
        object.attributes = vec![("name", name.to_owned()), ("osdev_type", kind.to_string())];
        Named { pci, cpus: cpus_beside(topology, local.1, local.0), object }
    };
    let nics = topology.nics.iter().filter(|nic| nic.kind == NicKind::Device || nic.pci.is_some()).map(|nic| {
        let infos = vec![("Address", nic.mac.map(|mac| mac.to_string()))];
        device(&nic.name, NETWORK, nic.pci, (nic.node, &nic.local_cpus), infos)
    });
    let rdma = topology.rdma_devices.iter();
    let rdma = rdma.map(|it| device(&it.name, OPEN_FABRICS, it.pci, (it.node, &it.local_cpus), Vec::new()));
    // A GPU without a driver has no name in the kernel, and so is no device of one.
    let gpus =
        topology.gpus.iter().filter(|gpu| !gpu.is_unnamed()).map(|gpu| {
            device(&gpu.name, GPU, gpu.pci, (gpu.node, &gpu.local_cpus), vec![("GPUModel", gpu.model.clone())])
        });
    let blocks = topology.block_devices.iter().map(|block| {
        // hwloc's unit is 1,024 bytes.
        let size = block.size.map(|size| (size.as_bytes() / 1024).to_string());
        let infos = vec![("Size", size), ("Model", block.model.clone())];
        device(&block.name, BLOCK, block.pci, (block.node, &block.local_cpus), infos)
    });
    nics.chain(rdma).chain(gpus).chain(blocks).collect()
}

/// The local CPUs of a device; empty if they are unknown, so that the device is attached to the
/// whole machine.
fn cpus_beside(topology: &Topology, local: &Option<CpuSet>, node: Option<NodeId>) -> CpuSet {
    let of_node = || topology.nodes.iter().find(|known| Some(known.id) == node).map(|node| node.cpus.clone());
    local.clone().or_else(of_node).unwrap_or_default()
}

/// All PCI functions.
struct Bus {
    functions: BTreeMap<PciAddress, PciDevice>,
    /// The functions right below each function.
    below: BTreeMap<PciAddress, Vec<PciAddress>>,
    named: BTreeMap<PciAddress, Vec<Object>>,
}

impl Bus {
    /// The functions of the machine, and those that only their devices state.
    fn of(topology: &Topology, named: &[Named]) -> Self {
        let known = topology.pci_devices.iter().map(|device| (device.address, device.clone()));
        let mut functions: BTreeMap<PciAddress, PciDevice> = known.collect();
        for device in named {
            if let Some(address) = device.pci {
                let local_cpus = Some(device.cpus.clone()).filter(|cpus| !cpus.is_empty());
                functions.entry(address).or_insert_with(|| PciDevice { local_cpus, ..PciDevice::at(address) });
            }
        }
        functions.retain(|address, _| address.domain <= HIGHEST_DOMAIN);
        let mut below: BTreeMap<PciAddress, Vec<PciAddress>> = BTreeMap::new();
        for device in functions.values() {
            if let Some(parent) = parent(device, &functions) {
                below.entry(parent).or_default().push(device.address);
            }
        }
        Self { functions, below, named: BTreeMap::new() }
    }

    /// The functions without a bridge above them, by domain, bus and local CPUs: each group belongs
    /// to a host bridge.
    fn roots(&self, topology: &Topology) -> Vec<((u32, u8, CpuSet), Vec<PciAddress>)> {
        let mut roots: Vec<((u32, u8, CpuSet), Vec<PciAddress>)> = Vec::new();
        for device in self.functions.values().filter(|device| parent(device, &self.functions).is_none()) {
            let PciAddress { domain, bus, .. } = device.address;
            let key = (domain, bus, cpus_beside(topology, &device.local_cpus, device.node));
            match roots.iter_mut().find(|(known, _)| *known == key) {
                Some((_, addresses)) => addresses.push(device.address),
                None => roots.push((key, vec![device.address])),
            }
        }
        roots
    }

    /// The highest bus at or behind a function.
    fn last_bus(&self, address: PciAddress) -> u8 {
        let bridge = self.functions.get(&address).and_then(|device| device.bridge);
        bridge.map_or(address.bus, |bridge| bridge.subordinate.max(address.bus))
    }

    /// A function and all functions below it, each of which is taken out once.
    fn function(&mut self, address: PciAddress, depth: u32) -> Object {
        let bridge = self.functions.get(&address).and_then(|device| device.bridge);
        let mut object = Object::io(if bridge.is_some() { "Bridge" } else { "PCIDev" });
        if let Some(bridge) = bridge {
            let behind = format!("{:04x}:[{:02x}-{:02x}]", address.domain, bridge.secondary, bridge.subordinate);
            object.attributes.extend([
                ("bridge_type", "1-1".to_owned()),
                ("depth", depth.to_string()),
                ("bridge_pci", behind),
            ]);
        }
        let device = self.functions.get(&address);
        let class = device.and_then(|device| device.class).unwrap_or(0) >> 8;
        let vendor = device.and_then(|device| device.vendor).unwrap_or(0);
        let number = device.and_then(|device| device.device).unwrap_or(0);
        // hwloc's unit is 10^9 bytes per second, and 0 is unknown.
        let speed =
            device.and_then(|device| device.bandwidth).map_or(0.0, |bits| bits.as_bits_per_second() as f64 / 8e9);
        object.attributes.extend([
            ("pci_busid", address.to_string()),
            ("pci_type", format!("{class:04x} [{vendor:04x}:{number:04x}] [0000:0000] 00")),
            ("pci_link_speed", format!("{speed:.6}")),
        ]);
        let below = self.below.remove(&address).unwrap_or_default();
        object.devices = below.into_iter().map(|address| self.function(address, depth + 1)).collect();
        object.devices.extend(self.named.remove(&address).unwrap_or_default());
        object
    }
}

/// The function above. Buses count upwards from the root, so that no description makes a circle.
fn parent(device: &PciDevice, functions: &BTreeMap<PciAddress, PciDevice>) -> Option<PciAddress> {
    let above = |parent: &PciAddress| {
        parent.domain == device.address.domain
            && parent.bus < device.address.bus
            && functions.get(parent).is_some_and(|parent| parent.bridge.is_some())
    };
    device.parent.filter(above)
}

/// hwloc keeps 16 bits of the domain unless it was built otherwise.
const HIGHEST_DOMAIN: u32 = 0xffff;

// `hwloc_obj_osdev_type_t` of hwloc 2.
const BLOCK: u8 = 0;
const GPU: u8 = 1;
const NETWORK: u8 = 2;
const OPEN_FABRICS: u8 = 3;
