//! One reader at a node downstream, and the blocks that are sent ahead of its reads.

use crate::{
    block::{BudgetId, DownstreamId},
    error::ReadError,
    node::Node,
    pattern::{Beginning, Confidence, Depth, Detector, Guess, Path, Pattern, TellError, Waste},
};
use rails_array::{Region, Selection, Shape};
use std::time::{Duration, Instant};

/// A node's work ahead of a reader that is at a node downstream: the counterpart of a
/// [`Reader`](crate::Reader), beside the data.
///
/// A presender is told of each read, and has its node send the blocks that the reader is expected
/// to want, as far as [credit](Node::credited) goes, without being asked. So it needs no evidence
/// before it begins: one distance between two reads is enough, and a list of the reads of an
/// earlier reader is better.
///
/// The node downstream
/// - tells of a read behind the requests for its blocks, so that these are sent first;
/// - tells which blocks it has [lost](Node::follow_losses) before it asks for others;
/// - reads on although blocks are on their way: see [`Node::is_answered_by_push`].
#[derive(Debug, Clone)]
pub struct Presender {
    downstream: DownstreamId,
    budget: BudgetId,
    detector: Detector,
    guess: Guess,
    beginning: Beginning,
    depth: Depth,
    waste: Waste,
    /// The bytes of the last read, and how long the reader may have waited for them.
    last: Option<(u64, Duration)>,
    /// The first selections that were read, if they are kept.
    reads: Vec<Selection>,
    keeps_reads: bool,
}

impl Presender {
    /// A presender to a node for a reader of an array of this shape, whose blocks count against the
    /// budget here.
    pub fn new(downstream: DownstreamId, budget: BudgetId, shape: &Shape) -> Self {
        Self {
            downstream,
            budget,
            detector: Detector::new(shape),
            guess: Guess::new(shape),
            beginning: Beginning::new(shape),
            depth: Depth::new(),
            waste: Waste::new(),
            last: None,
            reads: Vec::new(),
            keeps_reads: true,
        }
    }

    /// Whether the first reads are kept, for the next reader of the same job. By default they are,
    /// and take up to a megabyte.
    #[must_use]
    pub fn keep_reads(self, keeps_reads: bool) -> Self {
        Self { keeps_reads, ..self }
    }

    /// A presender that knows the same reads, and sends blocks that count against another budget:
    /// the reader goes on with another division of the array into blocks.
    pub fn for_budget(&self, budget: BudgetId) -> Self {
        Self { budget, waste: Waste::new(), ..self.clone() }
    }

    /// Takes the selections that will be read, in their order, and sends the first of them before
    /// anything is read: a list of the application's, or the [reads](Self::reads) of an earlier
    /// reader of the same job. Returns how many blocks were noted to be sent.
    ///
    /// Their bounds are told. Those that follow a read are sent with its steps.
    ///
    /// # Errors
    ///
    /// [`TellError`] for a list that is too long or leaves the array.
    pub fn tell(&mut self, node: &mut Node, selections: &[Selection]) -> Result<usize, TellError> {
        self.detector.tell(selections.iter().map(|selection| selection.bounds().clone()).collect())?;
        node.cancel_presend(self.downstream, self.budget);
        Ok(self.presend(node, selections.iter().take(MAX_REGIONS).cloned(), u64::MAX))
    }

    /// The reader reads a selection, whether or not it has all of it. Returns how many blocks were
    /// noted to be sent, instead of those that were noted before and are not sent yet. The path is
    /// that to the node downstream, and from this node to its storage.
    ///
    /// # Errors
    ///
    /// As [`Node::blocks_of_selection`].
    pub fn read(
        &mut self,
        node: &mut Node,
        selection: &Selection,
        path: &Path,
        now: Instant,
    ) -> Result<usize, ReadError> {
        let blocks = node.blocks_of_selection(self.budget, selection)?;
        let count = blocks.len() as u64;
        if count > MAX_READ_BLOCKS {
            // So large a read is its own work ahead.
            return Ok(0);
        }
        let missing = node.downstream_reads(self.downstream, self.budget, blocks)?;
        self.consumed(node.bytes_of(self.budget, selection), missing, count, path, now);
        self.detector.observe(selection.bounds());
        self.guess.observe(selection.bounds());
        self.beginning.observe(selection.bounds());
        if self.keeps_reads && self.reads.len() < MAX_READS {
            self.reads.push(selection.clone());
        }
        node.cancel_presend(self.downstream, self.budget);
        if !self.waste.may_speculate(now) {
            return Ok(0);
        }
        let (regions, bytes) = self.next(node.bytes_of(self.budget, selection), path);
        let with_steps = |region| Selection::new(region, selection.steps().iter().copied()).ok();
        Ok(self.presend(node, regions.into_iter().filter_map(with_steps), bytes))
    }

    /// The node downstream tells how many of the blocks that were sent unasked were used, and how
    /// many were given up unused, since it told so last. Too many unused ones
    /// [end](Waste) the work ahead for a while.
    pub fn feedback(&mut self, node: &mut Node, used: u64, unused: u64, now: Instant) {
        // More than these would push each other out of the record.
        (0..used.min(MAX_NEWS)).for_each(|_| self.waste.used(now));
        (0..unused.min(MAX_NEWS)).for_each(|_| self.waste.unused(now));
        if !self.waste.may_speculate(now) {
            node.cancel_presend(self.downstream, self.budget);
        }
    }

    /// The selections that were read so far, at most the first 4,096: what the next reader of the
    /// same job is expected to read.
    pub fn reads(&self) -> &[Selection] {
        &self.reads
    }

    /// The pattern of the last reads.
    pub fn pattern(&self) -> Pattern {
        self.detector.pattern()
    }

    /// Notes the end of the read before this one. A reader that lacked blocks has waited for them,
    /// for about a round trip and the time that they took on the link.
    fn consumed(&mut self, bytes: u64, missing: u64, count: u64, path: &Path, now: Instant) {
        let lacking = bytes as f64 * missing as f64 / count.max(1) as f64;
        let of_link = Duration::try_from_secs_f64(lacking / path.bytes_per_second.max(1) as f64);
        let waited = path.round_trip.saturating_add(path.storage_latency).saturating_add(of_link.unwrap_or_default());
        let this = (bytes, if missing > 0 { waited } else { Duration::ZERO });
        let (bytes, waited) = self.last.replace(this).unwrap_or_default();
        self.depth.consumed(now, bytes, waited);
    }

    /// The regions to send after a read of so many bytes, and how many bytes of them.
    fn next(&mut self, read_bytes: u64, path: &Path) -> (Vec<Region>, u64) {
        let confidence = self.detector.predict(0).confidence;
        // The level of the reader's memory shows in its credit.
        let bytes = |confidence| self.depth.bytes_ahead(path, 0, confidence);
        let count = |bytes: u64| usize::try_from(bytes.div_ceil(read_bytes.max(1))).unwrap_or(usize::MAX);
        // As much as the link carries until the next read is told: what a guess may cost, and what a
        // list that was told is worth before anything is known of the reader's pace.
        let of_round_trip = Path { storage_latency: Duration::ZERO, ..*path }.bytes_of_latency();
        match self.detector.pattern() {
            Pattern::Random => {
                let bytes = bytes(Confidence::FULL).min(of_round_trip);
                let guessed = self.guess.next(count(bytes).min(MAX_REGIONS));
                if guessed.is_empty() { (self.beginning.next(read_bytes, path), u64::MAX) } else { (guessed, bytes) }
            }
            pattern => {
                self.guess.trust();
                self.beginning.end();
                let is_told = pattern == Pattern::Apriori;
                let bytes = if is_told { bytes(confidence).max(of_round_trip) } else { bytes(confidence) };
                let predicted = self.detector.predict(count(bytes).min(MAX_REGIONS)).next;
                (predicted.into_iter().map(|prediction| prediction.region).collect(), bytes)
            }
        }
    }

    /// Has the blocks of so many bytes sent. Returns how many were noted.
    fn presend(&self, node: &mut Node, next: impl Iterator<Item = Selection>, mut bytes: u64) -> usize {
        let mut noted = 0;
        for next in next {
            // Regions that are foretold lie in the array.
            let Ok(blocks) = node.blocks_of_selection(self.budget, &next) else { break };
            if bytes == 0 {
                break;
            }
            noted += node.presend(self.downstream, self.budget, blocks).unwrap_or(0);
            bytes = bytes.saturating_sub(node.bytes_of(self.budget, &next));
        }
        noted
    }
}

/// As many as [`Waste`] remembers.
const MAX_NEWS: u64 = 64;
/// The regions that are looked for at each read.
const MAX_REGIONS: usize = 64;
/// The blocks of a read beyond which nothing is sent ahead of the next one: 2 GiB of blocks of 256
/// KiB. To look at each takes time under the node's lock.
const MAX_READ_BLOCKS: u64 = 8192;
/// The reads that are remembered: a mebibyte of them.
const MAX_READS: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Action, DatasetId, Generation, Limits, NodeConfig, Policy};
    use proptest::{collection::vec, prelude::*};
    use rails_array::{BlockGrid, BlockIndex, Grid, Region};
    use std::{collections::BTreeSet, sync::Arc};

    const NODE: DownstreamId = DownstreamId(0);
    const PATH: Path =
        Path { round_trip: Duration::from_millis(20), storage_latency: Duration::ZERO, bytes_per_second: 1_000_000 };

    struct Site {
        node: Node,
        presender: Presender,
        now: Instant,
    }

    impl Site {
        /// A node with a line of 1,000 blocks of one slot each, which may push 100 of them.
        fn new() -> Self {
            let now = Instant::now();
            let config = NodeConfig { slots: 1000, slot_bytes: 1000, max_block_slots: 1, window_slots: 200, seed: 1 };
            let mut node = Node::new(config, now);
            let shape = |extent| Shape::new([extent]).unwrap();
            let grid = BlockGrid::new(Region::whole(&shape(100_000)), shape(100)).unwrap();
            node.declare_dataset(DatasetId(0), Arc::new(Grid::new(grid)), 1, Generation(0)).unwrap();
            let budget = node.declare_budget(DatasetId(0), Limits::default(), Policy::Lru).unwrap();
            node.credited(NODE, budget, 100).unwrap();
            Self { node, presender: Presender::new(NODE, budget, &shape(100_000)), now }
        }

        fn read(&mut self, block: u64) -> Vec<u64> {
            self.now += Duration::from_millis(1);
            self.presender.read(&mut self.node, &selection(block, 1), &PATH, self.now).unwrap();
            self.presented()
        }

        /// The blocks that the node has sent, in ascending order.
        fn presented(&mut self) -> Vec<u64> {
            let mut presented = Vec::new();
            while let Some(action) = self.node.poll(self.now) {
                match action {
                    Action::Fetch { block, .. } => assert!(self.node.arrived(block, self.now)),
                    Action::Present { downstream, budget, block } => {
                        self.node.presented(downstream, budget, block, self.now);
                        presented.push(block.index.0);
                    }
                    other => panic!("nobody asked for this: {other:?}"),
                }
            }
            presented.sort_unstable();
            presented
        }
    }

    /// Every `step`th element of a block of 100.
    fn selection(block: u64, step: u64) -> Selection {
        let region = Region::new([block * 100], Shape::new([100]).unwrap()).unwrap();
        Selection::new(region, [step]).unwrap()
    }

    #[test]
    fn one_distance_begins() {
        let mut site = Site::new();
        assert_eq!(site.read(10), []);
        let sent = site.read(12);
        assert_eq!(sent[..3], [14, 16, 18]);
        assert!(sent.len() >= 10, "{sent:?}");
        // Nothing is sent twice.
        let again = site.read(14);
        assert!(again.iter().all(|block| !sent.contains(block)), "{again:?}");
    }

    #[test]
    fn a_told_list_begins_before_any_read() {
        let mut site = Site::new();
        let told: Vec<Selection> = [5, 900, 17].map(|block| selection(block, 2)).to_vec();
        assert_eq!(site.presender.tell(&mut site.node, &told), Ok(3));
        assert_eq!(site.presented(), [5, 17, 900]);
    }

    #[test]
    fn a_told_list_goes_on_at_the_first_read() {
        let mut site = Site::new();
        let told: Vec<Selection> = (0..200).map(|number| selection(number * 7 % 200, 1)).collect();
        site.node.recalled(NODE, site.presender.budget);
        site.presender.tell(&mut site.node, &told).unwrap();
        assert_eq!(site.presented(), []);
        site.node.credited(NODE, site.presender.budget, 5).unwrap();
        assert_eq!(site.read(0), [7, 14, 21, 28, 35]);
    }

    #[test]
    fn a_learned_list_serves_the_next_reader() {
        let mut site = Site::new();
        for block in [5, 900, 17] {
            site.read(block);
        }
        let mut next = Site::new();
        assert_eq!(next.presender.tell(&mut next.node, site.presender.reads()), Ok(3));
        assert_eq!(next.presented(), [5, 17, 900]);
    }

    #[test]
    fn unused_blocks_stop_it_for_a_while() {
        let mut site = Site::new();
        [10, 11, 12].into_iter().for_each(|block| drop(site.read(block)));
        site.presender.feedback(&mut site.node, 100, 4, site.now);
        site.node
            .downstream_holds(NODE, site.presender.budget, (0..1000).map(BlockIndex).collect::<Vec<_>>(), false)
            .unwrap();
        assert_eq!(site.read(13), []);
        site.now += Duration::from_secs(1);
        assert!(!site.read(14).is_empty());
    }

    proptest! {
        /// Reads of any kind have blocks sent that exist, each once, and never more than credit.
        #[test]
        fn any_reads_are_taken(
            reads in vec((0_u64..110_000, 0_u64..3_000, 1_u64..300, any::<bool>()), 1..40),
            stride in 0_u64..2_000,
        ) {
            let mut site = Site::new();
            let mut sent = BTreeSet::new();
            for (number, (start, extent, step, is_regular)) in (0..).zip(reads) {
                let start = if is_regular { number * stride } else { start };
                let region = Region::new([start], Shape::new([extent]).unwrap()).unwrap();
                let selection = Selection::new(region, [step]).unwrap();
                site.now += Duration::from_millis(1);
                site.presender.read(&mut site.node, &selection, &PATH, site.now).unwrap();
                for block in site.presented() {
                    prop_assert!(block < 1000 && sent.insert(block), "block {block} is sent again");
                }
            }
            prop_assert!(sent.len() <= 100);
            let known = site.presender.reads().to_vec();
            let mut next = Site::new();
            // Lists of regions that leave the array are refused.
            let _ = next.presender.tell(&mut next.node, &known);
            next.presented();
        }
    }

    #[test]
    fn credit_bounds_what_is_sent() {
        let mut site = Site::new();
        site.node.recalled(NODE, site.presender.budget);
        site.node.credited(NODE, site.presender.budget, 3).unwrap();
        [10, 11, 12].into_iter().for_each(|block| drop(site.read(block)));
        assert_eq!(site.node.stats(site.presender.budget).presented, 3);
    }
}
