//! The orders of a reader and its figures, the same for LambdaRAM and for its rivals.

use super::weather::Window;
use serde::{Deserialize, Serialize};

/// The reads of a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// Where the data are: of a site, or of a server of HTTP.
    pub(crate) address: String,
    /// The dataset, or the folder of Zarr.
    pub(crate) dataset: String,
    /// The array; of no meaning to rivals, whose folder is one.
    pub(crate) array: String,
    /// The steps of time, in their order.
    pub(crate) steps: Vec<usize>,
    /// The levels that are read of each step.
    pub(crate) levels: Vec<usize>,
    /// The part of each plane.
    pub(crate) window: Window,
    /// The seconds of computing after the reads of a step, in which the processor is free.
    pub(crate) pause: f64,
    /// The way in which the reads are made.
    pub(crate) way: Way,
    /// The application, where several share the memory of a node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) shared: Option<Shared>,
}

/// An application that shares the memory of a node with others. Its own memory is small.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Shared {
    /// The name.
    pub(crate) application: String,
    /// The steps that it reads again and again; 0 for one whose figures nobody wants.
    pub(crate) working_set: usize,
}

/// The figures of a node about an application, after the first pass over its working set.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct SharedFigures {
    /// The share of blocks that were there when they were asked for.
    pub(crate) hit_ratio: f64,
    /// The smallest memory that it had after any step, as a share of its `min`, if it has one.
    pub(crate) min_share: Option<f64>,
}

/// A way of reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Way {
    /// One read after the other.
    Sequential,
    /// All reads are asked for before the first is waited for.
    AllFirst,
    /// One read after the other, without prefetching.
    NoPrefetch,
    /// One read after the other, whose blocks the server sends before they are asked for.
    Presend,
    /// The dataset is opened, and its coordinates are read.
    Open,
}

/// The figures of a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Figures {
    /// From before the opening to the last result.
    pub(crate) seconds: f64,
    /// The part of it in which the dataset was opened.
    pub(crate) opened: f64,
    /// How long each step's reads were waited for; empty where a library hides it.
    pub(crate) waits: Vec<f64>,
    /// The digest of the elements, in decimal, for JSON's numbers have 53 bits.
    pub(crate) digest: String,
    /// The counters of the cache; of LambdaRAM alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) blocks: Option<Blocks>,
    /// The counters of a node whose memory several applications share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) shared: Option<SharedFigures>,
    /// The versions of a rival's libraries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) version: Option<String>,
}

/// The counters of a reader's cache, in blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Blocks {
    /// Blocks that had been used before, and were there.
    pub(crate) hits: u64,
    /// Blocks that had come ahead of time, and were used for the first time.
    pub(crate) ahead_hits: u64,
    /// Blocks that were on their way ahead of time.
    pub(crate) late_ahead: u64,
    /// Blocks that were fetched because they were asked for.
    pub(crate) misses: u64,
    /// Blocks that were fetched ahead.
    pub(crate) ahead_fetched: u64,
    /// Blocks that came unasked.
    pub(crate) pushed: u64,
    /// Blocks that came ahead of time and were used.
    pub(crate) used: u64,
    /// Blocks that came ahead of time and were given up unused.
    pub(crate) unused: u64,
}

impl Figures {
    /// The time that was spent waiting for reads.
    pub(crate) fn waited(&self) -> f64 {
        self.waits.iter().fold(0.0, |sum, wait| sum + wait)
    }
}
