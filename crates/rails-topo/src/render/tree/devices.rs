//! Devices beside NICs: RDMA, GPUs and disks.

use super::columns::Columns;
use crate::{
    NodeId, PciAddress, RdmaPort, Topology,
    render::phrases::{self, plain},
};
use std::fmt;

pub(super) fn write(f: &mut fmt::Formatter<'_>, topology: &Topology) -> fmt::Result {
    let mut rdma = Columns::default();
    for device in topology.rdma_devices() {
        let ports: Vec<String> = device.ports.iter().map(port).collect();
        rdma.line(row(&device.name, device.pci, device.node, ports.join("; ")));
    }
    let mut gpus = Columns::default();
    for gpu in topology.gpus() {
        let known: Vec<String> = phrases::gpu(topology, gpu).into_iter().chain(link(topology, gpu.pci)).collect();
        gpus.line(row(&gpu.name, gpu.pci, gpu.node, known.join(", ")));
    }
    let mut disks = Columns::default();
    for disk in topology.block_devices() {
        let model = disk.model.as_deref().map(|model| plain(model.trim()).into_owned());
        let known: Vec<String> =
            [Some(phrases::size(disk.size)), model, link(topology, disk.pci)].into_iter().flatten().collect();
        disks.line(row(&disk.name, disk.pci, disk.node, known.join(", ")));
    }
    for (heading, columns, count) in [
        ("RDMA", rdma, topology.rdma_devices().len()),
        ("GPUs", gpus, topology.gpus().len()),
        ("disks", disks, topology.block_devices().len()),
    ] {
        if count > 0 {
            write!(f, "{heading}\n{columns}")?;
        }
    }
    Ok(())
}

/// Many devices are virtual and have no locality, so an unknown locality is an empty cell except
/// for a PCI device.
fn row(name: &str, pci: Option<PciAddress>, node: Option<NodeId>, facts: String) -> Vec<String> {
    let unknown = if pci.is_some() { "node unknown" } else { "" };
    let node = node.map_or(unknown.to_owned(), |node| format!("node {node}"));
    // A device without a name of its own states its address once.
    let pci = pci.map(|pci| pci.to_string()).filter(|pci| pci != name).unwrap_or_default();
    vec![format!("  {}", plain(name)), pci, node, facts]
}

fn link(topology: &Topology, pci: Option<PciAddress>) -> Option<String> {
    topology.pci_device(pci?).and_then(phrases::link)
}

fn port(port: &RdmaPort) -> String {
    let state = match port.active {
        Some(true) => "active".to_owned(),
        Some(false) => "not active".to_owned(),
        None => "state unknown".to_owned(),
    };
    let known = [
        port.nic.as_deref().map(|nic| plain(nic).into_owned()),
        Some(state),
        port.link_layer.as_deref().map(|layer| plain(layer).into_owned()),
        port.speed.map(|speed| speed.to_string()),
    ];
    let known: Vec<String> = known.into_iter().flatten().collect();
    format!("port {}: {}", port.number, known.join(", "))
}
