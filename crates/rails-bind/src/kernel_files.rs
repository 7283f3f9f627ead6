//! The kernel files for errors and usage figures.

use rails_topo::{CpuSet, Id, IdSet, NodeSet};
use std::fs;

/// The online CPUs; `None` is unknown.
pub(crate) fn online_cpus() -> Option<CpuSet> {
    list("/sys/devices/system/cpu/online")
}

/// The CPUs that are plugged in; `None` is unknown.
pub(crate) fn present_cpus() -> Option<CpuSet> {
    list("/sys/devices/system/cpu/present")
}

/// The CPUs that this kernel can ever have; `None` is unknown.
pub(crate) fn possible_cpus() -> Option<CpuSet> {
    list("/sys/devices/system/cpu/possible")
}

/// The possible CPUs that are not online; `None` is unknown.
pub(crate) fn offline_cpus() -> Option<CpuSet> {
    list("/sys/devices/system/cpu/offline")
}

/// The CPUs that a thread may run on as the kernel keeps them, offline ones too
/// (`sched_getaffinity` leaves these out).
pub(crate) fn cpus_kept_for(task: &str) -> Option<CpuSet> {
    let status = fs::read(format!("/proc/{task}/status")).ok()?;
    status_field(&String::from_utf8_lossy(&status), "Cpus_allowed_list")?.parse().ok()
}

/// The nodes with memory; `None` is unknown.
pub(crate) fn nodes_with_memory() -> Option<NodeSet> {
    list("/sys/devices/system/node/has_memory")
}

/// The nodes of the calling thread's cpuset for memory; `None` is unknown.
pub(crate) fn allowed_nodes() -> Option<NodeSet> {
    let status = fs::read_to_string("/proc/thread-self/status").ok()?;
    status_field(&status, "Mems_allowed_list")?.parse().ok()
}

/// The value of a line `name:\tvalue` of `/proc/.../status` (proc_pid_status(5)).
pub(crate) fn status_field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

fn list<T: Id>(path: &str) -> Option<IdSet<T>> {
    fs::read_to_string(path).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_field_is_found_by_its_whole_name() {
        let status = "Name:\tMems_allowed_list\nMems_allowed:\t3\nMems_allowed_list:\t0-1\n";
        assert_eq!(status_field(status, "Mems_allowed_list"), Some("0-1"));
        assert_eq!(status_field(status, "Mems_allowed"), Some("3"));
        assert_eq!(status_field(status, "Mems"), None);
    }

    #[test]
    fn online_cpus_of_this_kernel() {
        assert!(online_cpus().is_some_and(|cpus| !cpus.is_empty()));
    }
}
