//! The machine's memory, and the memory that is available, from the kernel's files.

use rails_topo::NodeSet;
use std::fs;

/// Memory of some nodes or of the machine, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MemInfo {
    pub(super) existing: u64,
    /// Memory that is free, or in caches that the kernel can reclaim.
    pub(super) available: u64,
}

/// The memory of the machine; `None` is unknown.
pub(super) fn of_machine() -> Option<MemInfo> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    Some(MemInfo { existing: field(&text, "MemTotal")?, available: field(&text, "MemAvailable")? })
}

/// The memory of `nodes` together; `None` if that of one is unknown.
pub(super) fn of_nodes(nodes: &NodeSet) -> Option<MemInfo> {
    let mut sum = MemInfo { existing: 0, available: 0 };
    for node in nodes.iter() {
        let text = fs::read_to_string(format!("/sys/devices/system/node/node{node}/meminfo")).ok()?;
        let one = of_node(&text)?;
        sum = MemInfo { existing: sum.existing + one.existing, available: sum.available + one.available };
    }
    Some(sum)
}

/// The sizes of explicit huge pages there are, in bytes, from the smallest on.
pub(super) fn huge_page_sizes() -> Vec<u64> {
    let entries = fs::read_dir("/sys/kernel/mm/hugepages").into_iter().flatten().flatten();
    let mut sizes: Vec<u64> = entries
        .filter_map(|entry| {
            let name = entry.file_name();
            let kib: u64 = name.to_str()?.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
            Some(kib * 1024)
        })
        .collect();
    sizes.sort_unstable();
    sizes
}

/// The file with the number of reserved huge pages: on the one node of a policy, or on the machine.
pub(super) fn huge_page_file(page_bytes: u64, nodes: Option<&NodeSet>) -> String {
    let folder = match nodes.filter(|nodes| nodes.len() == 1).and_then(NodeSet::first) {
        Some(node) => format!("/sys/devices/system/node/node{node}/hugepages"),
        None => "/sys/kernel/mm/hugepages".to_owned(),
    };
    format!("{folder}/hugepages-{}kB/nr_hugepages", page_bytes / 1024)
}

/// A node has no `MemAvailable`; this counts as `si_mem_available` does on the machine, without its
/// reserves: the caches of files, and the reclaimable part of the kernel's own caches.
fn of_node(text: &str) -> Option<MemInfo> {
    let mut caches = ["Active(file)", "Inactive(file)", "SReclaimable"].iter().filter_map(|name| field(text, name));
    let available = caches.try_fold(field(text, "MemFree")?, u64::checked_add)?;
    Some(MemInfo { existing: field(text, "MemTotal")?, available })
}

/// The bytes of a line `MemFree:  12 kB`, of the machine's file or of a node's, with `Node 1 ` in
/// front.
fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let (label, value) = line.split_once(':')?;
        if label.split_whitespace().last()? != name {
            return None;
        }
        value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
    })
}

/// For [`crate::fuzzing`].
#[cfg(feature = "fuzzing")]
pub(super) fn fuzz(text: &str) {
    let _ = of_node(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_file_is_read_with_its_caches() {
        let text = "Node 1 MemTotal:  100 kB\nNode 1 MemFree:  40 kB\nNode 1 Active(file):  3 kB\n\
                    Node 1 Inactive(file):  2 kB\nNode 1 SReclaimable:  1 kB\nNode 1 HugePages_Free: 7\n";
        assert_eq!(of_node(text), Some(MemInfo { existing: 100 * 1024, available: 46 * 1024 }));
        assert_eq!(of_node("Node 1 MemFree: 40 kB\n"), None);
        assert_eq!(field(text, "HugePages_Free"), None);
        let most = format!("MemTotal: 1 kB\nMemFree: {0} kB\nSReclaimable: {0} kB\n", u64::MAX / 1024);
        assert_eq!(of_node(&most), None, "more than can be counted");
    }

    #[test]
    fn this_machine_has_memory() {
        let meminfo = of_machine().expect("every Linux says so");
        assert!(meminfo.available <= meminfo.existing && meminfo.existing > 0);
    }

    #[test]
    fn huge_pages_are_reserved_on_the_policys_node() {
        let node = "1".parse().expect("a list");
        let of_node = "/sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages";
        assert_eq!(huge_page_file(2 << 20, Some(&node)), of_node);
        assert_eq!(huge_page_file(2 << 20, None), "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages");
    }
}
