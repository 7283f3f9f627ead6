//! The driver of one lane: moves frames between the connection and the state machine of the stream.

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

/// Drives one lane that has joined, over any transport.
pub(crate) struct LaneDriver {
    pub(crate) shared: Arc<Shared>,
    pub(crate) id: LaneId,
    pub(crate) metrics: Arc<LaneMetrics>,
    /// Notified when the stream has frames for the lane.
    pub(crate) notify: Arc<Notify>,
    /// Notified when the lane has stalled.
    pub(crate) stalled: Arc<Notify>,
    pub(crate) lane: Arc<dyn Lane>,
    /// The keys that seal and open the lane's frames, if the stream is encrypted.
    pub(crate) seals: Option<Seals>,
    /// The node from which the driving thread gets its pages, if it is known.
    pub(super) node: Option<NodeId>,
    /// Whether large messages are interleaved over the nodes of the rails in use.
    pub(super) interleaved: bool,
    /// The lane's end. If the lane is dropped before it ends, its rail has stopped.
    pub(crate) end: Result<(), LaneError>,
}

impl LaneDriver {
    /// Adds a lane whose handshake is done to its stream; `None` if the stream is over.
    pub(super) async fn up(
        shared: Arc<Shared>,
        index: u16,
        rail: RailId,
        lane: Arc<dyn Lane>,
        seals: Option<Seals>,
        options: &StreamOptions,
    ) -> Option<Self> {
        // The first round trips of a connection may include the resolution of the peer's hardware address, so the least
        // one is the path's.
        let rtt = lane.stats().ok().and_then(|stats| stats.least_rtt.or(stats.rtt));
        let traits = LaneTraits { number: index, weight: options.weight(rail), rtt };
        let mut lanes_up = shared.lanes_up.subscribe();
        let Joined { id, metrics, notify, stalled } = loop {
            lanes_up.borrow_and_update();
            match shared.lane_up(index, rail, &lane, traits) {
                Ok(joined) => break joined,
                Err(NoLane::StreamOver) => return None,
                // There is room as soon as the previous connection of the lane has ended.
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

    /// Drives the lane to its end, and gives that end in the dialer's terms. Runs on the lane's rail.
    pub(crate) async fn run(mut self) -> Ended {
        let seals = self.seals.take();
        self.end = self.drive(seals).await;
        let is_leaving = self.shared.with(|state| state.connection.is_leaving(self.id));
        Ended::of(&self.end, is_leaving)
    }

    /// Moves bytes between the connection and the lane's protocol until the protocol ends.
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

    /// Receives until the socket is empty. Ready when the lane has used up its yield budget: the caller yields the
    /// thread before it reads on.
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

    /// Sends frames as long as there are any and the connection takes them.
    fn transmit(&self, context: &mut Context<'_>, lane: &mut LaneProtocol<ChunkBuffer>) {
        if let Poll::Ready(end) = self.poll_transmit(context, lane) {
            lane.close_sending(end.map_err(LaneError::from));
        }
    }

    /// Ready when the sending side is closed, or fails.
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

    /// Submits outgoing bytes to the connection once, as many as it takes.
    fn poll_submit(&self, context: &mut Context<'_>, lane: &mut LaneProtocol<ChunkBuffer>) -> Poll<io::Result<()>> {
        // A lane that always has bytes must not starve the other tasks of its rail.
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

/// The lane's access to its stream: the state under the lock, and memory on the rail's node.
impl Stream for &LaneDriver {
    type Buffer = ChunkBuffer;

    fn with<T>(&mut self, act: impl FnOnce(&mut Connection) -> T) -> T {
        // The scheduler traces its decisions, and does not know the name of the stream, so the span adds it.
        let span = tracing::trace_span!(target: TRACE_TARGET, "stream", id = %self.shared.id);
        self.shared.with(|state| span.in_scope(|| act(&mut state.connection)))
    }

    fn chunk(&mut self, length: usize) -> ChunkBuffer {
        self.shared.buffers.chunk(self.node, length)
    }

    fn freeze(buffer: ChunkBuffer) -> Bytes {
        buffer.freeze()
    }

    /// The kernel allocates each page at the first write to it: on the node of the rail that receives it, or, if the
    /// options ask for interleaving, in turn on the nodes of all rails in use.
    fn message(&mut self, length: usize) -> MessageBuffer {
        let nodes = if self.interleaved { self.shared.nodes_in_use() } else { None };
        self.shared.buffers.message(length, nodes.as_ref())
    }
}

/// Tells the stream that the lane has ended, in every case.
impl Drop for LaneDriver {
    fn drop(&mut self) {
        self.shared.lane_down(self.id, &self.lane, std::mem::replace(&mut self.end, Ok(())));
    }
}

/// The transport's figures in the protocol's form.
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

/// Waits until `at`, or for ever for `None`. Resets the timer only for an earlier time: a reset costs two system calls
/// when the runtime is about to sleep, and other events mostly wake the lane first.
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
