//! The driver of one lane: moves frames between it and its stream's state machine.

use super::{
    io::receive_ready,
    pool::ChunkBuffer,
    record::LaneRecord,
    shared::{Joined, NoLane, Shared},
    turn::Turn,
};
use crate::{RailId, StreamOptions, error::LaneError};
use bytes::Bytes;
use futures_util::{StreamExt, stream::FuturesUnordered};
use rails_net::{Lane, TransportStats};
use rails_proto::{
    connection::{Connection, LaneEnd, LaneId},
    lane::{Closing, Next, Progress, Received, Receiver, Sender, Stream, TransportSample},
    messages::MessageBuffer,
    scheduler::LaneTraits,
    seal::{Opener, Sealer, Seals},
};
use rails_topo::{DataSize, NodeId};
use std::{
    cell::Cell,
    future::{pending, poll_fn},
    io,
    pin::{Pin, pin},
    sync::Arc,
    task::{Poll, ready},
    time::{Duration, Instant},
};
use tokio::{
    sync::Notify,
    task::coop,
    time::{Sleep, sleep, sleep_until},
};

/// Drives one lane that has joined, whatever its transport.
pub(crate) struct LaneDriver {
    pub(crate) shared: Arc<Shared>,
    pub(crate) id: LaneId,
    pub(crate) record: Arc<LaneRecord>,
    /// Told that there is something to send.
    pub(crate) notify: Arc<Notify>,
    /// Told that the lane is to be looked at earlier than was said.
    pub(crate) timer: Arc<Notify>,
    /// Told that another connection has taken the lane's place.
    pub(crate) replaced: Arc<Notify>,
    /// Told that the lane has fallen silent.
    pub(crate) silenced: Arc<Notify>,
    pub(crate) lane: Arc<dyn Lane>,
    /// What seals and opens its frames, where they are sealed.
    pub(crate) seals: Option<Seals>,
    /// The node that the thread which drives it has its pages from, where that is known.
    pub(super) node: Option<NodeId>,
    /// Whether large messages are interleaved over the nodes of the rails in use.
    pub(super) interleaved: bool,
    /// How long the lane may outlive what the application wants of it.
    pub(crate) linger: Duration,
    /// When what has arrived is to be acknowledged, as the state machine said last.
    pub(super) acknowledge_at: Cell<Option<Instant>>,
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
        let Joined { id, record, notify, timer, replaced, silenced } = loop {
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
            record,
            notify,
            timer,
            replaced,
            silenced,
            lane,
            seals,
            node,
            interleaved: options.interleaved_messages,
            linger: options.linger,
            acknowledge_at: Cell::new(None),
            end: Err(LaneError::RailStopped),
        })
    }

    /// Drives the lane to its end, and says what that means for who dials it. Runs on the lane's rail.
    pub(crate) async fn run(mut self) -> Ended {
        let seals = self.seals.take();
        self.end = self.drive(seals).await;
        if self.shared.with(|state| state.connection.is_leaving(self.id)) {
            return Ended::Left;
        }
        match &self.end {
            Err(LaneError::Replaced) => Ended::Replaced,
            Err(error) if error.end() == LaneEnd::ByPeer => Ended::ByPeer,
            _ => Ended::Otherwise,
        }
    }

    async fn drive(&self, seals: Option<Seals>) -> Result<(), LaneError> {
        let (sealer, opener) = seals.map(|seals| (seals.sealer, seals.opener)).unzip();
        let mut receive = pin!(self.receive(opener));
        let mut transmit = pin!(self.transmit(sealer));
        // What seldom happens is polled only when it does, and not with every frame.
        let mut guards: FuturesUnordered<Guard<'_>> =
            [Box::pin(self.watch()) as Guard<'_>, Box::pin(self.replacement()), Box::pin(self.lingering())]
                .into_iter()
                .collect();
        let mut closing = Closing::new(self.id);
        loop {
            let ended = tokio::select! {
                biased;
                end = &mut receive, if closing.is_receiving() => closing.received(Instant::now(), &mut &*self, end),
                end = &mut transmit, if closing.is_sending() => {
                    if end.is_ok() && self.shared.with(|state| state.connection.failure().is_some()) {
                        // Nothing more will come of this stream, so its lanes wait no longer than for one that was dropped.
                        self.shared.abandoned.send_replace(true);
                    }
                    closing.sent(end)
                }
                () = reached(closing.poll_timeout()) => closing.handle_timeout(Instant::now()),
                Some(end) = guards.next() => Some(Err(end)),
            };
            if let Some(end) = ended {
                return end;
            }
        }
    }

    /// Ends when another connection has taken the lane's place.
    async fn replacement(&self) -> LaneError {
        self.replaced.notified().await;
        LaneError::Replaced
    }

    /// Ends when the application has long been gone.
    async fn lingering(&self) -> LaneError {
        let mut abandoned = self.shared.abandoned.subscribe();
        // The channel lives as long as `self.shared`, so waiting for it cannot fail.
        let _ = abandoned.wait_for(|abandoned| *abandoned).await;
        // At the end of that the other end is told, which takes a moment.
        sleep(self.linger + Closing::FAREWELL).await;
        LaneError::Lingering
    }

    /// Has the lane looked at whenever its stream says so. It does not end.
    async fn watch(&self) -> LaneError {
        let mut progress = Progress::new(self.id);
        loop {
            tokio::select! {
                () = self.timer.notified() => continue,
                () = reached(progress.poll_timeout(&mut &*self)) => {}
            }
            let sample = self.lane.stats().map(|stats| sample(&stats)).unwrap_or_default();
            progress.handle_timeout(Instant::now(), &mut &*self, &sample);
        }
    }

    /// Sends whatever the stream gives this lane, and closes the sending side when there will be no more.
    async fn transmit(&self, sealer: Option<Sealer>) -> Result<(), LaneError> {
        let most_unsent = self.lane.most_unsent().map(DataSize::as_bytes);
        let mut sender = Sender::new(self.id, sealer, most_unsent);
        let mut alarm = pin!(sleep(Duration::ZERO));
        loop {
            if sender.needs_room() {
                poll_fn(|context| self.lane.poll_room(context)).await?;
            }
            let next = sender.next(Instant::now(), &mut &*self);
            self.acknowledge_at.set(sender.acknowledge_at());
            match next {
                Next::Submit { unsent_limit } => {
                    if let Some(bytes) = unsent_limit {
                        self.lane.limit_unsent(DataSize::bytes(bytes))?;
                    }
                    self.submit(&mut sender).await?;
                }
                Next::Idle => self.rest(alarm.as_mut()).await,
                Next::Close => return Ok(self.lane.close_write()?),
            }
        }
    }

    /// Has the connection take what is outgoing, waiting as often as it takes.
    async fn submit(&self, sender: &mut Sender) -> io::Result<()> {
        coop::consume_budget().await;
        while !sender.is_submitted() {
            let (control, payload) = sender.outgoing();
            match self.lane.try_submit(control, payload) {
                Ok(bytes) => {
                    if let Some(length) = sender.submitted(bytes) {
                        self.record.sent.count(1, length.into());
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    poll_fn(|context| self.lane.poll_submit_ready(context)).await?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Waits until the lane is woken, or what has arrived is to be acknowledged.
    async fn rest(&self, mut alarm: Pin<&mut Sleep>) {
        let mut woken = pin!(self.notify.notified());
        poll_fn(|context| {
            if woken.as_mut().poll(context).is_ready() {
                return Poll::Ready(());
            }
            // The time changes with what arrives, which the same task takes in before it comes here.
            while let Some(at) = self.acknowledge_at.get().map(tokio::time::Instant::from) {
                // One timer that is set anew only for an earlier time: setting one costs two system calls when the runtime is about to sleep.
                if alarm.is_elapsed() || alarm.deadline() > at {
                    alarm.as_mut().reset(at);
                }
                ready!(alarm.as_mut().poll(context));
                if alarm.deadline() >= at {
                    return Poll::Ready(());
                }
            }
            Poll::Pending
        })
        .await;
    }

    /// Takes whatever arrives, up to the peer's close.
    async fn receive(&self, opener: Option<Opener>) -> Result<(), LaneError> {
        let mut receiver = Receiver::new(self.id, opener);
        let mut turn = Turn::new();
        loop {
            match receiver.receive(Instant::now(), &mut &*self, |buffers| self.lane.try_receive(buffers))? {
                Received::Some { chunks, bytes } => {
                    if chunks > 0 {
                        self.record.received.count(chunks, bytes);
                        self.acknowledge_at.set(receiver.acknowledge_at());
                    }
                    self.shared.buffers.make_room();
                    turn.spend(bytes).await;
                    // A lane that always has something must not keep its rail from its other tasks.
                    coop::consume_budget().await;
                }
                Received::Nothing => receive_ready(&*self.lane).await?,
                Received::End => return Ok(()),
            }
        }
    }
}

/// What a lane has of its stream: the lock's inside, and memory on its rail's node.
impl Stream for &LaneDriver {
    type Buffer = ChunkBuffer;

    fn with<T>(&mut self, act: impl FnOnce(&mut Connection) -> T) -> T {
        self.shared.with(|state| act(&mut state.connection))
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

/// How a lane ended, as far as it matters for dialling it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// It was taken out of the stream.
    Left,
    /// Another connection takes its place.
    Replaced,
    /// The peer's kernel closed or reset it: a new connection gets through at once, or is refused.
    ByPeer,
    /// In any other way.
    Otherwise,
}

/// One of the things that a lane is watched for, and how it ends for that.
type Guard<'a> = Pin<Box<dyn Future<Output = LaneError> + 'a>>;

/// However a lane ends, its stream gets to know.
impl Drop for LaneDriver {
    fn drop(&mut self) {
        self.shared.lane_down(self.id, &self.lane, std::mem::replace(&mut self.end, Ok(())));
    }
}

/// What the transport says, in the protocol's words.
fn sample(stats: &TransportStats) -> TransportSample {
    TransportSample {
        rtt: stats.rtt,
        rtt_variation: stats.rtt_variation,
        least_rtt: stats.least_rtt,
        bytes_acknowledged: stats.bytes_acknowledged,
        since_acknowledgement: stats.since_acknowledgement,
        unacknowledged_packets: stats.unacknowledged_packets,
    }
}

/// Waits until then; for ever where nobody says when.
async fn reached(time: Option<Instant>) {
    match time {
        Some(at) => sleep_until(at.into()).await,
        None => pending().await,
    }
}
