//! One reader of a dataset, and the work ahead of its reads.

use crate::{
    block::{BudgetId, RequestId},
    error::ReadError,
    node::Node,
    pattern::{Beginning, Depth, Detector, Path, Pattern, TellError, Waste},
    stats::BudgetStats,
};
use rails_array::{BlockIndex, BlockRange, Region, Selection, Shape};
use std::{collections::BTreeMap, time::Instant};

/// A reader whose next reads a node prefetches.
///
/// A reader watches the selections that one job reads of one dataset, and has the node fetch as
/// much ahead of them as [`Depth`] says, as long as little of it is [wasted](Waste). The bounds of
/// selections make the pattern; the steps of the last one hold for those that are foretold.
///
/// A reader that begins at the start of an axis is expected to go on along it before its reads make
/// a pattern, so that the second one does not wait for a round trip of its own.
#[derive(Debug, Clone)]
pub struct Reader {
    budget: BudgetId,
    detector: Detector,
    beginning: Beginning,
    depth: Depth,
    waste: Waste,
    /// The counters of the budget at the last read.
    seen: BudgetStats,
    /// The selection that was read last.
    last: Option<Selection>,
    /// Whether the node has to be told of regions that were announced.
    is_told_anew: bool,
    /// Whether the node expects uses that were announced.
    expects: bool,
    /// The bytes of each open read, and when it began.
    open: BTreeMap<RequestId, (u64, Instant)>,
}

impl Reader {
    /// A reader of an array of this shape, whose blocks count against the budget.
    pub fn new(budget: BudgetId, shape: &Shape) -> Self {
        Self {
            budget,
            detector: Detector::new(shape),
            beginning: Beginning::new(shape),
            depth: Depth::new(),
            waste: Waste::new(),
            seen: BudgetStats::default(),
            last: None,
            is_told_anew: false,
            expects: false,
            open: BTreeMap::new(),
        }
    }

    /// A reader that has seen the same reads, and whose blocks count against another budget: the
    /// application goes on with another division of the array into blocks.
    pub fn for_budget(&self, budget: BudgetId) -> Self {
        Self {
            budget,
            waste: Waste::new(),
            seen: BudgetStats::default(),
            last: None,
            is_told_anew: self.expects || self.is_told_anew,
            expects: false,
            open: BTreeMap::new(),
            ..self.clone()
        }
    }

    /// Announces the regions that will be read, in their order. They take the place of those that
    /// were announced before.
    ///
    /// From the next read on the node [expects](Node::expect) their blocks, until reads leave the
    /// list, so that policies [`Hinted`](crate::Policy::Hinted) and
    /// [`Schedule`](crate::Policy::Schedule) keep them.
    ///
    /// # Errors
    ///
    /// [`TellError`] for a list that is too long or leaves the array.
    pub fn tell(&mut self, regions: Vec<Region>) -> Result<(), TellError> {
        self.detector.tell(regions)?;
        self.is_told_anew = true;
        Ok(())
    }

    /// The reader's blocks are not read any more: what it announced keeps none of them.
    pub fn leave(&mut self, node: &mut Node) {
        if std::mem::take(&mut self.expects) {
            node.forget_expected(self.budget);
        }
    }

    /// Reads a selection, and prefetches those that are expected after it, over a path like this.
    ///
    /// # Errors
    ///
    /// As [`Node::blocks_of_selection`] and [`Node::read`].
    pub fn read(
        &mut self,
        node: &mut Node,
        selection: &Selection,
        path: &Path,
        now: Instant,
    ) -> Result<RequestId, ReadError> {
        let blocks = node.blocks_of_selection(self.budget, selection)?;
        if std::mem::take(&mut self.is_told_anew) {
            self.expect(node, selection);
        }
        let request = node.read(self.budget, blocks)?;
        let bytes = node.bytes_of(self.budget, selection);
        self.open.insert(request, (bytes, now));
        self.detector.observe(selection.bounds());
        self.beginning.observe(selection.bounds());
        if !self.detector.is_told() {
            self.leave(node);
        }
        self.judge(node, now);
        self.prefetch(node, selection, path, now);
        Ok(request)
    }

    /// A read has ended: it is done, refused or cancelled.
    pub fn ended(&mut self, request: RequestId, now: Instant) {
        if let Some((bytes, since)) = self.open.remove(&request) {
            self.depth.consumed(now, bytes, now.saturating_duration_since(since));
        }
    }

    /// The pattern of the last reads.
    pub fn pattern(&self) -> Pattern {
        self.detector.pattern()
    }

    /// Has the node expect the blocks of the regions that were announced.
    fn expect(&mut self, node: &mut Node, selection: &Selection) {
        self.leave(node);
        self.expects = true;
        for region in self.detector.announced() {
            let Some(next) = with_steps(region.clone(), selection) else { continue };
            // A division of a part of the array has no blocks of other regions.
            let Ok(blocks) = node.blocks_of_selection(self.budget, &next) else { continue };
            let wanted = blocks.len();
            if node.expect(self.budget, blocks).is_ok_and(|noted| noted < wanted) {
                break;
            }
        }
    }

    /// Learns the fate of blocks that were fetched ahead.
    fn judge(&mut self, node: &Node, now: Instant) {
        let stats = node.stats(self.budget);
        // More than these would push each other out of the record.
        let news = |now: u64, seen: u64| (now - seen).min(MAX_NEWS);
        (0..news(stats.used, self.seen.used)).for_each(|_| self.waste.used(now));
        (0..news(stats.unused, self.seen.unused)).for_each(|_| self.waste.unused(now));
        self.seen = stats;
    }

    /// Fetches ahead of a read, and lets go behind it.
    fn prefetch(&mut self, node: &mut Node, selection: &Selection, path: &Path, now: Instant) {
        node.cancel_prefetch(self.budget);
        let read_bytes = node.bytes_of(self.budget, selection).max(1);
        let level = node.level_of(self.budget).number();
        let confidence = self.detector.predict(0).confidence;
        let may_speculate = self.waste.may_speculate(now);
        let mut left = if may_speculate { self.depth.bytes_ahead(path, level, confidence) } else { 0 };
        let count = usize::try_from(left.div_ceil(read_bytes)).unwrap_or(usize::MAX);
        let predicted = self.detector.predict(count.clamp(MIN_REGIONS, MAX_REGIONS)).next;
        let mut regions: Vec<Region> = predicted.into_iter().map(|prediction| prediction.region).collect();
        if !regions.is_empty() {
            self.beginning.end();
        } else if may_speculate && level <= MAX_LEVEL_OF_GUESSES {
            regions = self.beginning.next(read_bytes, path);
            left = u64::MAX;
        }
        let next: Vec<Selection> = regions.into_iter().filter_map(|region| with_steps(region, selection)).collect();
        self.pass(node, selection, &next);
        for next in &next {
            if left == 0 {
                return;
            }
            // A prediction lies in the array.
            let Ok(blocks) = node.blocks_of_selection(self.budget, next) else { return };
            let _ = node.prefetch(self.budget, blocks);
            left = left.saturating_sub(node.bytes_of(self.budget, next));
        }
    }

    /// A pattern that goes on leaves behind the blocks that it does not come back to soon.
    fn pass(&mut self, node: &mut Node, selection: &Selection, next: &[Selection]) {
        let Some(last) = self.last.replace(selection.clone()) else { return };
        if !matches!(self.detector.pattern(), Pattern::Sequential | Pattern::Stride | Pattern::Nest | Pattern::Apriori)
        {
            return;
        }
        let of = |selection: &Selection| node.blocks_of_selection(self.budget, selection).ok();
        let kept: Vec<BlockRange> = [selection].into_iter().chain(next).filter_map(of).collect();
        let behind = of(&last).into_iter().flatten();
        let left: Vec<BlockIndex> = behind.filter(|block| !kept.iter().any(|kept| kept.contains(*block))).collect();
        let _ = node.pass(self.budget, left);
    }
}

/// A region with the steps of a selection.
fn with_steps(region: Region, selection: &Selection) -> Option<Selection> {
    Selection::new(region, selection.steps().iter().copied()).ok()
}

/// As many as [`Waste`] remembers.
const MAX_NEWS: u64 = 64;
/// The regions that are looked for at each read: a region costs a tenth of a microsecond, and
/// those of small reads would be many.
const MAX_REGIONS: usize = 64;
/// The regions that are looked for even if nothing is fetched ahead: a block in them is not behind.
const MIN_REGIONS: usize = 4;
/// Memory that is filled beyond this level is not for guesses.
const MAX_LEVEL_OF_GUESSES: u8 = 1;
