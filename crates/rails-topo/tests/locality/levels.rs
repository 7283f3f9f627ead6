use super::cpus;
use rails_topo::{CpuId, Level, Topology};

#[test]
fn objects_around_a_pu_innermost_first() {
    let machine = Topology::synthetic("package:2 die:2 numa:1 l3:2 l2:2 l1:1 core:1 pu:2", vec![]).unwrap();
    assert_eq!(machine.dies().len(), 4);
    let locality = machine.locality();
    let around: Vec<(String, String)> =
        locality.around(CpuId(5)).map(|shared| (shared.level.to_string(), shared.cpus.to_string())).collect();
    let expected = [
        ("core", "4-5"),
        ("L1 cache", "4-5"),
        ("L2 cache", "4-5"),
        ("L3 cache", "4-7"),
        ("die", "0-7"),
        ("node", "0-7"),
        ("package", "0-15"),
        ("machine", "0-31"),
    ];
    assert_eq!(around, expected.map(|(level, cpus)| (level.to_owned(), cpus.to_owned())));
}

#[test]
fn two_pus_share_the_innermost_around_both() {
    let machine = Topology::synthetic("package:2 die:2 l3:2 core:2 pu:2", vec![]).unwrap();
    let locality = machine.locality();
    let shared = |a, b| locality.shared_by(CpuId(a), CpuId(b)).map(|shared| shared.level);
    assert_eq!(shared(0, 0), Some(Level::Core));
    assert_eq!(shared(0, 1), Some(Level::Core));
    assert_eq!(shared(0, 2), Some(Level::Cache(3)));
    assert_eq!(shared(0, 7), Some(Level::Die));
    assert_eq!(shared(15, 0), Some(Level::Package));
    assert_eq!(shared(0, 31), Some(Level::Machine));
    assert_eq!(shared(0, 32), None, "there is no such PU");
}

/// Nodes below caches: a package has one L3 and, as Intel's sub-NUMA clusters, two nodes.
#[test]
fn nesting_by_the_machine_and_not_by_type() {
    let machine = Topology::synthetic("package:1 l3:1 numa:2 core:2 pu:1", vec![]).unwrap();
    let locality = machine.locality();
    let levels: Vec<Level> = locality.around(CpuId(0)).map(|shared| shared.level).collect();
    assert_eq!(levels, [Level::Core, Level::Node, Level::Cache(3), Level::Package, Level::Machine]);
    assert_eq!(locality.shared_by(CpuId(1), CpuId(2)).unwrap().level, Level::Cache(3));
}

#[test]
fn only_allowed_pus_are_shared_with() {
    let machine = Topology::synthetic("package:1 l3:2 core:2 pu:2", vec![]).unwrap().with_allowed(cpus("1-2"));
    let locality = machine.locality();
    assert_eq!(locality.sharing(CpuId(1), Level::Core), Some(&cpus("1")));
    assert_eq!(locality.sharing(CpuId(0), Level::Cache(3)), Some(&cpus("1-2")), "of one that is not allowed itself");
    assert_eq!(locality.sharing(CpuId(7), Level::Cache(3)), Some(&cpus("")));
    assert_eq!(locality.sharing(CpuId(1), Level::Cache(2)), None, "nothing says that there is one");
    assert_eq!(locality.shared_by(CpuId(6), CpuId(7)).unwrap().level, Level::Core, "allowed or not");
}

#[test]
fn more_than_1024_cpus_are_known() {
    let machine = Topology::synthetic("package:8 numa:2 l3:1 core:128 pu:2", vec![]).unwrap();
    let locality = machine.locality();
    assert_eq!(locality.sharing(CpuId(4095), Level::Cache(3)), Some(&cpus("3840-4095")));
    assert_eq!(locality.nearest_node(CpuId(4095)), machine.nearest_node(CpuId(4095)));
}
