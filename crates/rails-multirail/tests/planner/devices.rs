//! Rails of several devices, and what they carry together.

use crate::{chosen_cpus, interfaces, loopback, nic, on_card, planned, refused, two_packages};
use rails_multirail::planner::DeviceKind;
use rails_topo::{Bandwidth, Gpu, Nic, NodeId, PciDevice, PciLink, Topology};

fn gpu(name: &str, node: u32) -> Gpu {
    Gpu { name: name.to_owned(), pci: None, model: None, driver: None, node: Some(NodeId(node)), local_cpus: None }
}

/// The machine with a disk on that node.
fn with_disk(machine: &Topology, name: &str, node: u32) -> Topology {
    let mut json = serde_json::to_value(machine).unwrap();
    let disk = serde_json::json!({
        "name": name, "pci": null, "size_bytes": null, "model": null, "node": node, "local_cpus": null
    });
    json["block_devices"].as_array_mut().unwrap().push(disk);
    serde_json::from_value(json).unwrap()
}

#[test]
fn rails_beside_a_gpu_and_a_disk() {
    let nics = vec![nic("eth0", 0, 10, "10.0.0.1"), nic("eth1", 1, 10, "10.0.1.1"), loopback()];
    let machine = with_disk(&two_packages(nics).with_gpus(vec![gpu("card0", 1), gpu("card1", 0)]), "nvme0n1", 1);
    let plan = planned(&machine, "gpu0,nvme0+eth1,eth0+card1+cores:2");
    assert_eq!(chosen_cpus(&plan), [8, 10, 0]);
    assert_eq!(plan.rails.iter().map(|rail| rail.node).collect::<Vec<_>>(), [1, 1, 0].map(|node| Some(NodeId(node))));
    let kinds: Vec<_> = plan.rails.iter().map(|rail| rail.devices[0].kind).collect();
    assert_eq!(kinds, [DeviceKind::Gpu, DeviceKind::Storage, DeviceKind::Gpu]);
    assert!(plan.rails[0].end.is_none() && plan.rails[1].end.is_some());
    assert_eq!(plan.rails[1].reasons[1], "disk nvme0n1 (PCI function unknown, on node 1)");
    assert!(plan.to_string().contains("rail 2  eth0 10.0.0.1 + card1"), "{plan}");
    assert_eq!(
        refused(&machine, "gpu2"),
        "there is no interface, GPU or disk `gpu2`; there are: eth0, eth1, lo, card0, card1, nvme0n1"
    );
    assert!(refused(&machine, "eth0+eth1").contains("several lanes"));
}

#[test]
fn devices_on_different_nodes_pull_one_rail() {
    let machine = two_packages(vec![nic("eth0", 0, 10, "10.0.0.1")]).with_gpus(vec![gpu("card0", 1)]);
    let plan = planned(&machine, "eth0+gpu0");
    let said = &plan.rails[0].reasons[2];
    assert!(said.contains("near eth0 (CPUs 0-7), far from card0 (CPUs 8-15)"), "{plan}");
}

#[test]
fn lane_to_a_peer() {
    let down = Nic { up: Some(false), ..nic("eth2", 0, 100, "10.0.1.2") };
    let machine = two_packages(vec![nic("eth0", 0, 10, "10.0.0.1"), nic("eth1", 1, 10, "10.0.1.1"), down]);
    assert_eq!(interfaces(&planned(&machine, "peer:10.0.1.9,peer:10.0.0.200")), ["eth1", "eth0"]);
    assert_eq!(refused(&machine, "peer:10.0.2.9"), "no NIC has a network with 10.0.2.9; name the interface instead");
}

#[test]
fn ports_behind_one_narrow_link_carry_what_it_does() {
    let link = PciLink { speed: 8_000, width: 8 };
    let at = |text: &str, parent: Option<&str>| PciDevice {
        parent: parent.map(|text| text.parse().unwrap()),
        bandwidth: parent.map(|_| link.bandwidth()),
        ..PciDevice::at(text.parse().unwrap())
    };
    let machine = two_packages(vec![
        on_card(nic("eth0", 0, 40, "10.0.0.1"), "0000:18:00.0"),
        on_card(nic("eth1", 0, 40, "10.0.1.1"), "0000:18:00.1"),
        on_card(nic("eth2", 0, 100, "10.0.2.1"), "0000:19:00.0"),
    ]);
    let machine = machine.with_pci_devices(vec![
        at("0000:00:01.0", None),
        at("0000:18:00.0", Some("0000:00:01.0")),
        at("0000:18:00.1", Some("0000:00:01.0")),
        at("0000:00:02.0", None),
        at("0000:19:00.0", Some("0000:00:02.0")),
    ]);
    let both = planned(&machine, "eth0,eth1").expected.unwrap();
    assert_eq!((both.rails, both.each, both.together), (2, Bandwidth::mbps(40_000), link.bandwidth()));
    assert_eq!(
        both.to_string(),
        "2 x 40 Gbit/s x 0.79 = 63.0 Gbit/s (the PCI link of 0000:18:00.0 carries 63.0 Gbit/s of 80 Gbit/s)"
    );
    let fast = planned(&machine, "eth2");
    assert_eq!(fast.rails[0].capacity.bandwidth, Some(link.bandwidth()));
    assert_eq!(fast.rails[0].reasons.last().unwrap(), "carries 63.0 Gbit/s, bound by the PCI link of 0000:19:00.0");
    assert_eq!(planned(&machine, "eth0").expected.unwrap().delta, 1.0);
}
