//! The driver of one lane: moves frames between it and its stream's state machine.

use super::{
    io::{receive, send_all},
    record::LaneRecord,
    shared::{Joined, NoLane, Shared},
    turn::Turn,
};
use crate::{RailId, StreamOptions, error::LaneError};
use futures_util::{StreamExt, stream::FuturesUnordered};
use rails_net::{Lane, TransportStats};
use rails_proto::{
    chunk::{Chunk, Content},
    connection::{CONTROL_LEN, Connection, LaneEnd, LaneId, LinkSample, NEEDS_NO_ROOM, Transmit},
    scheduler::LaneTraits,
    seal::{Opener, SEALED_FRAME_LEN, Sealer, Seals, TAG_LEN},
    violation::Violation,
    wire::{DataHeader, FRAME_LEN, Frame, FrameError},
};
use rails_topo::{DataSize, NodeId};
use std::{
    cell::Cell,
    future::{pending, poll_fn},
    io::{self, IoSliceMut},
    pin::{Pin, pin},
    sync::Arc,
    task::{Poll, ready},
    time::{Duration, Instant},
};
use tokio::{
    sync::Notify,
    time::{Sleep, sleep, sleep_until, timeout},
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
        let (mut received, mut transmitted) = (false, false);
        while !(received && transmitted) {
            tokio::select! {
                biased;
                end = &mut receive, if !received => {
                    if matches!(end, Err(LaneError::Violation(_))) && !transmitted {
                        // The other end is told on this lane too, as far as it still listens.
                        let _ = timeout(FAREWELL, &mut transmit).await;
                    }
                    end?;
                    received = true;
                    if !transmitted && !self.may_close() {
                        return Err(LaneError::Closed);
                    }
                }
                end = &mut transmit, if !transmitted => {
                    end?;
                    transmitted = true;
                    if self.shared.with(|state| state.connection.failure().is_some()) {
                        // Nothing more will come of this stream, so its lanes wait no longer than for one that was dropped.
                        self.shared.abandoned.send_replace(true);
                    }
                }
                Some(end) = guards.next() => return Err(end),
            }
        }
        Ok(())
    }

    /// Whether the other end may close its side: the stream has come to its end, one way or the other, or the lane is taken out of it.
    fn may_close(&self) -> bool {
        self.shared.with(|state| state.is_over() || state.connection.is_leaving(self.id))
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
        sleep(self.linger + FAREWELL).await;
        LaneError::Lingering
    }

    /// Looks whether the lane makes progress, whenever the state machine says. It does not end.
    async fn watch(&self) -> LaneError {
        let mut pulse = Pulse::default();
        loop {
            let look_at = self.shared.with(|state| state.connection.look_at(self.id));
            let time = async {
                match look_at {
                    Some(at) => sleep_until(at.into()).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                () = self.timer.notified() => continue,
                () = time => {}
            }
            let now = Instant::now();
            // A transport that does not say is no reason to take the lane for silent.
            let sample = self.lane.stats().map(|stats| pulse.sample(now, &stats)).unwrap_or_default();
            self.shared.with(|state| state.connection.look(now, self.id, &sample));
        }
    }

    /// Sends whatever the state machine gives this lane, and closes the sending side when there will be no more.
    async fn transmit(&self, mut sealer: Option<Sealer>) -> Result<(), LaneError> {
        let mut control = Vec::with_capacity(5 * CONTROL_LEN);
        let mut backlog = Backlog::of(&*self.lane);
        let mut in_flight = 0;
        let mut alarm = pin!(sleep(Duration::ZERO));
        loop {
            // A chunk is bound to this lane when it is taken, so none is before there is room for it. What is not even in flight does not wait in
            // the lane, so that a little there needs no asking.
            if in_flight >= NEEDS_NO_ROOM {
                poll_fn(|context| self.lane.poll_room(context)).await?;
            }
            control.clear();
            let now = Instant::now();
            let (transmit, chunk_length);
            (transmit, chunk_length, in_flight) = self.shared.with(|state| {
                let connection = &mut state.connection;
                let transmit = connection.poll_transmit(now, self.id, &mut control);
                self.acknowledge_at.set(connection.acknowledge_at(self.id));
                let in_flight = connection.in_flight(self.id);
                let is_much = in_flight >= NEEDS_NO_ROOM && matches!(transmit, Transmit::Send(Some(_)));
                (transmit, is_much.then(|| connection.chunk_length(self.id)), in_flight)
            });
            match transmit {
                Transmit::Send(chunk) => {
                    if let Some(chunk_length) = chunk_length {
                        backlog.follow(&*self.lane, chunk_length)?;
                    }
                    let (length, payload) = match chunk {
                        Some(Chunk { offset, payload, length, fin, content }) => {
                            if let Some(frame) = Frame::of_content(content) {
                                control.extend_from_slice(&frame.encode());
                            }
                            // What is sealed has a tag, which is stronger than a checksum.
                            let header = if sealer.is_some() {
                                DataHeader { offset, length, fin, checksum: 0 }
                            } else {
                                DataHeader::of(offset, &payload, fin)
                            };
                            control.extend_from_slice(&Frame::Data(header).encode());
                            (Some(length), payload)
                        }
                        None => (None, Vec::new()),
                    };
                    match &mut sealer {
                        Some(sealer) => {
                            let sealed = sealer.seal(&control, &payload);
                            send_all(&*self.lane, sealed, Vec::new()).await?;
                        }
                        None => send_all(&*self.lane, &control, payload).await?,
                    }
                    if let Some(length) = length {
                        self.record.sent.count(length);
                    }
                }
                Transmit::Idle => self.rest(alarm.as_mut()).await,
                Transmit::Close => return Ok(self.lane.close_write()?),
            }
        }
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

    /// Takes whatever arrives, up to the other end's close.
    async fn receive(&self, opener: Option<Opener>) -> Result<(), LaneError> {
        let mut intake = Intake::new(&*self.lane, opener);
        let mut content = Content::Bytes;
        let mut turn = Turn::new();
        while let Some(frame) = intake.frame().await? {
            if content != Content::Bytes && !matches!(frame, Frame::Data(_)) {
                return Err(LaneError::Frame(FrameError::WithoutData));
            }
            match frame {
                Frame::Packet(packet) => content = Content::Packet(packet),
                Frame::Part(part) => content = Content::Part(part),
                Frame::Data(header) if content != Content::Bytes => {
                    self.receive_content(&mut intake, &header, std::mem::take(&mut content)).await?;
                    turn.spend(header.length).await;
                }
                Frame::Data(header) => {
                    // Before memory is spent on it, where that is worth a lock of its own.
                    if header.length >= LITTLE {
                        self.shared.with(|state| state.connection.admit(&header)).map_err(LaneError::Violation)?;
                    }
                    let mut buffer = self.shared.buffers.chunk(self.node, header.length as usize);
                    intake.payload(&header, &mut buffer).await?;
                    let now = Instant::now();
                    let payload = buffer.freeze();
                    self.take_in(|connection| connection.handle_data(now, self.id, &header, payload))?;
                    self.shared.buffers.make_room();
                    self.record.received.count(header.length);
                    turn.spend(header.length).await;
                }
                Frame::Ack(ack) => {
                    let now = Instant::now();
                    self.shared
                        .with(|state| state.connection.handle_ack(now, self.id, &ack))
                        .map_err(LaneError::Violation)?;
                }
                Frame::Leave { drained } => {
                    let now = Instant::now();
                    self.shared.with(|state| state.connection.handle_leave(now, self.id, drained));
                }
                Frame::Stop { read } => {
                    let now = Instant::now();
                    self.shared.with(|state| state.connection.handle_stop(now, read)).map_err(LaneError::Violation)?;
                }
                Frame::Reset(reason) => self.shared.with(|state| state.connection.handle_reset(reason)),
            }
        }
        Ok(())
    }

    /// Has the state machine take in what has arrived, and hears when that is to be acknowledged.
    pub(super) fn take_in(&self, act: impl FnOnce(&mut Connection) -> Result<(), Violation>) -> Result<(), LaneError> {
        let taken = self.shared.with(|state| {
            let taken = act(&mut state.connection);
            self.acknowledge_at.set(state.connection.acknowledge_at(self.id));
            taken
        });
        taken.map_err(LaneError::Violation)
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

/// What was last seen of the connection's progress.
#[derive(Default)]
struct Pulse {
    acknowledged: u64,
    since: Option<Instant>,
}

impl Pulse {
    /// What the transport's figures say of the lane. Acknowledgements that ride on the other end's data keep coming when what this end sends is lost, so
    /// what counts is that they acknowledge more than before.
    fn sample(&mut self, now: Instant, stats: &TransportStats) -> LinkSample {
        let acknowledged = stats.bytes_acknowledged.unwrap_or_default();
        if acknowledged > self.acknowledged || self.since.is_none() {
            self.acknowledged = acknowledged;
            self.since = now.checked_sub(stats.since_acknowledgement.unwrap_or_default()).or(Some(now));
        }
        let waits = stats.unacknowledged_packets.is_some_and(|packets| packets > 0);
        LinkSample {
            rtt: stats.rtt,
            rtt_variation: stats.rtt_variation,
            least_rtt: stats.least_rtt,
            silent_for: self.since.filter(|_| waits).map(|since| now.saturating_duration_since(since)),
        }
    }
}

/// How many bytes may wait unsent in the lane. What waits there is bound to its lane, so on a slow lane it must be little.
struct Backlog {
    /// What the lane was opened with, which is not exceeded; `None` where there is nothing to be set.
    most: Option<u64>,
    now: u64,
}

impl Backlog {
    fn of(lane: &dyn Lane) -> Self {
        let most = lane.most_unsent().map(DataSize::as_bytes);
        Self { most, now: most.unwrap_or_default() }
    }

    /// Two chunks: one that is being sent, and one so that there is always something to send.
    fn follow(&mut self, lane: &dyn Lane, chunk_length: usize) -> io::Result<()> {
        let Some(most) = self.most else { return Ok(()) };
        let wanted = (2 * chunk_length as u64).min(most);
        // A change is worth a system call when it is a large one.
        if wanted > self.now + self.now / 2 || wanted < self.now / 2 || wanted == most && self.now < most {
            lane.limit_unsent(DataSize::bytes(wanted))?;
            self.now = wanted;
        }
        Ok(())
    }
}

/// Reads a lane: frames into a small buffer, chunks straight into their own, where they are opened if they are sealed.
pub(super) struct Intake<'a> {
    pub(super) lane: &'a dyn Lane,
    opener: Option<Opener>,
    /// Bytes read ahead lie in `ahead[start..end]`.
    ahead: Box<[u8; READ_AHEAD]>,
    start: usize,
    end: usize,
}

impl<'a> Intake<'a> {
    fn new(lane: &'a dyn Lane, opener: Option<Opener>) -> Self {
        Self { lane, opener, ahead: Box::new([0; READ_AHEAD]), start: 0, end: 0 }
    }

    /// The next frame's header; `None` where the other end has closed its side between two frames.
    async fn frame(&mut self) -> Result<Option<Frame>, LaneError> {
        let length = if self.opener.is_some() { SEALED_FRAME_LEN } else { FRAME_LEN };
        while self.end - self.start < length {
            self.ahead.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            let (lane, room) = (self.lane, &mut self.ahead[self.end..]);
            match receive(lane, &mut [IoSliceMut::new(room)]).await? {
                0 if self.end == 0 => return Ok(None),
                0 => return Err(LaneError::Cut { missing: length - self.end }),
                count => self.end += count,
            }
        }
        let header = match &mut self.opener {
            Some(opener) => {
                let sealed = std::array::from_fn(|index| self.ahead[self.start + index]);
                opener.header(&sealed).map_err(LaneError::Seal)?
            }
            None => std::array::from_fn(|index| self.ahead[self.start + index]),
        };
        self.start += length;
        Frame::decode(&header).map(Some).map_err(LaneError::Frame)
    }

    /// Fills `buffer` with the chunk that the header is of, and makes sure that it is the one that was sent.
    pub(super) async fn payload(&mut self, header: &DataHeader, buffer: &mut [u8]) -> Result<(), LaneError> {
        self.fill(buffer).await?;
        let tag = self.tag(header).await?;
        self.check(header, buffer, tag.as_ref())
    }

    /// The tag behind the chunk that the header is of, if there is one.
    pub(super) async fn tag(&mut self, header: &DataHeader) -> Result<Option<[u8; TAG_LEN]>, LaneError> {
        if self.opener.is_none() || header.length == 0 {
            return Ok(None);
        }
        let mut tag = [0; TAG_LEN];
        self.fill(&mut tag).await?;
        Ok(Some(tag))
    }

    /// Makes sure that the chunk is the one that was sent, and opens it if it is sealed.
    pub(super) fn check(
        &mut self,
        header: &DataHeader,
        chunk: &mut [u8],
        tag: Option<&[u8; TAG_LEN]>,
    ) -> Result<(), LaneError> {
        match (&mut self.opener, tag) {
            (Some(opener), Some(tag)) => opener.payload(chunk, tag).map_err(LaneError::Seal),
            (Some(_), None) => Ok(()),
            (None, _) if header.matches(chunk) => Ok(()),
            (None, _) => Err(LaneError::Checksum { offset: header.offset }),
        }
    }

    /// Puts what is there of the bytes that come next into `buffer`, without waiting; how many those are.
    pub(super) fn fill_some(&mut self, buffer: &mut [u8]) -> Result<usize, LaneError> {
        if self.start < self.end {
            let count = buffer.len().min(self.end - self.start);
            buffer[..count].copy_from_slice(&self.ahead[self.start..self.start + count]);
            self.start += count;
            return Ok(count);
        }
        (self.start, self.end) = (0, 0);
        let missing = buffer.len();
        match self.lane.try_receive(&mut [IoSliceMut::new(buffer), IoSliceMut::new(&mut self.ahead[..])]) {
            Ok(0) => Err(LaneError::Cut { missing }),
            Ok(count) => {
                self.end = count.saturating_sub(missing);
                Ok(count.min(missing))
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }

    /// Fills `buffer` with the bytes that come next. What the lane has beyond them is read ahead in the same call.
    pub(super) async fn fill(&mut self, buffer: &mut [u8]) -> Result<(), LaneError> {
        let mut filled = buffer.len().min(self.end - self.start);
        buffer[..filled].copy_from_slice(&self.ahead[self.start..self.start + filled]);
        self.start += filled;
        while filled < buffer.len() {
            // Whatever was read ahead is used up by now.
            (self.start, self.end) = (0, 0);
            let rest = &mut buffer[filled..];
            let missing = rest.len();
            let slices = &mut [IoSliceMut::new(rest), IoSliceMut::new(&mut self.ahead[..])];
            match receive(self.lane, slices).await? {
                0 => return Err(LaneError::Cut { missing }),
                count => {
                    filled += count.min(missing);
                    self.end = count.saturating_sub(missing);
                }
            }
        }
        Ok(())
    }
}

/// Data of fewer bytes is taken from the socket before the state machine is asked.
const LITTLE: u32 = 4 << 10;
/// How long a lane tries to tell the other end that it broke the protocol, or that the stream has lingered for long enough.
pub(super) const FAREWELL: Duration = Duration::from_secs(1);
/// How much is read ahead of a frame: enough for many small frames at once, little enough that copying it out of the way of
/// a large chunk costs nothing to speak of.
const READ_AHEAD: usize = 16 << 10;
