//! Network interfaces, their queues and interrupts.

use crate::tree::Tree;
use nix::errno::Errno;
use rails_lab::Sandbox;
use rails_topo::{Bandwidth, CpuSet, Nic, NicKind, NodeId, Topology};

fn cpus(text: &str) -> Option<CpuSet> {
    Some(text.parse().unwrap())
}

fn nic<'a>(machine: &'a Topology, name: &str) -> &'a Nic {
    machine.nic(name).unwrap()
}

#[test]
fn pci_nic_is_read_whole() {
    let machine = Tree::two_nodes().with_pci_nic().read().unwrap();
    let eth0 = nic(&machine, "eth0");
    assert_eq!(eth0.kind, NicKind::Device);
    assert_eq!(eth0.pci.unwrap().to_string(), "0000:82:00.0");
    assert_eq!(eth0.driver.as_deref(), Some("igb"), "the driver's link dangles, and still names it");
    assert_eq!((eth0.node, &eth0.local_cpus), (Some(NodeId(1)), &cpus("2-3,6-7")));
    assert_eq!((eth0.speed, eth0.up, eth0.mtu), (Some(Bandwidth::mbps(10_000)), Some(true), Some(9000)));
    assert_eq!(eth0.mac.unwrap().to_string(), "52:54:00:00:00:01");
    let rps: Vec<_> = eth0.rx_queues.iter().map(|queue| (queue.index, queue.rps_cpus.clone())).collect();
    assert_eq!(rps, [(0, cpus("")), (1, cpus("6-7"))]);
    let xps: Vec<_> = eth0.tx_queues.iter().map(|queue| (queue.index, queue.xps_cpus.clone())).collect();
    assert_eq!(xps, [(0, cpus("2-3")), (1, None)]);
    let interrupts: Vec<_> = eth0.interrupts.iter().map(|irq| (irq.number, irq.name.as_deref())).collect();
    assert_eq!(interrupts, [(99, Some("eth0")), (101, Some("eth0-TxRx-0"))]);
    assert_eq!((&eth0.interrupts[0].affinity, &eth0.interrupts[0].effective), (&cpus("0-7"), &None));
    assert_eq!((&eth0.interrupts[1].affinity, &eth0.interrupts[1].effective), (&cpus("2-3,6-7"), &cpus("3")));
    assert_eq!(eth0.locality(&machine), cpus("2-3,6-7"));
    assert_eq!(eth0.rx_queues.iter().map(|queue| queue.interrupt).collect::<Vec<_>>(), [Some(101), None]);
    assert_eq!(eth0.tx_queues.iter().map(|queue| queue.interrupt).collect::<Vec<_>>(), [Some(101), None]);
    assert_eq!(eth0.interrupt(101).unwrap().cpus(), cpus("3").as_ref());
    assert_eq!(eth0.interrupt(99).unwrap().cpus(), cpus("0-7").as_ref(), "as far as is known");
}

/// A library that follows links by procfs checks that by a call which the sandbox refuses, and
/// panics.
#[test]
fn pci_nic_is_found_where_renaming_is_refused() {
    let name = "nics::pci_nic_is_found_where_renaming_is_refused";
    for refusal in [Errno::EPERM, Errno::ENOSYS] {
        Sandbox::new().deny(refusal, &["renameat"]).rerun(name, || {
            let machine = Tree::two_nodes().with_pci_nic().read().unwrap();
            assert_eq!(nic(&machine, "eth0").pci.unwrap().to_string(), "0000:82:00.0");
        });
    }
}

#[test]
fn port_its_polling_and_its_steering_are_read() {
    let tree = Tree::two_nodes().with_pci_nic();
    let net = "sys/devices/pci0000:80/0000:80:02.0/0000:82:00.0/net/eth0";
    for (name, text) in [
        ("dev_port", "1"),
        ("phys_port_id", "b8599f0300c1d2e4"),
        ("phys_switch_id", "e4d2c100039f59b8"),
        ("threaded", "1"),
        ("queues/rx-0/rps_flow_cnt", "0"),
        ("queues/rx-1/rps_flow_cnt", "4096"),
    ] {
        tree.file(&format!("{net}/{name}"), text);
    }
    let machine = tree.read().unwrap();
    let eth0 = nic(&machine, "eth0");
    assert_eq!((eth0.carrier, eth0.port, eth0.threaded_napi), (Some(true), Some(1), Some(true)));
    assert_eq!(eth0.physical_port.as_deref(), Some("b8599f0300c1d2e4"));
    assert_eq!(eth0.physical_switch.as_deref(), Some("e4d2c100039f59b8"));
    assert_eq!(eth0.rx_queues.iter().map(|queue| queue.rps_flows).collect::<Vec<_>>(), [Some(0), Some(4096)]);
    for (name, text) in [("carrier", "2"), ("dev_port", "-1"), ("threaded", "off"), ("queues/rx-1/rps_flow_cnt", "0x1")]
    {
        tree.file(&format!("{net}/{name}"), text);
    }
    let machine = tree.read().unwrap();
    let eth0 = nic(&machine, "eth0");
    assert_eq!((eth0.carrier, eth0.port, eth0.threaded_napi), (None, None, None));
    assert_eq!(eth0.rx_queues[1].rps_flows, None);
}

#[test]
fn virtio_nic_hangs_on_the_function_above_it() {
    let tree = Tree::two_nodes();
    let function = "sys/devices/pci0000:00/0000:00:03.0";
    tree.link("sys/class/net/eth0", "../../devices/pci0000:00/0000:00:03.0/virtio2/net/eth0");
    tree.link(&format!("{function}/virtio2/net/eth0/device"), "../../../virtio2");
    tree.link(&format!("{function}/virtio2/driver"), "../../../../bus/virtio/drivers/virtio_net");
    tree.file(&format!("{function}/msi_irqs/37"), "msix").file(&format!("{function}/numa_node"), "0");
    let machine = tree.read().unwrap();
    let eth0 = nic(&machine, "eth0");
    assert_eq!(eth0.pci.unwrap().to_string(), "0000:00:03.0");
    assert_eq!((eth0.driver.as_deref(), eth0.node), (Some("virtio_net"), Some(NodeId(0))));
    assert_eq!((eth0.interrupts.len(), eth0.interrupts[0].number), (1, 37));
    assert_eq!(eth0.locality(&machine), cpus("0-1,4-5"), "by its node");
}

#[test]
fn minus_one_is_no_node_and_every_cpu_is_no_place() {
    let tree = Tree::two_nodes().with_pci_nic();
    let function = "sys/devices/pci0000:80/0000:80:02.0/0000:82:00.0";
    tree.file(&format!("{function}/numa_node"), "-1").file(&format!("{function}/local_cpulist"), "0-7");
    tree.file(&format!("{function}/net/eth0/speed"), "-1");
    let machine = tree.read().unwrap();
    let eth0 = nic(&machine, "eth0");
    assert_eq!((eth0.node, &eth0.local_cpus, eth0.speed), (None, &None, None));
    assert_eq!(eth0.locality(&machine), None);
    tree.file(&format!("{function}/numa_node"), "7");
    assert_eq!(nic(&tree.read().unwrap(), "eth0").node, None, "there is no node 7");
}

#[test]
fn on_a_machine_of_one_place_every_cpu_is_local() {
    let tree = Tree::new().with_pci_nic();
    tree.cpu(0, (0, "0-1"), (0, "0")).cpu(1, (0, "0-1"), (1, "1"));
    let function = "sys/devices/pci0000:80/0000:80:02.0/0000:82:00.0";
    tree.file(&format!("{function}/numa_node"), "-1").file(&format!("{function}/local_cpulist"), "");
    let machine = tree.read().unwrap();
    let eth0 = nic(&machine, "eth0");
    assert_eq!((eth0.node, &eth0.local_cpus), (None, &None));
    assert_eq!(eth0.locality(&machine), cpus("0-1"));
}

#[test]
fn unknown_facts_of_a_nic() {
    let tree = Tree::two_nodes();
    tree.link("sys/class/net/lo", "../../devices/virtual/net/lo");
    tree.link("sys/class/net/br0", "../../devices/virtual/net/br0");
    tree.link("sys/class/net/eth9", "../../devices/pci0000:00/0000:00:04.0/net/eth9");
    tree.file("sys/class/net/bonding_masters", "bond0");
    tree.file("sys/devices/virtual/net/veth0/operstate", "unknown")
        .link("sys/class/net/veth0", "../../devices/virtual/net/veth0");
    let machine = tree.read().unwrap();
    let names: Vec<&str> = machine.nics().iter().map(|nic| nic.name.as_str()).collect();
    assert_eq!(names, ["br0", "eth9", "lo", "veth0"], "a file among them is no interface");
    assert_eq!(nic(&machine, "lo"), &Nic { kind: NicKind::Loopback, ..Nic::named("lo") });
    assert_eq!(nic(&machine, "br0"), &Nic { kind: NicKind::Virtual, ..Nic::named("br0") });
    assert_eq!(nic(&machine, "veth0"), &Nic { kind: NicKind::Virtual, ..Nic::named("veth0") });
    let eth9 = Nic { pci: Some("0000:00:04.0".parse().unwrap()), ..Nic::named("eth9") };
    assert_eq!(nic(&machine, "eth9"), &eth9, "the link names a device that the tree does not hold");
}

#[test]
fn legacy_interrupt_without_msi() {
    let tree = Tree::two_nodes().with_pci_nic();
    let function = "sys/devices/pci0000:80/0000:80:02.0/0000:82:00.0";
    std::fs::remove_dir_all(tree.path().join(function).join("msi_irqs")).unwrap();
    let numbers = |machine: Topology| nic(&machine, "eth0").interrupts.iter().map(|irq| irq.number).collect::<Vec<_>>();
    assert_eq!(numbers(tree.read().unwrap()), [17]);
    tree.file(&format!("{function}/irq"), "0");
    assert_eq!(numbers(tree.read().unwrap()), [0u32; 0]);
}

#[test]
fn model_survives_its_json() {
    let machine = Tree::two_nodes().with_pci_nic().read().unwrap();
    let json = serde_json::to_value(&machine).unwrap();
    assert_eq!(json["nics"][0]["speed_bits_per_second"], 10_000_000_000u64);
    assert_eq!(json["nics"][0]["mtu_bytes"], 9000);
    assert_eq!(json["nodes"][1]["memory_bytes"], 2u64 << 30);
    assert_eq!(json["caches"][5]["size_bytes"], 16 << 20);
    assert_eq!(json["nics"][0]["interrupts"][1]["effective"], "3");
    assert_eq!(json["nics"][0]["mac"], "52:54:00:00:00:01");
    assert_eq!(serde_json::from_value::<Topology>(json).unwrap(), machine);
}
