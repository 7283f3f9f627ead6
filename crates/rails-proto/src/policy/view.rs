//! The view of a policy. It knows lanes by their [slots](crate::session::LaneId).

use crate::parameters::ACK_DELAY;
use serde::{Deserialize, Serialize};
use serde_with::{As, DurationNanoSeconds};
use std::{fmt, time::Duration};

/// The view of a policy: the bytes that wait, and the lanes that could take them.
#[derive(Debug, Clone, Copy)]
pub struct SchedulerView<'a> {
    /// New bytes that fit the peer's window; 0 if only the end of the stream is left to send.
    /// `None` if nothing new can be sent.
    pub waiting: Option<usize>,
    /// Bytes given back by lost or stalled lanes, if there are any.
    pub requeued: Option<Requeued>,
    /// The longest chunk that the peer takes, in bytes.
    pub longest_chunk: usize,
    /// The lane that last took new bytes; `None` before the first.
    pub streak: Option<Streak>,
    /// Every lane, by slot.
    pub lanes: &'a [LaneView],
    /// Looks up chunks only if the policy asks: most decisions need none of them.
    pub(crate) in_flight: Option<&'a dyn InFlight>,
}

/// Finds chunks in flight.
pub(crate) trait InFlight: fmt::Debug {
    fn first(&self, besides: usize) -> Option<ChunkView>;

    fn oldest(&self, lane: usize, besides: usize) -> Option<ChunkView>;
}

/// Bytes given back by lost or stalled lanes, for which no lane answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requeued {
    /// The number of bytes.
    pub bytes: usize,
    /// The number of bytes that lie together at the lowest offset.
    pub first: usize,
}

/// New bytes that went to one lane in a row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Streak {
    /// The lane.
    pub lane: usize,
    /// The bytes that the lane took since another lane last took new bytes.
    pub bytes: u64,
}

/// The state of a lane.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct LaneView {
    /// Whether the lane is up, has not stalled, and is not leaving the stream.
    pub usable: bool,
    /// Whether the lane will ask for more: it is idle with room, or expects an acknowledgement of
    /// chunks in flight. Bytes left to a lane that never asks may never be sent.
    pub promising: bool,
    /// The lane's share under a weighted policy, from the driver: its nominal speed, or the
    /// application's wish.
    pub weight: u32,
    /// The bytes in flight on the lane.
    pub in_flight: u64,
    /// The chunks in flight on the lane.
    pub chunks: usize,
    /// Bytes per second that the lane carried while it was busy, with a half-life of
    /// [`HALF_LIFE`](super::HALF_LIFE). `None` if the peer has acknowledged none yet.
    #[serde(rename = "rate_bytes_per_second")]
    pub rate: Option<f64>,
    /// The round trip of a byte that meets no queue, as far as the driver knows.
    #[serde(rename = "rtt_ns", with = "As::<Option<DurationNanoSeconds<u64>>>")]
    pub rtt: Option<Duration>,
    /// How long a chunk takes from the moment the lane takes it to its acknowledgement, with the
    /// same half-life.
    #[serde(rename = "service_ns", with = "As::<Option<DurationNanoSeconds<u64>>>")]
    pub service: Option<Duration>,
    /// Whether `service` is only a lower bound: since the last acknowledgement on this lane, chunks
    /// have taken longer.
    pub service_is_bound: bool,
}

/// A chunk that a lane has in flight, and for which it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChunkView {
    /// The stream offset of the chunk's first byte.
    pub offset: u64,
    /// The lane that answers for the chunk.
    pub lane: usize,
    /// The time since the lane took the chunk.
    #[serde(rename = "age_ns", with = "As::<DurationNanoSeconds<u64>>")]
    pub age: Duration,
    /// How long chunks take on that lane: at least as long as the oldest there has taken so far,
    /// for a lane keeps them in order.
    #[serde(rename = "expected_ns", with = "As::<DurationNanoSeconds<u64>>")]
    pub expected: Duration,
    /// How long the lane still needs to deliver the chunk, by its rate; `None` if the rate is
    /// unknown.
    #[serde(rename = "remaining_ns", with = "As::<Option<DurationNanoSeconds<u64>>>")]
    pub remaining: Option<Duration>,
}

impl SchedulerView<'_> {
    /// The chunk that the peer needs before it can read on, unless `besides` has it in flight too.
    pub fn first(&self, besides: usize) -> Option<ChunkView> {
        self.in_flight?.first(besides)
    }

    /// The oldest chunk for which `lane` answers, of those that `besides` does not have in flight
    /// too.
    pub fn oldest(&self, lane: usize, besides: usize) -> Option<ChunkView> {
        self.in_flight?.oldest(lane, besides)
    }

    /// Whether another [promising](LaneView::promising) lane would deliver all of `waiting` bytes
    /// before `lane` had delivered `length` of them.
    pub fn is_sooner_elsewhere(&self, lane: usize, length: usize, waiting: usize) -> bool {
        let (own, soonest) = self.arrivals(lane, length, waiting);
        own.zip(soonest).is_some_and(|(own, theirs)| theirs.saturating_add(ESTIMATE_TOLERANCE) < own)
    }

    /// How long it takes until `lane` has delivered `length` bytes, and until the best of the other
    /// promising lanes has delivered `waiting`.
    pub fn arrivals(&self, lane: usize, length: usize, waiting: usize) -> (Option<Duration>, Option<Duration>) {
        let others = self.lanes.iter().enumerate().filter(|(other, lane_view)| *other != lane && lane_view.promising);
        let soonest = others.filter_map(|(_, lane_view)| lane_view.arrival(waiting)).min();
        // A lane with no other figure delivers no sooner than after half a round trip.
        let own = self.lanes[lane].arrival(length).or(self.lanes[lane].rtt.map(|rtt| rtt / 2));
        (own, soonest)
    }
}

impl LaneView {
    /// How long it takes until the lane has delivered `bytes` more, behind those in flight; `None`
    /// if nothing is known about it. An idle lane of unknown rate counts by its round trip
    /// alone, so that it gets bytes and its rate becomes known.
    pub fn arrival(&self, bytes: usize) -> Option<Duration> {
        let there = self.rtt.map(|rtt| rtt / 2);
        let Some(rate) = self.rate else {
            return there.filter(|_| self.in_flight == 0);
        };
        let carried = Duration::try_from_secs_f64((self.in_flight as f64 + bytes as f64) / rate);
        Some(there.unwrap_or_default().saturating_add(carried.unwrap_or(Duration::MAX)))
    }

    /// How long a chunk would take if the lane took it now. Without an estimate, and with nothing
    /// in flight, that is a round trip and the delay of an acknowledgement.
    pub fn would_take(&self) -> Option<Duration> {
        let unseen = || self.rtt.filter(|_| self.chunks == 0).map(|rtt| rtt + ACK_DELAY);
        self.service.or_else(unseen)
    }
}

/// A difference below this is within the error of the estimates.
const ESTIMATE_TOLERANCE: Duration = Duration::from_micros(100);
