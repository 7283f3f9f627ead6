//! The messages of a link, as values.

use super::{
    bounded,
    encoding::Encodings,
    handle::Handle,
    limits::{MAX_BUDGETS, MAX_DATASETS, MAX_PATH, MAX_REGIONS, MAX_RUNS},
    run::Run,
};
use crate::description::{DatasetDescription, DatasetEntry};
use rails_array::{Region, Selection, Shape};
use serde::{Deserialize, Serialize};

/// A message of the node that reads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ReaderFrame {
    /// The first message.
    Hello(Hello),
    /// Asks for the datasets that the reader may read.
    List {
        /// A number of the reader's, which the answer repeats.
        question: u32,
    },
    /// Asks for the description of a dataset.
    Describe {
        /// A number of the reader's, which the answer repeats.
        question: u32,
        /// The name of the dataset.
        dataset: String,
    },
    /// Names an array, and a division of it into blocks, by a number for later messages.
    Open {
        /// The number.
        handle: Handle,
        /// The name of the dataset.
        dataset: String,
        /// The number of the array in the description.
        array: u32,
        /// The blocks.
        grid: GridOf,
        /// The generation that the reader knows. The node refuses another one.
        generation: u64,
    },
    /// The reader uses a handle no more.
    Close {
        /// The handle.
        handle: Handle,
    },
    /// Asks for blocks.
    Get {
        /// The handle.
        handle: Handle,
        /// The blocks, in the order in which the reader wants them.
        #[serde(deserialize_with = "bounded::list::<_, _, MAX_RUNS>")]
        blocks: Vec<Run>,
        /// The urgency.
        urgency: Urgency,
    },
    /// A reader waits for blocks that were asked for ahead of time.
    Raise {
        /// The handle.
        handle: Handle,
        /// The blocks.
        #[serde(deserialize_with = "bounded::list::<_, _, MAX_RUNS>")]
        blocks: Vec<Run>,
    },
    /// The reader wants no more of the blocks that it asked for and that were not sent.
    Cancel {
        /// The handle.
        handle: Handle,
        /// The blocks.
        #[serde(deserialize_with = "bounded::list::<_, _, MAX_RUNS>")]
        blocks: Vec<Run>,
    },
    /// Asks the node to have blocks in its own memory, and to send nothing.
    Warm {
        /// The handle.
        handle: Handle,
        /// The blocks.
        #[serde(deserialize_with = "bounded::list::<_, _, MAX_RUNS>")]
        blocks: Vec<Run>,
    },
    /// Promises slots for blocks that the node sends before the reader asks.
    Credit {
        /// The handle.
        handle: Handle,
        /// The number of blocks that the slots hold.
        slots: u32,
    },
    /// Wants the credit back that was not used.
    Recall {
        /// The handle.
        handle: Handle,
    },
    /// Tells of a read that the reader's application has made, whether or not it asked for blocks.
    Reading {
        /// The handle.
        handle: Handle,
        /// The selection.
        selection: Selection,
    },
    /// Announces the regions that the application will read, in their order.
    Intend {
        /// The handle.
        handle: Handle,
        /// The regions.
        #[serde(deserialize_with = "bounded::list::<_, _, MAX_REGIONS>")]
        regions: Vec<Region>,
    },
    /// Tells which blocks the reader holds, or holds no more.
    Have {
        /// The handle.
        handle: Handle,
        /// The blocks.
        #[serde(deserialize_with = "bounded::list::<_, _, MAX_RUNS>")]
        blocks: Vec<Run>,
        /// Whether it holds them.
        holds: bool,
    },
    /// Tells how many of the blocks that came unasked were used, and how many were given up
    /// unused, since the last such message.
    Fate {
        /// The handle.
        handle: Handle,
        /// The number of used blocks.
        used: u32,
        /// The number of unused ones.
        unused: u32,
    },
    /// Asks how the node is.
    Status {
        /// A number of the reader's, which the answer repeats.
        question: u32,
    },
}

/// A message of the node that serves, but for blocks, which have a
/// [`BlockHeader`](super::BlockHeader).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ServerFrame {
    /// The answer to [`ReaderFrame::Hello`].
    Welcome(Welcome),
    /// The node ends the link.
    Refused {
        /// The reason, for programs.
        reason: RefusedReason,
        /// The reason, for people.
        text: String,
    },
    /// The answer to [`ReaderFrame::List`].
    Listed {
        /// The number of the question.
        question: u32,
        /// The datasets.
        #[serde(deserialize_with = "bounded::list::<_, _, MAX_DATASETS>")]
        datasets: Vec<DatasetEntry>,
    },
    /// The answer to [`ReaderFrame::Describe`].
    Described {
        /// The number of the question.
        question: u32,
        /// The description, or the reason why there is none.
        description: Result<DatasetDescription, Denial>,
    },
    /// The answer to [`ReaderFrame::Open`].
    Opened {
        /// The handle.
        handle: Handle,
        /// `Ok`, or the reason why the handle means nothing.
        outcome: Result<(), Denial>,
    },
    /// Blocks that were asked for cannot be had.
    Fault {
        /// The handle.
        handle: Handle,
        /// The blocks.
        #[serde(deserialize_with = "bounded::list::<_, _, MAX_RUNS>")]
        blocks: Vec<Run>,
        /// The reason, for programs.
        fault: WireFault,
        /// The reason, for people: it names file and chunk where there are any.
        text: String,
    },
    /// The source has changed: the handle ends, and nothing that was asked for comes any more.
    Stale {
        /// The handle.
        handle: Handle,
        /// The generation now.
        generation: u64,
    },
    /// The answer to [`ReaderFrame::Recall`], behind all blocks that were sent into the credit.
    Returned {
        /// The handle.
        handle: Handle,
        /// The number of slots that the node will not use.
        slots: u32,
    },
    /// The answer to [`ReaderFrame::Status`].
    Status {
        /// The number of the question.
        question: u32,
        /// The node's figures.
        status: NodeStatus,
    },
}

/// How much a block is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Urgency {
    /// An application waits for it.
    Demand,
    /// An application is expected to want it.
    Ahead,
}

/// The blocks of an array, or of a region of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GridOf {
    /// The region, at whose corner the first block begins; `None` for the whole array.
    pub region: Option<Region>,
    /// The shape of the blocks.
    pub block_shape: Shape,
}

/// The first message of a node that reads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The version of the messages.
    pub version: u16,
    /// The nodes between the application and this link, the sender among them: a node that finds
    /// itself here refuses, because its blocks would go round in a circle.
    #[serde(deserialize_with = "bounded::list::<_, _, MAX_PATH>")]
    pub path: Vec<NodeId>,
    /// The application, whose blocks have a budget of their own on the node that serves.
    pub application: String,
    /// The largest block that the reader takes, in bytes.
    pub max_block_bytes: u32,
    /// The encodings that the reader decodes.
    pub encodings: Encodings,
}

/// A node, by a random number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeId(pub [u8; 16]);

/// The answer of a node that serves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// The version of the messages.
    pub version: u16,
    /// The node.
    pub node: NodeId,
    /// The largest block that the node sends, in bytes.
    pub max_block_bytes: u32,
    /// The number of blocks that a reader may have asked for and not got, over all handles.
    pub max_asked: u32,
}

/// Why a node ends a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RefusedReason {
    /// The peer speaks another version.
    Version,
    /// The link would close a circle of nodes.
    Circle,
    /// The peer has broken the protocol.
    Protocol,
    /// The node has as many links as it takes.
    Full,
    /// The node ends.
    Ending,
}

/// Why a question is not answered with what it asked for.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Denial {
    /// The reason, for programs.
    pub reason: DenialReason,
    /// The reason, for people.
    pub text: String,
}

/// Why a question is not answered with what it asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum DenialReason {
    /// There is no dataset or array of that name, or the peer may not read it.
    Unknown,
    /// The source has changed since it was described.
    Changed,
    /// The grid is none of the array's, or a block is too large.
    Grid,
    /// The node has as many handles or grids as it takes.
    Full,
    /// The source cannot be read.
    Source,
}

/// Why a block cannot be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum WireFault {
    /// The source has no such bytes.
    Missing,
    /// The bytes are not those that the source stored.
    Corrupt,
    /// No upstream of the node answers.
    Unreachable,
    /// The peer may not read the dataset.
    Denied,
    /// The node dropped the request, because the reader had asked for too much.
    Overrun,
}

/// The figures of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeStatus {
    /// The node's memory, in slots.
    pub slots: u32,
    /// The size of a slot in bytes.
    pub slot_bytes: u32,
    /// Free slots.
    pub free: u32,
    /// Slots of blocks on their way.
    pub in_transit: u32,
    /// Slots of blocks in memory.
    pub cached: u32,
    /// Slots that were promised to upstreams.
    pub credited: u32,
    /// The memory's level, 0 to 4.
    pub level: u8,
    /// The number of links to nodes that read.
    pub links: u32,
    /// Each budget with its counters.
    #[serde(deserialize_with = "bounded::list::<_, _, MAX_BUDGETS>")]
    pub budgets: Vec<BudgetStatus>,
}

impl NodeStatus {
    /// The sum of a counter over all budgets.
    pub fn sum(&self, counter: impl Fn(&BudgetStatus) -> u64) -> u64 {
        self.budgets.iter().map(counter).sum()
    }
}

/// The memory of an application for one array, and the counters of its reads.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetStatus {
    /// The application.
    pub application: String,
    /// The dataset.
    pub dataset: String,
    /// The array.
    pub array: String,
    /// The slots of its blocks, with those on their way and those that were promised.
    pub slots: u32,
    /// The slots that others do not take from the application, of all arrays of the dataset
    /// together.
    pub min_slots: u32,
    /// The slots that all arrays of the dataset together have at most.
    pub max_slots: u32,
    /// The weight of the application's memory for the dataset.
    pub weight: u32,
    /// Other blocks that were there when they were asked for.
    pub hits: u64,
    /// Blocks that had been fetched ahead, and were there when they were asked for.
    pub ahead_hits: u64,
    /// Blocks that were on their way ahead of time when they were asked for.
    pub late_ahead: u64,
    /// Blocks that were fetched because they were asked for.
    pub misses: u64,
    /// Blocks that were fetched ahead.
    pub ahead_fetched: u64,
    /// Blocks that an upstream sent unasked.
    pub pushed: u64,
    /// Blocks that came ahead of time and were used.
    pub used: u64,
    /// Blocks that came ahead of time and were given up unused.
    pub unused: u64,
    /// Blocks that were given up.
    pub reclaimed: u64,
    /// Blocks that could not be had.
    pub failed: u64,
}
