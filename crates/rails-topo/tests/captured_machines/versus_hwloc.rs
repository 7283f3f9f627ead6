//! Our reader of the kernel's files against hwloc's, on the same captured trees.

use crate::captures::{files, name, unpack};
use hwlocality::topology::{
    builder::{TopologyBuilder, TypeFilter},
    export::xml::XMLExportFlags,
};
use rails_topo::{CacheKind, CpuSet, Nic, NodeId, NumaNode, PciAddress, Topology};
use std::{path::Path, process::Command};

type Sharing = (u8, CacheKind, CpuSet);
type Place = (String, Option<PciAddress>, Option<NodeId>, Option<CpuSet>);

/// hwloc reads another root only by its environment variables, so the test runs itself again with them set; that run
/// saves what hwloc sees.
#[test]
#[ignore = "reads captured machines: set RAILS_CAPTURES to their folder"]
fn captured_trees_are_to_us_what_they_are_to_hwloc() {
    if let Some(xml) = std::env::var_os(XML) {
        return save_what_hwloc_sees(Path::new(&xml));
    }
    for archive in files("sysfs", ".tar.bz2") {
        let tree = unpack(&archive);
        let xml = tree.root.join("hwloc.xml");
        let run = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "versus_hwloc::captured_trees_are_to_us_what_they_are_to_hwloc"])
            .envs([("HWLOC_COMPONENTS", "linux,-x86,stop"), ("HWLOC_THISSYSTEM", "0"), ("HWLOC_HIDE_ERRORS", "2")])
            .env("HWLOC_FSROOT", &tree.root)
            .env(XML, &xml)
            .output()
            .unwrap();
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stdout));
        let (ours, theirs) = (Topology::from_sysfs_root(&tree.root).unwrap(), Topology::from_xml(&xml).unwrap());
        compare(&ours, &theirs, name(&archive));
    }
}

fn compare(ours: &Topology, theirs: &Topology, name: &str) {
    assert_eq!(ours.online_cpus(), theirs.online_cpus(), "{name}");
    assert_eq!(ours.allowed_cpus(), theirs.allowed_cpus(), "{name}");
    assert_eq!(ours.dies(), theirs.dies(), "{name}");
    assert_eq!(ours.cores(), theirs.cores(), "{name}");
    assert_eq!(ours.core_kinds(), theirs.core_kinds(), "{name}");
    // hwloc makes up a node where the kernel knows none.
    if !ours.nodes().is_empty() {
        assert_eq!(without_free_pages(ours), theirs.nodes(), "{name}");
        assert_eq!(ours.allowed_nodes(), theirs.allowed_nodes(), "{name}");
        assert_eq!(ours.distances(), theirs.distances(), "{name}");
    }
    // Where CPUs contradict each other, hwloc drops a package and an L3 that the others agree upon.
    if name.contains("pci-conflicts") {
        assert!(theirs.packages().iter().all(|package| ours.packages().contains(package)), "{name}");
    } else {
        assert_eq!(ours.packages(), theirs.packages(), "{name}");
        assert_eq!(sharing(ours), sharing(theirs), "{name}");
    }
    assert_eq!(places(ours), places(theirs), "{name}");
}

/// The nodes without what hwloc does not tell.
fn without_free_pages(machine: &Topology) -> Vec<NumaNode> {
    let mut nodes = machine.nodes().to_vec();
    nodes.iter_mut().flat_map(|node| &mut node.hugepages).for_each(|pool| pool.free = None);
    nodes
}

fn sharing(machine: &Topology) -> Vec<Sharing> {
    machine.caches().iter().map(|cache| (cache.level, cache.kind, cache.cpus.clone())).collect()
}

/// Of the interfaces on PCI: hwloc leaves out most others.
fn places(machine: &Topology) -> Vec<Place> {
    let on_pci = machine.nics().iter().filter(|nic| nic.pci.is_some());
    on_pci.map(|nic: &Nic| (nic.name.clone(), nic.pci, nic.node, nic.locality(machine))).collect()
}

fn save_what_hwloc_sees(xml: &Path) {
    let builder = TopologyBuilder::new().with_cpu_icache_type_filter(TypeFilter::KeepAll).unwrap();
    let hwloc = builder.with_io_type_filter(TypeFilter::KeepAll).unwrap().build().unwrap();
    hwloc.export_xml_file(Some(xml), XMLExportFlags::empty()).unwrap();
}

/// Names the file that the second run saves to.
const XML: &str = "RAILS_TEST_SAVE_XML";
