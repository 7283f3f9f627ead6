//! Where the captures are, and what must hold for every one of them.

use rails_topo::{CpuSet, Topology};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};
use tempfile::TempDir;

/// How many packages, nodes, cores, PUs and caches of the third level, as checked by hand against `lstopo`.
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

/// The files of one kind, sorted; there must be some.
pub(crate) fn files(kind: &str, suffix: &str) -> Vec<PathBuf> {
    let folder = folder().join(kind);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.to_str().is_some_and(|file| file.ends_with(suffix)));
    files.sort();
    assert!(!files.is_empty(), "{} holds no *{suffix}", folder.display());
    files
}

pub(crate) fn file(kind: &str, name: &str) -> PathBuf {
    folder().join(kind).join(name)
}

pub(crate) fn name(file: &Path) -> &str {
    file.file_name().unwrap().to_str().unwrap()
}

/// A captured tree, unpacked until it is dropped.
pub(crate) struct Unpacked {
    _folder: TempDir,
    pub(crate) root: PathBuf,
}

pub(crate) fn unpack(archive: &Path) -> Unpacked {
    let folder = TempDir::new().unwrap();
    let tar = Command::new("tar").arg("-xjf").arg(archive).arg("-C").arg(folder.path()).status().unwrap();
    assert!(tar.success(), "{}", archive.display());
    let root = fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
    // Some folders were captured without the right to look into them.
    let chmod = Command::new("chmod").args(["-R", "u+rX"]).arg(&root).status().unwrap();
    assert!(chmod.success());
    Unpacked { _folder: folder, root }
}

/// What holds for every machine, known or not.
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

fn folder() -> PathBuf {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/topologies");
    std::env::var_os("RAILS_CAPTURES").map_or_else(beside, PathBuf::from)
}
