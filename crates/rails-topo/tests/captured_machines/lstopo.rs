//! Our model of a captured machine against the output of `lstopo` for the same input.

use crate::machines::name;
use rails_lab::captures::{self, Unpacked};
use rails_topo::{Cache, CacheKind, CpuSet, Topology};
use std::{
    collections::{BTreeMap, BTreeSet},
    process::{Command, Output},
};

/// For each type of object the key that tells its objects apart: CPUs, number, address or name.
type Objects = BTreeMap<&'static str, BTreeSet<String>>;

/// Objects that only one of the two has: the input, the type, the object, and the reason.
const DIFFERENCES: &[(&str, &str, &str, &str)] = &[
    ("2i386", "NUMANode", "0", MADE_UP),
    ("20s390", "NUMANode", "0", MADE_UP),
    ("2arm", "NUMANode", "0", MADE_UP),
    ("2ps3", "NUMANode", "0", MADE_UP),
    ("fakeheterocpunuma", "NUMANode", "4", TWICE),
    ("fakeheterocpunuma", "NUMANode", "5", TWICE),
    ("nvidiagpunumanodes", "NUMANode", "250", GPU_MEMORY),
    ("nvidiagpunumanodes", "NUMANode", "251", GPU_MEMORY),
    ("nvidiagpunumanodes", "NUMANode", "252", GPU_MEMORY),
    ("nvidiagpunumanodes", "NUMANode", "253", GPU_MEMORY),
    ("nvidiagpunumanodes", "NUMANode", "254", GPU_MEMORY),
    ("nvidiagpunumanodes", "NUMANode", "255", GPU_MEMORY),
    ("2pa-pcidomain32bits", "PCI", "10000:00:00.0", WIDE_DOMAIN),
    ("2pa-pcidomain32bits", "PCI", "10000:00:04.0", WIDE_DOMAIN),
    ("8em64t-2s2ca2c-buggynuma", "NUMANode", "1", ONE_DISTANCE),
    ("8em64t-2s2ca2c-buggynuma", "NUMANode", "2", ONE_DISTANCE),
    ("8em64t-2s2ca2c-buggynuma", "NUMANode", "3", ONE_DISTANCE),
    ("8em64t-2s2ca2c-buggynuma", "NUMANode", "4", ONE_DISTANCE),
    ("8em64t-2s2ca2c-buggynuma", "NUMANode", "5", ONE_DISTANCE),
    ("8em64t-2s2ca2c-buggynuma", "NUMANode", "6", ONE_DISTANCE),
    ("8em64t-2s2ca2c-buggynuma", "NUMANode", "7", ONE_DISTANCE),
    ("32em64t-2n8c+dax", "OpenFabrics", "scif0", "hwloc leaves out the InfiniBand that Xeon Phi's driver imitates"),
    ("32em64t-2n8c+dax", "PCI", "0000:00:11.0", "hwloc drops a bridge whose buses are nonsense"),
    (
        "40intel64-4n10c",
        "Package",
        "3,7,11,15,19,23,27,31,35,39",
        "CPU 2 claims an L3 with these, and hwloc drops them",
    ),
    ("40intel64-4n10c", "L3Cache", "2,6,10,14,18,22,26,30,34,38", "CPU 2 claims another L3, and hwloc drops this one"),
];

const MADE_UP: &str = "hwloc makes up a node where the kernel knows none";
const TWICE: &str = "hwloc drops a node whose CPUs an earlier one has";
const GPU_MEMORY: &str = "hwloc leaves out nodes that are the memory of GPUs";
const WIDE_DOMAIN: &str = "hwloc leaves out PCI domains of more than 16 bits";
const ONE_DISTANCE: &str = "hwloc drops nodes without CPUs that are as far from each other as from themselves";

#[test]
#[ignore = "reads captured machines: set RAILS_CAPTURES to their folder; and runs lstopo, of the package `hwloc`"]
fn captured_trees_hold_the_objects_of_lstopo() {
    let mut wrong = Vec::new();
    for archive in captures::trees() {
        let tree = Unpacked::of(&archive);
        let mut lstopo = lstopo();
        lstopo.envs([("HWLOC_COMPONENTS", "linux,-x86,stop"), ("HWLOC_THISSYSTEM", "0"), ("HWLOC_HIDE_ERRORS", "2")]);
        let shown = shown(lstopo.env("HWLOC_FSROOT", tree.root()));
        let machine = Topology::from_sysfs_root(tree.root()).unwrap();
        wrong.extend(compare(&machine, shown, name(&archive)));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
#[ignore = "reads captured machines: set RAILS_CAPTURES to their folder; and runs lstopo, of the package `hwloc`"]
fn captured_files_hold_the_objects_of_lstopo() {
    let mut wrong = Vec::new();
    for file in captures::xml_files() {
        let too_new = captures::is_of_hwloc_3(&file);
        match Topology::from_xml(&file) {
            Ok(machine) => wrong.extend(compare(&machine, shown(lstopo().arg("-i").arg(&file)), name(&file))),
            Err(error) => assert!(too_new, "{error}"),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Everything that lstopo can show, allowed or not.
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

/// Objects that only one of us has and that are not named, and named ones that both have.
fn compare(machine: &Topology, shown: String, input: &str) -> Vec<String> {
    let (ours, theirs) = (of_model(machine), of_xml(&shown));
    assert_eq!(ours.keys().collect::<Vec<_>>(), theirs.keys().collect::<Vec<_>>());
    let named =
        || DIFFERENCES.iter().filter(|(of, ..)| input.starts_with(of)).map(|(_, kind, object, _)| (*kind, *object));
    let mut found: BTreeSet<(&str, &str)> = BTreeSet::new();
    for (kind, ours) in &ours {
        found.extend(ours.symmetric_difference(&theirs[kind]).map(|object| (*kind, object.as_str())));
    }
    let unnamed = found.iter().filter(|difference| !named().any(|named| named == **difference));
    let unmet = named().filter(|named| !found.contains(named));
    let unnamed = unnamed.map(|(kind, object)| format!("{input}: only one of us has the {kind} {object}"));
    unnamed.chain(unmet.map(|(kind, object)| format!("{input}: the {kind} {object} no longer differs"))).collect()
}

fn of_model(machine: &Topology) -> Objects {
    let cpus = |sets: Vec<&CpuSet>| sets.into_iter().map(CpuSet::to_string).collect();
    // A type is one of instructions, or it is of data and of both: a first level of both is an
    // `L1Cache` as well.
    let caches = |level, of_instructions| -> BTreeSet<String> {
        let is_instructions = |kind| matches!(kind, CacheKind::Instruction);
        let is_alike = |cache: &&Cache| cache.level == level && is_instructions(cache.kind) == of_instructions;
        let alike = machine.caches().iter().filter(is_alike);
        cpus(alike.map(|cache| &cache.cpus).collect())
    };
    let named = |names: Vec<&String>| names.into_iter().cloned().collect();
    BTreeMap::from([
        ("Package", cpus(machine.packages().iter().map(|package| &package.cpus).collect())),
        ("Core", cpus(machine.cores().iter().map(|core| &core.cpus).collect())),
        ("PU", machine.online_cpus().iter().map(|cpu| cpu.to_string()).collect()),
        ("NUMANode", machine.nodes().iter().map(|node| node.id.to_string()).collect()),
        ("L1Cache", caches(1, false)),
        ("L1iCache", caches(1, true)),
        ("L2Cache", caches(2, false)),
        ("L3Cache", caches(3, false)),
        ("PCI", machine.pci_devices().iter().map(|device| device.address.to_string()).collect()),
        ("network", named(machine.nics().iter().filter(|nic| nic.pci.is_some()).map(|nic| &nic.name).collect())),
        ("OpenFabrics", named(machine.rdma_devices().iter().map(|device| &device.name).collect())),
        ("storage", named(machine.block_devices().iter().map(|device| &device.name).collect())),
    ])
}

/// The objects of the file, without a parser of XML: lstopo writes one element a line, and its
/// attributes in quotes.
fn of_xml(xml: &str) -> Objects {
    let mut objects = Objects::from(TYPES.map(|kind| (kind, BTreeSet::new())));
    for line in xml.lines().filter(|line| line.trim_start().starts_with("<object ")) {
        let attribute =
            |name: &str| line.split_once(&format!(" {name}=\"")).map(|(_, rest)| rest.split('"').next().unwrap());
        let cpus = || mask(attribute("cpuset").unwrap()).to_string();
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
            objects.get_mut(kind).unwrap().insert(object);
        }
    }
    objects
}

/// hwloc writes `0xff,,0x1`: a word that is zero may be left out.
fn mask(text: &str) -> CpuSet {
    let words = text.split(',').map(|word| if word.is_empty() { "0" } else { word.trim_start_matches("0x") });
    CpuSet::parse_mask(&words.collect::<Vec<_>>().join(",")).unwrap()
}

/// hwloc 2's storage that is none.
fn is_memory(line: &str, name: &str) -> bool {
    name.starts_with("dax") || line.contains("subtype=\"CXLMem\"") || line.contains("subtype=\"SPM\"")
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
