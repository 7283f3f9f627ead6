//! Dies, and kinds of cores.

use crate::tree::Tree;
use rails_topo::{CoreKind, Topology};

fn cpu_file(tree: &Tree, cpu: u32, name: &str, text: &str) {
    tree.file(&format!("sys/devices/system/cpu/cpu{cpu}/{name}"), text);
}

/// Each kind's CPUs, rank and name.
fn kinds(machine: &Topology) -> Vec<(String, Option<u32>, Option<&str>)> {
    let kind = |kind: &CoreKind| kind.cpus.to_string();
    machine.core_kinds().iter().map(|known| (kind(known), known.efficiency, known.name.as_deref())).collect()
}

#[test]
fn parts_of_a_package_are_dies() {
    let tree = Tree::two_nodes();
    for cpu in 0..8 {
        // The first package has a die for each core, the second is one.
        let (id, die) = match cpu {
            0 | 4 => ("0", "0,4"),
            1 | 5 => ("1", "1,5"),
            _ => ("0", "2-3,6-7"),
        };
        cpu_file(&tree, cpu, "topology/die_id", id);
        cpu_file(&tree, cpu, "topology/die_cpus_list", die);
    }
    let dies = |machine: Topology| machine.dies().iter().map(|die| (die.id, die.cpus.to_string())).collect::<Vec<_>>();
    assert_eq!(dies(tree.read().unwrap()), [(Some(0), "0,4".to_owned()), (Some(1), "1,5".to_owned())]);
    cpu_file(&tree, 1, "topology/die_cpus_list", "0-7");
    cpu_file(&tree, 5, "topology/die_cpus_list", "0-7");
    assert_eq!(dies(tree.read().unwrap()), [(Some(0), "0,4".to_owned())], "a die is inside a package");
    assert!(Tree::two_nodes().read().unwrap().dies().is_empty());
}

#[test]
fn hybrid_cores_by_their_event_units() {
    let tree = Tree::two_nodes();
    tree.file("sys/devices/cpu_core/cpus", "0-1,4-5").file("sys/devices/cpu_atom/cpus", "2-3,6-7,64");
    for cpu in 0..8 {
        let (highest, base, capacity) =
            if cpu % 4 < 2 { (5_000_000 + cpu, "2400000", 1024 - cpu) } else { (3_800_000, "1800000", 600) };
        cpu_file(&tree, cpu, "cpufreq/cpuinfo_max_freq", &highest.to_string());
        cpu_file(&tree, cpu, "cpufreq/base_frequency", base);
        cpu_file(&tree, cpu, "cpu_capacity", &capacity.to_string());
    }
    let machine = tree.read().unwrap();
    assert_eq!(
        machine.core_kinds(),
        [
            CoreKind {
                cpus: "2-3,6-7".parse().unwrap(),
                efficiency: Some(0),
                name: Some("cpu_atom".to_owned()),
                capacity: Some(600),
                max_frequency: Some(3_800_000),
                base_frequency: Some(1_800_000),
            },
            CoreKind {
                cpus: "0-1,4-5".parse().unwrap(),
                efficiency: Some(1),
                name: Some("cpu_core".to_owned()),
                capacity: Some(1019),
                max_frequency: Some(5_000_000),
                base_frequency: Some(2_400_000),
            },
        ]
    );
    // One of the kinds offline leaves cores that are all alike.
    tree.file("sys/devices/system/cpu/online", "0-1,4-5");
    assert_eq!(kinds(&tree.read().unwrap()), []);
}

#[test]
fn units_that_leave_out_or_share_a_cpu_tell_nothing() {
    for atom in ["3,6-7", "1-3,6-7"] {
        let tree = Tree::two_nodes();
        tree.file("sys/devices/cpu_core/cpus", "0-1,4-5").file("sys/devices/cpu_atom/cpus", atom);
        assert_eq!(kinds(&tree.read().unwrap()), [], "{atom}");
    }
}

#[test]
fn capacities_tell_cores_apart() {
    let tree = Tree::two_nodes();
    (0..8).for_each(|cpu| cpu_file(&tree, cpu, "cpu_capacity", if cpu == 3 { "1024" } else { "446" }));
    let machine = tree.read().unwrap();
    assert_eq!(kinds(&machine), [("0-2,4-7".to_owned(), Some(0), None), ("3".to_owned(), Some(1), None)]);
    assert_eq!((machine.core_kinds()[0].capacity, machine.core_kinds()[0].max_frequency), (Some(446), None));
    cpu_file(&tree, 5, "cpu_capacity", "0");
    assert_eq!(kinds(&tree.read().unwrap()), [], "one of them has none");
}

#[test]
fn core_kinds_by_frequency_but_not_by_favour() {
    let tree = Tree::two_nodes();
    let highest = |cpu: u32, kilohertz: u32| cpu_file(&tree, cpu, "cpufreq/cpuinfo_max_freq", &kilohertz.to_string());
    (0..8).for_each(|cpu| highest(cpu, 4_800_000 + cpu * 50_000));
    assert_eq!(kinds(&tree.read().unwrap()), []);
    [2, 3].into_iter().for_each(|cpu| highest(cpu, 3_300_000));
    let expected = [("2-3".to_owned(), Some(0), None), ("0-1,4-7".to_owned(), Some(1), None)];
    assert_eq!(kinds(&tree.read().unwrap()), expected);
    assert_eq!(
        tree.read().unwrap().core_kinds()[1].max_frequency,
        Some(4_800_000),
        "the maximum that each of them reaches"
    );
    // Frequencies without boost are exact.
    (0..8).for_each(|cpu| highest(cpu, 4_000_000));
    (0..8).for_each(|cpu| cpu_file(&tree, cpu, "cpufreq/base_frequency", if cpu < 4 { "2700000" } else { "2100000" }));
    let expected = [("4-7".to_owned(), Some(0), None), ("0-3".to_owned(), Some(1), None)];
    assert_eq!(kinds(&tree.read().unwrap()), expected);
}
