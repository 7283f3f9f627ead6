//! More CPUs than the masks of C's library have room for.

use crate::tree::Tree;
use rails_topo::{CpuId, CpuSet, NodeId};

/// 1,536 CPUs on 12 packages with gaps between their numbers: two threads of a core are 4,096
/// apart, packages 256.
#[test]
fn sparse_cpus_beyond_1024_are_read_whole() {
    let tree = Tree::new();
    let core_cpus = |package: u32, core: u32| [package * 256 + core, package * 256 + core + 4096];
    let mut online = CpuSet::new();
    for package in 0..12 {
        let cpus: CpuSet = (0..64).flat_map(|core| core_cpus(package, core)).map(CpuId).collect();
        for core in 0..64 {
            let siblings: CpuSet = core_cpus(package, core).map(CpuId).into_iter().collect();
            for cpu in core_cpus(package, core) {
                let folder = format!("sys/devices/system/cpu/cpu{cpu}/topology");
                tree.file(&format!("{folder}/package_cpus_list"), &cpus.to_string());
                tree.file(&format!("{folder}/core_cpus_list"), &siblings.to_string());
                if package == 0 {
                    tree.cache(cpu, 3, 3, "Unified", "32M", &cpus.to_string());
                }
            }
        }
        tree.node(package, &cpus.to_string(), 1 << 20, &["10"; 12].join(" "));
        online = online.union(&cpus);
    }
    tree.file("sys/devices/system/cpu/online", &online.to_string());
    tree.file("proc/self/status", "Cpus_allowed_list:\t1024-6000\nMems_allowed_list:\t0-3");
    tree.file("sys/devices/system/cpu/isolated", "6912-8191");
    let machine = tree.read().unwrap();
    assert_eq!(machine.online_cpus().len(), 1536);
    assert_eq!((machine.packages().len(), machine.cores().len(), machine.caches().len()), (12, 768, 1));
    assert_eq!(machine.core_of_cpu(CpuId(6975)).unwrap().cpus.to_string(), "2879,6975");
    assert_eq!(machine.node_of_cpu(CpuId(6912)).unwrap().id, NodeId(11));
    assert_eq!(machine.nearest_node(CpuId(6912)), Some(NodeId(0)), "the nearest that may be used");
    assert_eq!(machine.sharing_last_level_cache(CpuId(4096)).unwrap().to_string(), "0-63,4096-4159");
    assert_eq!(machine.allowed_cpus().iter().map(|cpu| cpu.0).min(), Some(1024));
    assert_eq!(machine.allowed_cpus().len(), 8 * 64 + 7 * 64 + 64);
    assert!(machine.allowed_cpus().is_subset(machine.online_cpus()));
    assert_eq!(machine.isolated_cpus().to_string(), "6912-6975");
    let json = serde_json::to_string(&machine).unwrap();
    assert_eq!(serde_json::from_str::<rails_topo::Topology>(&json).unwrap(), machine);
}

/// A list of a few bytes may name a million CPUs, and a folder of any name may be there.
#[test]
fn cpus_that_are_only_listed_cost_nothing() {
    let tree = Tree::two_nodes();
    tree.file("sys/devices/system/cpu/online", "0-1048575");
    for name in ["cpu4294967295", "cpu1048576", "cpu-1", "cpu1x"] {
        tree.folder(&format!("sys/devices/system/cpu/{name}/topology"));
    }
    let machine = tree.read().unwrap();
    assert_eq!(machine.online_cpus().len(), 1 << 20);
    assert_eq!((machine.packages().len(), machine.cores().len(), machine.caches().len()), (2, 4, 6));
}
