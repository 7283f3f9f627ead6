//! Present and new pages, brought to the nodes of a policy: the common part of buffers and pools.

use super::{
    MemoryError, MemoryPolicy, PageState, Residency, interleave_weights, meminfo,
    policy::MPOL_PREFERRED_MANY,
    refusal::refused,
    targets::{Grid, Move, Targets},
};
use crate::{
    BindError, Outcome,
    sys::{
        self,
        mapping::{Mapping, page_bytes},
        mempolicy::RawPolicy,
    },
};
use rails_topo::{DataSize, NodeId, NodeSet};
use std::{collections::BTreeMap, io, thread, time::Duration};

/// A mapping, and the units in which its pages move.
#[derive(Debug, Clone, Copy)]
pub(super) struct Range<'a> {
    pub(super) mapping: &'a Mapping,
    pub(super) shape: Shape,
}

/// The kind of pages of a mapping.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub(super) page_bytes: usize,
    /// The unit of a move: a transparent huge page, else one page.
    pub(super) unit_bytes: usize,
    /// Explicit huge pages come from a stock of their own, which free memory does not show.
    pub(super) is_reserved: bool,
}

/// The outcome of a rebinding, from the nodes of the pages before and after.
///
/// Pages that other threads make or move at the same time count as well.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub struct Rebound {
    /// The policy, as read back.
    pub outcome: Outcome<MemoryPolicy>,
    /// The pages that are on another node than they were.
    pub moved: u64,
    /// The pages that are not on a node of the policy: it has no room, or the kernel uses them.
    /// Always 0 for a strict policy, where that is an error instead.
    pub failed: u64,
    /// The nodes of the pages before.
    pub before: Residency,
    /// The nodes of the pages after.
    pub after: Residency,
}

/// The pages that one call moves. A thread that writes to a page that is being moved waits for the
/// whole call at most.
const PAGES_PER_MOVE: usize = 512;
/// Further attempts for pages that the kernel holds for a moment, after one attempt for each node
/// of the policy.
const MORE_ATTEMPTS: usize = 5;
/// The pause before the first of them; each next one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(1);

impl Range<'_> {
    pub(super) fn residency(&self) -> Result<Residency, MemoryError> {
        let pages = self.mapping.bytes() / self.shape.page_bytes;
        Residency::of_pages(self.mapping.address(), self.shape.page_bytes, pages)
    }

    pub(super) fn policy(&self) -> Result<MemoryPolicy, MemoryError> {
        let raw = self.raw_policy()?;
        Ok(MemoryPolicy::from_raw(&raw).ok_or(BindError::UnknownPolicy { mode: raw.mode, nodes: raw.nodes })?)
    }

    /// Makes absent pages, as far as the kernel can; only under a policy that is not strict.
    pub(super) fn populate(&self) -> Result<(), MemoryError> {
        self.populate_part(0, self.mapping.bytes())
    }

    /// The nodes of the pages, after hidden ones were made visible and movable; and, if every page
    /// `was_made`, after absent ones were waited for, which are on their way to another node or
    /// swapped out. The policy must already be the buffer's own, so that the kernel neither
    /// moves hidden pages on that occasion nor marks them anew.
    fn reveal(&self, was_made: bool) -> Result<Residency, MemoryError> {
        let residency = self.residency()?;
        if residency.unknown() == 0 && !(was_made && residency.absent() > 0) {
            return Ok(residency);
        }
        let is_seen = |state| !(state == PageState::Hidden || was_made && state == PageState::Absent);
        let states: Vec<PageState> = residency.iter().collect();
        let mut page = 0;
        for run in states.chunk_by(|one, next| is_seen(*one) == is_seen(*next)) {
            if !is_seen(run[0]) {
                self.populate_part(page * self.shape.page_bytes, run.len() * self.shape.page_bytes)?;
            }
            page += run.len();
        }
        self.residency()
    }

    fn populate_part(&self, offset: usize, bytes: usize) -> Result<(), MemoryError> {
        self.mapping.populate(offset, bytes).map_err(|source| match source.raw_os_error() {
            // The last two are the answers of a filter.
            Some(libc::EINVAL | libc::EPERM | libc::ENOSYS) => {
                MemoryError::Unsupported { what: "MADV_POPULATE_WRITE (Linux 5.14)", source }
            }
            _ => {
                let subject = DataSize::bytes(bytes as u64).to_string();
                MemoryError::Call { call: "madvise(MADV_POPULATE_WRITE)", subject, source }
            }
        })
    }

    /// Checks that the machine has the memory for the absent pages.
    pub(super) fn check_machine(&self, absent_pages: u64) -> Result<(), MemoryError> {
        self.check(absent_pages, None)
    }

    /// Sets the policy of new pages, and moves the present ones. After an error, the former policy
    /// is set and moved pages have gone back, as far as possible.
    pub(super) fn rebind(&self, policy: &MemoryPolicy) -> Result<Rebound, MemoryError> {
        let raw = effective(policy)?;
        let former = self.raw_policy()?;
        let before = self.residency()?;
        self.try_rebind(policy, &raw, before.clone()).inspect_err(|_| self.put_back(&former, &before))
    }

    fn try_rebind(&self, policy: &MemoryPolicy, raw: &RawPolicy, before: Residency) -> Result<Rebound, MemoryError> {
        let effective = MemoryPolicy::from_raw(raw).unwrap_or_else(|| policy.clone());
        let strict = strict_nodes(&effective);
        match &strict {
            Some(nodes) => self.gather(nodes, &before)?,
            None => self.set(raw)?,
        }
        let targets = targets_of(&effective)?;
        let (after, refusal) = self.settle(&targets, strict.is_some())?;
        let mut failed = targets.moves(&after, self.grid(), 0).len() as u64;
        if strict.is_some() {
            failed += after.absent() + after.unknown();
            if failed > 0 {
                let policy = policy.clone();
                return Err(MemoryError::Misplaced { policy, left: failed, pages: after.pages(), source: refusal });
            }
            self.set(raw)?;
        }
        let outcome = Outcome::compare(policy.clone(), self.policy()?);
        Ok(Rebound { outcome, moved: after.moved_since(&before), failed, before, after })
    }

    /// Makes the pages that are absent, preferably on `nodes`, without ever asking for more than
    /// that: a strict policy on a full node would end in the OOM killer.
    fn gather(&self, nodes: &NodeSet, before: &Residency) -> Result<(), MemoryError> {
        let there: u64 = nodes.iter().map(|node| before.pages_on(node)).sum();
        self.check(before.pages() - there, Some(nodes))?;
        self.check_machine(before.absent())?;
        let many = RawPolicy { mode: MPOL_PREFERRED_MANY, nodes: nodes.clone() };
        let one =
            RawPolicy { mode: libc::MPOL_PREFERRED, nodes: nodes.first().map(NodeSet::single).unwrap_or_default() };
        // Kernels before 5.15 prefer one node at most; moving then does the rest.
        if nodes.len() == 1 || self.set(&many).is_err() {
            self.set(&one)?;
        }
        if before.absent() > 0 { self.populate() } else { Ok(()) }
    }

    /// Moves pages until none is on a wrong node, or further attempts fail. If every page
    /// `was_made`, none may be absent either. Returns their nodes then, and the kernel's last
    /// refusal.
    fn settle(&self, targets: &Targets, was_made: bool) -> Result<(Residency, Option<io::Error>), MemoryError> {
        if *targets == Targets::Anywhere {
            return Ok((self.residency()?, None));
        }
        let mut residency = self.reveal(was_made)?;
        let mut refusal = None;
        for attempt in 0..targets.turns() + MORE_ATTEMPTS {
            let mut moves = targets.moves(&residency, self.grid(), attempt);
            if moves.is_empty() && !(was_made && residency.absent() > 0) {
                break;
            }
            if attempt == 0 {
                // A huge page moves as a whole, and naming it once is enough; if it has been split, others follow.
                moves.dedup_by_key(|Move { page, .. }| *page / self.grid().pages_per_unit);
            }
            // A node without room refuses the call; a page that the kernel holds is skipped without
            // an error.
            if let Some(again) = attempt.checked_sub(targets.turns())
                && refusal.is_none()
            {
                thread::sleep(FIRST_PAUSE * (1 << again));
            }
            refusal = self.carry_out(moves).or(refusal);
            residency = self.reveal(was_made)?;
        }
        Ok((residency, refusal))
    }

    /// Moves node by node, because the kernel ends a call at the first page for which a node has no
    /// room.
    fn carry_out(&self, mut moves: Vec<Move>) -> Option<io::Error> {
        moves.sort_by_key(|Move { node, .. }| *node);
        let mut refusal = None;
        for to_one_node in moves.chunk_by(|one, next| one.node == next.node) {
            for chunk in to_one_node.chunks(PAGES_PER_MOVE) {
                let address = |moved: &Move| self.mapping.address() + moved.page * self.shape.page_bytes;
                let pages: Vec<usize> = chunk.iter().map(address).collect();
                let nodes = vec![to_one_node[0].node.0.cast_signed(); chunk.len()];
                if let Err(error) = sys::move_pages::to(&pages, &nodes) {
                    refusal = Some(error);
                    break;
                }
            }
        }
        refusal
    }

    fn put_back(&self, former: &RawPolicy, before: &Residency) {
        if let Err(error) = self.set(former) {
            tracing::warn!(%error, "memory did not get its former policy back");
        }
        let Ok(now) = self.residency() else { return };
        let moves = (0..)
            .zip(now.iter().zip(before.iter()))
            .filter(|(_, (now, then))| now != then)
            .filter_map(|(page, _)| Some(Move { page, node: before.node_of(page)? }))
            .collect();
        if let Some(error) = self.carry_out(moves) {
            tracing::warn!(%error, "not every page that a failed move had moved went back");
        }
    }

    fn check(&self, pages: u64, nodes: Option<&NodeSet>) -> Result<(), MemoryError> {
        let meminfo = nodes.map_or_else(meminfo::of_machine, meminfo::of_nodes);
        let bytes = pages * self.shape.page_bytes as u64;
        match meminfo {
            Some(meminfo) if bytes > meminfo.available && !self.shape.is_reserved => {
                Err(MemoryError::Exhausted { bytes, available: meminfo.available, nodes: nodes.cloned() })
            }
            // Unknown or reserved memory cannot be checked; the move itself shows its lack.
            _ => Ok(()),
        }
    }

    pub(super) fn set(&self, raw: &RawPolicy) -> Result<(), MemoryError> {
        set_range(self.mapping, raw).map_err(|source| {
            let subject = format!("mode {:#x}, nodes `{}`", raw.mode, raw.nodes);
            BindError::of_call("mbind", subject, source).into()
        })
    }

    fn raw_policy(&self) -> Result<RawPolicy, MemoryError> {
        Ok(sys::mempolicy::get_at(self.mapping.address())
            .map_err(|source| BindError::of_call("get_mempolicy", "a buffer", source))?)
    }

    fn grid(&self) -> Grid {
        // The explicit huge pages of a mapping are counted from its beginning, all others from address 0.
        let first_unit = if self.shape.is_reserved { 0 } else { self.mapping.address() / self.shape.unit_bytes };
        Grid { first_unit, pages_per_unit: self.shape.unit_bytes / self.shape.page_bytes }
    }
}

/// The policy that the kernel makes of a request: it drops nodes without memory, and those that the
/// cpuset forbids. Tried on an unused page, so that a refused policy changes nothing.
pub(super) fn effective(policy: &MemoryPolicy) -> Result<RawPolicy, MemoryError> {
    if policy.nodes().is_some_and(|nodes| nodes.is_empty()) {
        return Err(BindError::EmptySet { what: "memory" }.into());
    }
    if *policy == MemoryPolicy::Default {
        // No node is named that could be dropped, and a filter that refuses `mbind` is no hindrance.
        return Ok(policy.to_raw());
    }
    let page = Mapping::new(page_bytes(), page_bytes()).map_err(|source| MemoryError::Call {
        call: "mmap",
        subject: "one page".to_owned(),
        source,
    })?;
    set_range(&page, &policy.to_raw()).map_err(|source| refused("mbind", policy, source))?;
    Ok(sys::mempolicy::get_at(page.address())
        .map_err(|source| BindError::of_call("get_mempolicy", "a page", source))?)
}

/// The nodes of a policy that allows no others.
pub(super) fn strict_nodes(policy: &MemoryPolicy) -> Option<NodeSet> {
    match policy {
        MemoryPolicy::Bind(nodes) => Some(nodes.clone()),
        _ => None,
    }
}

fn set_range(mapping: &Mapping, raw: &RawPolicy) -> io::Result<()> {
    sys::mempolicy::set_range(mapping.address(), mapping.bytes(), raw)
}

fn targets_of(policy: &MemoryPolicy) -> Result<Targets, MemoryError> {
    let weights = match policy {
        MemoryPolicy::WeightedInterleave(_) => interleave_weights()?,
        _ => BTreeMap::new(),
    };
    let here =
        sys::mempolicy::current_node().map_err(|source| BindError::of_call("getcpu", "the calling thread", source))?;
    Ok(Targets::of(policy, NodeId(here), &weights))
}
