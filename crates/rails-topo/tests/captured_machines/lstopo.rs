//! Our model of a captured machine against what `lstopo` prints of the same input.

use crate::captures::{files, name, unpack};
use rails_topo::{CacheKind, CpuSet, Topology};
use std::{
    collections::BTreeMap,
    path::Path,
    process::{Command, Output},
};

/// For each type of object what tells its objects apart: their CPUs, their number, their address or their name.
type Objects = BTreeMap<&'static str, Vec<String>>;

/// Objects in which we differ from lstopo: the input, the type, and why.
const DIFFERENCES: [(&str, &str, &str); 0] = [];

#[test]
#[ignore = "reads captured machines: set RAILS_CAPTURES to their folder; and runs lstopo, of the package `hwloc`"]
fn captured_trees_have_the_objects_that_lstopo_shows() {
    let mut wrong = Vec::new();
    for archive in files("sysfs", ".tar.bz2") {
        let tree = unpack(&archive);
        let mut lstopo = lstopo();
        lstopo.envs([("HWLOC_COMPONENTS", "linux,-x86,stop"), ("HWLOC_THISSYSTEM", "0"), ("HWLOC_HIDE_ERRORS", "2")]);
        let shown = shown(lstopo.env("HWLOC_FSROOT", &tree.root));
        let machine = Topology::from_sysfs_root(&tree.root).unwrap();
        wrong.extend(compare(&machine, shown, name(&archive)));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
#[ignore = "reads captured machines: set RAILS_CAPTURES to their folder; and runs lstopo, of the package `hwloc`"]
fn captured_files_have_the_objects_that_lstopo_shows() {
    let mut wrong = Vec::new();
    for file in files("xml", ".xml") {
        let too_new = std::fs::read_to_string(&file).unwrap().contains("<topology version=\"3.");
        match Topology::from_xml(&file) {
            Ok(machine) => wrong.extend(compare(&machine, shown(lstopo().arg("-i").arg(&file)), name(&file))),
            Err(error) => assert!(too_new, "{error}"),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Everything that lstopo can show, of what is allowed and what is not.
fn lstopo() -> Command {
    let mut command = Command::new("lstopo-no-graphics");
    command.args(["--of", "xml", "--disallowed", "--filter", "io:all", "--filter", "icache:all"]);
    command
}

fn shown(lstopo: &mut Command) -> String {
    let output: Output = lstopo.output().expect("lstopo-no-graphics, of the package `hwloc`");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn compare(machine: &Topology, shown: String, input: &str) -> Vec<String> {
    let (ours, theirs) = (of_model(machine), of_xml(&shown));
    assert_eq!(ours.keys().collect::<Vec<_>>(), theirs.keys().collect::<Vec<_>>());
    let mut wrong = Vec::new();
    for (kind, ours) in &ours {
        let named = DIFFERENCES.iter().find(|(of, named, _)| input.contains(of) && named == kind);
        match (named, *ours == theirs[kind]) {
            (None, false) => wrong.push(format!("{input}: {kind}: {ours:?} is {:?} to lstopo", theirs[kind])),
            (Some((_, _, why)), true) => wrong.push(format!("{input}: {kind} no longer differs: {why}")),
            (None, true) | (Some(_), false) => {}
        }
    }
    wrong
}

fn of_model(machine: &Topology) -> Objects {
    let cpus = |sets: Vec<&CpuSet>| sets.into_iter().map(CpuSet::to_string).collect();
    let caches = |level, kind| -> Vec<String> {
        let alike = machine.caches().iter().filter(|cache| cache.level == level && cache.kind == kind);
        cpus(alike.map(|cache| &cache.cpus).collect())
    };
    let named = |names: Vec<&String>| names.into_iter().cloned().collect();
    sorted([
        ("Package", cpus(machine.packages().iter().map(|package| &package.cpus).collect())),
        ("Core", cpus(machine.cores().iter().map(|core| &core.cpus).collect())),
        ("PU", machine.online_cpus().iter().map(|cpu| cpu.to_string()).collect()),
        ("NUMANode", machine.nodes().iter().map(|node| node.id.to_string()).collect()),
        ("L1Cache", caches(1, CacheKind::Data)),
        ("L1iCache", caches(1, CacheKind::Instruction)),
        ("L2Cache", caches(2, CacheKind::Unified)),
        ("L3Cache", caches(3, CacheKind::Unified)),
        ("PCI", machine.pci_devices().iter().map(|device| device.address.to_string()).collect()),
        ("network", named(machine.nics().iter().filter(|nic| nic.pci.is_some()).map(|nic| &nic.name).collect())),
        ("OpenFabrics", named(machine.rdma_devices().iter().map(|device| &device.name).collect())),
        ("storage", named(machine.block_devices().iter().map(|device| &device.name).collect())),
    ])
}

/// The objects of the file, without a parser of XML: lstopo writes one element a line, and its attributes in quotes.
fn of_xml(xml: &str) -> Objects {
    let mut objects = sorted(TYPES.map(|kind| (kind, Vec::new())));
    for line in xml.lines().filter(|line| line.trim_start().starts_with("<object ")) {
        let attribute =
            |name: &str| line.split_once(&format!(" {name}=\"")).map(|(_, rest)| rest.split('"').next().unwrap());
        let cpus = || CpuSet::parse_mask(&attribute("cpuset").unwrap().replace("0x", "")).unwrap().to_string();
        let name = || attribute("name").unwrap().to_owned();
        let found = match (attribute("type").unwrap(), attribute("osdev_type")) {
            ("PCIDev" | "Bridge", _) => attribute("pci_busid").map(|address| ("PCI", address.to_owned())),
            ("PU", _) => Some(("PU", attribute("os_index").unwrap().to_owned())),
            ("NUMANode", _) => Some(("NUMANode", attribute("os_index").unwrap().to_owned())),
            ("OSDev", Some("0")) => Some(("storage", name())).filter(|(_, name)| !is_memory(line, name)),
            ("OSDev", Some("2")) => Some(("network", name())),
            ("OSDev", Some("3")) => Some(("OpenFabrics", name())),
            (kind, _) => TYPES.into_iter().find(|known| *known == kind).map(|kind| (kind, cpus())),
        };
        if let Some((kind, object)) = found {
            objects.get_mut(kind).unwrap().push(object);
        }
    }
    sorted(objects)
}

/// What hwloc 2 calls storage and is none.
fn is_memory(line: &str, name: &str) -> bool {
    name.starts_with("dax") || line.contains("subtype=\"CXLMem\"") || line.contains("subtype=\"SPM\"")
}

fn sorted(objects: impl IntoIterator<Item = (&'static str, Vec<String>)>) -> Objects {
    let sort = |(kind, mut objects): (&'static str, Vec<String>)| {
        objects.sort();
        objects.dedup();
        (kind, objects)
    };
    objects.into_iter().map(sort).collect()
}

/// The types that are compared.
const TYPES: [&str; 12] = [
    "Package",
    "Core",
    "PU",
    "NUMANode",
    "L1Cache",
    "L1iCache",
    "L2Cache",
    "L3Cache",
    "PCI",
    "network",
    "OpenFabrics",
    "storage",
];
