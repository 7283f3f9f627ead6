//! One end of one stream: both directions, all of its lanes.
//!
//! The driver calls [`Session::lane_up`] when a lane has joined, and [`Session::lane_down`]
//! when it has ended. In between, the lane's [protocol](crate::lane) makes all calls for it. One
//! task for all lanes calls [`Session::handle_timeout`] at the time that
//! [`Session::poll_timeout`] names, and takes the [events](Session::poll_event).
//!
//! The application writes, finishes, reads. **After each call, the driver wakes every lane and task
//! that [`Session::take_wakes`] names**: so written bytes find an idle lane, and a window that
//! opens finds the writer.
//!
//! # Parts
//! [`Session`] routes calls, frames and timeouts between its parts. A part keeps its fields to
//! itself, takes values, and returns its outcome; no part knows the session.
//! - `receive_stream`: what has arrived, in which form, and the window; the `scheduler` has all
//!   that this end sends;
//! - `lanes`: which lanes are up, idle, to wake or to stand by. A `lane` is made of an
//!   `acknowledger`, its `leave`, its `health`, the probes of an `unused` lane, and a clock;
//! - `paths`: how lanes ended, and which of them the peer refuses; `outage`: for how long no lane
//!   delivers;
//! - `standstill`: whether the stream makes progress; `stalls`: its time by cause;
//! - `ending`: how the stream ends, or has failed.
//!
//! The calls are in `application` and `messages`, `frames`, `membership`, `timeouts` and `stats`.

mod acknowledger;
mod application;
mod datagrams;
mod ending;
mod event;
mod failure;
#[cfg(test)]
pub(crate) mod fixture;
mod frames;
mod health;
mod lane;
mod lanes;
mod leave;
mod many;
mod membership;
mod messages;
mod numbers;
mod outage;
mod paths;
mod progress;
mod receive_stream;
mod receive_streams;
mod stalls;
mod standstill;
mod stats;
mod timeouts;
mod unused;
mod wakes;

use crate::{
    chunk::Chunk,
    parameters::TransportParameters,
    policy::{StripePolicy, Traced},
    record::Record,
    scheduler::{Scheduler, Unsent},
    stream_number::{Side, StreamNumber},
    violation::Violation,
    wire::FRAME_LEN,
};
pub use crate::{
    link::LinkSample,
    reassembler::Admission,
    scheduler::{ByteCount, LaneTraits, Reissued},
};
pub use datagrams::LONGEST_DATAGRAM;
use ending::Ending;
pub(crate) use ending::FAREWELL;
pub use event::{Event, EventKind, StallCause};
pub use failure::Failure;
pub use lane::LaneTimeouts;
use lanes::Lanes;
use many::Many;
pub use many::Opened;
pub use membership::LaneUpError;
pub use messages::NotForMessages;
use outage::Outage;
use paths::Paths;
pub use paths::{LaneEnd, Refused};
pub use progress::{LaneProgress, LaneState};
use receive_stream::ReceiveStream;
use receive_streams::ReceiveStreams;
use serde::Serialize;
use stalls::Clocks;
pub use stalls::{LaneTimes, Stalls};
use standstill::Standstill;
pub use standstill::StandstillCause;
pub use stats::{LaneConnectionStats, Reordered, SessionStats, WindowUse};
use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};
pub(crate) use wakes::NEEDS_NO_ROOM;
pub use wakes::{StreamWake, Wakes};

/// A lane's slot at this end of its stream, below [`MAX_LANES`](crate::parameters::MAX_LANES): the
/// lowest that was free when the lane joined. When the lane has ended, a later lane gets the slot.
/// Scheduler, policy and record know a lane by its slot. [`LaneTraits::number`] stays the same in
/// all of a lane's connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct LaneId(pub usize);

/// The settings of one end of a stream.
#[derive(Debug, Clone, Copy)]
pub struct Config {
    /// The longest chunk that this end sends, in bytes; the peer may ask for shorter ones.
    pub longest_chunk: usize,
    /// The number of bytes that may wait for a lane.
    pub send_buffer: usize,
    /// How far behind the first byte that the peer has not acknowledged this end may send, even if
    /// the peer's window is larger: this end keeps these bytes, and the peer chooses both its
    /// window and when it acknowledges.
    pub max_unacknowledged: u64,
    /// The parameters that this end tells its peer. The session has many streams if both ends'
    /// parameters speak of streams.
    pub parameters: TransportParameters,
    /// This end: whether it opened the session.
    pub side: Side,
    /// How long the stream waits without a usable lane before it fails, however it lost the last
    /// one.
    pub outage_limit: Duration,
    /// For how long the lanes still deliver written bytes after the application has dropped the
    /// stream.
    pub linger: Duration,
}

/// One end of one stream. The [module](self) describes how a driver uses it.
#[derive(Debug)]
pub struct Session {
    scheduler: Scheduler,
    receiving: ReceiveStreams,
    /// The numbers of streams and the like, if the session has many.
    many: Option<Box<Many>>,
    lanes: Lanes,
    ending: Ending,
    outage: Outage,
    paths: Paths,
    events: VecDeque<Event>,
    wakes: Wakes,
    clocks: Clocks,
    standstill: Standstill,
    /// The calls of one driver that are as one, while it makes them.
    turn: Option<Turn>,
    /// The most bytes of the peer's window in use so far.
    max_window_used: u64,
}

/// What a turn of calls leaves to its end.
#[derive(Debug, Clone, Copy, Default)]
struct Turn {
    /// There may be work for lanes.
    has_work: bool,
    /// The clocks and the watch for a standstill have not seen the latest state.
    is_unobserved: bool,
}

/// The next step of a lane with room.
#[derive(Debug, PartialEq, Eq)]
pub enum Transmit {
    /// Send the appended control frames, then this chunk if there is one.
    Send(Option<Chunk>),
    /// Nothing to send until the stream wakes the lane, or an
    /// [acknowledgement](LaneTimeouts::acknowledge) is due.
    Idle,
    /// Nothing more to send at all: close the sending side, and read on until the peer has closed
    /// its own.
    Close,
}

impl Session {
    /// Creates one end of a stream, without lanes. `policy` shares its bytes out among the lanes;
    /// `theirs` are the peer's parameters.
    pub fn new(config: Config, policy: Box<dyn StripePolicy>, theirs: TransportParameters) -> Self {
        let longest_chunk = config.longest_chunk.min(theirs.longest_chunk as usize);
        let Config { send_buffer, max_unacknowledged, .. } = config;
        let mut scheduler = Scheduler::new(policy, longest_chunk, send_buffer, max_unacknowledged, theirs.window);
        let mut receiving = ReceiveStreams::new(config.parameters);
        let (ours, of_peer) = (config.parameters.stream_parameters(), theirs.stream_parameters());
        let many = ours.zip(of_peer).map(|(ours, of_peer)| Many::new(config.side, ours, of_peer));
        if many.is_none() {
            scheduler.open(StreamNumber::FIRST, u64::MAX);
            receiving.open(StreamNumber::FIRST, config.parameters.window);
        }
        Self {
            scheduler,
            receiving,
            many,
            lanes: Lanes::default(),
            ending: Ending::new(config.linger),
            outage: Outage::new(config.outage_limit),
            paths: Paths::default(),
            events: VecDeque::new(),
            wakes: Wakes::default(),
            clocks: Clocks::default(),
            standstill: Standstill::default(),
            turn: None,
            max_window_used: 0,
        }
    }

    /// Keeps the newest `capacity` scheduling decisions of this end from here on; see
    /// [`record`](crate::record).
    pub fn record_decisions(&mut self, capacity: usize) {
        self.scheduler.record_decisions(capacity);
    }

    /// Takes the decisions since the last call. `None` if this end keeps none.
    pub fn take_record(&mut self) -> Option<Record> {
        self.scheduler.take_record()
    }

    /// Calls `act`, and returns the decisions that it made, for the log.
    pub fn traced<T>(&mut self, act: impl FnOnce(&mut Self) -> T) -> (T, Vec<Traced>) {
        self.scheduler.trace();
        let result = act(self);
        (result, self.scheduler.take_traced())
    }

    /// This end's window.
    pub fn window(&self) -> u64 {
        self.receiving.window()
    }

    /// The memory of bytes that have arrived or begun to arrive, and that the application has not
    /// read: at most the window, and the overhead of each chunk.
    pub fn memory_held(&self) -> u64 {
        self.receiving.memory_held()
    }

    /// The lanes and tasks to wake since the last call.
    #[must_use = "the lanes and tasks that it names wait for a wake"]
    pub fn take_wakes(&mut self) -> Wakes {
        self.wakes.supervisor |= self.standstill.take_new_check();
        self.wakes.take_with(self.lanes.take_wakes())
    }

    /// As [`take_wakes`](Self::take_wakes), without the lanes that are to stand by and without a
    /// timer of the stream, which a later call names: for a driver that lets a lane send at
    /// once, after which the stream may not need them.
    #[must_use = "the lanes and tasks that it names wait for a wake"]
    pub fn take_urgent_wakes(&mut self) -> Wakes {
        self.wakes.take_with(self.lanes.take_urgent_wakes())
    }

    /// Whether [`take_urgent_wakes`](Self::take_urgent_wakes) has left wakes to a later call.
    pub fn has_later_wakes(&self) -> bool {
        self.standstill.has_new_check() || self.lanes.have_standing_by()
    }

    /// Begins a turn of calls by one driver: until its [end](Self::end_turn), calls wake no lane
    /// for work, and the clocks stand still. In it the application writes, and a lane asks what
    /// there is; or a lane takes what has arrived together.
    pub fn begin_turn(&mut self) {
        self.turn = Some(Turn::default());
    }

    /// Ends a turn of calls: wakes lanes for the work that is left, if there was any.
    pub fn end_turn(&mut self, now: Instant) {
        let Some(turn) = self.turn.take() else { return };
        if turn.has_work {
            self.wake_for_work(now);
        }
        if turn.is_unobserved {
            self.observe(now);
        }
    }

    /// Whether `lane` has room and found nothing to send when it last asked.
    pub fn is_idle(&self, lane: LaneId) -> bool {
        self.lanes[lane].is_idle()
    }

    /// Whether the stream has failed.
    fn has_failed(&self) -> bool {
        self.ending.has_failed()
    }

    /// Whether the stream has failed, or both directions have come to their end.
    fn is_over(&self) -> bool {
        self.has_failed() || self.is_done()
    }

    /// Whether this end takes no more of the bytes that still arrive.
    fn takes_nothing(&self) -> bool {
        self.has_failed() || self.only().is_some_and(ReceiveStream::refuses)
    }

    fn is_receiving_over(&self) -> bool {
        self.only().is_some_and(|only| only.is_complete() || only.refuses())
    }

    /// The time to linger is over.
    fn end_lingering(&mut self, now: Instant) {
        if self.many.is_none() && self.is_sending_over() {
            self.refuse(0);
        } else {
            self.fail(now, Failure::Dropped);
        }
    }

    fn is_done_without_lanes(&self) -> bool {
        self.is_done() && !self.has_failed() && !self.lanes.is_any_up()
    }

    /// Wakes as many idle lanes as there is work for, and the writer if there is room.
    fn wake_for_work(&mut self, now: Instant) {
        let only = self.scheduler.streams().unsent(StreamNumber::FIRST).filter(|_| self.many.is_none());
        self.wakes.writer |= only.is_some_and(Unsent::is_writer_worth_waking);
        match &mut self.turn {
            Some(turn) => turn.has_work = true,
            None => self.lanes.wake_for_work(now, &mut self.scheduler),
        }
    }

    fn or_fail<T>(&mut self, now: Instant, result: Result<T, Violation>) -> Result<T, Violation> {
        if let Err(violation) = &result
            && !self.has_failed()
        {
            self.fail(now, Failure::Violation(violation.clone()));
        }
        result
    }

    fn fail(&mut self, now: Instant, failure: Failure) {
        self.ending.fail(failure);
        self.abandon(now);
        self.wakes.supervisor = true;
        self.wakes.reader = true;
        self.wakes.writer = true;
        self.wake_all_tasks();
        self.lanes.wake_all();
    }
}

/// The length of a control frame, so that a driver can size its buffer.
pub const CONTROL_LEN: usize = FRAME_LEN;
