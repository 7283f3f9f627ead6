//! The statistics of pipelines.

use rails_topo::NodeId;
use serde::Serialize;
use serde_with::{As, DurationMicroSeconds};
use std::{fmt, time::Duration};

/// The figures of a pipeline.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PipelineStats {
    /// The pipeline's name.
    pub pipeline: String,
    /// The time since [`Pipeline::start`](super::Pipeline::start), up to the end of the stage that
    /// ended last.
    #[serde(with = "As::<DurationMicroSeconds>", rename = "elapsed_us")]
    pub elapsed: Duration,
    /// The figures of each stage, from the source to the sink.
    pub stages: Vec<StageStats>,
}

/// The figures of a stage.
///
/// `busy`, `starved` and `blocked` are parts of the time since the stage began, up to its end, and
/// add up to it. A stage that waits at its input and its output at once counts that time as both,
/// so its parts add up to more. The stage with the least of the last two is the one that the others
/// wait for.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct StageStats {
    /// The stage's name.
    pub stage: String,
    /// The stage's state at this moment.
    pub state: StageState,
    /// The items that the stage has received.
    pub items_in: u64,
    /// The items that the stage has handed over.
    pub items_out: u64,
    /// The items that the stage has dropped for want of room:
    /// [`Output::offer`](super::Output::offer) and
    /// [`Output::count_dropped`](super::Output::count_dropped).
    pub dropped: u64,
    /// The time in which the stage waited neither for an item nor for room: it computed, or awaited
    /// something else, such as the network. Waits that end while the stage
    /// [spins](super::PipelineBuilder::spin) without looking at the clock count as busy.
    #[serde(with = "As::<DurationMicroSeconds>", rename = "busy_us")]
    pub busy: Duration,
    /// The time in which the stage waited for an item.
    #[serde(with = "As::<DurationMicroSeconds>", rename = "starved_us")]
    pub starved: Duration,
    /// The time in which the stage waited for room in its output, or for a buffer.
    #[serde(with = "As::<DurationMicroSeconds>", rename = "blocked_us")]
    pub blocked: Duration,
    /// The buffers of the stage's output, if it has any.
    pub buffers: Option<BufferStats>,
}

/// The pool of buffers between two stages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct BufferStats {
    /// The node that was requested for the buffers; `None` if the stage's runtime has no known
    /// node, and the kernel chose. The kernel may have placed pages elsewhere, or moved them:
    /// [`Output::buffer_residency`](super::Output::buffer_residency) reads their nodes back.
    pub wished_node: Option<NodeId>,
    /// The size of each buffer, in bytes.
    pub bytes: usize,
    /// The number of buffers.
    pub count: usize,
    /// The number of buffers in the pool at this moment.
    pub free: usize,
}

/// The state of a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StageState {
    /// The rail has not begun the stage yet.
    New,
    /// The stage waits neither for an item nor for room.
    Busy,
    /// The stage waits for an item.
    Starved,
    /// The stage waits for room in its output, or for a buffer, and maybe for an item besides.
    Blocked,
    /// The stage has ended.
    Ended,
}

impl PipelineStats {
    /// The figures of the stage of that name.
    pub fn stage(&self, name: &str) -> Option<&StageStats> {
        self.stages.iter().find(|stage| stage.stage == name)
    }
}

/// A line for each stage, such as `compute: busy 1.2s, starved 3.4ms, blocked 0.0ns, 0 dropped`.
impl fmt::Display for PipelineStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.stages.iter().map(|stage| stage.stage.chars().count()).max().unwrap_or(0);
        self.stages.iter().try_for_each(|StageStats { stage, busy, starved, blocked, dropped, .. }| {
            writeln!(
                f,
                "{stage:>width$}: busy {busy:.1?}, starved {starved:.1?}, blocked {blocked:.1?}, {dropped} dropped"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stage_has_a_line() {
        let stage = |name: &str, dropped| StageStats {
            stage: name.to_owned(),
            state: StageState::Ended,
            items_in: 0,
            items_out: 0,
            dropped,
            busy: Duration::from_millis(1200),
            starved: Duration::from_micros(3400),
            blocked: Duration::ZERO,
            buffers: None,
        };
        let (pipeline, stages) = ("frames".to_owned(), vec![stage("source", 7), stage("send", 0)]);
        assert_eq!(
            PipelineStats { pipeline, elapsed: Duration::ZERO, stages }.to_string(),
            "\
source: busy 1.2s, starved 3.4ms, blocked 0.0ns, 7 dropped
  send: busy 1.2s, starved 3.4ms, blocked 0.0ns, 0 dropped
"
        );
    }
}
