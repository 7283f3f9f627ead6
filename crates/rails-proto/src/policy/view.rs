//! What a policy sees.

use crate::parameters::ACK_DELAY;
use serde::{Deserialize, Serialize};
use serde_with::{As, DurationNanoSeconds};
use std::{fmt, time::Duration};

/// What a policy sees: the bytes that wait, and the lanes that could take them.
#[derive(Debug, Clone, Copy)]
pub struct SchedulerView<'a> {
    /// Bytes that no lane has had and that the peer's window has room for; 0 where only the end of the stream is left to send. `None`:
    /// nothing new can be sent.
    pub waiting: Option<usize>,
    /// Bytes that lost or stalled lanes had, if there are any.
    pub requeued: Option<Requeued>,
    /// The longest chunk that the peer takes, in bytes.
    pub longest_chunk: usize,
    /// The lane that was last given new bytes; `None` before the first.
    pub streak: Option<Streak>,
    /// Every lane by number.
    pub lanes: &'a [LaneView],
    /// Looked up only where the policy asks: most decisions need none of it.
    pub(crate) in_flight: Option<&'a dyn InFlight>,
}

/// Finds chunks in flight.
pub(crate) trait InFlight: fmt::Debug {
    fn first(&self, besides: usize) -> Option<ChunkView>;

    fn oldest(&self, lane: usize, besides: usize) -> Option<ChunkView>;
}

/// Bytes that lost or stalled lanes had, and no lane is to deliver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requeued {
    /// How many there are.
    pub bytes: usize,
    /// How many of them lie together at the lowest offset.
    pub first: usize,
}

/// New bytes that went to one lane in a row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Streak {
    /// The lane.
    pub lane: usize,
    /// How many bytes it was given since another lane was.
    pub bytes: u64,
}

/// The state of a lane.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct LaneView {
    /// It is up, is not known to have stalled, and is not being taken out of the stream.
    pub usable: bool,
    /// It will ask for more: it is idle with room, or has something in flight that will be acknowledged. Bytes that are left to a lane that will
    /// not may be left for good.
    pub promising: bool,
    /// Its share under a weighted policy, as the driver gave it: its nominal speed, or the application's wish.
    pub weight: u32,
    /// Bytes that it was given and that are not acknowledged.
    pub in_flight: u64,
    /// Chunks that it was given and that are not acknowledged.
    pub chunks: usize,
    /// Bytes per second that it was seen to carry while it was busy, with a half-life of [`HALF_LIFE`](super::HALF_LIFE). `None` where none
    /// have arrived yet.
    #[serde(rename = "rate_bytes_per_second")]
    pub rate: Option<f64>,
    /// The round trip of a byte that meets no queue, as far as the driver knows.
    #[serde(rename = "rtt_ns", with = "As::<Option<DurationNanoSeconds<u64>>>")]
    pub rtt: Option<Duration>,
    /// How long a chunk takes from being taken to being acknowledged, with the same half-life.
    #[serde(rename = "service_ns", with = "As::<Option<DurationNanoSeconds<u64>>>")]
    pub service: Option<Duration>,
    /// `service` is only a lower bound: chunks have taken longer since one was last acknowledged on this lane.
    pub service_is_bound: bool,
}

/// A chunk that a lane has in flight, and is to deliver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChunkView {
    /// Where its first byte belongs in the stream.
    pub offset: u64,
    /// The lane that is to deliver it.
    pub lane: usize,
    /// For how long the lane has had it.
    #[serde(rename = "age_ns", with = "As::<DurationNanoSeconds<u64>>")]
    pub age: Duration,
    /// How long chunks take on that lane: no less than the oldest there has taken so far, for a lane keeps them in order.
    #[serde(rename = "expected_ns", with = "As::<DurationNanoSeconds<u64>>")]
    pub expected: Duration,
    /// How long the lane still takes to deliver it, by its rate; `None` where that is not known.
    #[serde(rename = "remaining_ns", with = "As::<Option<DurationNanoSeconds<u64>>>")]
    pub remaining: Option<Duration>,
}

impl SchedulerView<'_> {
    /// The chunk that the peer needs before it can read on, unless `besides` has it in flight too.
    pub fn first(&self, besides: usize) -> Option<ChunkView> {
        self.in_flight?.first(besides)
    }

    /// The oldest chunk that `lane` is to deliver, of those that `besides` does not have in flight too.
    pub fn oldest(&self, lane: usize, besides: usize) -> Option<ChunkView> {
        self.in_flight?.oldest(lane, besides)
    }

    /// Whether another [promising](LaneView::promising) lane would deliver all of `waiting` bytes before `lane` had delivered `length` of them.
    pub fn is_sooner_elsewhere(&self, lane: usize, length: usize, waiting: usize) -> bool {
        let (own, soonest) = self.arrivals(lane, length, waiting);
        own.zip(soonest).is_some_and(|(own, theirs)| theirs.saturating_add(ESTIMATE_TOLERANCE) < own)
    }

    /// How long it takes until `lane` has delivered `length` bytes, and until the best of the other promising lanes has delivered `waiting`.
    pub fn arrivals(&self, lane: usize, length: usize, waiting: usize) -> (Option<Duration>, Option<Duration>) {
        let others = self.lanes.iter().enumerate().filter(|(other, lane_view)| *other != lane && lane_view.promising);
        let soonest = others.filter_map(|(_, lane_view)| lane_view.arrival(waiting)).min();
        // It is no sooner than half a round trip by a lane of which nothing else is known.
        let own = self.lanes[lane].arrival(length).or(self.lanes[lane].rtt.map(|rtt| rtt / 2));
        (own, soonest)
    }
}

impl LaneView {
    /// How long it takes until the lane has delivered `bytes` more, behind those in flight; `None` where nothing is known of it. A lane of unknown
    /// rate is as good as its round trip while it has nothing to do: that is how its rate becomes known.
    pub fn arrival(&self, bytes: usize) -> Option<Duration> {
        let there = self.rtt.map(|rtt| rtt / 2);
        let Some(rate) = self.rate else {
            return there.filter(|_| self.in_flight == 0);
        };
        let carried = Duration::try_from_secs_f64((self.in_flight as f64 + bytes as f64) / rate);
        Some(there.unwrap_or_default().saturating_add(carried.unwrap_or(Duration::MAX)))
    }

    /// How long a chunk would take that the lane were given now: where none was seen yet and nothing is before it, a round trip and the delay of
    /// an acknowledgement.
    pub fn would_take(&self) -> Option<Duration> {
        let unseen = || self.rtt.filter(|_| self.chunks == 0).map(|rtt| rtt + ACK_DELAY);
        self.service.or_else(unseen)
    }
}

/// A difference below this is within the error of the estimates.
const ESTIMATE_TOLERANCE: Duration = Duration::from_micros(100);
