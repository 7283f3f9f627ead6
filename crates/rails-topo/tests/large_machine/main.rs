//! The cost of a machine of 192 PUs with 16 NICs of 64 queues: its text is small, and queries of
//! its locality take no memory.
//!
//! Allocations are counted by a global allocator, which is why this is a program of its own.

mod machine;

use rails_topo::{CpuId, Level, Locality, Nic, NodeId, Topology};
use std::hint::black_box;

#[test]
fn its_snapshot_is_below_a_mebibyte() {
    let machine = machine::machine();
    assert_eq!((machine.online_cpus().len(), machine.nodes().len()), (192, 8));
    assert!(machine.nics().len() == 16 && machine.nics().iter().all(|nic| nic.rx_queues.len() == 64));
    let written = serde_json::to_string(&machine).unwrap();
    assert!(written.len() <= 1 << 20, "{} bytes", written.len());
    assert!(written.len() >= 1 << 18, "{} bytes: is everything there?", written.len());
    assert_eq!(serde_json::from_str::<Topology>(&written).unwrap(), machine);
}

#[test]
fn queries_take_no_memory() {
    let machine = machine::machine();
    let locality = machine.locality();
    let made = allocation_counter::measure(|| {
        black_box(machine.locality());
    });
    assert!(made.count_total > 0, "allocations are counted");
    let count = |what: &str, query: &dyn Fn()| {
        let counted = allocation_counter::measure(query);
        assert_eq!((counted.count_total, counted.bytes_total), (0, 0), "{what}");
    };
    count("of PUs", &|| of_pus(&locality));
    count("of nodes", &|| {
        let tiers = (0..9).flat_map(|node| locality.nodes_from_node(NodeId(node)));
        assert_eq!(tiers.map(|tier| tier.nodes.len()).sum::<usize>(), 9 * 8);
    });
    for nic in machine.nics() {
        count("of a NIC", &|| of_nic(&locality, nic));
        count("of two NICs", &|| {
            let known = machine.nics().iter().filter(|other| locality.common_ancestor(nic, *other).is_some());
            assert_eq!(known.count(), 16);
        });
    }
    count("of a GPU", &|| {
        let gpu = &machine.gpus()[0];
        assert!(locality.closest_nodes(gpu).is_some() && locality.closest_pus(gpu).is_some());
        assert_eq!(locality.nodes_from(gpu).count(), 2);
    });
}

fn of_pus(locality: &Locality<'_>) {
    for cpu in (0..200).map(CpuId) {
        let nodes: usize = locality.nodes_from_cpu(cpu).map(|tier| tier.nodes.len()).sum();
        assert_eq!(nodes, 8);
        assert_eq!(locality.nearest_node(cpu).is_some(), cpu.0 < 192);
        assert_eq!(locality.around(cpu).len(), if cpu.0 < 192 { 7 } else { 0 });
        assert_eq!(locality.sharing(cpu, Level::Cache(3)).is_some(), cpu.0 < 192);
        black_box(locality.shared_by(cpu, CpuId(0)));
    }
}

fn of_nic(locality: &Locality<'_>, nic: &Nic) {
    assert!(locality.closest_pus(nic).is_some_and(|closest| closest.beside));
    assert_eq!(locality.closest_nodes(nic).map(|tier| tier.nodes.len()), Some(1));
    assert_eq!(locality.sharers(nic).count(), 1);
    assert_eq!(locality.path(nic).map(|path| (path.links, path.unknown)), Some((2, 0)));
}
