//! `/proc/self/status`, or the system call that stands in for it.

use super::root::Root;
use crate::{CpuId, CpuSet, NodeSet};
use nix::{sched::sched_getaffinity, unistd::Pid};

/// The sets that `/proc/self/status` allows.
///
/// The file describes the main thread of the process (`/proc/thread-self` is the calling one, see
/// proc(5)), with the limits of taskset and the cpuset. Where this machine hides the file,
/// `sched_getaffinity(2)` gives the CPUs.
#[derive(Default)]
pub(super) struct Status {
    pub(super) cpus: Option<CpuSet>,
    pub(super) nodes: Option<NodeSet>,
}

impl Status {
    pub(super) fn read(root: &Root) -> Self {
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
