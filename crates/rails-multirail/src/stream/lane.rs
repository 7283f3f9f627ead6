//! The driver of one lane: moves frames between it and its stream's state machine.

use super::{
    lane_metrics::LaneMetrics,
    pool::ChunkBuffer,
    shared::{Joined, Shared},
    yield_budget::YieldBudget,
};
use crate::{RailId, StreamOptions, error::LaneError};
use bytes::Bytes;
use rails_net::Lane;
use rails_proto::{
    connection::{Connection, LaneId, NoLane},
    lane::{LaneProtocol, Next, Received, Stream, TransportSample},
    messages::MessageBuffer,
    policy::TRACE_TARGET,
    redial::Ended,
    scheduler::LaneTraits,
    seal::Seals,
};
use rails_topo::{DataSize, NodeId};
use std::{
    future::poll_fn,
    io,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};
use tokio::{
    sync::Notify,
    task::{coop, yield_now},
    time::{Sleep, sleep},
};

/// Drives one lane that has joined, whatever its transport.
pub(crate) struct LaneDriver {
    pub(crate) shared: Arc<Shared>,
    pub(crate) id: LaneId,
    pub(crate) metrics: Arc<LaneMetrics>,
    /// Told that the stream has something for the lane.
    pub(crate) notify: Arc<Notify>,
    /// Told that the lane has stalled.
    pub(crate) stalled: Arc<Notify>,
    pub(crate) lane: Arc<dyn Lane>,
    /// What seals and opens its frames, where they are sealed.
    pub(crate) seals: Option<Seals>,
    /// The node that the thread which drives it has its pages from, where that is known.
    pub(super) node: Option<NodeId>,
    /// Whether large messages are interleaved over the nodes of the rails in use.
    pub(super) interleaved: bool,
    /// How the lane ended, once it has. A lane that is dropped before was on a rail that stopped.
    pub(crate) end: Result<(), LaneError>,
}

impl LaneDriver {
    /// A lane whose handshake is done, added to its stream; `None` where the stream is over.
    pub(super) async fn up(
        shared: Arc<Shared>,
        index: u16,
        rail: RailId,
        lane: Arc<dyn Lane>,
        seals: Option<Seals>,
        options: &StreamOptions,
    ) -> Option<Self> {
        // The first round trips of a connection may have waited for the peer's hardware address: the least of them is what the path takes.
        let rtt = lane.stats().ok().and_then(|stats| stats.least_rtt.or(stats.rtt));
        let traits = LaneTraits { number: index, weight: options.weight(rail), rtt };
        let mut lanes_up = shared.lanes_up.subscribe();
        let Joined { id, metrics, notify, stalled } = loop {
            lanes_up.borrow_and_update();
            match shared.lane_up(index, rail, &lane, traits) {
                Ok(joined) => break joined,
                Err(NoLane::StreamOver) => return None,
                // As soon as the connection has ended that had the number before.
                Err(NoLane::Full) => lanes_up.changed().await.ok()?,
            }
        };
        let node = shared.node_of(options.driver.home(rail));
        Some(Self {
            shared,
            id,
            metrics,
            notify,
            stalled,
            lane,
            seals,
            node,
            interleaved: options.interleaved_messages,
            end: Err(LaneError::RailStopped),
        })
    }

    /// Drives the lane to its end, and says what that means for who dials it. Runs on the lane's rail.
    pub(crate) async fn run(mut self) -> Ended {
        let seals = self.seals.take();
        self.end = self.drive(seals).await;
        let is_leaving = self.shared.with(|state| state.connection.is_leaving(self.id));
        Ended::of(&self.end, is_leaving)
    }

    /// Moves bytes between the connection and the lane's protocol until that has come to its end.
    async fn drive(&self, seals: Option<Seals>) -> Result<(), LaneError> {
        let most_unsent = self.lane.most_unsent().map(DataSize::as_bytes);
        let mut protocol = LaneProtocol::new(self.id, seals, most_unsent);
        let mut budget = YieldBudget::new();
        let mut alarm = pin!(sleep(Duration::ZERO));
        let mut woken = pin!(self.notify.notified());
        loop {
            let ended = poll_fn(|context| {
                // The lane receives first: a received acknowledgement may open the window for the next chunk.
                let received = self.poll_receive(context, &mut protocol, &mut budget);
                loop {
                    while woken.as_mut().poll(context).is_ready() {
                        woken.set(self.notify.notified());
                        protocol.wake();
                    }
                    self.transmit(context, &mut protocol);
                    let at = protocol.poll_timeout(&mut &*self);
                    if let Some(end) = protocol.end() {
                        return Poll::Ready(Some(end.clone()));
                    }
                    if poll_alarm(context, alarm.as_mut(), at).is_pending() {
                        return received.map(|()| None);
                    }
                    protocol.handle_timeout(Instant::now(), &mut &*self, || sample(&*self.lane));
                }
            });
            match ended.await {
                Some(end) => return end,
                None => yield_now().await,
            }
        }
    }

    /// Receives until the socket is empty. Ready once the lane has used up its yield budget: it yields the thread before it reads on.
    fn poll_receive(
        &self,
        context: &mut Context<'_>,
        lane: &mut LaneProtocol<ChunkBuffer>,
        budget: &mut YieldBudget,
    ) -> Poll<()> {
        loop {
            if let Err(error) = ready!(self.lane.poll_receive_ready(context)) {
                lane.close_receiving(Instant::now(), &mut &*self, Err(error.into()));
                return Poll::Pending;
            }
            let mut read = 0;
            let received = lane.receive(Instant::now(), &mut &*self, |buffers| {
                let outcome = self.lane.try_receive(buffers);
                read = *outcome.as_ref().unwrap_or(&0);
                outcome
            });
            match received {
                Received::Some { chunks, bytes } => {
                    if chunks > 0 {
                        self.metrics.received.count(chunks, bytes);
                    }
                    self.shared.buffers.make_room();
                    if budget.spend(read as u64) {
                        return Poll::Ready(());
                    }
                }
                Received::Nothing => {}
                Received::End => return Poll::Pending,
            }
        }
    }

    /// Sends what there is to send, as far as the connection takes it.
    fn transmit(&self, context: &mut Context<'_>, lane: &mut LaneProtocol<ChunkBuffer>) {
        if let Poll::Ready(end) = self.poll_transmit(context, lane) {
            lane.close_sending(end.map_err(LaneError::from));
        }
    }

    /// Ready once the sending side is closed, or fails.
    fn poll_transmit(&self, context: &mut Context<'_>, lane: &mut LaneProtocol<ChunkBuffer>) -> Poll<io::Result<()>> {
        loop {
            if lane.needs_room() {
                ready!(self.lane.poll_room(context))?;
            }
            match lane.transmit(Instant::now(), &mut &*self) {
                Next::Submit { unsent_limit } => {
                    if let Some(bytes) = unsent_limit {
                        self.lane.limit_unsent(DataSize::bytes(bytes))?;
                    }
                    ready!(self.poll_submit(context, lane))?;
                }
                Next::Idle => return Poll::Pending,
                Next::Close => return Poll::Ready(self.lane.close_write()),
            }
        }
    }

    /// Submits outgoing bytes to the connection, as many as it takes at once.
    fn poll_submit(&self, context: &mut Context<'_>, lane: &mut LaneProtocol<ChunkBuffer>) -> Poll<io::Result<()>> {
        // A lane that always has something must not keep its rail from its other tasks.
        let budget = ready!(coop::poll_proceed(context));
        loop {
            let (control, payload) = lane.outgoing();
            match self.lane.try_submit(control, payload) {
                Ok(bytes) => {
                    budget.made_progress();
                    if let Some(length) = lane.submitted(bytes) {
                        self.metrics.sent.count(1, length.into());
                    }
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(self.lane.poll_submit_ready(context))?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

/// What a lane has of its stream: the lock's inside, and memory on its rail's node.
impl Stream for &LaneDriver {
    type Buffer = ChunkBuffer;

    fn with<T>(&mut self, act: impl FnOnce(&mut Connection) -> T) -> T {
        // Lanes ask for the scheduler's decisions, and the scheduler traces them without the name of the stream, which it does not know.
        let span = tracing::trace_span!(target: TRACE_TARGET, "stream", id = %self.shared.id);
        self.shared.with(|state| span.in_scope(|| act(&mut state.connection)))
    }

    fn chunk(&mut self, length: usize) -> ChunkBuffer {
        self.shared.buffers.chunk(self.node, length)
    }

    fn freeze(buffer: ChunkBuffer) -> Bytes {
        buffer.freeze()
    }

    /// Pages are made as they are first written to: each on the node of the rail that receives it, or in turn on those of all rails in use, where that was asked for.
    fn message(&mut self, length: usize) -> MessageBuffer {
        let nodes = if self.interleaved { self.shared.nodes_in_use() } else { None };
        self.shared.buffers.message(length, nodes.as_ref())
    }
}

/// However a lane ends, its stream gets to know.
impl Drop for LaneDriver {
    fn drop(&mut self) {
        self.shared.lane_down(self.id, &self.lane, std::mem::replace(&mut self.end, Ok(())));
    }
}

/// What the transport says, in the protocol's words.
fn sample(lane: &dyn Lane) -> TransportSample {
    let Ok(stats) = lane.stats() else { return TransportSample::default() };
    TransportSample {
        rtt: stats.rtt,
        rtt_variation: stats.rtt_variation,
        least_rtt: stats.least_rtt,
        bytes_acknowledged: stats.bytes_acknowledged,
        since_acknowledgement: stats.since_acknowledgement,
        unacknowledged_packets: stats.unacknowledged_packets,
    }
}

/// Waits until then; for ever where that is never. The timer is set anew for an earlier time alone: that costs two system calls when the runtime is about to
/// sleep, and what a lane waits for mostly comes first.
fn poll_alarm(context: &mut Context<'_>, mut alarm: Pin<&mut Sleep>, at: Option<Instant>) -> Poll<()> {
    let Some(at) = at.map(tokio::time::Instant::from) else { return Poll::Pending };
    loop {
        if alarm.is_elapsed() || alarm.deadline() > at {
            alarm.as_mut().reset(at);
        }
        ready!(alarm.as_mut().poll(context));
        if alarm.deadline() >= at {
            return Poll::Ready(());
        }
    }
}
