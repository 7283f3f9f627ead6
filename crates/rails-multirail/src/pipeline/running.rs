//! A pipeline that runs, and its end.

use super::{
    buffers::Buffers,
    error::{PipelineError, StageFailure},
    meter::{BufferWait, Meter},
    stats::PipelineStats,
    sync::AtomicWaker,
};
use crate::runtime::{RailTask, TaskError};
use std::{
    error::Error,
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::Poll,
    time::{Duration, Instant},
};
use tokio::{
    sync::Notify,
    time::{sleep, timeout_at},
};

/// The task of a stage.
pub(super) type StageTask = RailTask<Result<(), Box<dyn Error + Send + Sync>>>;

/// Stops a pipeline, also while another task [joins](RunningPipeline::join) it. Dropping it does
/// nothing.
#[derive(Debug, Clone, Default)]
pub struct StopHandle(Arc<Notify>);

/// The signals between a pipeline and its stages.
#[derive(Debug, Default)]
pub(super) struct Signals {
    /// Woken by a stage that stops reading.
    pub(super) joiner: Arc<AtomicWaker>,
    /// Ends the source.
    pub(super) stop: StopHandle,
}

/// A pipeline that runs. Dropping it aborts its stages, each at its next await.
#[derive(Debug)]
pub struct RunningPipeline {
    name: String,
    /// The time of the start.
    zero: Instant,
    signals: Signals,
    /// The stages' meters, from the source to the sink; so are the lists below.
    meters: Vec<Arc<Meter>>,
    /// The buffers of each stage's output.
    buffers: Vec<Option<Buffers>>,
    tasks: Vec<StageTask>,
    /// The outcome of each stage; `None` before its end.
    outcomes: Vec<Option<Outcome>>,
    /// The stages that were aborted because another one had failed, and whether they had dropped
    /// their input before.
    aborted: Vec<Option<HadStopped>>,
    end_limit: Duration,
    stall_limit: Option<Duration>,
}

type Outcome = Result<Result<(), Box<dyn Error + Send + Sync>>, TaskError>;

/// Whether a stage had dropped its input before it was aborted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct HadStopped(bool);

/// The waits of a stage, with the number of checks in a row at which each went on.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    items_in: u64,
    /// An item waited for the stage, which was not held up itself, and had taken none since the
    /// first of the looks.
    item_waits: u32,
    buffer_wait: Option<BufferWait>,
    /// The stage waited for the same buffer, and the next stage had taken no item since the look
    /// before.
    buffer_waits: u32,
}

impl RunningPipeline {
    pub(super) fn new(
        name: String,
        zero: Instant,
        signals: Signals,
        stages: Vec<(Arc<Meter>, Option<Buffers>)>,
        tasks: Vec<StageTask>,
        end_limit: Duration,
        stall_limit: Option<Duration>,
    ) -> Self {
        let (meters, buffers) = stages.into_iter().unzip();
        let outcomes = tasks.iter().map(|_| None).collect();
        let aborted = vec![None; tasks.len()];
        Self { name, zero, signals, meters, buffers, tasks, outcomes, aborted, end_limit, stall_limit }
    }

    /// The figures up to now.
    pub fn stats(&self) -> PipelineStats {
        let stages = self.meters.iter().zip(&self.buffers).map(|(meter, buffers)| {
            let buffers = buffers.as_ref().map(Buffers::stats);
            super::StageStats { buffers, ..meter.read() }
        });
        let ended: Option<Vec<Instant>> = self.meters.iter().map(|meter| meter.ended_at()).collect();
        let until = ended.and_then(|ended| ended.into_iter().max()).unwrap_or_else(Instant::now);
        let elapsed = until.saturating_duration_since(self.zero);
        PipelineStats { pipeline: self.name.clone(), elapsed, stages: stages.collect() }
    }

    /// Ends the source as if it had returned, and waits for the other stages, which bring out the
    /// items on their way.
    ///
    /// # Errors
    /// As [`join`](Self::join).
    ///
    /// # Panics
    /// As [`join`](Self::join).
    pub async fn stop(self) -> Result<PipelineStats, PipelineError> {
        self.signals.stop.stop();
        self.join().await
    }

    /// A handle that stops the pipeline while this is joined.
    pub fn stop_handle(&self) -> StopHandle {
        self.signals.stop.clone()
    }

    /// Waits until every stage has ended. If one fails or stalls, this call ends the others, so a
    /// pipeline that is not awaited may wait for ever.
    ///
    /// # Errors
    /// [`PipelineError`] of the stage that failed first. Every buffer that a stage or a channel
    /// held is back in its pool, apart from those of [stages that could not be
    /// ended](PipelineError::still_running). A buffer with an owner outside of the pipeline
    /// comes back when that drops it, and one that is being read into ([`file`](super::file))
    /// when the read ends.
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
                let mut seen = vec![Seen::default(); self.meters.len()];
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

    /// Waits until all stages have ended, or one of them badly, or one has stopped reading.
    async fn until_failure(&mut self) {
        poll_fn(|context| {
            self.signals.joiner.register(context.waker());
            self.poll_tasks(context);
            let has_failed = (0..self.meters.len()).any(|stage| self.is_bad(stage));
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
            // A stage that has dropped its input and goes on is the cause of the failures before it.
            self.aborted[stage] = Some(HadStopped(self.meters[stage].has_stopped_reading()));
            self.tasks[stage].abort();
        }
        // A stage that computes ends when it awaits. Waiting for it longer would be a hang.
        self.all_ended_in(self.end_limit.max(ABORT_LIMIT)).await;
    }

    async fn all_ended_in(&mut self, limit: Duration) {
        let deadline = tokio::time::Instant::now().checked_add(limit);
        let ended = poll_fn(|context| {
            self.poll_tasks(context);
            if self.unended().next().is_none() { Poll::Ready(()) } else { Poll::Pending }
        });
        match deadline {
            // The caller looks which stages have not.
            Some(deadline) => drop(timeout_at(deadline, ended).await),
            None => ended.await,
        }
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

    /// Whether a stage has failed, or stopped reading.
    fn is_bad(&self, stage: usize) -> bool {
        self.meters[stage].has_stopped_reading() || !matches!(self.outcomes[stage], None | Some(Ok(Ok(()))))
    }

    /// The failure that came first, and not because a stage beside it had ended, or was aborted.
    fn first_failure(&mut self) -> Option<(usize, StageFailure)> {
        let is_bad = |stage: &usize| self.is_bad(*stage);
        let order = |stage: &usize| {
            let meter = &self.meters[*stage];
            (self.aborted[*stage] == Some(HadStopped(false)), meter.neighbour_has_ended(), meter.place())
        };
        let first = (0..self.meters.len()).filter(is_bad).min_by_key(order)?;
        let Some(outcome) = &mut self.outcomes[first] else { return Some((first, StageFailure::StoppedReading)) };
        let failure = match std::mem::replace(outcome, Ok(Ok(()))) {
            Ok(Ok(())) => StageFailure::StoppedReading,
            Ok(Err(error)) => StageFailure::Failed(error),
            Err(TaskError::Panicked(panic)) => StageFailure::Panicked(panic),
            Err(TaskError::Cancelled) if self.aborted[first] == Some(HadStopped(true)) => StageFailure::StoppedReading,
            // A stage is a future, which takes no thread.
            Err(TaskError::Cancelled | TaskError::NoThread(_)) => StageFailure::Cancelled,
        };
        Some((first, failure))
    }
}

impl StopHandle {
    /// Ends the source at its next await, as if it had returned: the item that it sends may be
    /// dropped, and the other stages bring out those before.
    pub fn stop(&self) {
        self.0.notify_one();
    }

    /// Runs the source, until it ends or is stopped.
    pub(super) async fn run_until_stopped(
        self,
        source: impl Future<Output = Result<(), Box<dyn Error + Send + Sync>>>,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        tokio::select! {
            biased;
            () = self.0.notified() => Ok(()),
            ended = source => ended,
        }
    }
}

impl Drop for RunningPipeline {
    fn drop(&mut self) {
        self.tasks.iter().for_each(StageTask::abort);
    }
}

/// The stage that has held up the others for the limit: one that takes no item although one waits,
/// or one to which no buffer comes back.
fn stalled(meters: &[Arc<Meter>], seen: &mut [Seen], limit: Duration) -> Option<(usize, StageFailure)> {
    for stage in 0..meters.len() {
        let meter = &meters[stage];
        let items_in = meter.items_in();
        let has_items = stage > 0 && !meter.has_ended() && meters[stage - 1].items_out() > items_in;
        seen[stage].item_waits = match has_items && !meter.is_blocked() {
            true if items_in == seen[stage].items_in => seen[stage].item_waits + 1,
            true => 1,
            false => 0,
        };
        if let Some(before) = stage.checked_sub(1) {
            let buffer_wait = meters[before].buffer_wait();
            let goes_on = buffer_wait.is_some()
                && buffer_wait == seen[before].buffer_wait
                && !meters[before].has_ended()
                && items_in == seen[stage].items_in;
            seen[before].buffer_waits = if goes_on { seen[before].buffer_waits + 1 } else { 0 };
            seen[before].buffer_wait = buffer_wait;
        }
        seen[stage].items_in = items_in;
    }
    let mut stages = 0..meters.len();
    // A stage that waits for its input is no exception: it has an item, and does not look.
    if let Some(stage) = stages.clone().find(|stage| seen[*stage].item_waits > LOOKS) {
        return Some((stage, StageFailure::Stalled { limit }));
    }
    // While an item waits for a later stage, that may have the buffers: it takes the item, or has
    // stalled.
    let is_last = |stage: usize| seen[stage + 1..].iter().all(|later| later.item_waits < 2);
    let stage = stages.find(|stage| seen[*stage].buffer_waits >= LOOKS && is_last(*stage))?;
    Some((stage, StageFailure::NoBufferBack { limit }))
}

/// Aborted stages are waited for at least this long.
const ABORT_LIMIT: Duration = Duration::from_secs(1);
/// How often stages are looked at in the stall limit. A stall is found at this number of looks
/// after the first that saw it: after the limit and a quarter of it at most.
const LOOKS: u32 = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::meter::Wait;

    const LIMIT: Duration = Duration::from_secs(60);

    /// `count` stages, of which each but the source has read all items of the one before.
    fn stages(count: usize) -> (Vec<Arc<Meter>>, Vec<Seen>) {
        let meter = |stage: usize| Meter::new(stage.to_string(), Instant::now(), Arc::default());
        ((0..count).map(meter).collect(), vec![Seen::default(); count])
    }

    /// The stage that is found at one of `looks` looks, and whether it has stalled. `between` runs
    /// before each look.
    fn looks(
        (meters, seen): &mut (Vec<Arc<Meter>>, Vec<Seen>),
        looks: u32,
        between: impl Fn(&[Arc<Meter>]),
    ) -> Option<(usize, bool)> {
        (0..looks).find_map(|_| {
            between(meters);
            let (stage, failure) = stalled(meters, seen, LIMIT)?;
            Some((stage, matches!(failure, StageFailure::Stalled { .. })))
        })
    }

    #[test]
    fn an_idle_time_is_no_part_of_a_stall() {
        let mut stages = stages(2);
        assert_eq!(looks(&mut stages, 100, |_| {}), None);
        stages.0[0].count_out();
        assert_eq!(looks(&mut stages, LOOKS, |_| {}), None);
        stages.0[1].count_in();
        stages.0[0].count_out();
        assert_eq!(looks(&mut stages, LOOKS, |_| {}), None);
        assert_eq!(looks(&mut stages, 1, |_| {}), Some((1, true)));
    }

    #[test]
    fn a_wait_for_input_excuses_no_stage() {
        let mut stages = stages(2);
        let sink = stages.0[1].clone();
        let _waiting = sink.wait(Wait::Input);
        stages.0[0].count_out();
        assert_eq!(looks(&mut stages, LOOKS + 1, |_| {}), Some((1, true)));
    }

    #[test]
    fn keep_alives_are_no_progress_of_their_stage() {
        let mut stages = stages(3);
        stages.0[0].count_out();
        let keep_alive = |meters: &[Arc<Meter>]| {
            meters[1].count_out();
            meters[2].count_in();
        };
        assert_eq!(looks(&mut stages, LOOKS + 1, keep_alive), Some((1, true)));
    }

    #[test]
    fn keep_alives_bring_no_buffer_back() {
        let mut stages = stages(3);
        let source = stages.0[0].clone();
        let waiting = source.wait(Wait::Buffer);
        let keep_alive = |meters: &[Arc<Meter>]| {
            meters[1].count_out();
            meters[2].count_in();
        };
        assert_eq!(looks(&mut stages, LOOKS + 1, keep_alive), Some((0, false)));
        drop(waiting);
        let again = |meters: &[Arc<Meter>]| drop(meters[0].wait(Wait::Buffer));
        assert_eq!(looks(&mut stages, 100, again), None, "each wait is another");
    }

    /// Stages before a stage that takes nothing wait for room and for buffers, and are not named.
    #[test]
    fn the_stage_that_holds_up_others_is_named() {
        let mut stages = stages(3);
        let [source, stage, _] = [0, 1, 2].map(|stage| stages.0[stage].clone());
        let _waiting = (source.wait(Wait::Buffer), stage.wait(Wait::Room));
        source.count_out();
        stage.count_out();
        assert_eq!(looks(&mut stages, LOOKS + 1, |_| {}), Some((2, true)));
    }

    #[test]
    fn a_slow_stage_that_reads_is_not_named() {
        let mut stages = stages(3);
        let source = stages.0[0].clone();
        let _waiting = source.wait(Wait::Buffer);
        (0..100).for_each(|_| source.count_out());
        for _ in 0..99 {
            assert_eq!(looks(&mut stages, LOOKS, |_| {}), None);
            stages.0[1].count_in();
        }
    }
}
