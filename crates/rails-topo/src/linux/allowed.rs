//! The CPUs and nodes that the process may use, and the CPUs that the kernel sets apart.

use super::{
    cpus::{CPUS, Cpus},
    cpuset::{self, Cpuset},
    root::Root,
    status::Status,
};
use crate::{CpuSet, NodeSet};

/// The limits of the process; each is `None` if nothing states it.
pub(crate) struct Allowed {
    status: Status,
    cpuset: Option<Cpuset>,
    /// The CPUs of isolated partitions of cpusets.
    partitions: CpuSet,
}

impl Allowed {
    pub(crate) fn read(root: &Root) -> Self {
        let mounts = cpuset::mounts(root);
        Self {
            status: Status::read(root),
            cpuset: Cpuset::of_process(root, &mounts),
            partitions: cpuset::isolated(root, &mounts),
        }
    }

    /// The online CPUs within all limits.
    pub(crate) fn cpus(&self, online: &CpuSet) -> CpuSet {
        let limits = [self.status.cpus.as_ref(), self.cpuset.as_ref().and_then(|cpuset| cpuset.cpus.as_ref())];
        limits.into_iter().flatten().fold(online.clone(), |allowed, limit| allowed.intersection(limit))
    }

    /// The nodes within all limits.
    pub(crate) fn nodes(&self, all: &NodeSet) -> NodeSet {
        let limits = [self.status.nodes.as_ref(), self.cpuset.as_ref().and_then(|cpuset| cpuset.nodes.as_ref())];
        limits.into_iter().flatten().fold(all.clone(), |allowed, limit| allowed.intersection(limit))
    }

    /// The online CPUs that the scheduler leaves alone: by `isolcpus=`, and by partitions of
    /// cpusets, which older kernels list in the topmost control group alone
    /// (Documentation/admin-guide/cgroup-v2.rst, `cpuset.cpus.isolated`).
    pub(super) fn isolated(&self, root: &Root, cpus: &Cpus) -> CpuSet {
        let by_boot: CpuSet = root.value(&format!("{CPUS}/isolated")).unwrap_or_default();
        by_boot.union(&self.partitions).intersection(&cpus.online)
    }
}

/// The online CPUs whose tick stops; a kernel without the parameter writes `(null)`.
pub(super) fn nohz_full(root: &Root, cpus: &Cpus) -> CpuSet {
    root.value::<CpuSet>(&format!("{CPUS}/nohz_full")).unwrap_or_default().intersection(&cpus.online)
}
