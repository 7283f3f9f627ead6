//! Refused declarations and requests.

use crate::block::{BlockId, DatasetId, Generation};
use rails_array::QueryError;

/// Why a dataset or a budget cannot be declared, or not be changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeclareError {
    /// The dataset has been declared already.
    #[error("dataset {} is declared already", .0.0)]
    DatasetExists(DatasetId),
    /// The dataset has ended, and blocks of it are still copied or on their way: another one of the
    /// same number could get their bytes.
    #[error("dataset {} has ended, and blocks of it are still copied or on their way", .0.0)]
    DatasetEnding(DatasetId),
    /// The dataset has not been declared, or has ended.
    #[error("dataset {} is not declared", .0.0)]
    UnknownDataset(DatasetId),
    /// The budget whose limits were to be shared is none of this node's, or has ended.
    #[error("no budget has the number {0}")]
    UnknownBudget(u32),
    /// The generation is not later than the dataset's.
    #[error("dataset {} has generation {}, which {} is not later than", dataset.0, current.0, generation.0)]
    PastGeneration {
        /// The dataset.
        dataset: DatasetId,
        /// The generation that the caller named.
        generation: Generation,
        /// The generation that it has.
        current: Generation,
    },
    /// A block of the dataset is larger than a block may be.
    #[error("a block of dataset {} takes {slots} slots, and a block of this node takes {max} at most", dataset.0)]
    BlockTooLarge {
        /// The dataset.
        dataset: DatasetId,
        /// The slots of its largest block.
        slots: u64,
        /// The slots that a block of this node may take.
        max: u32,
    },
    /// The weight is zero.
    #[error("a budget of weight 0 would get no slots")]
    NoWeight,
    /// The limits contradict each other, or no block fits.
    #[error("a budget of {min} to {max} slots holds no block of {max_block}, or its limits are the wrong way round")]
    BadLimits {
        /// The guaranteed slots.
        min: u32,
        /// The limit, at most the slots of the node.
        max: u32,
        /// The slots of the largest block that may come.
        max_block: u32,
    },
    /// The node has too few slots to guarantee these.
    #[error(
        "{min} slots cannot be guaranteed: of {total}, {others} are guaranteed to other budgets, and {reserve} have to \
         be left to whoever asks"
    )]
    Overcommitted {
        /// The slots that were to be guaranteed.
        min: u32,
        /// The slots that are guaranteed to others.
        others: u64,
        /// The slots that cannot be guaranteed, so that every block finds room.
        reserve: u64,
        /// All slots of the node.
        total: u32,
    },
    /// The node has as many budgets as it can number.
    #[error("no more than {max} budgets can be declared")]
    TooManyBudgets {
        /// The number of budgets.
        max: usize,
    },
}

/// Why a request is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The budget is not one of this node's, or has ended.
    #[error("no budget has the number {0}")]
    UnknownBudget(u32),
    /// The dataset has no such block.
    #[error("dataset {} has no such block", dataset.0)]
    NoSuchBlock {
        /// The dataset.
        dataset: DatasetId,
        /// The number that was asked for.
        source: QueryError,
    },
    /// The region is none of the dataset's.
    #[error("dataset {} has no such region", dataset.0)]
    BadRegion {
        /// The dataset.
        dataset: DatasetId,
        /// What does not fit.
        source: QueryError,
    },
}

/// Why a request that was accepted was not served whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Refusal {
    /// The block that could not be had, if it was a block: a dataset changes as a whole.
    pub block: Option<BlockId>,
    /// The reason.
    pub fault: Fault,
}

/// Why a block cannot be had. The driver that fetched it knows the details.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// The source has no such bytes: a file is missing, or too short.
    Missing,
    /// The bytes are not those that the source stored.
    Corrupt,
    /// No upstream answered.
    Unreachable,
    /// The reader may not read the dataset.
    Denied,
    /// The source has changed since the request began.
    Changed,
    /// The budget or the dataset of the request has ended.
    Ended,
}
