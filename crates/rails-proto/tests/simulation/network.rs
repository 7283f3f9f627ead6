//! A lane as the simulation sees it: two pipes, each reliable and in order, with a rate, a delay and a bounded buffer.

use bytes::{Bytes, BytesMut};
use rails_proto::lane::TransportSample;
use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// What a lane is made of, the same in both directions.
#[derive(Debug, Clone)]
pub(crate) struct LaneSpec {
    /// Bits per second; 0 carries nothing and says nothing.
    pub(crate) rate: u64,
    /// From the last bit sent to the last bit received.
    pub(crate) delay: Duration,
    /// How many bytes may be unsent or on their way.
    pub(crate) buffer: usize,
    /// The round trip that the handshake measured, where that is another.
    pub(crate) seems: Option<Duration>,
    /// When it opens.
    pub(crate) opens: Duration,
    /// At which time the rate becomes what.
    pub(crate) changes: Vec<(Duration, u64)>,
    /// When it breaks, and how long either end takes to find out.
    pub(crate) breaks: Option<(Duration, [Duration; 2])>,
    /// How long after it has found out the first end has dialled a lane like it that does not break.
    pub(crate) returns: Option<Duration>,
    /// What the lane is like that is dialled then, at the times of the whole run, where it is not as this one was at the start.
    pub(crate) returns_as: Option<Box<LaneSpec>>,
    /// When nothing gets through, for how long, and how that comes.
    pub(crate) stops: Vec<(Duration, Duration, Stop)>,
    /// When which end takes it out of the stream.
    pub(crate) leaves: Option<(Duration, usize)>,
}

/// Why nothing gets through for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// What this end sends is lost on its way, and nobody is told.
    OneWay(usize),
    /// What either end sends is.
    BothWays,
    /// The link is down at this end, which is told.
    LinkDown(usize),
}

/// One direction of a lane.
#[derive(Debug)]
pub(crate) struct Pipe {
    rate: u64,
    delay: Duration,
    buffer: usize,
    unsent: VecDeque<Parcel>,
    /// What is being sent, and when its last bit will be.
    sending: Option<(Instant, Parcel)>,
    /// What is on its way, and when it arrives.
    transit: VecDeque<(Instant, Parcel)>,
    held: usize,
    broken: bool,
    /// How many bytes have been acknowledged, and when the last were.
    acknowledged: u64,
    progress: Option<Instant>,
    /// How many of its stops are not over.
    stopped: u32,
    /// How many stops keep the acknowledgements from coming back, and the bytes that have arrived meanwhile.
    unheard: u32,
    arrived_unheard: usize,
    /// How long a piece takes from being sent to being acknowledged, as it was when one last was.
    round_trip: Duration,
}

/// What travels.
#[derive(Debug)]
pub(crate) enum Parcel {
    Bytes(Bytes),
    /// The sending side was closed.
    End,
}

impl LaneSpec {
    /// A lane that is there from the start and stays as it is.
    pub(crate) fn steady(megabits: u64, delay: Duration, buffer: usize) -> Self {
        Self {
            rate: megabits * 1_000_000,
            delay,
            buffer,
            seems: None,
            opens: Duration::ZERO,
            changes: Vec::new(),
            breaks: None,
            returns: None,
            returns_as: None,
            stops: Vec::new(),
            leaves: None,
        }
    }

    /// Whether it carries a stream to its end, whatever `others` do: it is up at both ends before one of them breaks or leaves, and
    /// stops for less than the stream waits.
    pub(crate) fn endures(&self, others: &[Self], outage_limit: Duration) -> bool {
        let in_time = |other: &Self| {
            other.breaks.is_none_or(|(at, _)| at > self.delay) && other.leaves.is_none_or(|(at, _)| at > self.delay)
        };
        self.opens.is_zero()
            && self.breaks.is_none()
            && self.leaves.is_none()
            && !self.is_stalled_in_the_end()
            && others.iter().all(in_time)
            && self.longest_standstill() < outage_limit
    }

    /// A bound for how long it may look as if it carried nothing.
    fn longest_standstill(&self) -> Duration {
        let stops: Duration = self.stops.iter().map(|(_, time, _)| *time).sum();
        // Until the last change it may have no rate, and when it goes on, a full buffer of the slowest lanes takes a second or two.
        let changes = self.changes.iter().map(|(at, _)| *at).max().unwrap_or_default();
        stops + changes + SLOWEST
    }

    /// Whether it ends up carrying nothing.
    pub(crate) fn is_stalled_in_the_end(&self) -> bool {
        self.changes.iter().max_by_key(|(at, _)| *at).map_or(self.rate, |(_, rate)| *rate) == 0
    }
}

impl Pipe {
    pub(crate) fn new(spec: &LaneSpec) -> Self {
        Self {
            rate: spec.rate,
            delay: spec.delay,
            buffer: spec.buffer,
            unsent: VecDeque::new(),
            sending: None,
            transit: VecDeque::new(),
            held: 0,
            broken: false,
            acknowledged: 0,
            progress: None,
            stopped: 0,
            unheard: 0,
            arrived_unheard: 0,
            round_trip: 2 * spec.delay,
        }
    }

    /// Whether a writer that waits for room would be woken: like the kernel's, once a third of the buffer is free.
    pub(crate) fn has_room(&self) -> bool {
        self.held <= self.buffer / 3 * 2
    }

    /// Takes from the front what there is room for, and says how much that is.
    pub(crate) fn submit(&mut self, now: Instant, control: &[u8], payload: &[Bytes]) -> usize {
        // The last piece may go beyond the buffer.
        let most = self.buffer.saturating_sub(self.held).next_multiple_of(PIECE);
        let mut bytes = BytesMut::new();
        for slice in std::iter::once(control).chain(payload.iter().map(|slice| &slice[..])) {
            bytes.extend_from_slice(&slice[..slice.len().min(most - bytes.len())]);
        }
        let mut taken = 0;
        while self.held < self.buffer && !bytes.is_empty() {
            let piece = bytes.split_to(bytes.len().min(PIECE)).freeze();
            taken += piece.len();
            self.held += piece.len();
            self.unsent.push_back(Parcel::Bytes(piece));
        }
        self.start(now);
        taken
    }

    /// Nothing follows.
    pub(crate) fn close(&mut self, now: Instant) {
        self.unsent.push_back(Parcel::End);
        self.start(now);
    }

    pub(crate) fn set_rate(&mut self, now: Instant, rate: u64) {
        self.rate = rate;
        self.start(now);
    }

    /// Nothing that is sent gets through, until it does again; what was sent meanwhile is sent again then.
    pub(crate) fn stop(&mut self, now: Instant, stops: bool) {
        if stops {
            self.stopped += 1;
            // What was on its way is lost with what follows.
            let lost = self.transit.drain(..).chain(self.sending.take()).map(|(_, parcel)| parcel);
            for parcel in lost.collect::<Vec<_>>().into_iter().rev() {
                self.unsent.push_front(parcel);
            }
        } else {
            self.stopped -= 1;
            self.start(now);
        }
    }

    /// Nothing is heard of what arrives, until it is again.
    pub(crate) fn stop_hearing(&mut self, now: Instant, stops: bool) {
        if stops {
            self.unheard += 1;
        } else {
            self.unheard -= 1;
            if self.unheard == 0 && self.arrived_unheard > 0 {
                let length = std::mem::take(&mut self.arrived_unheard);
                self.held -= length;
                self.acknowledged += length as u64;
                self.progress = Some(now);
            }
        }
    }

    /// Loses everything; nothing arrives from here on, and the sender is not told.
    pub(crate) fn break_down(&mut self) {
        self.broken = true;
        self.unsent.clear();
        self.transit.clear();
        self.sending = None;
    }

    /// What a transport would say of it.
    pub(crate) fn sample(&self, now: Instant) -> TransportSample {
        TransportSample {
            rtt: Some(self.round_trip),
            rtt_variation: Some(Duration::ZERO),
            least_rtt: Some(self.round_trip),
            bytes_acknowledged: Some(self.acknowledged),
            since_acknowledgement: self.progress.map(|at| now.saturating_duration_since(at)),
            unacknowledged_packets: Some((self.held > 0).into()),
        }
    }

    /// When something happens next.
    pub(crate) fn next_event(&self) -> Option<Instant> {
        let sent = self.sending.as_ref().map(|(at, _)| *at);
        let arrives = self.transit.front().map(|(at, _)| *at);
        [sent, arrives].into_iter().flatten().min()
    }

    /// What has arrived by now.
    pub(crate) fn arrivals(&mut self, now: Instant) -> Vec<Parcel> {
        while let Some((at, parcel)) = self.sending.take_if(|(at, _)| *at <= now) {
            self.transit.push_back((at + self.delay, parcel));
            self.start(at);
        }
        let count = self.transit.iter().take_while(|(at, _)| *at <= now).count();
        let arrived: Vec<Parcel> = self.transit.drain(..count).map(|(_, parcel)| parcel).collect();
        let length = arrived.iter().map(Parcel::len).sum::<usize>();
        if self.unheard > 0 {
            self.arrived_unheard += length;
            return arrived;
        }
        if !arrived.is_empty() {
            self.progress = Some(now + self.delay);
            // One that has stopped meanwhile leaves it as it was.
            if let Some(nanoseconds) = (PIECE as u64 * 8_000_000_000).checked_div(self.rate) {
                self.round_trip = 2 * self.delay + Duration::from_nanos(nanoseconds);
            }
        }
        self.held -= length;
        self.acknowledged += length as u64;
        arrived
    }

    fn start(&mut self, now: Instant) {
        if self.broken || self.rate == 0 || self.stopped > 0 || self.sending.is_some() {
            return;
        }
        if let Some(parcel) = self.unsent.pop_front() {
            let nanoseconds = parcel.len() as u64 * 8 * 1_000_000_000 / self.rate;
            self.sending = Some((now + Duration::from_nanos(nanoseconds), parcel));
        }
    }
}

impl Parcel {
    fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::End => 0,
        }
    }
}

/// A piece and its acknowledgement on the slowest and longest of lanes, several times over.
const SLOWEST: Duration = Duration::from_secs(2);
/// How many bytes travel together: so few that a frame arrives piece by piece, so many that a run has few events.
pub(crate) const PIECE: usize = 8 << 10;
