//! The machine from the kernel's files, below any root.

mod allowed;
mod attachment;
mod block;
mod caches;
mod cpuinfo;
mod cpus;
mod cpuset;
mod folder;
mod gpus;
mod interrupts;
mod kinds;
mod names;
mod net;
mod nodes;
mod pci;
mod pci_config;
mod rdma;
mod root;
mod source;
mod status;
mod votes;

use crate::{Gpu, InterfaceAddress, Nic, NodeSet, Origin, SysfsError, Topology};
pub(crate) use allowed::Allowed;
pub(crate) use block::{NoDisks, disks_under};
use cpus::Cpus;
pub(crate) use folder::Folder;
#[cfg(feature = "monitor")]
pub(crate) use interrupts::{Served, served};
#[cfg(feature = "hwloc")]
pub(crate) use names::product;
pub(crate) use net::has_own_files;
#[cfg(feature = "monitor")]
pub(crate) use nodes::total_memory;
#[cfg(feature = "captures")]
pub(crate) use root::LONGEST_FILE;
pub(crate) use root::Root;
pub(crate) use source::{Kind, MAX_LINKS, Source, is_shortage, without_links};
use std::path::Path;

impl Topology {
    /// Reads a captured tree of `/sys` and `/proc` (such as `hwloc-gather-topology` makes), or `/`
    /// itself.
    ///
    /// Nothing outside the tree is read: symlinks that lead out of it count as missing. Facts that
    /// the tree does not state are unknown. The allowed CPUs and nodes are the online ones
    /// within `proc/self/status` and the cpuset of the process (found by `proc/self/cgroup` or
    /// `proc/self/cpuset`, and by `proc/self/mountinfo` or `proc/mounts`); without these files,
    /// all of them.
    ///
    /// # Errors
    ///
    /// [`SysfsError::Open`] if the folder cannot be opened, [`SysfsError::Cpus`] if its list of
    /// CPUs may not be read, [`SysfsError::NoCpus`] if there is none, so that it is no root of
    /// a machine's files, and [`SysfsError::Unread`] if the system lacks the means to read a
    /// file. All else that cannot be read is unknown.
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

/// Reads the machine below the root; errors call it `path`.
pub(crate) fn read_root(root: &Root, path: &Path, origin: Origin) -> Result<Topology, SysfsError> {
    let cpus = Cpus::read(root);
    root.check(path)?;
    if cpus.online.is_empty() {
        let path = path.to_owned();
        return Err(match cpus::listing_fails(root) {
            Some(source) => SysfsError::Cpus { path, source },
            None => SysfsError::NoCpus { path },
        });
    }
    let packages = cpus::packages(root, &cpus);
    let cores = cpus::cores(root, &cpus);
    let nodes = nodes::nodes(root, &cpus);
    let surroundings = attachment::Surroundings { online: &cpus.online, nodes: &nodes, packages: packages.len() };
    let nics = net::nics(root, &surroundings);
    let pci_devices = pci::devices(root, &surroundings);
    let rdma_devices = rdma::devices(root, &surroundings, &nics);
    let mut gpus = gpus::gpus(root, &surroundings);
    gpus.extend(Gpu::unnamed(&pci_devices, &gpus));
    let block_devices = block::devices(root, &surroundings);
    let all_nodes: NodeSet = nodes.iter().map(|node| node.id).collect();
    let allowed = Allowed::read(root);
    let topology = Topology {
        origin,
        machine: names::machine(root),
        dies: cpus::dies(root, &cpus, &packages),
        packages,
        distances: nodes::distances(root, &nodes),
        nodes,
        caches: caches::caches(root, &cpus, &cores),
        cores,
        core_kinds: kinds::core_kinds(root, &cpus),
        allowed_cpus: allowed.cpus(&cpus.online),
        allowed_nodes: allowed.nodes(&all_nodes),
        isolated_cpus: allowed.isolated(root, &cpus),
        nohz_full_cpus: allowed::nohz_full(root, &cpus),
        online_cpus: cpus.online,
        pci_devices,
        nics,
        rdma_devices,
        gpus,
        block_devices,
        overrides: Vec::new(),
    };
    root.check(path)?;
    Ok(topology.in_order())
}

/// The addresses of this machine's interfaces that have files, by their names; `None` where the
/// kernel does not list interfaces.
pub(crate) fn own_addresses(root: &Root) -> Option<Vec<(String, InterfaceAddress)>> {
    let nics = net::listed_by_kernel(root)?.into_iter().filter(|nic| net::has_its_files(root, nic));
    let of_one = |nic: Nic| nic.addresses.into_iter().map(move |address| (nic.name.clone(), address));
    Some(nics.flat_map(of_one).collect())
}

/// The interfaces of a known machine with their addresses, read again.
#[cfg(feature = "monitor")]
pub(crate) fn nics(root: &Root, machine: &Topology) -> Vec<Nic> {
    let packages = machine.packages.len();
    net::nics(root, &attachment::Surroundings { online: &machine.online_cpus, nodes: &machine.nodes, packages })
}

/// The speed that the file of an interface states.
#[cfg(feature = "monitor")]
pub(crate) fn speed(root: &Root, nic: &Nic) -> Option<crate::Bandwidth> {
    let has_files = nic.kind != crate::NicKind::Unknown;
    root.value(&format!("{}/{}/speed", net::NET, nic.name)).filter(|_| has_files).and_then(net::speed)
}
