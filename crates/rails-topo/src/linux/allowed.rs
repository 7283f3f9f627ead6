//! The CPUs and nodes that the process may use, and the CPUs that the kernel sets apart.

use super::{
    cpus::{CPUS, Cpus},
    cpuset::{self, Cpuset},
    root::Root,
};
use crate::{CpuId, CpuSet, NodeSet};
use nix::{sched::sched_getaffinity, unistd::Pid};

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

    /// The online CPUs that the scheduler leaves alone: by `isolcpus=`, and by partitions of cpusets, which older
    /// kernels list in the topmost control group alone (Documentation/admin-guide/cgroup-v2.rst,
    /// `cpuset.cpus.isolated`).
    pub(super) fn isolated(&self, root: &Root, cpus: &Cpus) -> CpuSet {
        let by_boot: CpuSet = root.value(&format!("{CPUS}/isolated")).unwrap_or_default();
        by_boot.union(&self.partitions).intersection(&cpus.online)
    }
}

/// The CPUs that the kernel lets the process run on.
pub(super) fn of_the_process(root: &Root) -> Option<CpuSet> {
    Status::read(root).cpus
}

/// The online CPUs whose tick stops; a kernel without the parameter writes `(null)`.
pub(super) fn nohz_full(root: &Root, cpus: &Cpus) -> CpuSet {
    root.value::<CpuSet>(&format!("{CPUS}/nohz_full")).unwrap_or_default().intersection(&cpus.online)
}

/// The sets that `/proc/self/status` allows.
///
/// The file describes the main thread of the process (`/proc/thread-self` is the calling one, see proc(5)), with the
/// limits of taskset and the cpuset. Where this machine hides the file, `sched_getaffinity(2)` gives the CPUs.
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
            cpus: field("Cpus_allowed_list:").and_then(|list| list.parse().ok()).or_else(|| affinity(root)),
            nodes: field("Mems_allowed_list:").and_then(|list| list.parse().ok()),
        }
    }
}

/// The CPUs of the main thread, whose number is that of the process.
fn affinity(root: &Root) -> Option<CpuSet> {
    let asked = root.is_this_machine().then(|| sched_getaffinity(Pid::this()))?.ok()?;
    let is_set = |cpu: &usize| asked.is_set(*cpu).unwrap_or_default();
    Some((0..nix::sched::CpuSet::count()).filter(is_set).map(|cpu| CpuId(cpu as u32)).collect())
}
