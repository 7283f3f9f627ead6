//! The node of each page, as the kernel states it.

use super::MemoryError;
use crate::sys;
use rails_topo::{NodeId, NodeSet};
use std::{
    collections::BTreeMap,
    fmt,
    fs::File,
    io,
    os::unix::fs::FileExt,
    sync::{Mutex, PoisonError},
    thread,
};

/// The node of each page of a range at the time of the query.
///
/// The query makes no page: a page that was never written is [absent](PageState::Absent), on no
/// node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Residency {
    page_bytes: usize,
    /// For each page the number of its node, or a negative `errno`, as `move_pages(2)` gives them:
    /// four bytes a page.
    states: Vec<i32>,
    by_node: BTreeMap<NodeId, u64>,
    absent: u64,
    unknown: u64,
}

/// The place of one page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PageState {
    /// On this node.
    OnNode(NodeId),
    /// On no node: never written (also where reading mapped the page of zeros that all processes
    /// share), or swapped out, or on its way to another node at this moment.
    Absent,
    /// On an unknown node: the kernel has marked the page to see its users, as it does with memory
    /// without a policy of its own while it balances NUMA memory (seen on Linux 6.1; later kernels
    /// state the node). The mark ends when the page is used.
    Hidden,
    /// Unknown, because of an error.
    Unknown {
        /// The `errno` of the page.
        errno: i32,
    },
}

/// The node of each page of `memory`, for memory of any origin. The first and the last page may
/// hold other data as well.
///
/// Pages count in the base size (4 KiB on most machines), huge pages as many of them. The query
/// takes about 0.2 us of CPU a page, nearly all of it the kernel's walk from page to page: 50 ms a
/// GiB of 4 KiB pages (Linux 6.18, AMD EPYC). If the calling thread may run on several CPUs, up to
/// four threads share more than 128 MiB.
///
/// # Privileges
/// None. Containers may forbid the call by a seccomp filter.
///
/// # Errors
/// [`MemoryError::Policy`] on a kernel without NUMA, or under a seccomp filter.
///
/// # References
/// [move_pages(2)](https://man7.org/linux/man-pages/man2/move_pages.2.html), with `nodes` as null
#[doc(alias = "move_pages")]
pub fn residency_of(memory: &[u8]) -> Result<Residency, MemoryError> {
    let page_bytes = sys::mapping::page_bytes();
    let first = memory.as_ptr().addr() / page_bytes * page_bytes;
    let end = memory.as_ptr().addr() + memory.len();
    let pages = if memory.is_empty() { 0 } else { (end - first).div_ceil(page_bytes) };
    Residency::of_pages(first, page_bytes, pages)
}

/// The walk only reads the process's page tables, so that several can go on at a time.
fn ask(first: usize, page_bytes: usize, states: &mut [i32]) -> io::Result<()> {
    // The CPUs of the calling thread count: helpers inherit them.
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    let parts = (states.len() / PAGES_WORTH_A_THREAD).clamp(1, cpus.min(MAX_THREADS));
    if parts == 1 {
        return sys::move_pages::status(first, page_bytes, states);
    }
    let length = states.len().div_ceil(parts);
    let left = Mutex::new(states.chunks_mut(length).enumerate());
    let take = || left.lock().unwrap_or_else(PoisonError::into_inner).next();
    let ask = || {
        while let Some((part, states)) = take() {
            sys::move_pages::status(first + part * length * page_bytes, page_bytes, states)?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        // If the system refuses a thread, the others query its part.
        let helper = |_| thread::Builder::new().spawn_scoped(scope, ask).ok();
        let helpers: Vec<_> = (1..parts).filter_map(helper).collect();
        let own = ask();
        let helped = helpers.into_iter().map(|helper| helper.join().expect("asking does not panic"));
        helped.fold(own, io::Result::and)
    })
}

/// A thread costs as much as a few hundred pages; a smaller share is not worth it.
const PAGES_WORTH_A_THREAD: usize = 1 << 14;
const MAX_THREADS: usize = 4;

impl Residency {
    pub(super) fn of_pages(first: usize, page_bytes: usize, pages: usize) -> Result<Self, MemoryError> {
        let mut states = vec![0; pages];
        ask(first, page_bytes, &mut states).map_err(|source| {
            crate::BindError::of_call("move_pages", format_args!("the {pages} pages from {first:#x} on"), source)
        })?;
        mark_hidden(first, page_bytes, &mut states)?;
        Ok(Self::from_states(page_bytes, states))
    }

    fn from_states(page_bytes: usize, states: Vec<i32>) -> Self {
        let (mut by_node, mut absent, mut unknown) = (BTreeMap::new(), 0, 0);
        // Neighbouring pages are mostly on one node, so the map is updated once for each run of
        // them.
        for run in states.chunk_by(|one, next| one == next) {
            let pages = run.len() as u64;
            match state(run[0]) {
                PageState::OnNode(node) => *by_node.entry(node).or_insert(0) += pages,
                PageState::Absent => absent += pages,
                PageState::Hidden | PageState::Unknown { .. } => unknown += pages,
            }
        }
        Self { page_bytes, states, by_node, absent, unknown }
    }

    /// The size of a page, in bytes: that of the huge pages if explicit ones were requested.
    pub fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    /// The number of pages, absent ones included.
    pub fn pages(&self) -> u64 {
        self.states.len() as u64
    }

    /// The place of page `index`, counted from the first; `None` beyond the last.
    pub fn page(&self, index: usize) -> Option<PageState> {
        self.states.get(index).copied().map(state)
    }

    /// The place of each page, from the first to the last.
    pub fn iter(&self) -> impl Iterator<Item = PageState> + '_ {
        self.states.iter().copied().map(state)
    }

    /// The nodes that hold pages, each with its number of pages.
    pub fn by_node(&self) -> impl Iterator<Item = (NodeId, u64)> + '_ {
        self.by_node.iter().map(|(node, pages)| (*node, *pages))
    }

    /// The nodes that hold pages.
    pub fn nodes(&self) -> NodeSet {
        self.by_node.keys().copied().collect()
    }

    /// The number of pages on `node`.
    pub fn pages_on(&self, node: NodeId) -> u64 {
        self.by_node.get(&node).copied().unwrap_or(0)
    }

    /// The number of bytes on `node`.
    pub fn bytes_on(&self, node: NodeId) -> u64 {
        self.pages_on(node) * self.page_bytes as u64
    }

    /// The number of pages that are on no node.
    pub fn absent(&self) -> u64 {
        self.absent
    }

    /// The number of pages without a known node: hidden ones, and those with an error of their own.
    pub fn unknown(&self) -> u64 {
        self.unknown
    }

    /// Whether every page is present, and on one of `nodes`.
    pub fn is_all_on(&self, nodes: &NodeSet) -> bool {
        self.absent == 0 && self.unknown == 0 && self.nodes().is_subset(nodes)
    }

    /// The number of pages on another node than before, among those that were present and still
    /// are.
    pub(super) fn moved_since(&self, before: &Self) -> u64 {
        self.states.iter().zip(&before.states).filter(|(now, then)| **now >= 0 && **then >= 0 && now != then).count()
            as u64
    }

    /// The node that page `index` is on, if any.
    pub(super) fn node_of(&self, index: usize) -> Option<NodeId> {
        match self.page(index)? {
            PageState::OnNode(node) => Some(node),
            PageState::Absent | PageState::Hidden | PageState::Unknown { .. } => None,
        }
    }

    #[cfg(test)]
    pub(super) fn example(page_bytes: usize, states: Vec<i32>) -> Self {
        Self::from_states(page_bytes, states)
    }
}

/// `262144 pages of 4096 bytes: 262100 on node 1, 44 absent`.
impl fmt::Display for Residency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts: Vec<String> = self.by_node().map(|(node, pages)| format!("{pages} on node {node}")).collect();
        for (pages, what) in [(self.absent, "absent"), (self.unknown, "unknown")] {
            if pages > 0 {
                parts.push(format!("{pages} {what}"));
            }
        }
        let parts = if parts.is_empty() { "none".to_owned() } else { parts.join(", ") };
        write!(f, "{} pages of {} bytes: {parts}", self.pages(), self.page_bytes)
    }
}

/// "`-ENOENT`: The page is not present." "`-EFAULT`: This is a zero page or the memory area is not
/// mapped", which kernels also answer for untouched anonymous areas (`no_page_table` in mm/gup.c);
/// these areas are mapped.
fn state(status: i32) -> PageState {
    match status {
        node @ 0.. => PageState::OnNode(NodeId(node.cast_unsigned())),
        HIDDEN => PageState::Hidden,
        status if status == -libc::ENOENT || status == -libc::EFAULT => PageState::Absent,
        status => PageState::Unknown { errno: status.saturating_neg() },
    }
}

/// The state of a hidden page, which is no `errno`.
const HIDDEN: i32 = i32::MIN;

/// In /proc/PID/pagemap: "Bit 63 page present" (Documentation/admin-guide/mm/pagemap.rst).
const PRESENT: u64 = 1 << 63;

/// Distinguishes hidden pages from absent ones. Linux 6.1 answers `ENOENT` for pages that are
/// marked for NUMA balancing (`gup_can_follow_protnone` in mm/gup.c); the page map states that they
/// are present.
fn mark_hidden(first: usize, page_bytes: usize, states: &mut [i32]) -> Result<(), MemoryError> {
    let is_absent = |state: &i32| *state == -libc::ENOENT;
    if !states.iter().any(is_absent) {
        return Ok(());
    }
    let failed = |source| MemoryError::Call { call: "read", subject: PAGE_MAP.to_owned(), source };
    let map = File::open(PAGE_MAP).map_err(failed)?;
    let small = sys::mapping::page_bytes();
    let mut page = 0;
    for run in states.chunk_by_mut(|one, next| is_absent(one) == is_absent(next)) {
        let length = run.len();
        if is_absent(&run[0]) {
            let mut entries = vec![0; length * (page_bytes / small) * size_of::<u64>()];
            let offset = (first + page * page_bytes) / small * size_of::<u64>();
            map.read_exact_at(&mut entries, offset as u64).map_err(failed)?;
            for (state, entries) in run.iter_mut().zip(entries.chunks_exact(page_bytes / small * size_of::<u64>())) {
                let entry = entries.first_chunk().expect("a page has at least one entry of eight bytes");
                if u64::from_ne_bytes(*entry) & PRESENT != 0 {
                    *state = HIDDEN;
                }
            }
        }
        page += length;
    }
    Ok(())
}

const PAGE_MAP: &str = "/proc/self/pagemap";

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn absent_and_unknown_pages_are_on_no_node() {
        let states = vec![0, 0, -libc::ENOENT, 1, -libc::EFAULT, -libc::EACCES];
        let residency = Residency::example(4096, states);
        assert_eq!(residency.by_node().collect::<Vec<_>>(), [(NodeId(0), 2), (NodeId(1), 1)]);
        assert_eq!((residency.absent(), residency.unknown(), residency.bytes_on(NodeId(0))), (2, 1, 8192));
        assert_eq!(residency.page(5), Some(PageState::Unknown { errno: libc::EACCES }));
        assert_eq!((residency.page(6), residency.node_of(2)), (None, None));
        assert!(!residency.is_all_on(&"0-1".parse().expect("a list")));
        assert_eq!(residency.to_string(), "6 pages of 4096 bytes: 2 on node 0, 1 on node 1, 2 absent, 1 unknown");
    }

    #[test]
    fn empty_range_has_no_pages() {
        let residency = residency_of(&[]).expect("nothing is easily told");
        assert_eq!((residency.pages(), residency.to_string()), (0, "0 pages of 4096 bytes: none".to_owned()));
    }

    proptest! {
        #[test]
        fn every_page_is_counted_once(states in proptest::collection::vec(-20_i32..5, 0..300)) {
            let residency = Residency::example(4096, states.clone());
            let counted: u64 = residency.by_node().map(|(_, pages)| pages).sum();
            prop_assert_eq!(counted + residency.absent() + residency.unknown(), states.len() as u64);
            for (node, pages) in residency.by_node() {
                let same = residency.iter().filter(|state| *state == PageState::OnNode(node)).count();
                prop_assert_eq!(pages, same as u64);
            }
            prop_assert_eq!(residency.moved_since(&residency), 0);
        }
    }
}
