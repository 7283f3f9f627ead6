//! The cpuset of the process: the CPUs and nodes that its control group may use (cgroups(7),
//! cpuset(7)).

mod group;
mod mount;

use super::root::Root;
use crate::{CpuSet, Id, IdSet, NodeSet};
use group::Group;
pub(super) use mount::{Mount, mounts};

/// The limits of a control group; each is `None` if its files do not state it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Cpuset {
    pub(super) cpus: Option<CpuSet>,
    pub(super) nodes: Option<NodeSet>,
}

/// A hierarchy of control groups that can hold cpusets; both may be mounted, but only one of them
/// has the controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

impl Cpuset {
    /// The cpuset of the process; `None` where it is in none, or its files are out of sight.
    pub(super) fn of_process(root: &Root, mounts: &[Mount]) -> Option<Self> {
        let found = group::groups(root).into_iter().filter_map(|group| Self::of_group(root, &group, mounts));
        found.reduce(|a, b| Self { cpus: both(a.cpus, b.cpus), nodes: both(a.nodes, b.nodes) })
    }

    /// The group's cpuset: its own, or, where it has none of its own, that of the nearest group
    /// above it.
    fn of_group(root: &Root, group: &Group, mounts: &[Mount]) -> Option<Self> {
        let mounts = mounts.iter().filter(|mount| mount.version == group.version);
        let (mount, mut below) = mounts.filter_map(|mount| Some((mount, mount.below(&group.path)?))).next()?;
        loop {
            let found = Self::in_folder(root, &format!("{}{below}", mount.folder), group.version);
            if found != Self::default() {
                return Some(found);
            }
            below = &below[..below.rfind('/')?];
        }
    }

    fn in_folder(root: &Root, folder: &str, version: Version) -> Self {
        let files: &[_] = match version {
            Version::One => &FILES_OF_ONE,
            Version::Two => &FILES_OF_TWO,
        };
        Self {
            cpus: files.iter().find_map(|(cpus, _)| set_in(root, &format!("{folder}/{cpus}"))),
            nodes: files.iter().find_map(|(_, nodes)| set_in(root, &format!("{folder}/{nodes}"))),
        }
    }
}

/// The CPUs of isolated partitions, which the topmost group of version 2 lists where it is in
/// sight.
pub(super) fn isolated(root: &Root, mounts: &[Mount]) -> CpuSet {
    let topmost = mounts.iter().find(|mount| mount.version == Version::Two);
    topmost.and_then(|mount| root.value(&format!("{}/cpuset.cpus.isolated", mount.folder))).unwrap_or_default()
}

/// A set that is not empty: nothing can run in an empty one, so it states nothing.
fn set_in<T: Id>(root: &Root, path: &str) -> Option<IdSet<T>> {
    root.value::<IdSet<T>>(path).filter(|set| !set.is_empty())
}

fn both<T: Id>(a: Option<IdSet<T>>, b: Option<IdSet<T>>) -> Option<IdSet<T>> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.intersection(&b)),
        (a, b) => a.or(b),
    }
}

/// The set in effect, else the requested one; the second pair of each is that of a mount with the
/// option `noprefix`, as the file system `cpuset` always has.
const FILES_OF_ONE: [(&str, &str); 4] = [
    ("cpuset.effective_cpus", "cpuset.effective_mems"),
    ("effective_cpus", "effective_mems"),
    ("cpuset.cpus", "cpuset.mems"),
    ("cpus", "mems"),
];
const FILES_OF_TWO: [(&str, &str); 1] = [("cpuset.cpus.effective", "cpuset.mems.effective")];
