//! Checks for every captured machine.

use rails_topo::{CpuSet, Topology};
use std::path::Path;

/// How many packages, nodes, cores, PUs and caches of the third level, as checked by hand against
/// `lstopo`.
pub(crate) type Counts = [usize; 5];

pub(crate) fn counts(machine: &Topology) -> Counts {
    [
        machine.packages().len(),
        machine.nodes().len(),
        machine.cores().len(),
        machine.online_cpus().len(),
        machine.caches().iter().filter(|cache| cache.level == 3).count(),
    ]
}

pub(crate) fn name(file: &Path) -> &str {
    file.file_name().unwrap().to_str().unwrap()
}

/// Checks for every machine, known or not.
pub(crate) fn assert_sound(machine: &Topology) {
    let online = machine.online_cpus();
    assert!(!online.is_empty());
    assert!(machine.allowed_cpus().is_subset(online));
    let packages = machine.packages().iter().map(|package| &package.cpus);
    assert_apart(packages, online, "packages");
    assert_apart(machine.cores().iter().map(|core| &core.cpus), online, "cores");
    assert_apart(machine.nodes().iter().map(|node| &node.cpus).filter(|cpus| !cpus.is_empty()), online, "nodes");
    for nic in machine.nics() {
        let local = nic.locality(machine).unwrap_or_default();
        assert!(local.is_subset(online), "{}", nic.name);
        assert!(nic.node.is_none_or(|id| machine.nodes().iter().any(|node| node.id == id)), "{}", nic.name);
    }
    let json = serde_json::to_string(machine).unwrap();
    assert_eq!(&serde_json::from_str::<Topology>(&json).unwrap(), machine);
    let tree = machine.tree().to_string();
    assert!(machine.nics().iter().all(|nic| tree.contains(&nic.name)), "{tree}");
}

fn assert_apart<'a>(sets: impl Iterator<Item = &'a CpuSet>, online: &CpuSet, what: &str) {
    let mut seen = CpuSet::new();
    for cpus in sets {
        assert!(!cpus.is_empty() && cpus.is_subset(online), "{what}: {cpus}");
        assert!(!cpus.intersects(&seen), "{what}: {cpus}");
        seen = seen.union(cpus);
    }
}
