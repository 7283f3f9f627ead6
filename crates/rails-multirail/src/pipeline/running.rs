//! A pipeline that runs, and its end.

use super::{
    buffers,
    error::{PipelineError, StageFailure},
    meter::{Meter, Wait},
    stats::PipelineStats,
};
use crate::runtime::{RailTask, TaskError};
use rails_bind::memory::BufferPool;
use rails_topo::NodeId;
use std::{
    error::Error,
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::Poll,
    time::{Duration, Instant},
};
use tokio::time::{sleep, timeout_at};

/// The task of a stage.
pub(super) type StageTask = RailTask<Result<(), Box<dyn Error + Send + Sync>>>;

/// A pipeline that runs. Dropping it aborts its stages, each at its next await.
#[derive(Debug)]
pub struct RunningPipeline {
    name: String,
    zero: Instant,
    /// By stage, from the source to the sink, and so are the others.
    meters: Vec<Arc<Meter>>,
    pools: Vec<Option<(BufferPool, Option<NodeId>)>>,
    tasks: Vec<StageTask>,
    /// `None` of a stage that has not ended.
    outcomes: Vec<Option<Outcome>>,
    /// The stages that were aborted because another one had failed, and whether they had dropped their input before.
    aborted: Vec<Option<HadStopped>>,
    end_limit: Duration,
    stall_limit: Option<Duration>,
}

type Outcome = Result<Result<(), Box<dyn Error + Send + Sync>>, TaskError>;

/// Whether a stage had dropped its input before it was aborted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct HadStopped(bool);

/// What a stage had done when it was last seen to do something.
#[derive(Debug, Clone, Copy)]
struct Seen {
    items: (u64, u64),
    at: Instant,
}

impl RunningPipeline {
    pub(super) fn new(
        name: String,
        zero: Instant,
        meters: Vec<Arc<Meter>>,
        pools: Vec<Option<(BufferPool, Option<NodeId>)>>,
        tasks: Vec<StageTask>,
        end_limit: Duration,
        stall_limit: Option<Duration>,
    ) -> Self {
        let outcomes = tasks.iter().map(|_| None).collect();
        let aborted = vec![None; tasks.len()];
        Self { name, zero, meters, pools, tasks, outcomes, aborted, end_limit, stall_limit }
    }

    /// The figures up to now.
    pub fn stats(&self) -> PipelineStats {
        let stages = self.meters.iter().zip(&self.pools).map(|(meter, pool)| {
            let buffers = pool.as_ref().map(|(pool, node)| buffers::stats(pool, *node));
            super::StageStats { buffers, ..meter.read() }
        });
        PipelineStats { pipeline: self.name.clone(), elapsed: self.zero.elapsed(), stages: stages.collect() }
    }

    /// Waits until every stage has ended. This is what ends the others if one fails or stalls, so a pipeline that is
    /// not awaited may wait for ever.
    ///
    /// # Errors
    /// [`PipelineError`] of the stage that failed first. Every buffer is back in its pool, apart from those of
    /// [stages that could not be ended](PipelineError::still_running).
    ///
    /// # Panics
    /// Outside a tokio runtime with time enabled.
    pub async fn join(mut self) -> Result<PipelineStats, PipelineError> {
        let failure = match self.stall_limit {
            None => {
                self.until_failure().await;
                None
            }
            Some(limit) => {
                let mut seen: Vec<Seen> = self.meters.iter().map(|meter| Seen::now(meter)).collect();
                loop {
                    tokio::select! {
                        biased;
                        () = self.until_failure() => break None,
                        () = sleep(limit / LOOKS) => {}
                    }
                    if let Some(stalled) = stalled(&self.meters, &mut seen, limit) {
                        break Some(stalled);
                    }
                }
            }
        };
        let is_over = self.outcomes.iter().all(|outcome| matches!(outcome, Some(Ok(Ok(())))));
        if !is_over {
            self.end_others(failure.is_some()).await;
        }
        let stats = self.stats();
        let Some((stage, failure)) = failure.or_else(|| self.first_failure()) else { return Ok(stats) };
        let still_running = self.unended().map(|stage| self.meters[stage].name.clone()).collect();
        let (pipeline, stage) = (self.name.clone(), self.meters[stage].name.clone());
        Err(PipelineError { pipeline, stage, failure, stats, still_running })
    }

    /// Waits until all stages have ended, or one of them badly.
    async fn until_failure(&mut self) {
        poll_fn(|context| {
            self.poll_tasks(context);
            let is_bad = |(outcome, meter): (&Option<Outcome>, &Arc<Meter>)| {
                outcome.as_ref().is_some_and(|outcome| !matches!(outcome, Ok(Ok(()))) || meter.stopped_reading())
            };
            let has_failed = self.outcomes.iter().zip(&self.meters).any(is_bad);
            if has_failed || self.unended().next().is_none() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Gives the other stages time to end by themselves, and aborts them after that, or at once.
    async fn end_others(&mut self, at_once: bool) {
        if !at_once {
            self.all_ended_in(self.end_limit).await;
        }
        for stage in self.unended().collect::<Vec<_>>() {
            // One that has dropped its input and goes on is the cause of the failures before it.
            self.aborted[stage] = Some(HadStopped(self.meters[stage].stopped_reading()));
            self.tasks[stage].abort();
        }
        // A stage that computes ends when it awaits. Waiting for it longer would be a hang.
        self.all_ended_in(self.end_limit.max(ABORT_LIMIT)).await;
    }

    async fn all_ended_in(&mut self, limit: Duration) {
        let deadline = tokio::time::Instant::now() + limit;
        let ended = poll_fn(|context| {
            self.poll_tasks(context);
            if self.unended().next().is_none() { Poll::Ready(()) } else { Poll::Pending }
        });
        // The caller looks which have not.
        let _ = timeout_at(deadline, ended).await;
    }

    fn poll_tasks(&mut self, context: &mut std::task::Context<'_>) {
        for (task, outcome) in self.tasks.iter_mut().zip(&mut self.outcomes) {
            if outcome.is_none()
                && let Poll::Ready(ended) = Pin::new(task).poll(context)
            {
                *outcome = Some(ended);
            }
        }
    }

    fn unended(&self) -> impl Iterator<Item = usize> {
        self.outcomes.iter().enumerate().filter(|(_, outcome)| outcome.is_none()).map(|(stage, _)| stage)
    }

    /// The failure that came first, and not because a stage beside it had ended, or was aborted.
    fn first_failure(&mut self) -> Option<(usize, StageFailure)> {
        let is_bad = |stage: &usize| match &self.outcomes[*stage] {
            None => false,
            Some(Ok(Ok(()))) => self.meters[*stage].stopped_reading(),
            Some(_) => true,
        };
        let order = |stage: &usize| {
            let meter = &self.meters[*stage];
            (self.aborted[*stage] == Some(HadStopped(false)), meter.was_left(), meter.place())
        };
        let first = (0..self.meters.len()).filter(is_bad).min_by_key(order)?;
        let failure = match self.outcomes[first].take()? {
            Ok(Ok(())) => StageFailure::StoppedReading,
            Ok(Err(error)) => StageFailure::Failed(error),
            Err(TaskError::Panicked(panic)) => StageFailure::Panicked(panic),
            Err(TaskError::Cancelled) if self.aborted[first] == Some(HadStopped(true)) => StageFailure::StoppedReading,
            Err(TaskError::Cancelled) => StageFailure::Cancelled,
        };
        self.outcomes[first] = Some(Ok(Ok(())));
        Some((first, failure))
    }
}

impl Drop for RunningPipeline {
    fn drop(&mut self) {
        self.tasks.iter().for_each(StageTask::abort);
    }
}

impl Seen {
    fn now(meter: &Meter) -> Self {
        Self { items: meter.items(), at: Instant::now() }
    }
}

/// The stage that has held up the others for that long: one that takes no item although one waits, or one to which no
/// buffer comes back.
fn stalled(meters: &[Arc<Meter>], seen: &mut [Seen], limit: Duration) -> Option<(usize, StageFailure)> {
    for (meter, seen) in meters.iter().zip(seen.iter_mut()) {
        if meter.items() != seen.items {
            *seen = Seen::now(meter);
        }
    }
    let stands = |stage: &usize| seen[*stage].at.elapsed() >= limit && !meters[*stage].has_ended();
    let is_waited_for = |stage: &usize| seen[*stage - 1].items.1 > seen[*stage].items.0;
    let takes_none =
        (1..meters.len()).filter(stands).find(|stage| is_waited_for(stage) && meters[*stage].waits_for().is_none());
    if let Some(stage) = takes_none {
        return Some((stage, StageFailure::Stalled { limit }));
    }
    // While any stage takes items, a buffer may come back.
    if seen.iter().any(|seen| seen.at.elapsed() < limit) {
        return None;
    }
    let gets_none = (0..meters.len()).find(|stage| stands(stage) && meters[*stage].waits_for() == Some(Wait::Buffer));
    gets_none.map(|stage| (stage, StageFailure::NoBufferBack { limit }))
}

/// Aborted stages are waited for at least this long.
const ABORT_LIMIT: Duration = Duration::from_secs(1);
/// How often stages are looked at in the stall limit. So a stall is found after the limit and a quarter of it at most.
const LOOKS: u32 = 4;
