//! The memory of any process: its nodes, and moving it.

use super::MemoryError;
use crate::{BindError, kernel_files, sys, thread::Tid};
use rails_topo::{NodeId, NodeSet};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fs, path::Path};

/// The bytes of a process that are present, by the node they lie on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ProcessMemory {
    /// Heap, stacks and all other memory without a file, transparent huge pages included.
    pub anonymous: BTreeMap<NodeId, u64>,
    /// Explicit huge pages.
    pub huge: BTreeMap<NodeId, u64>,
    /// Pages of files: programs, libraries, shared memory. Other processes may use them too, and
    /// may have used them first; pages that the process changed in its private copy of a file
    /// count here as well.
    pub file: BTreeMap<NodeId, u64>,
}

/// The nodes of the memory of process `pid`, from `/proc/PID/numa_maps`. The query makes no page;
/// the kernel walks all page tables of the process.
///
/// # Privileges
/// None for processes of the same user that may be dumped; `CAP_SYS_PTRACE` for others.
///
/// # Errors
/// [`MemoryError::NoSuchProcess`], [`MemoryError::NotPermitted`], [`MemoryError::Unsupported`] on a
/// kernel without NUMA, [`MemoryError::Unreadable`] for a line that is not understood.
///
/// # References
/// [numa(7)](https://man7.org/linux/man-pages/man7/numa.7.html), `/proc/PID/numa_maps`
pub fn nodes_of(pid: Tid) -> Result<ProcessMemory, MemoryError> {
    let file = format!("/proc/{pid}/numa_maps");
    let text = fs::read(&file).map_err(|source| match source.raw_os_error() {
        Some(libc::ENOENT | libc::ESRCH) if !Path::new(&format!("/proc/{pid}")).exists() => {
            MemoryError::NoSuchProcess { pid }
        }
        Some(libc::ESRCH) => MemoryError::NoSuchProcess { pid },
        Some(libc::ENOENT) => {
            MemoryError::Unsupported { what: "/proc/PID/numa_maps (it is built without NUMA)", source }
        }
        Some(libc::EACCES | libc::EPERM) => {
            MemoryError::NotPermitted { call: "reading numa_maps", pid, capability: "CAP_SYS_PTRACE", source }
        }
        _ => MemoryError::Call { call: "read", subject: file.clone(), source },
    })?;
    read(&text).map_err(|line| MemoryError::Unreadable { file, line })
}

/// Moves the pages of process `pid` that lie on `from` to `to`, and returns the number of pages
/// that could not be moved. With several nodes on both sides, the first of `from` goes to the first
/// of `to`, and so on. The policies of the process remain: it goes on making pages on the same
/// nodes.
///
/// # Privileges
/// None for processes of the same user (those that may be ptraced); `CAP_SYS_NICE` for others.
/// Pages that several processes share move only with `CAP_SYS_NICE`; without it, they are counted
/// as not moved or passed over.
///
/// # Errors
/// [`MemoryError::NoSuchProcess`], [`MemoryError::NotPermitted`], [`MemoryError::NodesUnusable`];
/// [`MemoryError::Policy`] for an empty set or on a kernel without NUMA.
///
/// # References
/// [migrate_pages(2)](https://man7.org/linux/man-pages/man2/migrate_pages.2.html)
#[doc(alias = "migrate_pages")]
pub fn migrate(pid: Tid, from: &NodeSet, to: &NodeSet) -> Result<u64, MemoryError> {
    if from.is_empty() || to.is_empty() {
        return Err(BindError::EmptySet { what: "the memory of a process" }.into());
    }
    sys::mempolicy::migrate(pid.as_raw(), from, to).map_err(|source| match source.raw_os_error() {
        Some(libc::ESRCH) => MemoryError::NoSuchProcess { pid },
        Some(libc::EPERM) => {
            MemoryError::NotPermitted { call: "migrate_pages", pid, capability: "CAP_SYS_NICE", source }
        }
        Some(libc::EINVAL | libc::ENODEV) => {
            let with_memory = kernel_files::nodes_with_memory().unwrap_or_default();
            MemoryError::NodesUnusable { from: from.clone(), to: to.clone(), with_memory, source }
        }
        _ => BindError::of_call("migrate_pages", format_args!("process {pid}, `{from}` to `{to}`"), source).into(),
    })
}

impl ProcessMemory {
    /// The process's own memory: anonymous memory and explicit huge pages.
    pub fn own(&self) -> BTreeMap<NodeId, u64> {
        let mut own = self.anonymous.clone();
        for (node, bytes) in &self.huge {
            *own.entry(*node).or_default() += bytes;
        }
        own
    }

    /// The nodes that hold more than a tenth of the process's own memory. Pages that the program
    /// loader and other threads have touched lie on their nodes, so that a few pages of any process
    /// lie elsewhere.
    pub fn main_nodes(&self) -> NodeSet {
        main_nodes(&self.own())
    }

    /// The sum of all bytes; `None` if it overflows.
    fn total(&self) -> Option<u64> {
        let mut kinds = [&self.anonymous, &self.huge, &self.file].into_iter().flat_map(BTreeMap::values);
        kinds.try_fold(0_u64, |total, bytes| total.checked_add(*bytes))
    }

    /// All bytes on `node`.
    pub fn bytes_on(&self, node: NodeId) -> u64 {
        [&self.anonymous, &self.huge, &self.file].iter().filter_map(|kind| kind.get(&node)).sum()
    }
}

/// The nodes that hold more than a tenth of these bytes.
pub(crate) fn main_nodes(own: &BTreeMap<NodeId, u64>) -> NodeSet {
    let few = own.values().sum::<u64>() / 10;
    own.iter().filter(|(_, bytes)| **bytes > few).map(|(node, _)| *node).collect()
}

/// The file is text but for the names of mapped files, which are bytes of any kind.
fn read(file: &[u8]) -> Result<ProcessMemory, String> {
    parse(&String::from_utf8_lossy(file)).map_err(str::to_owned)
}

/// One line an area: `address policy [key[=value] ...]`, with `N0=12` for twelve pages on node 0
/// and `kernelpagesize_kB=4` for their size; `file=` names the mapped file and `huge` marks
/// explicit huge pages (`show_numa_map` in fs/proc/task_mmu.c). An area without a present page has
/// neither. The bytes of all areas together have to fit a number, so that later sums do as well.
fn parse(text: &str) -> Result<ProcessMemory, &str> {
    let mut memory = ProcessMemory::default();
    for line in text.lines() {
        area(line, &mut memory).and_then(|()| memory.total()).ok_or(line)?;
    }
    Ok(memory)
}

fn area(line: &str, memory: &mut ProcessMemory) -> Option<()> {
    let mut words = line.split_whitespace();
    let (_address, _policy) = (words.next()?, words.next()?);
    let words: Vec<&str> = words.collect();
    let is = |prefix: &str| words.iter().any(|word| word.starts_with(prefix));
    let kind = match (words.contains(&"huge"), is("file=")) {
        (true, _) => &mut memory.huge,
        (false, true) => &mut memory.file,
        (false, false) => &mut memory.anonymous,
    };
    let on_nodes: Vec<(NodeId, u64)> = words
        .iter()
        .filter_map(|word| word.strip_prefix('N')?.split_once('='))
        // A kernel has at most 1,024 nodes (MAX_NUMNODES), and a set takes memory by the largest number in it.
        .map(|(node, pages)| Some((NodeId(node.parse::<u16>().ok()?.into()), pages.parse().ok()?)))
        .collect::<Option<_>>()?;
    if on_nodes.is_empty() {
        return Some(());
    }
    let kib = words.iter().find_map(|word| word.strip_prefix("kernelpagesize_kB="))?.parse::<u64>().ok()?;
    for (node, pages) in on_nodes {
        let bytes = kind.entry(node).or_insert(0_u64);
        *bytes = bytes.checked_add(pages.checked_mul(kib)?.checked_mul(1024)?)?;
    }
    Some(())
}

/// For [`crate::fuzzing`].
#[cfg(feature = "fuzzing")]
pub(super) fn fuzz(text: &str) {
    if let Ok(memory) = parse(text) {
        drop((memory.own(), memory.main_nodes()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn itself() -> Tid {
        Tid::from_raw(std::process::id() as i32).expect("it is above zero")
    }

    #[test]
    fn pages_are_counted_by_kind_and_size() {
        let text = "\
            55d0 default file=/usr/bin/x mapped=3 mapmax=2 N0=2 N1=1 kernelpagesize_kB=4\n\
            55e0 default heap anon=5 dirty=5 N1=5 kernelpagesize_kB=4\n\
            7f00 default\n\
            7f10 bind:1 file=/anon_hugepage\\040(deleted) huge anon=2 dirty=2 N1=2 kernelpagesize_kB=2048\n\
            7f20 interleave:0-1 anon=2 dirty=2 N0=1 N1=1 kernelpagesize_kB=4\n";
        let memory = parse(text).expect("well-formed");
        assert_eq!(memory.file, BTreeMap::from([(NodeId(0), 8192), (NodeId(1), 4096)]));
        assert_eq!(memory.anonymous, BTreeMap::from([(NodeId(0), 4096), (NodeId(1), 6 * 4096)]));
        assert_eq!(memory.huge, BTreeMap::from([(NodeId(1), 4 << 20)]));
        assert_eq!(memory.bytes_on(NodeId(0)), 8192 + 4096);
    }

    #[test]
    fn mapped_file_may_have_any_name() {
        let file = b"7f00 default file=/tmp/\xff\xfe\x80 mapped=2 N1=2 kernelpagesize_kB=4\n7f10 default anon=1 N0=1 kernelpagesize_kB=4\n";
        let memory = read(file).expect("its pages are understood");
        assert_eq!(memory.file, BTreeMap::from([(NodeId(1), 8192)]));
        assert_eq!(memory.anonymous, BTreeMap::from([(NodeId(0), 4096)]));
    }

    const FAR: &str = "7f00 default N4294967295=1 kernelpagesize_kB=4";

    #[test]
    fn line_that_is_not_understood_is_named() {
        for line in ["7f00", "7f00 default N0=many kernelpagesize_kB=4", "7f00 default N0=1", FAR] {
            assert_eq!(parse(line), Err(line));
        }
        let half = "7f00 default anon=1 N0=2251799813685248 kernelpagesize_kB=4";
        assert!(parse(half).is_ok());
        for other in ["huge N0=2251799813685248", "N1=2251799813685248", "file=x N0=2251799813685248"] {
            let too_much = format!("7f10 default {other} kernelpagesize_kB=4");
            assert_eq!(parse(&format!("{half}\n{too_much}")), Err(too_much.as_str()));
        }
    }

    #[test]
    fn this_process_lies_somewhere() {
        let memory = nodes_of(itself()).expect("a process may look at itself");
        assert!(memory.anonymous.values().sum::<u64>() > 0 && memory.file.values().sum::<u64>() > 0, "{memory:?}");
    }

    #[test]
    fn processes_and_nodes_that_do_not_exist_are_named() {
        let node = |number| NodeSet::single(NodeId(number));
        for number in [4_194_305, i32::MAX] {
            let pid = Tid::from_raw(number).expect("it is above zero");
            assert!(matches!(nodes_of(pid), Err(MemoryError::NoSuchProcess { pid: said }) if said == pid));
            let error = migrate(pid, &node(0), &node(0)).expect_err("Linux ends at 4,194,304");
            assert!(matches!(error, MemoryError::NoSuchProcess { pid: said } if said == pid), "{error}");
        }
        let error = migrate(itself(), &node(0), &node(1000)).expect_err("no machine has the node");
        assert!(matches!(error, MemoryError::NodesUnusable { .. }), "{error}");
        let error = migrate(itself(), &node(0), &NodeSet::new()).expect_err("nowhere to go");
        assert!(matches!(error, MemoryError::Policy(BindError::EmptySet { .. })), "{error}");
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[ -~\n]{0,200}") {
            let _ = parse(&text);
        }
    }
}
