//! A simulated lane: two pipes, each reliable and in order, with a rate, a delay and a bounded
//! buffer.

use bytes::{Bytes, BytesMut};
use rails_proto::{lane::TransportSample, session::LinkSample};
use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// The specification of a lane, the same in both directions.
#[derive(Debug, Clone)]
pub(crate) struct LaneSpec {
    /// Bits per second; at 0 the lane carries nothing and reports no error.
    pub(crate) rate: u64,
    /// The time from the last bit sent to the last bit received.
    pub(crate) delay: Duration,
    /// The most bytes that may be unsent or on their way.
    pub(crate) buffer: usize,
    /// The round trip that the handshake measures, if that differs.
    pub(crate) seems: Option<Duration>,
    /// When the lane opens.
    pub(crate) opens: Duration,
    /// The changes of the rate: times and new rates.
    pub(crate) changes: Vec<(Duration, u64)>,
    /// When the lane breaks, and how long each end takes to find out.
    pub(crate) breaks: Option<(Duration, [Duration; 2])>,
    /// How long the first end takes to dial the lane again after it has found out. The new lane is
    /// like this one, and does not break.
    pub(crate) returns: Option<Duration>,
    /// The specification of the redialled lane, with times of the whole run, if it differs from
    /// this one's at the start.
    pub(crate) returns_as: Option<Box<LaneSpec>>,
    /// The times at which no bytes get through, for how long, and in which way.
    pub(crate) stops: Vec<(Duration, Duration, Stop)>,
    /// When an end takes the lane out of the stream, and which end.
    pub(crate) leaves: Option<(Duration, usize)>,
}

/// A way in which no bytes get through for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The bytes that this end sends are lost on their way, and neither end learns of it.
    OneWay(usize),
    /// The bytes of both ends are lost on their way.
    BothWays,
    /// The link is down at this end, which learns of it.
    LinkDown(usize),
}

/// One direction of a lane.
#[derive(Debug)]
pub(crate) struct Pipe {
    rate: u64,
    delay: Duration,
    buffer: usize,
    unsent: VecDeque<Parcel>,
    /// The parcel that is going out, and when its last bit goes out.
    sending: Option<(Instant, Parcel)>,
    /// The parcels on their way, and when they arrive.
    transit: VecDeque<(Instant, Parcel)>,
    held: usize,
    broken: bool,
    /// The bytes acknowledged, and the time of the last acknowledgement.
    acknowledged: u64,
    progress: Option<Instant>,
    /// The number of stops that are not over.
    stopped: u32,
    /// The number of stops that keep acknowledgements from coming back, and the bytes that have
    /// arrived meanwhile.
    unheard: u32,
    arrived_unheard: usize,
    /// How long the last acknowledged piece took from its sending to its acknowledgement.
    round_trip: Duration,
}

/// The content of a pipe.
#[derive(Debug)]
pub(crate) enum Parcel {
    Bytes(Bytes),
    /// The sending side was closed.
    End,
}

impl LaneSpec {
    /// Creates a lane that is up from the start and does not change.
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

    /// Whether the lane carries a stream to its end, even if all `others` fail: it is up at both
    /// ends before another breaks or leaves, and stops for less time than the stream waits.
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

    /// An upper bound of the time in which the lane may seem to carry nothing.
    fn longest_standstill(&self) -> Duration {
        let stops: Duration = self.stops.iter().map(|(_, time, _)| *time).sum();
        // Until the last change the rate may be 0, and afterwards a full buffer of the slowest lanes takes
        // a second or two.
        let changes = self.changes.iter().map(|(at, _)| *at).max().unwrap_or_default();
        stops + changes + SLOWEST
    }

    /// Whether the lane's last rate is 0.
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

    /// Whether the pipe wakes a writer that waits for room. As in the kernel, it does so when a
    /// third of the buffer is free.
    pub(crate) fn has_room(&self) -> bool {
        self.held <= self.buffer / 3 * 2
    }

    /// Takes as many bytes from the front as there is room for. Returns their number.
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

    /// Closes the sending side.
    pub(crate) fn close(&mut self, now: Instant) {
        self.unsent.push_back(Parcel::End);
        self.start(now);
    }

    pub(crate) fn set_rate(&mut self, now: Instant, rate: u64) {
        self.rate = rate;
        self.start(now);
    }

    /// Begins or ends a stop, in which no bytes get through. After it the sender sends the lost
    /// bytes again.
    pub(crate) fn stop(&mut self, now: Instant, stops: bool) {
        if stops {
            self.stopped += 1;
            // The bytes on their way are lost, as are later ones.
            let lost = self.transit.drain(..).chain(self.sending.take()).map(|(_, parcel)| parcel);
            for parcel in lost.collect::<Vec<_>>().into_iter().rev() {
                self.unsent.push_front(parcel);
            }
        } else {
            self.stopped -= 1;
            self.start(now);
        }
    }

    /// Begins or ends a time in which the sender receives no acknowledgements of the bytes that
    /// arrive.
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

    /// Loses everything. No bytes arrive from here on, and the sender does not learn of it.
    pub(crate) fn break_down(&mut self) {
        self.broken = true;
        self.unsent.clear();
        self.transit.clear();
        self.sending = None;
    }

    /// The figures that a transport would give.
    pub(crate) fn sample(&self, now: Instant) -> TransportSample {
        TransportSample {
            link: LinkSample {
                rtt: Some(self.round_trip),
                rtt_variation: Some(Duration::ZERO),
                min_rtt: Some(self.round_trip),
            },
            bytes_acknowledged: Some(self.acknowledged),
            since_acknowledgement: self.progress.map(|at| now.saturating_duration_since(at)),
            unacknowledged_packets: Some((self.held > 0).into()),
            peer_window_bytes: None,
            unanswered_probes: None,
            unsent_bytes: None,
        }
    }

    /// The time of the next event.
    pub(crate) fn next_event(&self) -> Option<Instant> {
        let sent = self.sending.as_ref().map(|(at, _)| *at);
        let arrives = self.transit.front().map(|(at, _)| *at);
        [sent, arrives].into_iter().flatten().min()
    }

    /// Takes the parcels that have arrived by now.
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
            // A pipe whose rate is 0 by now leaves the round trip as it was.
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
/// How many bytes travel together: few enough that a frame arrives piece by piece, and enough that
/// a run has few events.
pub(crate) const PIECE: usize = 8 << 10;
