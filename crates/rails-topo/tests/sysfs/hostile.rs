//! Trees that are wrong in any way are read without a panic, and give consistent facts.

use crate::tree::Tree;
use proptest::prelude::*;
use rails_topo::{CpuSet, SysfsError, Topology};
use std::{fs, os::unix::fs::PermissionsExt};

/// Files that hold one thing or another of the machine.
const FILES: [&str; 24] = [
    "proc/cpuinfo",
    "proc/self/status",
    "proc/self/cgroup",
    "proc/self/mountinfo",
    "sys/devices/cpu_core/cpus",
    "sys/devices/cpu_atom/cpus",
    "sys/devices/system/cpu/online",
    "sys/devices/system/cpu/isolated",
    "sys/devices/system/cpu/nohz_full",
    "sys/devices/system/cpu/cpu0/cpu_capacity",
    "sys/devices/system/cpu/cpu0/cache/index0/shared_cpu_list",
    "sys/devices/system/cpu/cpu1/cache/index3/level",
    "sys/devices/system/cpu/cpu1/cache/index3/type",
    "sys/devices/system/cpu/cpu1/topology/package_cpus_list",
    "sys/devices/system/cpu/cpu2/topology/core_cpus_list",
    "sys/devices/system/cpu/cpu2/topology/die_cpus_list",
    "sys/devices/system/cpu/cpu3/topology/physical_package_id",
    "sys/devices/system/node/node0/cpulist",
    "sys/devices/system/node/node1/meminfo",
    "sys/devices/system/node/node1/distance",
    "sys/devices/system/node/node1/access0/initiators/read_bandwidth",
    "sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages",
    "sys/devices/virtual/memory_tiering/memory_tier4/nodelist",
    "sys/fs/cgroup/cpuset.cpus.effective",
];

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[0-9,\\-]{0,12}",
        Just("0-1048575".to_owned()),
        Just("18446744073709551615".to_owned()),
        Just("-1".to_owned()),
        Just("Cpus_allowed_list:\t7-9\nMems_allowed_list:\t1".to_owned()),
        Just("0::/a/../b".to_owned()),
        Just("1 1 0:1 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw".to_owned()),
        "\\PC{0,20}",
    ]
}

/// Properties of a model from any files.
fn assert_consistent(machine: &Topology) {
    let online = machine.online_cpus();
    assert!(!online.is_empty());
    let apart = |sets: Vec<&CpuSet>| {
        let union = sets.iter().fold(CpuSet::new(), |union, set| union.union(set));
        assert!(union.is_subset(online), "{union} of {online}");
        assert_eq!(sets.iter().map(|set| set.len()).sum::<usize>(), union.len(), "{sets:?}");
    };
    apart(machine.packages().iter().map(|package| &package.cpus).collect());
    apart(machine.dies().iter().map(|die| &die.cpus).collect());
    apart(machine.cores().iter().map(|core| &core.cpus).collect());
    apart(machine.nodes().iter().map(|node| &node.cpus).collect());
    apart(machine.core_kinds().iter().map(|kind| &kind.cpus).collect());
    assert_ne!(machine.core_kinds().len(), 1);
    let in_a_package = |cpus: &CpuSet| machine.packages().iter().any(|package| cpus.is_subset(&package.cpus));
    assert!(machine.dies().iter().all(|die| in_a_package(&die.cpus)));
    assert!(machine.caches().iter().all(|cache| !cache.cpus.is_empty() && cache.cpus.is_subset(online)));
    for set in [machine.allowed_cpus(), machine.isolated_cpus(), machine.nohz_full_cpus()] {
        assert!(set.is_subset(online));
    }
    assert!(machine.allowed_nodes().iter().all(|id| machine.nodes().iter().any(|node| node.id == id)));
    let from = machine.nodes().iter().flat_map(|node| &node.performance).map(|performance| &performance.from);
    assert!(from.into_iter().all(|cpus| !cpus.is_empty() && cpus.is_subset(online)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn any_text_in_any_file_leaves_a_consistent_machine(
        changes in proptest::collection::vec((proptest::sample::select(FILES.to_vec()), text()), 1..8),
        removed in proptest::sample::subsequence(FILES.to_vec(), 0..4),
    ) {
        let tree = Tree::two_nodes();
        for cpu in 0..8 {
            tree.file(&format!("sys/devices/system/cpu/cpu{cpu}/cpu_capacity"), "1024");
        }
        tree.link("sys/devices/system/node/node1/access0/initiators/node1", "../../../node1");
        for (file, text) in &changes {
            tree.file(file, text);
        }
        for file in &removed {
            let _ = fs::remove_file(tree.path().join(file));
        }
        match tree.read() {
            Ok(machine) => assert_consistent(&machine),
            Err(error) => prop_assert!(matches!(error, SysfsError::NoCpus { .. }), "{error}"),
        }
    }

    #[test]
    fn machine_of_any_shape_is_read_as_it_is(
        packages in 1..4u32, dies in 1..4u32, cores in 1..4u32, threads in 1..3u32, stride in 1..40u32,
        offline in proptest::collection::btree_set(0..64u32, 0..6), cpuset in "[1-9]{1,2}-[1-3]00",
    ) {
        let per_package = dies * cores * threads;
        let number = |index: u32| index * stride;
        let set = |range: std::ops::Range<u32>| -> String {
            range.map(number).map(rails_topo::CpuId).collect::<CpuSet>().to_string()
        };
        let tree = Tree::new();
        let all = packages * per_package;
        for index in 0..all {
            let (package, die, core) = (index / per_package, index / (cores * threads), index / threads);
            let package_cpus = set(package * per_package..(package + 1) * per_package);
            tree.cpu(number(index), (package, &package_cpus), (core, &set(core * threads..(core + 1) * threads)));
            let die_cpus = set(die * cores * threads..(die + 1) * cores * threads);
            tree.file(&format!("sys/devices/system/cpu/cpu{}/topology/die_cpus_list", number(index)), &die_cpus);
        }
        let online: CpuSet = (0..all).filter(|index| *index == 0 || !offline.contains(index)).map(number).map(rails_topo::CpuId).collect();
        tree.file("sys/devices/system/cpu/online", &online.to_string());
        tree.file("proc/self/cgroup", "0::/").file("proc/self/mountinfo", "1 1 0:1 / /cg rw - cgroup2 cgroup2 rw");
        tree.file("cg/cpuset.cpus.effective", &cpuset);
        let machine = tree.read().unwrap();
        assert_consistent(&machine);
        prop_assert_eq!(machine.online_cpus(), &online);
        // A range that runs backwards is no cpuset, and limits nothing.
        let limit = cpuset.parse::<CpuSet>().unwrap_or_else(|_| online.clone());
        prop_assert_eq!(machine.allowed_cpus(), &online.intersection(&limit));
        for cpu in online.iter() {
            let index = cpu.0 / stride;
            let core: CpuSet = set(index / threads * threads..(index / threads + 1) * threads).parse().unwrap();
            prop_assert_eq!(&machine.core_of_cpu(cpu).unwrap().cpus, &core.intersection(&online));
            let package = index / per_package;
            let package: CpuSet = set(package * per_package..(package + 1) * per_package).parse().unwrap();
            prop_assert_eq!(&machine.package_of_cpu(cpu).unwrap().cpus, &package.intersection(&online));
        }
        prop_assert!(machine.dies().len() as u32 <= packages * dies);
        prop_assert!(dies > 1 || machine.dies().is_empty());
    }
}

#[test]
fn unreadable_folder_of_cpus_is_an_error() {
    let tree = Tree::new();
    tree.file("sys/devices/system/cpu", "a file in its place");
    let error = tree.read().unwrap_err();
    assert!(matches!(error, SysfsError::Cpus { .. }), "{error:?}");
    assert!(error.to_string().starts_with("cannot list `"), "{error}");
}

/// Not even root may look where the user for file access is another one, and that is a thread's own
/// (setfsuid(2)).
#[test]
fn unreadable_files_are_unknown_or_an_error() {
    let tree = Tree::two_nodes();
    let mode =
        |path: &str, mode| fs::set_permissions(tree.path().join(path), fs::Permissions::from_mode(mode)).unwrap();
    let read = || {
        std::thread::scope(|scope| {
            let as_nobody = || {
                nix::unistd::setfsuid(nix::unistd::Uid::from_raw(65534));
                tree.read()
            };
            scope.spawn(as_nobody).join().unwrap()
        })
    };
    mode("", 0o755);
    let cpus = "sys/devices/system/cpu";
    mode(&format!("{cpus}/cpu2/topology"), 0o000);
    mode(&format!("{cpus}/cpu0/cache/index3/size"), 0o000);
    mode("sys/devices/system/node/node1/meminfo", 0o000);
    let machine = read().unwrap();
    assert_consistent(&machine);
    assert_eq!(machine.core_of_cpu(rails_topo::CpuId(2)), None, "its siblings are no majority");
    assert_eq!((machine.packages().len(), machine.nodes()[1].memory), (2, None));
    mode(cpus, 0o000);
    let error = read().unwrap_err();
    let SysfsError::Cpus { source, .. } = &error else { panic!("{error:?}") };
    assert_eq!(source.kind(), std::io::ErrorKind::PermissionDenied);
    mode(cpus, 0o755);
    mode(&format!("{cpus}/cpu2/topology"), 0o755);
}
