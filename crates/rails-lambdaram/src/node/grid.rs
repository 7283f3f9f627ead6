//! Arrays that are divided into blocks.

use crate::wire::{GridOf, Urgency};
use rails_array::{BlockIndex, BlockRange, Grid, Layout, QueryError, Region, Selection, Shape};
use rails_cache::{BlockId, DatasetId, Generation, pattern::Path};
use rails_formats::data_type::DataType;
use std::{
    fmt,
    ops::Deref,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
};

/// An array of one generation, divided into blocks: one dataset of the cache.
#[derive(Debug)]
pub(crate) struct OpenGrid {
    pub(crate) id: DatasetId,
    pub(crate) key: GridKey,
    pub(crate) layout: Arc<Grid>,
    pub(crate) dtype: DataType,
    pub(crate) array_shape: Shape,
    /// The array's name.
    pub(crate) array_name: Arc<str>,
    pub(crate) upstream: Arc<dyn Upstream>,
    is_stale: AtomicBool,
    /// No upstream divides the array so.
    is_denied: AtomicBool,
    /// The number of its leases.
    users: AtomicU32,
}

/// A use of a grid: as long as there is one, the node keeps the grid.
#[derive(Debug)]
pub(crate) struct Lease(Arc<OpenGrid>);

/// The array, its generation and its division.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct GridKey {
    pub(crate) dataset: Arc<str>,
    /// The number of the array in the dataset's description.
    pub(crate) array: u32,
    pub(crate) grid: GridOf,
    pub(crate) generation: u64,
}

/// The place where a node gets blocks.
pub(crate) trait Upstream: fmt::Debug + Send + Sync {
    /// Asks for blocks. Each is answered by `Node::land` or `Node::fail`, at any time and in any
    /// order. The call does not block.
    fn fetch(&self, grid: &Arc<OpenGrid>, blocks: &[BlockId], urgency: Urgency);

    /// A reader waits for blocks that were asked for ahead of time.
    fn raise(&self, grid: &Arc<OpenGrid>, blocks: &[BlockId]);

    /// Asks for the credit back that was given for blocks of a grid.
    fn recall(&self, grid: &Arc<OpenGrid>);

    /// The application reads a selection. Whatever it lacks has been asked for.
    fn reading(&self, grid: &Arc<OpenGrid>, selection: &Selection);

    /// Blocks are expected, and this node has no memory for them: the upstream may read them into
    /// its own. By default this is of no use.
    fn make_ready(&self, _grid: &Arc<OpenGrid>, _blocks: Vec<BlockIndex>) {}

    /// The application has announced the regions that it will read. By default this is of no use.
    fn intend(&self, _grid: &Arc<OpenGrid>, _regions: &[Region]) {}

    /// Whether blocks come before they are asked for: then nothing is fetched ahead of reads.
    fn presends(&self) -> bool {
        false
    }

    /// No application reads the grid any more. Blocks on their way are answered all the same.
    fn close(&self, grid: &Arc<OpenGrid>);

    /// The way to the bytes.
    fn path(&self) -> Path;
}

impl OpenGrid {
    pub(super) fn new(
        id: DatasetId,
        key: GridKey,
        layout: Arc<Grid>,
        dtype: DataType,
        array_shape: Shape,
        array_name: Arc<str>,
        upstream: Arc<dyn Upstream>,
    ) -> Self {
        Self {
            id,
            key,
            layout,
            dtype,
            array_shape,
            array_name,
            upstream,
            is_stale: AtomicBool::new(false),
            is_denied: AtomicBool::new(false),
            users: AtomicU32::new(0),
        }
    }

    /// The block of that number, if the array has it.
    pub(crate) fn block_id(&self, index: BlockIndex) -> Option<BlockId> {
        let index = self.layout.block(index.0).ok()?;
        Some(BlockId { dataset: self.id, generation: Generation(0), index })
    }

    /// The region of a block.
    pub(crate) fn region(&self, block: BlockIndex) -> Region {
        self.layout.blocks().block_region(block)
    }

    /// The blocks that hold selected elements.
    pub(crate) fn blocks_of(&self, selection: &Selection) -> Result<BlockRange, QueryError> {
        self.layout.blocks_of_selection(selection)
    }

    /// The size of a block in bytes.
    pub(crate) fn block_bytes(&self, block: BlockIndex) -> u64 {
        self.region(block).elements() * self.dtype.bytes()
    }

    /// Whether an upstream has refused to divide the array so.
    pub(crate) fn is_denied(&self) -> bool {
        self.is_denied.load(Ordering::Relaxed)
    }

    /// An upstream does not divide the array so.
    pub(crate) fn deny(&self) {
        self.is_denied.store(true, Ordering::Relaxed);
    }

    /// Whether the source has changed since the grid was opened.
    pub(crate) fn is_stale(&self) -> bool {
        self.is_stale.load(Ordering::Relaxed)
    }

    pub(super) fn is_used(&self) -> bool {
        self.users.load(Ordering::Acquire) > 0
    }

    pub(super) fn set_stale(&self) {
        self.is_stale.store(true, Ordering::Relaxed);
    }
}

impl Lease {
    pub(super) fn new(grid: &Arc<OpenGrid>) -> Self {
        grid.users.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(grid))
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.0.users.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Deref for Lease {
    type Target = Arc<OpenGrid>;

    fn deref(&self) -> &Arc<OpenGrid> {
        &self.0
    }
}

impl fmt::Display for GridKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "array {} of `{}`", self.array, self.dataset)
    }
}
