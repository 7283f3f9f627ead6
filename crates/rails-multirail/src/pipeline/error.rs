//! The errors of pipelines.

use super::stats::PipelineStats;
use crate::runtime::Panic;
use rails_bind::memory::MemoryError;
use std::{error::Error, fmt, time::Duration};

/// A fault in the description of a pipeline, which was not started.
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

/// A pipeline ended before its source had ended and every item was through, because of this stage.
///
/// The text includes that of the failure, so the [source](Error::source) is the error behind that.
#[derive(Debug)]
#[non_exhaustive]
pub struct PipelineError {
    /// The pipeline.
    pub pipeline: String,
    /// The stage that failed first. If [no buffer came back](StageFailure::NoBufferBack), the stage
    /// that waits for one: the buffers are with a later stage, or with an owner outside of the
    /// pipeline, such as a stream.
    pub stage: String,
    /// The kind of failure, and its cause.
    pub failure: StageFailure,
    /// The figures of all stages at the end.
    pub stats: PipelineStats,
    /// Stages that occupy their threads and do not await, so that they could not be ended. They
    /// end, and give their buffers back, at their next await.
    pub still_running: Vec<String>,
}

/// The failure of a stage.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StageFailure {
    /// The stage returned an error.
    #[error("failed")]
    Failed(#[source] Box<dyn Error + Send + Sync>),
    /// The stage panicked.
    #[error("panicked: {0}")]
    Panicked(Panic),
    /// The stage dropped its [`Input`](super::Input), or returned while that lived elsewhere,
    /// before the end of its items.
    #[error("stopped reading before the end of its input")]
    StoppedReading,
    /// The runtime that the stage ran on has stopped.
    #[error("was cancelled: its rail's runtime has stopped")]
    Cancelled,
    /// Items waited for the stage all this time, and it took none, and waited for neither room nor
    /// a buffer.
    #[error("has read nothing for {limit:?}, although items wait for it")]
    Stalled {
        /// The pipeline's [limit](super::PipelineBuilder::stall_limit).
        limit: Duration,
    },
    /// The stage waited for one buffer all this time, while the next stage took no item.
    #[error("has waited {limit:?} for a buffer: a later stage, or an owner outside of the pipeline, keeps all of them")]
    NoBufferBack {
        /// The pipeline's [limit](super::PipelineBuilder::stall_limit).
        limit: Duration,
    },
}

impl fmt::Display for PipelineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stage `{}` of pipeline `{}` {}", self.stage, self.pipeline, self.failure)?;
        match &self.still_running[..] {
            [] => Ok(()),
            stages => write!(f, "; still running, as they do not await: {}", stages.join(", ")),
        }
    }
}

impl Error for PipelineError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.failure.source()
    }
}
