//! One lane of the scheduler: its chunks in flight, and the estimates of its speed.

use super::{Reissued, bit, estimate::Estimate, outstanding::Outstanding};
use crate::{chunk::Chunk, parameters::ACK_DELAY, policy::LaneView};
use std::{
    collections::VecDeque,
    ops::Range,
    time::{Duration, Instant},
};

/// The traits of a lane when it joins.
#[derive(Debug, Clone, Copy, Default)]
pub struct LaneTraits {
    /// The lane's number: the same at both ends and in all of its connections, and so the one by which the log, the events and the statistics name
    /// the lane. Its [slot](crate::connection::LaneId) is another.
    pub number: u16,
    /// The lane's share under a [weighted](crate::policy::Policy::Weighted) policy: its nominal speed, or the application's wish.
    pub weight: u32,
    /// The lane's round trip, if this end has measured it.
    pub rtt: Option<Duration>,
}

/// A lane: the chunks that it has taken, in order and with their times. [`Outstanding`] alone says which bytes it still has to deliver.
#[derive(Debug, Default)]
pub(super) struct Lane {
    /// The lane has joined and not ended.
    pub(super) up: bool,
    /// The lane has stalled: it answers for no bytes, and takes no more.
    pub(super) stalled: bool,
    /// The lane is leaving: it takes no more, and delivers the chunks that it has.
    pub(super) retired: bool,
    /// The lane is idle, and asks when it is woken.
    pub(super) resting: bool,
    /// As [`LaneTraits::number`].
    pub(super) number: u16,
    pub(super) weight: u32,
    /// The least round trip that the driver measured.
    pub(super) rtt: Option<Duration>,
    /// The lane's chunks that are not acknowledged, oldest first; the oldest is number `first` on this lane.
    pub(super) in_flight: VecDeque<Transmission>,
    pub(super) first: u64,
    /// The bytes in those chunks.
    pub(super) bytes: u64,
    /// The bytes of all chunks that the lane has taken.
    pub(super) taken: u64,
    /// How many of the oldest the peer has read although it has not acknowledged them on this lane: other lanes may have brought them.
    pub(super) reinjected: usize,
    /// How long a chunk takes on this lane from the moment the lane takes it to its acknowledgement.
    pub(super) service: Estimate,
    /// Chunks take at least this long, while the peer acknowledges none.
    pub(super) service_at_least: Option<Duration>,
    /// Acknowledged bytes per second while the lane was busy.
    pub(super) rate: Estimate,
    /// When the lane last had room and there was nothing for it.
    pub(super) rested_at: Option<Instant>,
    /// When the peer last acknowledged a chunk.
    pub(super) acknowledged_at: Option<Instant>,
    /// Bytes and chunks that the lane took after another lane had taken them.
    pub(super) reissued: Reissued,
}

/// A chunk that a lane has taken, without its bytes: an acknowledgement counts chunks.
#[derive(Debug)]
pub(super) struct Transmission {
    pub(super) offset: u64,
    pub(super) length: u32,
    pub(super) fin: bool,
    pub(super) taken: Instant,
    /// The bytes of all chunks that the lane has taken up to the end of this one.
    through: u64,
}

impl Transmission {
    pub(super) fn of(chunk: &Chunk, taken: Instant) -> Self {
        Self { offset: chunk.offset, length: chunk.length, fin: chunk.fin, taken, through: 0 }
    }

    pub(super) fn range(&self) -> Range<u64> {
        self.offset..self.offset + u64::from(self.length)
    }

    /// As [`Chunk::is_known_below`].
    fn is_known_below(&self, consumed: u64) -> bool {
        self.range().end <= consumed && !self.fin
    }
}

impl Lane {
    pub(super) fn is_usable(&self) -> bool {
        self.is_live() && !self.retired
    }

    /// Whether the lane is up and has not stalled: it may answer for its chunks.
    pub(super) fn is_live(&self) -> bool {
        self.up && !self.stalled
    }

    pub(super) fn lane_view(&self, now: Option<Instant>) -> LaneView {
        LaneView {
            usable: self.is_usable(),
            promising: self.is_usable() && (self.resting || !self.in_flight.is_empty()),
            weight: self.weight,
            in_flight: self.bytes,
            rate: self.rate_by(now),
            rtt: self.rtt,
            chunks: self.in_flight.len(),
            service: self.service(),
            service_is_bound: self.service_at_least.is_some(),
        }
    }

    /// Whether the lane can expect an acknowledgement. After a long time none may ever come, though the transport reports no error.
    pub(super) fn is_moving(&self, now: Instant) -> bool {
        let newest = self.in_flight.back().filter(|_| self.is_live());
        newest.is_some_and(|sent| now < self.acknowledged_at.map_or(sent.taken, |at| at.max(sent.taken)) + LONGEST_WAY)
    }

    pub(super) fn put(&mut self, sent: Transmission) {
        self.bytes += u64::from(sent.length);
        self.taken += u64::from(sent.length);
        self.in_flight.push_back(Transmission { through: self.taken, ..sent });
    }

    /// The number of the chunk that the lane takes next.
    pub(super) fn next_number(&self) -> u64 {
        self.first + self.in_flight.len() as u64
    }

    /// The chunks in flight, by their numbers.
    pub(super) fn transmissions(&self) -> impl Iterator<Item = (u64, Range<u64>)> {
        (self.first..).zip(self.in_flight.iter().map(Transmission::range))
    }

    /// The index of the chunk with that number, if it is in flight.
    pub(super) fn index_of(&self, number: u64) -> Option<usize> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        (index < self.in_flight.len()).then_some(index)
    }

    /// Updates the estimates after an acknowledgement of the first `chunks`, if any of them are new.
    pub(super) fn observe(&mut self, now: Instant, chunks: u64) {
        let news = chunks.saturating_sub(self.first) as usize;
        let Some(newest) = news.checked_sub(1).and_then(|index| self.in_flight.get(index)) else { return };
        let took = now.saturating_duration_since(newest.taken);
        let bytes: u64 = self.in_flight.iter().take(news).map(|sent| u64::from(sent.length)).sum();
        let oldest = self.in_flight[0].taken;
        // A new observation replaces the estimate of a lane that has carried nothing for a while.
        let is_stale = self.acknowledged_at.is_some_and(|at| oldest.saturating_duration_since(at) >= STALE);
        if is_stale {
            self.service = Estimate::default();
        }
        // A lane that has had a chunk in flight and was never idle since the last acknowledgement was busy all the time.
        let since = self.acknowledged_at.filter(|at| *at >= oldest && self.rested_at.is_none_or(|rested| rested < *at));
        if let Some(since) = since {
            let busy_for = now.saturating_duration_since(since).max(SHORTEST_SAMPLE);
            self.rate.update(busy_for, bytes as f64 / busy_for.as_secs_f64());
        } else if bytes >= MIN_SAMPLE {
            // Otherwise the time contains a round trip, the delay of the acknowledgement, and perhaps a pause: the lane is at least as fast as that. If the
            // time is far longer than all of these, the lane is no faster either.
            let took = now.saturating_duration_since(oldest).saturating_sub(self.rtt.unwrap_or_default());
            let busy_for = (took - ACK_DELAY.min(took / 2)).max(SHORTEST_SAMPLE);
            let rate = bytes as f64 / busy_for.as_secs_f64();
            if busy_for > LONG_SAMPLE || self.rate.get().is_none_or(|known| rate > known) {
                if is_stale {
                    self.rate = Estimate::default();
                }
                self.rate.update(busy_for, rate);
            }
        }
        self.service.update(took.max(SHORTEST_SAMPLE), took.as_secs_f64());
        self.service_at_least = None;
        self.acknowledged_at = Some(now);
    }

    /// The estimated rate. While the oldest chunk takes longer than that rate explains, the rate is at most what the chunk's age allows. Otherwise only an
    /// acknowledgement would lower the estimate of a stuck lane, and the bytes left to the lane would wait for it.
    fn rate_by(&self, now: Option<Instant>) -> Option<f64> {
        let rate = self.rate.get()?;
        let (Some(now), Some(front)) = (now, self.in_flight.front()) else { return Some(rate) };
        let since = self.acknowledged_at.map_or(front.taken, |at| at.max(front.taken));
        let explained = self.rtt.unwrap_or_default() + ACK_DELAY;
        let busy_for = now.saturating_duration_since(since).saturating_sub(explained);
        let allowed = f64::from(front.length.max(1)) / busy_for.as_secs_f64();
        Some(if busy_for > LONG_SAMPLE { rate.min(allowed) } else { rate })
    }

    /// How long chunks take, or at least take.
    pub(super) fn service(&self) -> Option<Duration> {
        self.known_service().max(self.service_at_least)
    }

    fn known_service(&self) -> Option<Duration> {
        self.service.get().map(Duration::from_secs_f64)
    }

    /// How long the lane still needs to deliver the chunk at `index`, by its rate.
    pub(super) fn remaining(&self, now: Instant, index: usize) -> Option<Duration> {
        let bytes = self.in_flight[index].through - (self.taken - self.bytes);
        let whole = Duration::try_from_secs_f64(bytes as f64 / self.rate.get()?).unwrap_or(Duration::MAX);
        let since = self.acknowledged_at.max(self.in_flight.front().map(|sent| sent.taken))?;
        Some(whole.saturating_sub(now.saturating_duration_since(since)))
    }

    /// Removes the oldest chunk in flight, if it is among the first `end` of this connection: it has arrived.
    pub(super) fn pop_before(&mut self, end: u64) -> Option<Transmission> {
        if self.first >= end {
            return None;
        }
        let front = self.in_flight.pop_front()?;
        self.bytes -= u64::from(front.length);
        self.reinjected = self.reinjected.saturating_sub(1);
        self.first += 1;
        Some(front)
    }

    /// The peer has everything, or reads no more: the lane awaits no acknowledgement.
    pub(super) fn forget_in_flight(&mut self) {
        self.first += self.in_flight.len() as u64;
        self.in_flight.clear();
        (self.bytes, self.reinjected) = (0, 0);
    }

    /// The peer has read everything below `consumed`; `outstanding` still has those bytes. If only this lane, in slot `lane`, had a chunk in flight, the lane
    /// has delivered it and every chunk before it. A chunk that other lanes had in flight too may still be on its way on this lane: its age tells how slow the
    /// lane is.
    pub(super) fn settle(&mut self, now: Instant, lane: usize, consumed: u64, outstanding: &Outstanding) {
        let read = |sent: &&Transmission| sent.is_known_below(consumed);
        let known = self.reinjected + self.in_flight.range(self.reinjected..).take_while(read).count();
        if known == self.reinjected {
            return;
        }
        let alone = |sent: &Transmission| {
            outstanding.within(sent.range()).next().is_some_and(|segment| segment.sent_on() == bit(lane))
        };
        let own = (self.reinjected..known).rfind(|index| alone(&self.in_flight[*index]));
        let popped = own.map_or(0, |index| index + 1);
        let end = self.first + popped as u64;
        while self.pop_before(end).is_some() {}
        let left = known - popped;
        for sent in self.in_flight.range(self.reinjected..left) {
            let least = now.saturating_duration_since(sent.taken);
            if self.service.get().is_none_or(|service| Duration::from_secs_f64(service) < least) {
                self.service_at_least = self.service_at_least.max(Some(least));
            }
        }
        self.reinjected = left;
    }
}

/// So long after the last acknowledgement, a lane's estimates are stale.
const STALE: Duration = Duration::from_millis(200);
/// A lane expects no acknowledgement any more after this time, in which it sends two chunks of the default maximum at 1 Mbit/s.
const LONGEST_WAY: Duration = Duration::from_secs(10);
/// The shortest time that gives a rate: two acknowledgements that come together say nothing about it.
const SHORTEST_SAMPLE: Duration = Duration::from_millis(1);
/// The fewest bytes that give a rate.
const MIN_SAMPLE: u64 = 16 << 10;
/// A lane that took so much longer than a round trip and a delayed acknowledgement explain was busy all the time.
const LONG_SAMPLE: Duration = Duration::from_millis(20);
