//! The facts of a node's memory beside its size.

use crate::tree::Tree;
use rails_topo::{Bandwidth, DataSize, Hugepages, MemoryPerformance, Topology};

fn performance(machine: &Topology, node: usize) -> &[MemoryPerformance] {
    &machine.nodes()[node].performance
}

#[test]
fn pools_of_huge_pages_are_read_by_size() {
    let tree = Tree::two_nodes();
    let pools = "sys/devices/system/node/node1/hugepages";
    tree.file(&format!("{pools}/hugepages-2048kB/nr_hugepages"), "512");
    tree.file(&format!("{pools}/hugepages-2048kB/free_hugepages"), "500");
    tree.file(&format!("{pools}/hugepages-1048576kB/nr_hugepages"), "many");
    tree.folder(&format!("{pools}/hugepages-64kB")).folder(&format!("{pools}/lost+found"));
    let machine = tree.read().unwrap();
    let pool = |size, total, free| Hugepages { size: DataSize::bytes(size), total, free };
    let expected = [pool(64 << 10, None, None), pool(2 << 20, Some(512), Some(500)), pool(1 << 30, None, None)];
    assert_eq!(machine.nodes()[1].hugepages, expected);
    assert!(machine.nodes()[0].hugepages.is_empty());
}

#[test]
fn node_is_of_the_tier_that_lists_it() {
    let tree = Tree::two_nodes();
    tree.node(2, "", 1 << 20, "17 28 10").node(3, "", 1 << 20, "10 10 10 10");
    let tier = |number: u32, nodes| {
        tree.file(&format!("sys/devices/virtual/memory_tiering/memory_tier{number}/nodelist"), nodes);
    };
    tier(4, "0-1,3");
    tier(22, "2-3");
    let machine = tree.read().unwrap();
    let tiers: Vec<Option<u32>> = machine.nodes().iter().map(|node| node.tier).collect();
    assert_eq!(tiers, [Some(4), Some(4), Some(22), None], "two tiers claim node 3");
    assert!(Tree::two_nodes().read().unwrap().nodes().iter().all(|node| node.tier.is_none()));
}

#[test]
fn memory_performance_from_the_firmware() {
    let tree = Tree::two_nodes();
    let class = |node: u32, class: u32| format!("sys/devices/system/node/node{node}/access{class}/initiators");
    let figures = |folder: &str, figures: [&str; 4]| {
        for (name, figure) in ["read_bandwidth", "write_bandwidth", "read_latency", "write_latency"].iter().zip(figures)
        {
            tree.file(&format!("{folder}/{name}"), figure);
        }
    };
    // Memory without CPUs, which both packages reach alike, and class 0 knows an initiator that is no
    // processor.
    tree.node(2, "", 1 << 20, "17 17 10");
    figures(&class(2, 0), ["9999", "9999", "1", "1"]);
    tree.link(&format!("{}/node2", class(2, 0)), "../../../node2");
    figures(&class(2, 1), ["6400", "3200", "250", "0"]);
    tree.link(&format!("{}/node0", class(2, 1)), "../../../node0");
    tree.link(&format!("{}/node1", class(2, 1)), "../../../node1");
    // An older kernel has class 0 alone, here with figures that are none.
    figures(&class(0, 0), ["12800", "x", "-1", "18446744073709551616"]);
    tree.link(&format!("{}/node0", class(0, 0)), "../../node0");
    // Nothing says who sees this.
    figures(&class(1, 0), ["12800", "12800", "80", "80"]);
    let machine = tree.read().unwrap();
    let fast = MemoryPerformance {
        from: "0-7".parse().unwrap(),
        read_bandwidth: Some(Bandwidth::bits_per_second(6_400 * 8_000_000)),
        write_bandwidth: Some(Bandwidth::bits_per_second(3_200 * 8_000_000)),
        read_latency: Some(250),
        write_latency: None,
    };
    assert_eq!(performance(&machine, 2), [fast]);
    let partly = MemoryPerformance {
        from: "0-1,4-5".parse().unwrap(),
        read_bandwidth: Some(Bandwidth::bits_per_second(12_800 * 8_000_000)),
        ..MemoryPerformance::default()
    };
    assert_eq!(performance(&machine, 0), [partly]);
    assert_eq!(performance(&machine, 1), []);
    let json = serde_json::to_value(&machine).unwrap();
    assert_eq!(json["nodes"][2]["performance"][0]["read_bits_per_second"], 51_200_000_000u64);
    assert_eq!(json["nodes"][2]["performance"][0]["read_latency_ns"], 250);
    assert_eq!(serde_json::from_value::<Topology>(json).unwrap(), machine);
}

#[test]
fn of_nodes_that_claim_one_cpu_the_first_keeps_it() {
    let tree = Tree::two_nodes();
    tree.node(1, "0-3,6-7", 1 << 20, "21 10");
    let machine = tree.read().unwrap();
    assert_eq!(machine.nodes()[0].cpus.to_string(), "0-1,4-5");
    assert_eq!(machine.nodes()[1].cpus.to_string(), "2-3,6-7");
}

#[test]
fn numbers_that_no_node_has_are_no_nodes() {
    let tree = Tree::two_nodes();
    for name in ["node-1", "node1024", "node4294967295", "node99999999999", "node", "nodes"] {
        tree.folder(&format!("sys/devices/system/node/{name}"));
    }
    assert_eq!(tree.read().unwrap().nodes().len(), 2);
}
