//! One reader of a dataset, and the work ahead of its reads.

use crate::{
    block::{BudgetId, RequestId},
    error::ReadError,
    node::Node,
    pattern::{Beginning, Depth, Detector, Path, Pattern, TellError, Waste},
    stats::BudgetStats,
};
use rails_array::{BlockIndex, BlockRange, Region, Selection, Shape};
use std::{
    collections::{BTreeMap, VecDeque},
    time::Instant,
};

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
    /// Blocks that the upstream should have ready, and those that it was told of lately.
    to_warm: Vec<BlockIndex>,
    warmed: VecDeque<BlockIndex>,
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
            to_warm: Vec::new(),
            warmed: VecDeque::new(),
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
            to_warm: Vec::new(),
            warmed: VecDeque::new(),
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

    /// Ends the reader's announcement: its blocks are kept no longer than others.
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

    /// Takes the blocks that are expected, and for which the memory here is too full: the node
    /// upstream may read them into its own (the opportunistic prefetch of the thesis). Each is
    /// named once in a while.
    pub fn take_warm(&mut self) -> Vec<BlockIndex> {
        std::mem::take(&mut self.to_warm)
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
        let depth = |level| if may_speculate { self.depth.bytes_ahead(path, level, confidence) } else { 0 };
        let mut left = depth(level);
        // A full memory brings nothing ahead of time, and the upstream makes it ready.
        let looked_at = if level >= LEVEL_OF_WARMING { depth(0) } else { left };
        let count = usize::try_from(looked_at.div_ceil(read_bytes)).unwrap_or(usize::MAX);
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
        if may_speculate && level >= LEVEL_OF_WARMING {
            self.warm(node, &next, self.depth.bytes_ahead(path, 0, confidence));
        }
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

    /// Notes the blocks of so many bytes that are neither here nor noted lately.
    fn warm(&mut self, node: &Node, next: &[Selection], mut bytes: u64) {
        for next in next {
            let Ok(blocks) = node.blocks_of_selection(self.budget, next) else { return };
            for block in blocks {
                if bytes == 0 || self.to_warm.len() == MAX_WARMED {
                    return;
                }
                if !self.warmed.contains(&block) && !node.holds(self.budget, block) {
                    self.warmed.push_back(block);
                    self.to_warm.push(block);
                }
            }
            self.warmed.drain(..self.warmed.len().saturating_sub(MAX_WARMED));
            bytes = bytes.saturating_sub(node.bytes_of(self.budget, next));
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
/// From this level on nothing is brought ahead of time, but made ready upstream.
const LEVEL_OF_WARMING: u8 = 3;
/// The blocks that are named to the upstream at a time, and remembered.
const MAX_WARMED: usize = 256;
/// Memory that is filled beyond this level is not for guesses.
const MAX_LEVEL_OF_GUESSES: u8 = 1;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Action, BlockId, DatasetId, Generation, Limits, NodeConfig, Policy};
    use rails_array::{BlockGrid, Grid};
    use std::{sync::Arc, time::Duration};

    /// Reads some blocks, which arrive at once.
    fn run(node: &mut Node, now: Instant) {
        while let Some(action) = node.poll(now) {
            match action {
                Action::Fetch { block, .. } => assert!(node.arrived(block, now)),
                Action::Copy { request, block } => node.copied(request, block, now),
                _ => {}
            }
        }
    }

    #[test]
    fn a_full_memory_has_blocks_made_ready_upstream() {
        let mut now = Instant::now();
        let config = NodeConfig { slots: 20, slot_bytes: 1000, max_block_slots: 1, window_slots: 2, seed: 1 };
        let mut node = Node::new(config, now);
        let shape = Shape::new([1000]).unwrap();
        let blocks = BlockGrid::new(Region::whole(&shape), Shape::new([1]).unwrap()).unwrap();
        let layout = Arc::new(Grid::new(blocks));
        node.declare_dataset(DatasetId(0), layout, 4, Generation(0)).unwrap();
        let held = Limits { min: 17, ..Limits::default() };
        let others = node.declare_budget(DatasetId(0), held, Policy::Lru).unwrap();
        let budget = node.declare_budget(DatasetId(0), Limits::default(), Policy::Lru).unwrap();
        node.read(others, (900..917).map(BlockIndex).collect::<Vec<_>>()).unwrap();
        run(&mut node, now);
        assert!(node.level_of(budget).number() >= LEVEL_OF_WARMING);
        let mut reader = Reader::new(budget, &shape);
        let path =
            Path { round_trip: Duration::from_millis(20), storage_latency: Duration::ZERO, bytes_per_second: 4000 };
        let mut warmed = Vec::new();
        for at in 0..5 {
            let read = Region::new([at], Shape::new([1]).unwrap()).unwrap();
            let request = reader.read(&mut node, &read.into(), &path, now).unwrap();
            run(&mut node, now);
            now += Duration::from_millis(10);
            reader.ended(request, now);
            warmed.push(reader.take_warm());
        }
        assert!(warmed[..2].iter().all(Vec::is_empty), "{warmed:?}");
        let later: Vec<u64> = warmed.concat().iter().map(|block| block.0).collect();
        assert!(later.starts_with(&[3, 4]), "{warmed:?}");
        let once: std::collections::BTreeSet<u64> = later.iter().copied().collect();
        assert_eq!(once.len(), later.len(), "each is named once: {warmed:?}");
        assert!(!node.is_cached(&BlockId { dataset: DatasetId(0), generation: Generation(0), index: BlockIndex(9) }));
        assert_eq!(node.stats(budget).ahead_fetched, 0);
    }
}
