//! The machine from the kernel's files, below any root.

mod cpus;
mod folder;
mod interrupts;
mod names;
mod net;
mod nodes;
mod root;
mod source;
mod votes;

pub(crate) use folder::Folder;
#[cfg(feature = "hwloc")]
pub(crate) use names::product;
pub(crate) use root::{LONGEST_FILE, Root};
pub(crate) use source::{Kind, Source};

use crate::{CpuSet, NodeSet, Origin, SysfsError, Topology};
use std::path::Path;

impl Topology {
    /// Reads a captured tree of `/sys` and `/proc` (such as `hwloc-gather-topology` makes), or `/` itself.
    ///
    /// Nothing outside the tree is read: symlinks that lead out of it count as missing. What the tree does not say is
    /// unknown. The allowed CPUs and nodes are those of `proc/self/status` where the tree holds it, else all that are
    /// online.
    ///
    /// # Errors
    ///
    /// [`SysfsError::Open`] where the folder cannot be opened, [`SysfsError::NoCpus`] where it holds no description of
    /// CPUs and therefore is not the root of a machine's files.
    pub fn from_sysfs_root(path: impl AsRef<Path>) -> Result<Self, SysfsError> {
        let path = path.as_ref();
        read(path, Origin::Sysfs { path: path.to_owned() })
    }
}

/// Reads the files below `path`.
pub(crate) fn read(path: &Path, origin: Origin) -> Result<Topology, SysfsError> {
    let root = Root::open(path).map_err(|source| SysfsError::Open { path: path.to_owned(), source })?;
    read_root(&root, path, origin)
}

/// Reads what the root holds; `path` is what errors call it.
pub(crate) fn read_root(root: &Root, path: &Path, origin: Origin) -> Result<Topology, SysfsError> {
    let online_cpus = cpus::online(root);
    if online_cpus.is_empty() {
        return Err(SysfsError::NoCpus { path: path.to_owned() });
    }
    let packages = cpus::packages(root, &online_cpus);
    let nodes = nodes::nodes(root, &online_cpus);
    let surroundings = net::Surroundings { online: &online_cpus, nodes: &nodes, packages: packages.len() };
    let nics = net::nics(root, &surroundings);
    let all_nodes: NodeSet = nodes.iter().map(|node| node.id).collect();
    let status = Status::read(root);
    Ok(Topology {
        origin,
        machine: names::machine(root),
        distances: nodes::distances(root, &nodes),
        caches: cpus::caches(root, &online_cpus),
        cores: cpus::cores(root, &online_cpus),
        allowed_cpus: status.cpus.map_or_else(|| online_cpus.clone(), |cpus| cpus.intersection(&online_cpus)),
        allowed_nodes: status.nodes.map_or_else(|| all_nodes.clone(), |nodes| nodes.intersection(&all_nodes)),
        packages,
        dies: Vec::new(),
        nodes,
        core_kinds: Vec::new(),
        isolated_cpus: CpuSet::new(),
        nohz_full_cpus: CpuSet::new(),
        online_cpus,
        pci_devices: Vec::new(),
        nics,
        rdma_devices: Vec::new(),
        gpus: Vec::new(),
        block_devices: Vec::new(),
    }
    .in_order())
}

/// What `/proc/self/status` allows.
///
/// It describes the main thread of the process (`/proc/thread-self` is the calling one, see proc(5)).
#[derive(Default)]
struct Status {
    cpus: Option<CpuSet>,
    nodes: Option<NodeSet>,
}

impl Status {
    fn read(root: &Root) -> Self {
        let text = root.text("proc/self/status").unwrap_or_default();
        let field = |name| text.lines().find_map(|line| line.strip_prefix(name));
        Self {
            cpus: field("Cpus_allowed_list:").and_then(|list| list.parse().ok()),
            nodes: field("Mems_allowed_list:").and_then(|list| list.parse().ok()),
        }
    }
}
