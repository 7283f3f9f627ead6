//! Locality, on described machines.

mod cards;
mod devices;
mod joint;
mod levels;
mod nodes;
mod properties;

use rails_topo::{
    Bandwidth, CpuSet, Nic, NodeId, NodeSet, PciAddress, PciBridge, PciDevice, PciLink, Topology, VirtualFunctions,
};

fn cpus(list: &str) -> CpuSet {
    list.parse().unwrap()
}

fn nodes(list: &str) -> NodeSet {
    list.parse().unwrap()
}

fn address(text: &str) -> PciAddress {
    text.parse().unwrap()
}

/// A NIC on a PCI function, of which nothing else is known.
fn nic(name: &str, pci: &str) -> Nic {
    Nic { pci: Some(address(pci)), ..Nic::named(name) }
}

fn on_node(nic: Nic, node: u32) -> Nic {
    Nic { node: Some(NodeId(node)), ..nic }
}

/// A function below a bridge, or on a root bus.
fn function(pci: &str, parent: Option<&str>) -> PciDevice {
    PciDevice { parent: parent.map(address), ..PciDevice::at(address(pci)) }
}

/// A bridge to those buses.
fn bridge(pci: &str, parent: Option<&str>, secondary: u8, subordinate: u8) -> PciDevice {
    PciDevice { bridge: Some(PciBridge { secondary, subordinate }), ..function(pci, parent) }
}

fn with_link(device: PciDevice, speed: u32, width: u8) -> PciDevice {
    let link = PciLink { speed, width };
    PciDevice { link: Some(link), bandwidth: Some(link.bandwidth()), ..device }
}

fn of_physical(device: PciDevice, physical: &str) -> PciDevice {
    PciDevice { physical_function: Some(address(physical)), ..device }
}

/// The machine with those distances between its nodes, row by row, and without any where `None`.
fn with_distances(machine: &Topology, rows: Option<Vec<u64>>) -> Topology {
    let mut json = serde_json::to_value(machine).unwrap();
    let numbers: Vec<u32> = machine.nodes().iter().map(|node| node.id.0).collect();
    json["distances"] = rows.map(|values| serde_json::json!({"nodes": numbers, "values": values})).into();
    serde_json::from_value(json).unwrap()
}

/// The machine with that memory in its nodes.
fn with_memory(machine: &Topology, bytes: &[Option<u64>]) -> Topology {
    let mut json = serde_json::to_value(machine).unwrap();
    for (index, bytes) in bytes.iter().enumerate() {
        json["nodes"][index]["memory_bytes"] = (*bytes).into();
    }
    serde_json::from_value(json).unwrap()
}

/// Two packages with a node each. Below the first, a root port with a switch of two lower ports,
/// behind each a card (one of two functions); a root port with a card that has a virtual function.
/// Below the second, a root port with one card, whose link is unknown.
fn two_packages() -> Topology {
    let nics = vec![
        nic("left0", "0000:03:00.0"),
        nic("left1", "0000:03:00.1"),
        nic("right", "0000:04:00.0"),
        nic("alone", "0000:05:00.0"),
        nic("virtual", "0000:05:02.0"),
        nic("other", "0000:81:00.0"),
        Nic::named("nowhere"),
    ];
    let gen4 = |device, width| with_link(device, 16_000, width);
    let on = |device, node| PciDevice { node: Some(NodeId(node)), ..device };
    let pci = vec![
        on(gen4(bridge("0000:00:01.0", None, 1, 4), 8), 0),
        on(gen4(bridge("0000:01:00.0", Some("0000:00:01.0"), 2, 4), 8), 0),
        on(gen4(bridge("0000:02:00.0", Some("0000:01:00.0"), 3, 3), 16), 0),
        on(gen4(bridge("0000:02:01.0", Some("0000:01:00.0"), 4, 4), 4), 0),
        on(gen4(function("0000:03:00.0", Some("0000:02:00.0")), 16), 0),
        on(gen4(function("0000:03:00.1", Some("0000:02:00.0")), 16), 0),
        on(gen4(function("0000:04:00.0", Some("0000:02:01.0")), 4), 0),
        on(gen4(bridge("0000:00:02.0", None, 5, 5), 16), 0),
        PciDevice {
            virtual_functions: Some(VirtualFunctions { enabled: 1, total: 8 }),
            ..on(gen4(function("0000:05:00.0", Some("0000:00:02.0")), 16), 0)
        },
        on(of_physical(function("0000:05:02.0", Some("0000:00:02.0")), "0000:05:00.0"), 0),
        on(bridge("0000:80:01.0", None, 0x81, 0x81), 1),
        on(function("0000:81:00.0", Some("0000:80:01.0")), 1),
        on(function("0000:00:1f.0", None), 0),
    ];
    Topology::synthetic("package:2 numa:1 l3:2 core:2 pu:2", nics).unwrap().with_pci_devices(pci)
}

fn gigabits(count: u64) -> Bandwidth {
    Bandwidth::mbps(1000 * count)
}
