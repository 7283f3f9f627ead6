//! `rails-bench topo --explain`: where each fact comes from.

use anyhow::{Context, Result};
use rails_topo::{Nic, NicKind, NodeId, Origin, Override, Topology};
use std::{
    collections::BTreeSet,
    fmt, fs, io,
    path::{Path, PathBuf},
};

/// Facts, each with its value and its origin.
pub(super) struct Explanation(Vec<Row>);

/// A fact.
struct Row {
    fact: String,
    value: String,
    from: String,
}

/// The source of a machine's own facts.
enum Source<'a> {
    /// The kernel's files below a root.
    Files(&'a Path),
    /// This machine's files, and hwloc for all other facts; `files` is the model of the files
    /// alone.
    FilesAndHwloc { reader: &'a str, files: Box<Topology> },
    /// A single source of all facts.
    Whole(String),
}

/// A fact of a NIC: its name, the model's value, and the file that states it.
struct NicFact {
    name: &'static str,
    key: &'static str,
    value: fn(&Nic) -> Option<String>,
    file: fn(&Nic) -> String,
}

const NIC_FACTS: [NicFact; 3] = [
    NicFact {
        name: "node",
        key: "node",
        value: |nic| nic.node.map(|node| node.to_string()),
        file: |nic| format!("{}/numa_node", device(nic)),
    },
    NicFact {
        name: "local CPUs",
        key: "local_cpus",
        value: |nic| nic.local_cpus.as_ref().map(|cpus| cpus.to_string()),
        file: |nic| format!("{}/local_cpulist", device(nic)),
    },
    NicFact {
        name: "speed",
        key: "speed",
        value: |nic| nic.speed.map(|speed| speed.to_string()),
        file: |nic| format!("sys/class/net/{}/speed", nic.name),
    },
];

impl Explanation {
    /// Explains a machine. Reads files of the kernel again to find the source of a fact.
    pub(super) fn of(topology: &Topology) -> Result<Self> {
        let source = Source::of(topology)?;
        let mut rows = Vec::new();
        let mut explained = BTreeSet::new();
        for nic in topology.nics() {
            for fact in &NIC_FACTS {
                let told = overrides(topology, &["nic", &nic.name, fact.key]);
                let now = (fact.value)(nic);
                let first = told.first().map_or(now.clone(), |first| first.old.clone());
                let is_added = topology.overrides_of(&["nic", &nic.name, "add"]).next().is_some();
                let own = if is_added {
                    "nothing shows this interface".to_owned()
                } else {
                    source.nic(nic, fact, first.as_ref())
                };
                rows.push(Row {
                    fact: format!("{} {}", nic.name, fact.name),
                    value: or_unknown(now),
                    from: chain(&told, &own),
                });
                explained.extend(told.first().map(|told| &told.fact));
            }
        }
        for node in topology.distances().map_or(&[][..], |distances| distances.nodes()) {
            rows.push(distances(topology, &source, *node));
        }
        rows.push(Row {
            fact: "allowed CPUs".to_owned(),
            value: topology.allowed_cpus().to_string(),
            from: source.allowed_cpus(),
        });
        for told in topology.overrides().iter().filter(|told| !told.fact.starts_with("distance.")) {
            if explained.insert(&told.fact) {
                let all: Vec<&Override> = topology.overrides().iter().filter(|other| other.fact == told.fact).collect();
                let now = all.last().and_then(|last| last.new.clone());
                rows.push(Row { fact: told.fact.clone(), value: or_unknown(now), from: chain(&all, "") });
            }
        }
        Ok(Self(rows))
    }
}

impl<'a> Source<'a> {
    fn of(topology: &'a Topology) -> Result<Self> {
        Ok(match topology.origin() {
            Origin::ThisMachine { reader } if reader.starts_with("hwloc") => {
                let files = Topology::from_sysfs_root("/").context("this machine's files cannot be read")?;
                Self::FilesAndHwloc { reader, files: Box::new(files) }
            }
            Origin::ThisMachine { .. } => Self::Files(Path::new("/")),
            Origin::Sysfs { path } | Origin::Capture { path } => Self::Files(path),
            Origin::Xml { path } => Self::Whole(format!("hwloc XML {}", path.display())),
            Origin::Synthetic { description } => Self::Whole(format!("the description `{description}`")),
        })
    }

    /// The source of an interface's fact with that value of the machine's own.
    fn nic(&self, nic: &Nic, fact: &NicFact, own: Option<&String>) -> String {
        match self {
            // The file of that name belongs to another interface.
            _ if nic.kind == NicKind::Unknown => "/sys does not show this interface".to_owned(),
            Self::Whole(whole) => whole.clone(),
            Self::Files(root) => said(root, &(fact.file)(nic), own.is_some()),
            Self::FilesAndHwloc { reader, files } => {
                let in_files = files.nic(&nic.name).and_then(fact.value);
                if own.is_some() && in_files.as_ref() != own {
                    return (*reader).to_owned();
                }
                said(Path::new("/"), &(fact.file)(nic), own.is_some())
            }
        }
    }

    fn distances(&self, node: NodeId) -> String {
        match self {
            Self::Whole(whole) => whole.clone(),
            Self::Files(root) => {
                root.join(format!("sys/devices/system/node/node{node}/distance")).display().to_string()
            }
            Self::FilesAndHwloc { reader, .. } => (*reader).to_owned(),
        }
    }

    fn allowed_cpus(&self) -> String {
        let (root, and) = match self {
            Self::Whole(whole) => return whole.clone(),
            Self::Files(root) => (*root, String::new()),
            Self::FilesAndHwloc { reader, .. } => (Path::new("/"), format!(", as far as {reader} allows them")),
        };
        let [status, online] = ["proc/self/status", "sys/devices/system/cpu/online"].map(|file| root.join(file));
        match status.exists() {
            true => format!("{} (Cpus_allowed_list), of those in {}{and}", status.display(), online.display()),
            false => format!("{}: all that are online", online.display()),
        }
    }
}

/// The node's row of the distance matrix.
fn distances(topology: &Topology, source: &Source<'_>, node: NodeId) -> Row {
    let matrix = topology.distances();
    let nodes = matrix.map_or(&[][..], |distances| distances.nodes());
    let to = |to: &NodeId| matrix.and_then(|distances| distances.between(node, *to)).map(|value| value.to_string());
    let value: Vec<String> = nodes.iter().map(|node| or_unknown(to(node))).collect();
    let told = |to: &NodeId| {
        let all = overrides(topology, &["distance", &node.to_string(), &to.to_string()]);
        (!all.is_empty()).then(|| format!("to node {to}: {}", chain(&all, "")))
    };
    let own = source.distances(node);
    let from: Vec<String> = nodes.iter().filter_map(told).chain([own]).collect();
    Row { fact: format!("distances from node {node}"), value: value.join(" "), from: from.join("; ") }
}

/// The text of the file that gives the fact, or the reason why the fact is unknown.
fn said(root: &Path, file: &str, is_known: bool) -> String {
    let path: PathBuf = root.join(file);
    match fs::read_to_string(&path) {
        _ if is_known => path.display().to_string(),
        Ok(text) => format!("{} says `{}`", path.display(), text.trim()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => format!("{} is missing", path.display()),
        Err(error) => format!("{}: {error}", path.display()),
    }
}

/// The files that gave a fact, the last one first, and the machine's own value.
fn chain(told: &[&Override], own: &str) -> String {
    let own = Some(own.to_owned()).filter(|own| !own.is_empty());
    told.iter().rev().map(ToString::to_string).chain(own).collect::<Vec<_>>().join("; ")
}

fn overrides<'a>(topology: &'a Topology, fact: &[&str]) -> Vec<&'a Override> {
    topology.overrides_of(fact).collect()
}

/// The folder of the device behind an interface: that of the PCI function, which states the
/// locality, and not of a device below it.
fn device(nic: &Nic) -> String {
    match nic.pci {
        Some(pci) => format!("sys/bus/pci/devices/{pci}"),
        None => format!("sys/class/net/{}/device", nic.name),
    }
}

fn or_unknown(value: Option<String>) -> String {
    value.unwrap_or_else(|| "unknown".to_owned())
}

/// Aligned columns: fact, value, origin.
impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |of: fn(&Row) -> &str| self.0.iter().map(|row| of(row).chars().count()).max().unwrap_or(0);
        let (facts, values) = (width(|row| &row.fact), width(|row| &row.value).min(WIDEST));
        for Row { fact, value, from } in &self.0 {
            writeln!(f, "{fact:facts$}  {value:values$}  {from}")?;
        }
        Ok(())
    }
}

/// A longer value moves only its own line to the right.
const WIDEST: usize = 24;
