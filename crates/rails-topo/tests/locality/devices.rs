use super::{address, bridge, cpus, function, gigabits, nic, on_node, two_packages, with_link};
use rails_topo::{
    CommonAncestor::{self, Card, Function, HostBridge, Machine, Node, Package, RootPort, Switch},
    Gpu, Nic, NodeId, PciDevice, Topology,
};

fn common(machine: &Topology, a: &str, b: &str) -> Option<CommonAncestor> {
    let nic = |name| machine.nic(name).unwrap_or_else(|| panic!("there is no {name}"));
    machine.locality().common_ancestor(nic(a), nic(b))
}

#[test]
fn common_ancestors_of_devices() {
    let machine = two_packages();
    assert_eq!(common(&machine, "left0", "left1"), Some(Card));
    assert_eq!(common(&machine, "left0", "right"), Some(Switch(address("0000:01:00.0"))));
    assert_eq!(common(&machine, "alone", "virtual"), Some(Card), "one is a virtual function of the other");
    assert_eq!(common(&machine, "left0", "alone"), Some(HostBridge { domain: 0, bus: 0 }));
    assert_eq!(common(&machine, "left0", "other"), Some(Machine));
    assert_eq!(common(&machine, "left0", "nowhere"), None);
}

#[test]
fn devices_of_all_kinds_share_things() {
    let gpu = |name: &str, pci: Option<&str>, node| Gpu {
        name: name.into(),
        pci: pci.map(address),
        model: None,
        driver: None,
        node: Some(NodeId(node)),
        local_cpus: None,
    };
    let machine = two_packages().with_gpus(vec![
        gpu("beside", Some("0000:04:00.0"), 0),
        gpu("none", None, 0),
        gpu("other", None, 1),
    ]);
    let locality = machine.locality();
    let [beside, none, other] = machine.gpus() else { panic!("there are three") };
    let [left, right] = ["left0", "right"].map(|name| machine.nic(name).unwrap());
    assert_eq!(locality.common_ancestor(right, beside), Some(Function(address("0000:04:00.0"))));
    assert_eq!(locality.common_ancestor(beside, left), Some(Switch(address("0000:01:00.0"))));
    assert_eq!(locality.common_ancestor(left, none), Some(Node(NodeId(0))), "so much is known");
    assert_eq!(locality.common_ancestor(left, other), Some(Machine));
    let port = machine.pci_device(address("0000:00:01.0")).unwrap();
    assert_eq!(locality.common_ancestor(port, left), Some(RootPort(address("0000:00:01.0"))));
    assert_eq!(locality.closest_nodes(other).unwrap().nodes, [NodeId(1)]);
    // The NIC says nothing of its place, but the function behind it does.
    assert_eq!(locality.closest_pus(left).unwrap().cpus, &cpus("0-7"));
    assert_eq!(left.locality(&machine), Some(cpus("0-7")));
}

#[test]
fn nodes_of_one_package_are_nearer_than_packages() {
    let nics = (0..4).map(|node| on_node(Nic::named(&format!("eth{node}")), node)).collect();
    let machine = Topology::synthetic("package:2 numa:2 core:1 pu:1", nics).unwrap();
    assert_eq!(common(&machine, "eth0", "eth1"), Some(Package(0)));
    assert_eq!(common(&machine, "eth3", "eth2"), Some(Package(1)));
    assert_eq!(common(&machine, "eth1", "eth2"), Some(Machine));
    let unpacked = Topology::synthetic("numa:2 core:1 pu:1", machine.nics()[..2].to_vec()).unwrap();
    assert_eq!(common(&unpacked, "eth0", "eth1"), None, "nobody says in which packages the nodes are");
}

#[test]
fn shared_bridge_without_a_description() {
    let nics = vec![nic("a", "0000:03:00.0"), nic("b", "0000:03:01.0"), nic("c", "0000:09:00.0")];
    let pci = vec![
        function("0000:03:00.0", Some("0000:02:00.0")),
        function("0000:03:01.0", Some("0000:02:00.0")),
        function("0000:09:00.0", Some("0000:08:00.0")),
    ];
    let machine = Topology::synthetic("package:2 numa:1 core:1 pu:1", nics).unwrap().with_pci_devices(pci);
    assert_eq!(common(&machine, "a", "b"), Some(Switch(address("0000:02:00.0"))));
    assert_eq!(common(&machine, "a", "c"), None, "the parts above the bridges are unknown");
    let path = machine.locality().path(machine.nic("a").unwrap()).unwrap();
    assert_eq!((path.links, path.unknown, path.reaches_root, path.bandwidth()), (1, 1, false, None));
}

#[test]
fn narrowest_link_on_the_way_up_is_named() {
    let machine = two_packages();
    let locality = machine.locality();
    let path = |name: &str| locality.path(machine.nic(name).unwrap());
    let narrowest = |name: &str| path(name).unwrap().narrowest.map(|(address, carries)| (address.to_string(), carries));

    // 16 GT/s x8 into the switch, and x16 below it.
    let left = path("left0").unwrap();
    assert_eq!((left.links, left.unknown, left.reaches_root), (2, 0, true));
    assert_eq!(left.narrowest.unwrap().0, address("0000:01:00.0"));
    assert!(left.bandwidth().unwrap() > gigabits(126) && left.bandwidth().unwrap() < gigabits(127));
    // x4 below the switch.
    assert_eq!(narrowest("right").unwrap().0, "0000:04:00.0");
    // A virtual function has no link of its own.
    assert_eq!(path("virtual"), path("alone"));
    assert_eq!(narrowest("virtual").unwrap().0, "0000:05:00.0");
}

#[test]
fn unknown_links_and_absent_links() {
    let machine = two_packages();
    let locality = machine.locality();
    let other = locality.path(machine.nic("other").unwrap()).unwrap();
    assert_eq!((other.narrowest, other.links, other.unknown, other.reaches_root), (None, 1, 1, true));
    let integrated = locality.path(machine.pci_device(address("0000:00:1f.0")).unwrap()).unwrap();
    assert_eq!((integrated.narrowest, integrated.links, integrated.unknown), (None, 0, 0));
    assert_eq!(integrated.bandwidth(), None);
    assert_eq!(locality.path(machine.nic("nowhere").unwrap()), None);
}

/// A port that is not asked, or does not answer, leaves its link to the other end.
#[test]
fn either_end_of_a_link_tells_of_it() {
    let upper = with_link(bridge("0000:00:01.0", None, 1, 1), 8_000, 4);
    let machine = Topology::synthetic("package:1 core:1 pu:1", vec![nic("eth0", "0000:01:00.0")])
        .unwrap()
        .with_pci_devices(vec![upper.clone(), function("0000:01:00.0", Some("0000:00:01.0"))]);
    let path = machine.locality().path(&machine.nics()[0]).unwrap();
    assert_eq!((path.narrowest, path.unknown), (Some((address("0000:01:00.0"), upper.bandwidth.unwrap())), 0));
}

#[test]
fn device_of_another_machine_is_of_unknown_place() {
    let machine = two_packages();
    let stranger = PciDevice { local_cpus: Some(cpus("3")), ..function("0000:42:00.0", None) };
    let locality = machine.locality();
    assert_eq!(locality.path(&stranger), None);
    assert_eq!(locality.closest_pus(&stranger), None);
    assert_eq!(locality.common_ancestor(&stranger, &machine.nics()[0]), None);
    assert_eq!(locality.sharers(&Nic::named("stranger")).count(), 0);
}
