//! The choices of a replay.

use crate::{SiteOptionError, SiteOptions, node::NodeSize, trace::Trace};
use rails_array::{GridError, Shape};
use rails_cache::{DeclareError, Policy, pattern::Path};
use rails_topo::DataSize;
use std::collections::BTreeMap;

/// The settings of a replay.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Setting {
    /// The memory for blocks.
    pub memory: DataSize,
    /// Which block goes first. Under [`Policy::Schedule`] the node expects the next 4,096 reads of
    /// the trace, as no program can say today: no order is better. Under [`Policy::Hinted`] it
    /// expects the regions that the program announced.
    pub policy: Policy,
    /// The path. Its rate is 1 or more.
    pub path: Path,
    /// Whether blocks are fetched ahead of reads.
    pub prefetch: bool,
    /// Whether regions that are read again and again get blocks of their own.
    pub views: bool,
    /// The shapes of blocks, by the number of the array; those of the recording for others.
    pub block_shapes: BTreeMap<u32, Shape>,
}

/// Why settings cannot be replayed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The memory is too small or too large.
    #[error(transparent)]
    Memory(#[from] SiteOptionError),
    /// The memory is larger than a replay keeps account of.
    #[error("a replay keeps account of {max} slots at most, and the memory has {slots}")]
    Slots {
        /// The slots of the memory.
        slots: u32,
        /// The limit.
        max: u32,
    },
    /// The largest block is larger than the memory.
    #[error("a block of {max_block_slots} slots does not fit a memory of {slots}")]
    Block {
        /// The slots of the largest block.
        max_block_slots: u64,
        /// The slots of the memory.
        slots: u32,
    },
    /// The blocks do not divide an array.
    #[error("the blocks do not divide the array `{array}`")]
    Grid {
        /// The array.
        array: String,
        /// The cause.
        #[source]
        error: GridError,
    },
    /// The node cannot cache an array in these blocks.
    #[error("the array `{array}` cannot be cached")]
    Declare {
        /// The array.
        array: String,
        /// The cause.
        #[source]
        error: DeclareError,
    },
    /// The reads take more blocks than a replay takes.
    #[error("the reads take more than {max} blocks: they are too small for this trace")]
    Blocks {
        /// The limit.
        max: u64,
    },
}

impl Setting {
    /// The settings of the recorded run.
    pub fn recorded(trace: &Trace) -> Self {
        let header = &trace.header;
        Self {
            memory: DataSize::bytes(header.memory_bytes),
            policy: header.policy,
            path: trace.path,
            prefetch: header.prefetch,
            views: header.views,
            block_shapes: BTreeMap::new(),
        }
    }

    /// The shape of the blocks of an array.
    pub fn block_shape<'a>(&'a self, trace: &'a Trace, array: u32) -> &'a Shape {
        self.block_shapes.get(&array).unwrap_or(&trace.arrays[array as usize].block_shape)
    }

    /// The size of a node with this memory.
    pub(super) fn size(&self, trace: &Trace) -> Result<NodeSize, ReplayError> {
        let slot_bytes = trace.header.slot_bytes;
        let slots = SiteOptions { memory: self.memory, slot_bytes, ..SiteOptions::new() }.slots()?;
        if slots > MAX_SLOTS {
            return Err(ReplayError::Slots { slots, max: MAX_SLOTS });
        }
        let max_block_slots = trace.header.max_block_bytes / u64::from(slot_bytes);
        match u32::try_from(max_block_slots) {
            Ok(max_block_slots) if max_block_slots <= slots => Ok(NodeSize { slots, slot_bytes, max_block_slots }),
            _ => Err(ReplayError::Block { max_block_slots, slots }),
        }
    }
}

/// 1 TiB of slots of 64 KiB, which take 64 MiB of account.
const MAX_SLOTS: u32 = 1 << 24;
