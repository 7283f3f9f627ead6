//! Which interrupt is of which queue, and devices with several interfaces and thousands of
//! interrupts.

use crate::tree::Tree;
use rails_topo::{CpuSet, Nic, NicKind};
use std::fmt::Write;

const FUNCTION: &str = "sys/devices/pci0000:80/0000:80:02.0/0000:82:00.0";

/// An interface of the function with as many receive and transmit queues.
fn port(tree: &Tree, name: &str, queues: u32) {
    tree.link(&format!("sys/class/net/{name}"), &format!("../../../{FUNCTION}/net/{name}"));
    tree.link(&format!("{FUNCTION}/net/{name}/device"), "../../../0000:82:00.0");
    for queue in 0..queues {
        tree.folder(&format!("{FUNCTION}/net/{name}/queues/rx-{queue}"));
        tree.folder(&format!("{FUNCTION}/net/{name}/queues/tx-{queue}"));
    }
}

/// The function's driver, and its vectors from `first` on, of these names, on the CPUs in turn.
fn vectors(tree: &Tree, driver: &str, first: u32, names: &[String]) {
    tree.link(&format!("{FUNCTION}/driver"), &format!("../../../../bus/pci/drivers/{driver}"));
    let mut interrupts = "           CPU0       CPU1\n".to_owned();
    for (number, name) in (first..).zip(names) {
        tree.file(&format!("{FUNCTION}/msi_irqs/{number}"), "msix");
        writeln!(interrupts, " {number}:   7   0  IR-PCI-MSIX-0000:82:00.0    {}-edge      {name}", number - first)
            .unwrap();
    }
    tree.file("proc/interrupts", &interrupts);
}

fn receive(nic: &Nic) -> Vec<Option<u32>> {
    nic.rx_queues.iter().map(|queue| queue.interrupt).collect()
}

fn transmit(nic: &Nic) -> Vec<Option<u32>> {
    nic.tx_queues.iter().map(|queue| queue.interrupt).collect()
}

#[test]
fn queue_leads_to_its_interrupt_and_to_its_cpus() {
    let tree = Tree::two_nodes();
    port(&tree, "eth0", 3);
    let names = ["mlx5_async0@pci:0000:82:00.0", "mlx5_comp0@pci:0000:82:00.0", "mlx5_comp1@pci:0000:82:00.0"];
    vectors(&tree, "mlx5_core", 60, &names.map(str::to_owned));
    tree.file("proc/irq/62/smp_affinity_list", "2-3").file("proc/irq/62/effective_affinity_list", "3");
    let machine = tree.read().unwrap();
    let eth0 = machine.nic("eth0").unwrap();
    assert_eq!(receive(eth0), [Some(61), Some(62), None], "a queue without an interrupt");
    assert_eq!(transmit(eth0), [Some(61), Some(62), None]);
    let cpus = |queue: usize| eth0.interrupt(eth0.rx_queues[queue].interrupt?)?.cpus();
    assert_eq!(cpus(1), Some(&"3".parse::<CpuSet>().unwrap()));
    assert_eq!((cpus(0), cpus(2)), (None, None));
}

#[test]
fn own_interrupts_of_each_interface() {
    let tree = Tree::two_nodes();
    port(&tree, "eth0", 2);
    port(&tree, "eth1", 2);
    let names = ["eth0", "eth0-FWeventq", "eth0-Rx0", "eth0-Rx1", "eth1-Rx0", "eth1-Rx1"];
    vectors(&tree, "cxgb4", 70, &names.map(str::to_owned));
    let machine = tree.read().unwrap();
    let [eth0, eth1] = ["eth0", "eth1"].map(|name| machine.nic(name).unwrap());
    assert_eq!((eth0.pci, eth0.interrupts.len()), (eth1.pci, 6), "both are of one function");
    assert_eq!((receive(eth0), receive(eth1)), (vec![Some(72), Some(73)], vec![Some(74), Some(75)]));
}

#[test]
fn queue_claimed_by_two_interrupts() {
    let tree = Tree::two_nodes();
    port(&tree, "eth0", 2);
    vectors(&tree, "igb", 70, &["eth0-TxRx-0", "eth0-TxRx-1", "eth0-TxRx-1"].map(str::to_owned));
    let machine = tree.read().unwrap();
    assert_eq!(receive(machine.nic("eth0").unwrap()), [Some(70), None]);
}

#[test]
fn ten_thousand_interrupts_are_read() {
    let tree = Tree::two_nodes();
    port(&tree, "eth0", 2000);
    let of_queues = (0..2000).map(|queue| format!("mlx5_comp{queue}@pci:0000:82:00.0"));
    let of_others = (0..8000).map(|queue| format!("nvme{}q{queue}", queue / 100));
    let names: Vec<String> = of_queues.chain(of_others).collect();
    vectors(&tree, "mlx5_core", 100, &names);
    // Ports of virtual functions on the switch of the card are interfaces of the same function.
    (0..20).for_each(|number| port(&tree, &format!("eth0vf{number}"), 1));
    let machine = tree.read().unwrap();
    let eth0 = machine.nic("eth0").unwrap();
    assert_eq!(eth0.interrupts.len(), 10_000);
    assert_eq!(receive(eth0), (100..2100).map(Some).collect::<Vec<_>>());
    assert_eq!(receive(machine.nic("eth0vf19").unwrap()), [Some(100)]);
}

/// Without a device link an interface may still be a device's: the text of its own link names it.
/// Without that it is software.
#[test]
fn without_a_device_no_queue_has_an_interrupt() {
    let tree = Tree::two_nodes();
    vectors(&tree, "igb", 70, &["eth0-TxRx-0".to_owned()]);
    tree.folder("sys/class/net/eth0/queues/rx-0").folder("sys/class/net/eth0/queues/tx-0");
    let machine = tree.read().unwrap();
    let eth0 = machine.nic("eth0").unwrap();
    assert_eq!((eth0.kind, eth0.pci, eth0.interrupts.len()), (NicKind::Virtual, None, 0));
    assert_eq!((receive(eth0), transmit(eth0)), (vec![None], vec![None]));
}
