//! A node far from its data, in virtual time: the protocol as it runs, over a path that is a model.
//!
//! - `source`: [`FarSource`], the far end of the path.

mod source;

use crate::{
    action::Action,
    block::{DatasetId, Generation, RequestId},
    error::DeclareError,
    node::{Node, NodeConfig},
    pattern::Path,
};
use rails_array::Layout;
pub use source::FarSource;
use std::{collections::BTreeMap, sync::Arc, time::Instant};

/// A node, the far source of its blocks, and their clock, which moves only as far as it is told.
///
/// The caller reads by [`node_mut`](Self::node_mut), and lets time pass by
/// [`run`](Self::run). Copies take no time, and no block fails.
///
/// ```
/// use rails_array::{BlockGrid, Grid, Region, Shape};
/// use rails_cache::{DatasetId, Limits, NodeConfig, Policy, Reader, pattern::Path, rehearsal::Rehearsal};
/// use std::{sync::Arc, time::{Duration, Instant}};
///
/// let config = NodeConfig { slots: 64, slot_bytes: 65_536, max_block_slots: 4, window_slots: 16, seed: 7 };
/// let path = Path {
///     round_trip: Duration::from_millis(20),
///     storage_latency: Duration::ZERO,
///     bytes_per_second: 1_000_000,
/// };
/// let mut rehearsal = Rehearsal::new(config, path, Instant::now());
/// let array = Shape::new([1000])?;
/// let grid = Grid::new(BlockGrid::new(Region::whole(&array), Shape::new([100])?)?);
/// rehearsal.declare_dataset(DatasetId(0), Arc::new(grid), 1)?;
/// let budget = rehearsal.node_mut().declare_budget(DatasetId(0), Limits::default(), Policy::Lru)?;
///
/// let (mut reader, begin) = (Reader::new(budget, &array), rehearsal.now());
/// let box_of_it = Region::new([50], Shape::new([100])?)?.into();
/// let request = reader.read(rehearsal.node_mut(), &box_of_it, &path, begin)?;
/// assert_eq!(rehearsal.run(None), [request]);
/// // A round trip, and 200 bytes.
/// assert_eq!(rehearsal.now() - begin, Duration::from_micros(20_200));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Rehearsal {
    node: Node,
    source: FarSource,
    path: Path,
    now: Instant,
    /// The layouts, and the bytes of an element.
    datasets: BTreeMap<DatasetId, (Arc<dyn Layout>, u32)>,
}

impl Rehearsal {
    /// A node without datasets, whose clock begins at `now`.
    ///
    /// # Panics
    /// As [`Node::new`].
    pub fn new(config: NodeConfig, path: Path, now: Instant) -> Self {
        Self { node: Node::new(config, now), source: FarSource::new(path), path, now, datasets: BTreeMap::new() }
    }

    /// Adds a dataset, as [`Node::declare_dataset`] does.
    ///
    /// # Errors
    /// Those of the node.
    pub fn declare_dataset(
        &mut self,
        dataset: DatasetId,
        layout: Arc<dyn Layout>,
        element_bytes: u32,
    ) -> Result<(), DeclareError> {
        self.node.declare_dataset(dataset, Arc::clone(&layout), element_bytes, Generation(0))?;
        self.datasets.insert(dataset, (layout, element_bytes));
        Ok(())
    }

    /// Ends a dataset, as [`Node::end_dataset`] does.
    ///
    /// # Errors
    /// Those of the node.
    pub fn end_dataset(&mut self, dataset: DatasetId) -> Result<(), DeclareError> {
        self.node.end_dataset(dataset)?;
        self.datasets.remove(&dataset);
        Ok(())
    }

    /// The node.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// The node, for reads and declarations. The next [`run`](Self::run) carries out its actions.
    pub fn node_mut(&mut self) -> &mut Node {
        &mut self.node
    }

    /// The far source.
    pub fn source(&self) -> &FarSource {
        &self.source
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Lets time pass until requests have ended, and no further than `end`. Returns the requests.
    /// None have ended if the end has come before them, or if nothing at all is on its way.
    pub fn run(&mut self, end: Option<Instant>) -> Vec<RequestId> {
        loop {
            let ended = self.act();
            if !ended.is_empty() {
                return ended;
            }
            let next = self.source.next_event().into_iter().chain(self.node.poll_timeout()).min();
            match (next, end) {
                (Some(at), end) if end.is_none_or(|end| at <= end) => {
                    self.now = self.now.max(at);
                    while let Some(block) = self.source.poll(self.now) {
                        // One that the node does not wait for any more is dropped.
                        self.node.arrived(block, self.now);
                    }
                }
                (_, Some(end)) => {
                    self.now = self.now.max(end);
                    return Vec::new();
                }
                (_, None) => return Vec::new(),
            }
        }
    }

    /// Does what the node asks for. Returns the requests that have ended.
    fn act(&mut self) -> Vec<RequestId> {
        let mut ended = Vec::new();
        while let Some(action) = self.node.poll(self.now) {
            match action {
                Action::Fetch { block, purpose } => {
                    // A dataset that has ended needs no blocks.
                    let Some((layout, element_bytes)) = self.datasets.get(&block.dataset) else { continue };
                    let bytes = layout.elements_of(block.index).saturating_mul(u64::from(*element_bytes));
                    self.source.ask(block, bytes, purpose, self.now);
                }
                Action::Raise { block } => self.source.raise(block, self.now),
                Action::Copy { request, block } => self.node.copied(request, block, self.now),
                Action::Done { request } | Action::Refuse { request, .. } => ended.push(request),
                Action::Recall { upstream, budget } => self.node.return_credit(upstream, budget, u32::MAX),
                Action::Present { downstream, budget, block } => {
                    self.node.presented(downstream, budget, block, self.now);
                }
            }
        }
        ended
    }
}
