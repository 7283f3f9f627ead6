//! NICs and other devices as blocks, beside their localities.

use super::{
    super::block::{Block, Kind, Row, Tone, cut},
    Scene,
    device_block::{CARD, in_two, more},
    nics::{hardware, in_software, thinned},
};
use crate::{
    CpuSet, Nic, NicKind, NodeId, PciAddress, PciDevice, Topology,
    render::phrases::{self, plain},
};
use std::collections::{BTreeMap, BTreeSet};

/// The devices without a position yet.
pub(super) struct Devices<'a>(Vec<Device<'a>>);

struct Device<'a> {
    pci: Option<PciAddress>,
    node: Option<NodeId>,
    cpus: Option<CpuSet>,
    what: What<'a>,
}

enum What<'a> {
    Nic(&'a Nic),
    Other { name: String, facts: Vec<String>, narrow: bool },
}

impl<'a> Devices<'a> {
    pub(super) fn of(scene: &Scene<'a>) -> Self {
        let topology = scene.topology;
        let nics = topology.nics().iter().filter(|nic| nic.kind == NicKind::Device);
        let mut devices: Vec<Device<'a>> = nics
            .map(|nic| Device { pci: nic.pci, node: nic.node, cpus: nic.locality(topology), what: What::Nic(nic) })
            .collect();
        let mut other =
            |name: &str, pci: Option<PciAddress>, node, cpus: &Option<CpuSet>, facts: Vec<Option<String>>| {
                let device = pci.and_then(|pci| topology.pci_device(pci));
                let mut facts: Vec<String> = facts.into_iter().flatten().collect();
                facts.extend(pci.map(|pci| pci.to_string()).filter(|pci| pci != name));
                facts.extend(device.and_then(phrases::link).into_iter().flat_map(in_two));
                let narrow = device.and_then(phrases::narrowed).is_some();
                let what = What::Other { name: plain(name).into_owned(), facts, narrow };
                devices.push(Device { pci, node, cpus: cpus.clone().or_else(|| of_only_node(topology)), what });
            };
        let name = |text: &Option<String>| text.as_deref().map(|text| plain(text.trim()).into_owned());
        for gpu in topology.gpus() {
            let facts = phrases::gpu(topology, gpu).into_iter().map(Some).collect();
            other(&gpu.name, gpu.pci, gpu.node, &gpu.local_cpus, facts);
        }
        // An RDMA device stands on the NIC of its port.
        for rdma in topology.rdma_devices().iter().filter(|rdma| rdma.ports.iter().all(|port| port.nic.is_none())) {
            let ports = phrases::count(rdma.ports.len(), "port");
            other(&rdma.name, rdma.pci, rdma.node, &rdma.local_cpus, vec![Some(format!("RDMA, {ports}"))]);
        }
        for disk in topology.block_devices() {
            let size = Some(phrases::size(disk.size));
            other(&disk.name, disk.pci, disk.node, &disk.local_cpus, vec![size, name(&disk.model)]);
        }
        Self(devices)
    }

    /// Takes the devices of this node.
    pub(super) fn of_node(&mut self, scene: &Scene<'a>, node: NodeId) -> Vec<Block> {
        self.take(scene, |device| device.node == Some(node))
    }

    /// Takes the devices of an unknown node whose local CPUs are all among these.
    pub(super) fn within(&mut self, scene: &Scene<'a>, cpus: &CpuSet) -> Vec<Block> {
        self.take(scene, |device| {
            let local = device.cpus.as_ref().filter(|local| !local.is_empty());
            device.node.is_none() && local.is_some_and(|local| local.is_subset(cpus))
        })
    }

    fn take(&mut self, scene: &Scene<'a>, is_here: impl Fn(&Device<'_>) -> bool) -> Vec<Block> {
        let (here, rest) = std::mem::take(&mut self.0).into_iter().partition(is_here);
        self.0 = rest;
        blocks(scene, here)
    }

    /// The devices of unknown locality, and virtual interfaces.
    pub(super) fn rest(self, scene: &Scene<'a>) -> Vec<Block> {
        let is_apart = |device: &Device<'_>| device.pci.is_some() || matches!(device.what, What::Nic(_));
        let (devices, apart): (Vec<_>, Vec<_>) = self.0.into_iter().partition(is_apart);
        let group = |name: &str, blocks: Vec<Block>| {
            let rows = vec![Row::text(11.0, name, Tone::Dim)];
            (!blocks.is_empty()).then(|| Block { shape: Some(FLAT), ..Block::new(Kind::Group, rows).section(blocks) })
        };
        let software = scene.topology.nics().iter().filter(|nic| nic.kind != NicKind::Device);
        let software = thinned(scene, software.collect(), |nic| in_software(scene, nic));
        let known = [
            group("of unknown locality", blocks(scene, devices)),
            group("interfaces in software", software),
            group("disks of no PCI device", others(apart)),
        ];
        known.into_iter().flatten().collect()
    }
}

fn of_only_node(topology: &Topology) -> Option<CpuSet> {
    let only_node = topology.packages().len() == 1 && topology.nodes().len() <= 1;
    only_node.then(|| topology.online_cpus().clone())
}

/// NICs, then other devices; devices that share a slot or a switch are in a block together.
fn blocks(scene: &Scene<'_>, devices: Vec<Device<'_>>) -> Vec<Block> {
    let mut groups: BTreeMap<(bool, Option<PciAddress>, usize), Vec<Device<'_>>> = BTreeMap::new();
    for (index, device) in devices.into_iter().enumerate() {
        let shared = device.pci.map(|pci| root(scene.topology, pci));
        let alone = if shared.is_some() { 0 } else { index };
        groups.entry((shared.is_none(), shared, alone)).or_default().push(device);
    }
    let mut blocks = Vec::new();
    for ((_, root, _), devices) in groups {
        let slots: BTreeSet<_> = devices.iter().filter_map(|device| device.pci).map(slot).collect();
        // A card may have functions in several slots (virtual ones do), but all are right below the same
        // port.
        let above = |pci| scene.topology.pci_device(pci).and_then(|device| device.parent).unwrap_or(slot(pci));
        let ends: BTreeSet<_> = devices.iter().filter_map(|device| device.pci).map(above).collect();
        let count = devices.len();
        let inner = one_group(scene, devices);
        match root {
            Some(root) if count > 1 => {
                let is_switch = ends.len() > 1;
                let name = if is_switch { "one PCI switch" } else { "one card" };
                let mut rows = vec![Row::text(10.0, &format!("{name}: {}", slots_in_words(&slots)), Tone::Dim)];
                // All devices behind the port above share its link.
                let port = scene.topology.pci_device(root).filter(|_| is_switch);
                rows.extend(port.and_then(link));
                blocks.push(Block { shape: Some(FLAT), ..Block::new(Kind::Pci, rows).section(inner) });
            }
            _ => blocks.extend(inner),
        }
    }
    blocks
}

fn one_group(scene: &Scene<'_>, devices: Vec<Device<'_>>) -> Vec<Block> {
    let nics = devices.iter().filter_map(|device| match device.what {
        What::Nic(nic) => Some(nic),
        What::Other { .. } => None,
    });
    let mut blocks = thinned(scene, nics.collect(), |nic| hardware(scene, nic));
    blocks.extend(others(devices));
    blocks
}

/// Devices other than NICs; of many only the first, and the number of the rest.
fn others(devices: Vec<Device<'_>>) -> Vec<Block> {
    let mut shown = Vec::new();
    let mut left_out = Vec::new();
    for device in devices {
        let What::Other { name, facts, narrow } = device.what else { continue };
        if shown.len() >= MAX_OTHERS {
            left_out.push(name);
            continue;
        }
        let mut rows = vec![Row::text(11.0, &cut(&name, CARD), Tone::Bold)];
        rows.extend(facts.iter().map(|fact| {
            let warned = narrow && (fact.starts_with("PCIe ") || fact.starts_with("could be "));
            Row::text(9.0, &cut(fact, CARD), if warned { Tone::Warning } else { Tone::Dim })
        }));
        let mut block = Block::new(Kind::Device, rows);
        block.hint = format!("{name}\n{}", facts.join("\n"));
        shown.push(block);
    }
    shown.extend(more(left_out, "device"));
    shown
}

fn link(device: &PciDevice) -> Option<Row> {
    let tone = if phrases::narrowed(device).is_some() { Tone::Warning } else { Tone::Dim };
    phrases::link(device).map(|link| Row::text(10.0, &cut(&link, CARD * 2), tone))
}

/// The highest bridge above a function, else the function's own slot: functions with the same root
/// share a link.
fn root(topology: &Topology, pci: PciAddress) -> PciAddress {
    let mut at = pci;
    for _ in 0..DEEPEST {
        match topology.pci_device(at).and_then(|device| device.parent) {
            Some(parent) => at = parent,
            None => break,
        }
    }
    if at == pci { slot(pci) } else { at }
}

/// The address of function 0, which stands for all functions of a device.
fn slot(pci: PciAddress) -> PciAddress {
    PciAddress { function: 0, ..pci }
}

fn slots_in_words(slots: &BTreeSet<PciAddress>) -> String {
    let text = |pci: &PciAddress| format!("{:04x}:{:02x}:{:02x}", pci.domain, pci.bus, pci.device);
    cut(&slots.iter().map(text).collect::<Vec<_>>().join(", "), CARD)
}

/// Ports of a card lie beside each other, so that no line crosses one on its way to another.
const FLAT: f64 = 3.0;
/// Blocks of one group.
const MAX_OTHERS: usize = 12;
/// Bridges above one function; more of them form a circle.
const DEEPEST: usize = 32;
