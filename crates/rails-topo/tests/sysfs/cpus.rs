//! CPUs, packages, cores, caches and nodes.

use crate::tree::Tree;
use rails_topo::{CacheKind, CpuId, CpuSet, DataSize, NodeId, SysfsError};

#[test]
fn two_nodes_are_read_whole() {
    let machine = Tree::two_nodes().read().unwrap();
    assert_eq!(machine.packages().len(), 2);
    assert_eq!((machine.packages()[1].id, machine.packages()[1].cpus.to_string()), (Some(1), "2-3,6-7".to_owned()));
    assert_eq!(machine.cores().len(), 4);
    assert_eq!(machine.core_of_cpu(CpuId(6)).unwrap().cpus.to_string(), "2,6");
    assert_eq!(machine.nodes()[1].memory, Some(DataSize::bytes(2 << 30)));
    assert_eq!(machine.distances().unwrap().between(NodeId(1), NodeId(0)), Some(21));
    assert_eq!(machine.caches().len(), 6);
    assert_eq!((machine.caches()[0].level, machine.caches()[0].kind), (1, CacheKind::Data));
    assert_eq!(machine.caches()[5].size, Some(DataSize::bytes(16 << 20)));
    assert_eq!(machine.sharing_last_level_cache(CpuId(0)).unwrap().to_string(), "0-1,4-5");
    assert_eq!(machine.allowed_cpus(), machine.online_cpus());
    assert!(machine.nics().is_empty());
}

#[test]
fn allowed_sets_of_the_process_status() {
    let tree = Tree::two_nodes();
    tree.file("proc/self/status", "Name:\tx\nCpus_allowed:\tf3\nCpus_allowed_list:\t0-1,5-63\nMems_allowed_list:\t1-3");
    let machine = tree.read().unwrap();
    assert_eq!(machine.allowed_cpus().to_string(), "0-1,5-7");
    assert_eq!(machine.allowed_nodes().to_string(), "1");
    assert_eq!(machine.online_cpus().to_string(), "0-7");
}

#[test]
fn old_kernel_writes_masks_and_hides_offline_cpus() {
    let tree = Tree::new();
    for cpu in [0, 1, 3] {
        let folder = format!("sys/devices/system/cpu/cpu{cpu}");
        tree.file(&format!("{folder}/topology/core_siblings"), "00000000,0000000f");
        tree.file(&format!("{folder}/topology/thread_siblings"), if cpu == 0 { "05" } else { "0a" });
        tree.file(&format!("{folder}/cache/index0/level"), "2").file(&format!("{folder}/cache/index0/type"), "Unified");
        tree.file(&format!("{folder}/cache/index0/shared_cpu_map"), "0000000f");
    }
    tree.folder("sys/devices/system/cpu/cpu2").folder("sys/devices/system/cpu/cpuidle");
    let machine = tree.read().unwrap();
    assert_eq!(machine.online_cpus().to_string(), "0-1,3");
    assert_eq!(machine.packages().len(), 1);
    assert_eq!((machine.packages()[0].id, machine.packages()[0].cpus.to_string()), (None, "0-1,3".to_owned()));
    let cores: Vec<String> = machine.cores().iter().map(|core| core.cpus.to_string()).collect();
    assert_eq!(cores, ["0", "1,3"]);
    assert_eq!((machine.caches().len(), machine.caches()[0].size), (1, None));
    assert!(machine.nodes().is_empty() && machine.allowed_nodes().is_empty() && machine.distances().is_none());
}

/// As on many Itaniums.
#[test]
fn cache_with_an_empty_mask_is_the_cores_own() {
    let tree = Tree::new();
    for cpu in 0..4 {
        let (core, cpus) = if cpu < 2 { (0, "0-1") } else { (1, "2-3") };
        tree.cpu(cpu, (0, "0-3"), (core, cpus));
        let folder = format!("sys/devices/system/cpu/cpu{cpu}/cache/index4");
        tree.file(&format!("{folder}/level"), "3").file(&format!("{folder}/type"), "Unified");
        tree.file(&format!("{folder}/shared_cpu_map"), "00000000,00000000");
    }
    let machine = tree.read().unwrap();
    let shared: Vec<String> = machine.caches().iter().map(|cache| cache.cpus.to_string()).collect();
    assert_eq!(shared, ["0-1", "2-3"]);
}

/// AMD's family 15h: the kernel lists the cores of a unit as threads of one, and some kernels its
/// shared caches as private, in the list alone.
#[test]
fn cores_of_a_compute_unit_are_told_apart() {
    let tree = Tree::new();
    for cpu in 0..4 {
        let unit = if cpu < 2 { "0-1" } else { "2-3" };
        tree.cpu(cpu, (0, "0-3"), (cpu, unit)).cache(cpu, 2, 2, "Unified", "2048K", &cpu.to_string());
        let mask = if cpu < 2 { "00000000,00000003" } else { "00000000,0000000c" };
        tree.file(&format!("sys/devices/system/cpu/cpu{cpu}/cache/index2/shared_cpu_map"), mask);
    }
    let cpuinfo = |family| format!("processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: {family}\n");
    let threads = tree.file("proc/cpuinfo", &cpuinfo(23)).read().unwrap();
    assert_eq!(threads.cores().len(), 2, "of other processors");
    let machine = tree.file("proc/cpuinfo", &cpuinfo(21)).read().unwrap();
    let cores: Vec<(Option<u32>, String)> =
        machine.cores().iter().map(|core| (core.id, core.cpus.to_string())).collect();
    assert_eq!(cores, (0..4).map(|cpu| (Some(cpu), cpu.to_string())).collect::<Vec<_>>());
    let shared: Vec<String> = machine.caches().iter().map(|cache| cache.cpus.to_string()).collect();
    assert_eq!(shared, ["0-1", "2-3"]);
}

#[test]
fn offline_cpus_are_in_no_set() {
    let tree = Tree::two_nodes();
    tree.file("sys/devices/system/cpu/online", "0-1,4-6");
    let machine = tree.read().unwrap();
    assert_eq!(machine.packages()[1].cpus.to_string(), "6");
    assert_eq!(machine.nodes()[1].cpus.to_string(), "6");
    assert_eq!(machine.cores().len(), 3);
    assert!(machine.core_of_cpu(CpuId(7)).is_none());
}

#[test]
fn without_a_topology_folder_cpuinfo_tells() {
    let tree = Tree::new();
    tree.folder("sys/devices/system/cpu/cpu0")
        .folder("sys/devices/system/cpu/cpu1")
        .folder("sys/devices/system/cpu/cpu2");
    let cpu = |cpu, core| format!("processor : {cpu}\nmodel name : Old  CPU\nphysical id : 0\ncore id : {core}\n");
    tree.file("proc/cpuinfo", &format!("{}\n{}", cpu(0, 0), cpu(1, 4)));
    let machine = tree.read().unwrap();
    assert_eq!(machine.online_cpus().to_string(), "0-1", "CPU 2 does not run");
    assert_eq!((machine.packages().len(), machine.cores().len()), (1, 2));
    assert_eq!(machine.machine().cpu_model.as_deref(), Some("Old CPU"));
}

#[test]
fn without_any_topology_cores_are_unknown() {
    let tree = Tree::new();
    tree.folder("sys/devices/system/cpu/cpu0").folder("sys/devices/system/cpu/cpu1");
    let machine = tree.read().unwrap();
    assert_eq!(machine.online_cpus().to_string(), "0-1");
    assert!(machine.packages().is_empty() && machine.cores().is_empty() && machine.caches().is_empty());
    assert_eq!(machine.nearest_node(CpuId(0)), None);
}

/// Firmware numbers cores as it likes; a set takes memory and time by its largest number.
#[test]
fn tree_with_the_largest_core_number() {
    let tree = Tree::new();
    tree.cpu(0, (0, "0-1"), (u32::MAX - 1, "0")).cpu(1, (0, "0-1"), (u32::MAX, "1"));
    let machine = tree.read().unwrap();
    assert_eq!(machine.cores()[1].id, Some(u32::MAX));
    let printed = machine.tree().to_string();
    assert!(printed.contains("2 cores (1 PU each)  CPUs 0-1"), "{printed}");
}

#[test]
fn cache_that_its_cpus_deny_is_dropped() {
    let tree = Tree::two_nodes();
    tree.cache(2, 3, 3, "Unified", "16M", "0-3");
    let machine = tree.read().unwrap();
    let last: Vec<&CpuSet> =
        machine.caches().iter().filter(|cache| cache.level == 3).map(|cache| &cache.cpus).collect();
    assert_eq!(last, [&"0-1,4-5".parse::<CpuSet>().unwrap(), &"2-3,6-7".parse().unwrap()]);
}

#[test]
fn nodes_without_cpus_or_without_memory() {
    let tree = Tree::two_nodes();
    tree.node(0, "0-1,4-5", 0, "10 21 17").node(1, "2-3,6-7", 4, "21 10 28").node(2, "", 1 << 20, "17 28 10");
    let machine = tree.read().unwrap();
    assert!(machine.nodes()[2].cpus.is_empty());
    assert_eq!(machine.nearest_node(CpuId(0)), Some(NodeId(2)), "the nearest that has memory");
    assert_eq!(machine.nearest_node(CpuId(2)), Some(NodeId(1)));
    tree.file("sys/devices/system/node/node2/distance", "17 28");
    let machine = tree.read().unwrap();
    assert!(machine.distances().is_none(), "a row is too short");
    assert_eq!(machine.nearest_node(CpuId(0)), None, "nothing says which of the two is nearer");
}

#[test]
fn folder_that_is_no_machine_is_refused() {
    let tree = Tree::new();
    let error = tree.read().unwrap_err();
    assert!(matches!(error, SysfsError::NoCpus { .. }));
    assert!(error.to_string().contains("sys/devices/system/cpu is missing or holds no CPU"), "{error}");
    let error = rails_topo::Topology::from_sysfs_root(tree.path().join("absent")).unwrap_err();
    assert!(matches!(error, SysfsError::Open { .. }));
}
