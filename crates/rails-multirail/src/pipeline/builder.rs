//! Describing a pipeline.

use super::{
    buffers::Buffers,
    channel::{Ending, ReceiverEnd, SenderEnd, channel},
    ends::{Input, Output},
    error::StartError,
    meter::Meter,
    running::{RunningPipeline, Signals, StageTask},
};
use crate::runtime::RailRuntime;
use rails_bind::memory::{BufferOptions, MemoryError};
use std::{
    error::Error,
    num::NonZeroUsize,
    sync::{Arc, atomic::AtomicUsize},
    time::{Duration, Instant},
};

/// A pipeline whose stages are all described: [`start`](Self::start) runs it.
#[must_use = "a pipeline does nothing until `start` is called"]
pub struct Pipeline<'r>(Parts<'r>);

/// A pipeline without stages yet; [`Pipeline::builder`] makes one.
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing until it has its stages"]
pub struct PipelineBuilder {
    name: String,
    spin: Duration,
    end_limit: Duration,
    stall_limit: Option<Duration>,
}

/// A pipeline whose last stage gives items of type `T` to a stage that is yet to be described.
#[must_use = "a pipeline does nothing until it has a sink"]
pub struct OpenPipeline<'r, T> {
    parts: Parts<'r>,
    last: Described<'r>,
    /// Makes the last stage, once its output is there.
    make: Box<dyn FnOnce(Output<T>, StageEnd) -> StageTask + 'r>,
}

/// The channel between two stages, with its buffers.
#[derive(Debug, Clone)]
#[must_use]
pub struct Link {
    length: usize,
    buffers: Option<LinkBuffers>,
}

/// The stage beside which the buffers of a link lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The node of the stage that fills the buffers.
    Producer,
    /// The node of the stage that reads the buffers.
    Consumer,
}

#[derive(Debug, Clone)]
struct LinkBuffers {
    side: Side,
    bytes: usize,
    count: usize,
    options: BufferOptions,
}

/// All stages that have both of their ends.
struct Parts<'r> {
    builder: PipelineBuilder,
    /// The instant from which the stages' clocks count.
    zero: Instant,
    /// The number of stages that have ended.
    ended: Arc<AtomicUsize>,
    signals: Signals,
    stages: Vec<Described<'r>>,
    starts: Vec<Box<dyn FnOnce() -> StageTask + 'r>>,
    /// The first fault of the description.
    fault: Option<StartError>,
}

/// A stage that is described.
struct Described<'r> {
    runtime: &'r RailRuntime,
    meter: Arc<Meter>,
    /// The output's buffers.
    buffers: Option<Buffers>,
}

/// Closes both channels of a stage when dropped. The stage holds it until it has ended in any way,
/// by a panic too.
pub(super) struct StageEnd {
    meter: Arc<Meter>,
    ended: Arc<AtomicUsize>,
    input: Option<ReceiverEnd>,
    output: Option<SenderEnd>,
    ending: Ending,
}

impl Pipeline<'_> {
    /// A pipeline of that name, which errors and statistics have.
    pub fn builder(name: impl Into<String>) -> PipelineBuilder {
        PipelineBuilder {
            name: name.into(),
            spin: Duration::ZERO,
            end_limit: Duration::from_secs(1),
            stall_limit: Some(Duration::from_secs(60)),
        }
    }

    /// Starts every stage on its rail. Channels and buffers were made when the stages were
    /// described.
    ///
    /// # Errors
    /// [`StartError`], the first fault of the description. No stage has run.
    pub fn start(self) -> Result<RunningPipeline, StartError> {
        let Parts { builder, signals, stages, starts, fault, .. } = self.0;
        if let Some(fault) = fault {
            return Err(fault);
        }
        let stages = stages.into_iter().map(|stage| (stage.meter, stage.buffers)).collect();
        let zero = Instant::now();
        let tasks = starts.into_iter().map(|start| start()).collect();
        let PipelineBuilder { name, end_limit, stall_limit, .. } = builder;
        Ok(RunningPipeline::new(name, zero, signals, stages, tasks, end_limit, stall_limit))
    }
}

impl PipelineBuilder {
    /// Sets how long a stage that finds no item or no room tries again and again before it sleeps.
    /// Default: zero. At most [`LONGEST_SPIN`](crate::runtime::LONGEST_SPIN).
    ///
    /// A stage that spins sees an item in a fraction of a microsecond, where waking a thread that
    /// sleeps takes tens of them. It occupies its rail's thread all the while, so lanes and
    /// other tasks of that rail wait, and have a turn after each spin of more than a few tries:
    /// spin on cores of their own ([`Rail::task_runtimes`](crate::Rail::task_runtimes)), or for
    /// a few microseconds.
    pub fn spin(self, time: Duration) -> Self {
        Self { spin: time.min(crate::runtime::LONGEST_SPIN), ..self }
    }

    /// Sets how long the other stages have to end by themselves, and to bring out their items,
    /// after one has failed; then they are aborted at their next await. Default: 1 s.
    /// `Duration::MAX` waits for ever.
    pub fn end_limit(self, limit: Duration) -> Self {
        Self { end_limit: limit, ..self }
    }

    /// Sets how long items may wait for a stage that takes none, and a stage for one buffer, before
    /// the pipeline ends with the name of the stage. `None` waits for ever. Default: 60 s. At
    /// least 10 ms. A pipeline without items is idle, and goes on. A stage that writes to a
    /// stream stalls for as long as the stream has no peer, which is 15 minutes where the peer
    /// is silent ([`StreamOptions::outage_limit`](crate::StreamOptions::outage_limit)).
    ///
    /// Choose more than a stage takes for one item, and more than the later stages keep a buffer.
    pub fn stall_limit(self, limit: Option<Duration>) -> Self {
        Self { stall_limit: limit.map(|limit| limit.max(SHORTEST_STALL)), ..self }
    }

    /// The first stage, which makes items, on that runtime: a rail's, or one of its task runtimes.
    ///
    /// The future need not be `Send`. The pipeline ends when it has returned `Ok`, or was
    /// [stopped](RunningPipeline::stop), and every item is through.
    pub fn source<'r, T, F>(self, name: impl Into<String>, runtime: &'r RailRuntime, stage: F) -> OpenPipeline<'r, T>
    where
        T: Send + 'static,
        F: AsyncFnOnce(Output<T>) -> Result<(), Box<dyn Error + Send + Sync>> + Send + 'static,
    {
        let parts = Parts {
            builder: self,
            zero: Instant::now(),
            ended: Arc::default(),
            signals: Signals::default(),
            stages: Vec::new(),
            starts: Vec::new(),
            fault: None,
        };
        let last = parts.described(name.into(), runtime);
        let stop = parts.signals.stop.clone();
        let make = move |output, end: StageEnd| {
            runtime.spawn_local(move || async move {
                end.after(stop.run_until_stopped(async { stage(output).await })).await
            })
        };
        OpenPipeline { parts, last, make: Box::new(make) }
    }
}

impl<'r, T: Send + 'static> OpenPipeline<'r, T> {
    /// A further stage, which takes the items of the stage before and hands on others, or the same,
    /// on that runtime. A stage that hands on the item that it got hands on its buffer, without
    /// a copy.
    pub fn stage<U, F>(
        self,
        name: impl Into<String>,
        runtime: &'r RailRuntime,
        link: Link,
        stage: F,
    ) -> OpenPipeline<'r, U>
    where
        U: Send + 'static,
        F: AsyncFnOnce(Input<T>, Output<U>) -> Result<(), Box<dyn Error + Send + Sync>> + Send + 'static,
    {
        let (parts, last, input) = self.join(name.into(), runtime, &link);
        let make = move |output, mut end: StageEnd| {
            let StageInput { input, end: receiver } = input;
            end.input = Some(receiver);
            runtime.spawn_local(move || async move { end.after(async { stage(input, output).await }).await })
        };
        OpenPipeline { parts, last, make: Box::new(make) }
    }

    /// The last stage, which takes the items, on that runtime. It reads to the end: returning
    /// before that ends the pipeline with an error.
    pub fn sink<F>(self, name: impl Into<String>, runtime: &'r RailRuntime, link: Link, stage: F) -> Pipeline<'r>
    where
        F: AsyncFnOnce(Input<T>) -> Result<(), Box<dyn Error + Send + Sync>> + Send + 'static,
    {
        let (mut parts, last, input) = self.join(name.into(), runtime, &link);
        let mut end = parts.end_of(&last);
        let start = move || {
            let StageInput { input, end: receiver } = input;
            end.input = Some(receiver);
            runtime.spawn_local(move || async move { end.after(async { stage(input).await }).await })
        };
        parts.starts.push(Box::new(start));
        parts.stages.push(last);
        Pipeline(parts)
    }

    /// Makes the channel from the last stage to one of that name, and gives the input of that.
    fn join(self, name: String, runtime: &'r RailRuntime, link: &Link) -> (Parts<'r>, Described<'r>, StageInput<T>) {
        let Self { mut parts, last: mut from, make } = self;
        let to = parts.described(name, runtime);
        parts.check_name(&to.meter.name, &from.meter.name);
        let spin = parts.builder.spin;
        let length = NonZeroUsize::new(link.length).unwrap_or_else(|| {
            parts.refuse(|pipeline| StartError::ZeroLength { pipeline, from: from.name(), to: to.name() });
            NonZeroUsize::MIN
        });
        let buffers = link.buffers.as_ref().and_then(|wanted| {
            let beside = match wanted.side {
                Side::Producer => from.runtime,
                Side::Consumer => to.runtime,
            };
            let made = Buffers::new(wanted.bytes, wanted.count, &wanted.options, beside.memory_node());
            let refused = |source: MemoryError| {
                let (from, to) = (from.name(), to.name());
                parts.refuse(|pipeline| StartError::Buffers { pipeline, from, to, source: source.into() });
            };
            made.map_err(refused).ok()
        });
        from.buffers.clone_from(&buffers);
        let (sender, receiver) = channel(length);
        let mut end = parts.end_of(&from);
        end.output = Some(sender.end());
        let output = Output::new(sender, from.meter.clone(), buffers, spin);
        parts.starts.push(Box::new(move || make(output, end)));
        parts.stages.push(from);
        let end = receiver.end();
        let input = Input::new(receiver, to.meter.clone(), spin);
        (parts, to, StageInput { input, end })
    }
}

/// The input of a stage, and the handle that closes it.
struct StageInput<T> {
    input: Input<T>,
    end: ReceiverEnd,
}

impl Link {
    /// A channel with room for `length` items, at least 1, and without buffers. The receiver of a
    /// channel of 8 items or more takes several at a time, `length / 4`, so up to `length / 4 -
    /// 1` more than `length` may be on their way.
    pub fn new(length: usize) -> Self {
        Self { length, buffers: None }
    }

    /// Adds a pool of `count` buffers of `bytes` each, which [`Output::buffer`] gives out. The
    /// pool, with every page of it, is made when the stage after the link is described. It is
    /// asked for on the node of one of the two stages: the node from which its runtime's thread
    /// gets its pages. If that is unknown, the kernel chooses. A later
    /// [move](crate::Rails::move_rail) of the rail leaves the buffers where they are.
    ///
    /// Writing a page costs less on the node of its memory, and so does reading it. A NIC or a GPU
    /// that takes the buffers is beside the consumer.
    pub fn buffers(self, side: Side, bytes: usize, count: usize) -> Self {
        let options = BufferOptions::default();
        Self { buffers: Some(LinkBuffers { side, bytes, count, options }), ..self }
    }

    /// Sets the options of the buffers, such as huge pages. The node of the stage replaces the
    /// policy in them. Without [`buffers`](Self::buffers) before it, this changes nothing.
    pub fn buffer_options(self, options: BufferOptions) -> Self {
        Self { buffers: self.buffers.map(|buffers| LinkBuffers { options, ..buffers }), ..self }
    }
}

impl<'r> Parts<'r> {
    fn described(&self, name: String, runtime: &'r RailRuntime) -> Described<'r> {
        Described { runtime, meter: Meter::new(name, self.zero, self.signals.joiner.clone()), buffers: None }
    }

    fn end_of(&self, stage: &Described<'_>) -> StageEnd {
        let (meter, ended) = (stage.meter.clone(), self.ended.clone());
        StageEnd { meter, ended, input: None, output: None, ending: Ending::Broken }
    }

    fn check_name(&mut self, name: &str, last: &str) {
        if name == last || self.stages.iter().any(|stage| stage.meter.name == name) {
            self.refuse(|pipeline| StartError::NameTaken { pipeline, stage: name.to_owned() });
        }
    }

    /// Notes the first fault.
    fn refuse(&mut self, fault: impl FnOnce(String) -> StartError) {
        let name = &self.builder.name;
        self.fault.get_or_insert_with(|| fault(name.clone()));
    }
}

impl Described<'_> {
    fn name(&self) -> String {
        self.meter.name.clone()
    }
}

impl StageEnd {
    /// Runs the stage, and ends with it.
    async fn after(
        mut self,
        stage: impl Future<Output = Result<(), Box<dyn Error + Send + Sync>>>,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        self.meter.start();
        let outcome = stage.await;
        // An input that is not dropped lives elsewhere, and nothing reads it for this stage any more.
        let lives_elsewhere = outcome.is_ok() && !self.meter.has_read_all() && !self.meter.has_stopped_reading();
        if lives_elsewhere && self.input.as_ref().is_some_and(|input| !input.close()) {
            self.meter.mark_stopped_reading();
        }
        // A stage that makes do with a part of its input hands on a part too.
        if outcome.is_ok() && !self.meter.has_stopped_reading() && !self.meter.neighbour_has_ended() {
            self.ending = Ending::Finished;
        }
        outcome
    }
}

impl Drop for StageEnd {
    fn drop(&mut self) {
        self.meter.end(&self.ended);
        if let Some(output) = &self.output {
            output.close(self.ending);
        }
        if let Some(input) = &self.input {
            input.close();
        }
    }
}

impl std::fmt::Debug for Pipeline<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt("Pipeline", f)
    }
}

impl<T> std::fmt::Debug for OpenPipeline<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.parts.fmt("OpenPipeline", f)
    }
}

impl Parts<'_> {
    fn fmt(&self, name: &str, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let stages: Vec<&str> = self.stages.iter().map(|stage| stage.meter.name.as_str()).collect();
        f.debug_struct(name).field("name", &self.builder.name).field("stages", &stages).finish_non_exhaustive()
    }
}

/// Below this, every wait of a busy machine is a stall.
const SHORTEST_STALL: Duration = Duration::from_millis(10);
