//! Interfaces made in software and the lanes under them.

use crate::tree::Tree;
use rails_topo::{NicKind, Topology};

/// An interface made in software, on top of these.
fn software(tree: &Tree, name: &str, uevent: &str, lowers: &[&str]) {
    let folder = format!("sys/devices/virtual/net/{name}");
    tree.link(&format!("sys/class/net/{name}"), &format!("../../devices/virtual/net/{name}"));
    tree.file(&format!("{folder}/uevent"), &format!("{uevent}INTERFACE={name}\nIFINDEX=7"));
    for lower in lowers {
        tree.link(&format!("{folder}/lower_{lower}"), &format!("../{lower}"));
    }
}

fn kind<'a>(machine: &'a Topology, name: &str) -> Option<&'a str> {
    machine.nic(name).unwrap().virtual_kind.as_deref()
}

fn devices<'a>(machine: &'a Topology, name: &str) -> Vec<&'a str> {
    let lanes = machine.lanes_of(machine.nic(name).unwrap());
    lanes.devices.iter().map(|nic| nic.name.as_str()).collect()
}

/// eth0 as a device, and eth1 as another function of its card.
fn two_ports() -> Tree {
    let tree = Tree::two_nodes().with_pci_nic();
    let net = "sys/devices/pci0000:80/0000:80:02.0/0000:82:00.1/net/eth1";
    tree.link("sys/class/net/eth1", "../../devices/pci0000:80/0000:80:02.0/0000:82:00.1/net/eth1");
    tree.link(&format!("{net}/device"), "../../../0000:82:00.1").file(&format!("{net}/uevent"), "DEVTYPE=wlan");
    tree
}

#[test]
fn lanes_under_bond_team_bridge_vlan_macvlan() {
    let tree = two_ports();
    software(&tree, "bond0", "DEVTYPE=bond\n", &["eth0", "eth1"]);
    software(&tree, "bond0.7", "DEVTYPE=vlan\n", &["bond0"]);
    software(&tree, "br0", "DEVTYPE=bridge\n", &["bond0.7", "veth0"]);
    software(&tree, "macvlan0", "", &["eth1"]);
    software(&tree, "team0", "", &["eth0", "eth1"]);
    software(&tree, "veth0", "", &[]);
    let machine = tree.read().unwrap();
    assert_eq!(machine.nic("bond0").unwrap().lowers, ["eth0", "eth1"]);
    for (name, lanes) in [
        ("eth0", vec!["eth0"]),
        ("bond0", vec!["eth0", "eth1"]),
        ("bond0.7", vec!["eth0", "eth1"]),
        ("br0", vec!["eth0", "eth1"]),
        ("macvlan0", vec!["eth1"]),
        ("team0", vec!["eth0", "eth1"]),
        ("veth0", vec![]),
    ] {
        assert_eq!(devices(&machine, name), lanes, "{name}");
    }
    let bridge = machine.lanes_of(machine.nic("br0").unwrap());
    assert_eq!(bridge.in_software, [machine.nic("veth0").unwrap()]);
    let kinds = ["bond0", "bond0.7", "br0", "macvlan0", "team0", "veth0", "eth1"].map(|name| kind(&machine, name));
    let expected = [Some("bond"), Some("vlan"), Some("bridge"), None, None, None, None];
    assert_eq!(kinds, expected, "the kernel names no kind of some, and a device has none");
}

/// Before Linux 3.14 there were no `lower_*`.
#[test]
fn old_kernels_tell_of_layers_in_files_of_their_own() {
    let tree = two_ports();
    for name in ["bond0", "br0", "storage", "tap0", "tun0"] {
        software(&tree, name, "", &[]);
    }
    tree.file("sys/devices/virtual/net/bond0/bonding/slaves", "eth1 eth0");
    tree.folder("sys/devices/virtual/net/br0/bridge").folder("sys/devices/virtual/net/br0/brif/storage");
    tree.file(
        "proc/net/vlan/config",
        "VLAN Dev name\t | VLAN ID\nName-Type: VLAN_NAME_TYPE_RAW_PLUS_VID_NO_PAD\nstorage        | 30  | bond0",
    );
    tree.file("sys/devices/virtual/net/tap0/tun_flags", "0x1002");
    tree.file("sys/devices/virtual/net/tun0/tun_flags", "0x1001");
    let machine = tree.read().unwrap();
    assert_eq!(devices(&machine, "br0"), ["eth0", "eth1"]);
    let kinds = ["bond0", "br0", "storage", "tap0", "tun0"].map(|name| kind(&machine, name).unwrap());
    assert_eq!(kinds, ["bond", "bridge", "vlan", "tap", "tun"]);
}

#[test]
fn rings_and_interfaces_elsewhere_are_said() {
    let tree = two_ports();
    software(&tree, "a", "", &["b", "c"]);
    software(&tree, "b", "", &["a", "eth0", "elsewhere"]);
    software(&tree, "c", "", &["c"]);
    let machine = tree.read().unwrap();
    let lanes = machine.lanes_of(machine.nic("a").unwrap());
    assert_eq!((devices(&machine, "a"), &lanes.missing[..]), (vec!["eth0"], &["elsewhere"][..]));
    assert!(!lanes.is_complete() && lanes.in_software.is_empty());
}

#[test]
fn virtual_function_under_a_vms_interface() {
    let tree = two_ports();
    let net = "sys/devices/LNXSYSTM:00/VMBUS:00/f8615163/net/eth9";
    tree.link("sys/class/net/eth9", "../../devices/LNXSYSTM:00/VMBUS:00/f8615163/net/eth9");
    tree.link(&format!("{net}/device"), "../../../f8615163").link(&format!("{net}/lower_eth1"), "../x");
    let machine = tree.read().unwrap();
    assert_eq!((machine.nic("eth9").unwrap().kind, devices(&machine, "eth9")), (NicKind::Device, vec!["eth1"]));
}
