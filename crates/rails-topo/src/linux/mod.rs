//! The machine from the kernel's files, below any root.

mod cpus;
mod interrupts;
mod names;
mod net;
mod nodes;
mod root;
mod votes;

#[cfg(feature = "hwloc")]
pub(crate) use names::product;
#[cfg(feature = "monitor")]
pub(crate) use nodes::total_memory;
pub(crate) use root::Root;

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
    let online_cpus = cpus::online(&root);
    if online_cpus.is_empty() {
        return Err(SysfsError::NoCpus { path: path.to_owned() });
    }
    let packages = cpus::packages(&root, &online_cpus);
    let nodes = nodes::nodes(&root, &online_cpus);
    let surroundings = net::Surroundings { online: &online_cpus, nodes: &nodes, packages: packages.len() };
    let nics = net::nics(&root, &surroundings);
    let all_nodes: NodeSet = nodes.iter().map(|node| node.id).collect();
    let status = Status::read(&root);
    Ok(Topology {
        origin,
        machine: names::machine(&root),
        distances: nodes::distances(&root, &nodes),
        caches: cpus::caches(&root, &online_cpus),
        cores: cpus::cores(&root, &online_cpus),
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

/// The interfaces of a machine whose other parts are known, read again.
#[cfg(feature = "monitor")]
pub(crate) fn nics(root: &Root, machine: &Topology) -> Vec<crate::Nic> {
    let packages = machine.packages.len();
    net::nics(root, &net::Surroundings { online: &machine.online_cpus, nodes: &machine.nodes, packages })
}

/// What the file of an interface's speed says.
#[cfg(feature = "monitor")]
pub(crate) fn speed(root: &Root, nic: &str) -> Option<crate::Bandwidth> {
    root.value(&format!("{}/{nic}/speed", net::NET)).and_then(net::speed)
}

/// What `/proc/self/status` allows.
///
/// It describes the main thread of the process (`/proc/thread-self` is the calling one, see proc(5)).
#[derive(Default)]
pub(crate) struct Status {
    pub(crate) cpus: Option<CpuSet>,
    pub(crate) nodes: Option<NodeSet>,
}

impl Status {
    pub(crate) fn read(root: &Root) -> Self {
        let text = root.text("proc/self/status").unwrap_or_default();
        let field = |name| text.lines().find_map(|line| line.strip_prefix(name));
        Self {
            cpus: field("Cpus_allowed_list:").and_then(|list| list.parse().ok()),
            nodes: field("Mems_allowed_list:").and_then(|list| list.parse().ok()),
        }
    }
}
