//! The errors of pipelines.

use super::stats::PipelineStats;
use crate::runtime::Panic;
use rails_bind::memory::MemoryError;
use std::{error::Error, time::Duration};

/// Why a pipeline was not started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A channel without room for an item.
    #[error("pipeline `{pipeline}`: the channel from `{from}` to `{to}` has a length of 0; it needs room for an item")]
    ZeroLength {
        /// The pipeline.
        pipeline: String,
        /// The stage before the channel.
        from: String,
        /// The stage after it.
        to: String,
    },
    /// Two stages of one name, so that an error would not tell which of them failed.
    #[error("pipeline `{pipeline}` has two stages of the name `{stage}`")]
    NameTaken {
        /// The pipeline.
        pipeline: String,
        /// The name.
        stage: String,
    },
    /// The buffers of a channel could not be made.
    #[error("pipeline `{pipeline}`: no buffers for the channel from `{from}` to `{to}`")]
    Buffers {
        /// The pipeline.
        pipeline: String,
        /// The stage before the channel.
        from: String,
        /// The stage after it.
        to: String,
        /// The cause.
        source: Box<MemoryError>,
    },
}

/// Why a pipeline ended before its source had ended and every item was through: the first stage that failed.
#[derive(Debug, thiserror::Error)]
#[error("stage `{stage}` of pipeline `{pipeline}` {failure}{}", told(.still_running))]
#[non_exhaustive]
pub struct PipelineError {
    /// The pipeline.
    pub pipeline: String,
    /// The stage that failed first.
    pub stage: String,
    /// How it failed.
    #[source]
    pub failure: StageFailure,
    /// The figures of all stages at the end.
    pub stats: PipelineStats,
    /// Stages that occupy their threads and do not await, so that they could not be ended. They end, and give their
    /// buffers back, at their next await.
    pub still_running: Vec<String>,
}

/// How a stage failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StageFailure {
    /// It returned an error.
    #[error("failed")]
    Failed(#[source] Box<dyn Error + Send + Sync>),
    /// It panicked.
    #[error("panicked: {0}")]
    Panicked(Panic),
    /// It returned, or dropped its [`Input`](super::Input), although the stage before had not ended.
    #[error("stopped reading before the end of its input")]
    StoppedReading,
    /// The runtime that it ran on has stopped.
    #[error("was cancelled: its rail's runtime has stopped")]
    Cancelled,
    /// An item waited for it all this time, and it took none and was not held up by a later stage.
    #[error("has read nothing for {limit:?}, although items wait for it")]
    Stalled {
        /// The pipeline's [limit](super::PipelineBuilder::stall_limit).
        limit: Duration,
    },
    /// No buffer came back to it all this time, and no stage took an item.
    #[error("has waited {limit:?} for a buffer: a later stage keeps all of them")]
    NoBufferBack {
        /// The pipeline's [limit](super::PipelineBuilder::stall_limit).
        limit: Duration,
    },
}

fn told(still_running: &[String]) -> String {
    match still_running {
        [] => String::new(),
        stages => format!("; still running, as they do not await: {}", stages.join(", ")),
    }
}
