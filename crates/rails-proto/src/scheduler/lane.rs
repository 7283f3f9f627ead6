//! One lane as the scheduler sees it: what it has in flight, and how it has done up to now.

use super::{Reissued, bit, estimate::Estimate, outstanding::Outstanding};
use crate::{chunk::Chunk, parameters::ACK_DELAY, policy::LaneView};
use std::{
    collections::VecDeque,
    ops::Range,
    time::{Duration, Instant},
};

/// What is known of a lane when it joins.
#[derive(Debug, Clone, Copy, Default)]
pub struct LaneTraits {
    /// The number that both ends know it by, through all of its connections.
    pub number: u16,
    /// Its share under a [weighted](crate::policy::Policy::Weighted) policy: its nominal speed, or what the application wishes.
    pub weight: u32,
    /// Its round trip, if it was measured.
    pub rtt: Option<Duration>,
}

/// A lane: what it was given in which order and when. Which bytes it is still to deliver is in [`Outstanding`] alone.
#[derive(Debug, Default)]
pub(super) struct Lane {
    /// It was joined and has not ended.
    pub(super) up: bool,
    /// It has stalled: it answers for nothing, and is given nothing more.
    pub(super) stalled: bool,
    /// It is given nothing more, but delivers what it has.
    pub(super) retired: bool,
    /// It stands idle, and asks when it is woken.
    pub(super) resting: bool,
    pub(super) weight: u32,
    /// The least round trip that the driver spoke of.
    pub(super) rtt: Option<Duration>,
    /// What it was given and has not acknowledged, oldest first; the first of them was the lane's `first`-th.
    pub(super) in_flight: VecDeque<Transmission>,
    pub(super) first: u64,
    /// Bytes of them.
    pub(super) bytes: u64,
    /// So many of the oldest the peer has read, though they were not acknowledged on this lane: another lane delivered them.
    pub(super) reinjected: usize,
    /// How long a chunk takes on this lane from being taken to being acknowledged.
    pub(super) service: Estimate,
    /// Chunks took at least this long, where none was seen to the end since.
    pub(super) service_at_least: Option<Duration>,
    /// Bytes per second that were acknowledged while there was something to acknowledge.
    pub(super) rate: Estimate,
    /// When it last had room and there was nothing for it.
    pub(super) rested_at: Option<Instant>,
    /// When the last news of an acknowledgement came.
    pub(super) acknowledged_at: Option<Instant>,
    /// What it was given that another lane had had.
    pub(super) reissued: Reissued,
}

/// A chunk that was given to a lane: as much of it as an acknowledgement needs, which counts chunks.
#[derive(Debug)]
pub(super) struct Transmission {
    pub(super) offset: u64,
    pub(super) length: u32,
    pub(super) fin: bool,
    pub(super) taken: Instant,
}

impl Transmission {
    pub(super) fn of(chunk: &Chunk, taken: Instant) -> Self {
        Self { offset: chunk.offset, length: chunk.length, fin: chunk.fin, taken }
    }

    pub(super) fn range(&self) -> Range<u64> {
        self.offset..self.offset + u64::from(self.length)
    }

    /// Whether what begins at `offset` is of it.
    pub(super) fn covers(&self, offset: u64) -> bool {
        self.offset == offset || self.range().contains(&offset)
    }

    /// As [`Chunk::is_known_below`].
    fn is_known_below(&self, consumed: u64) -> bool {
        self.range().end <= consumed && !self.fin
    }
}

impl Lane {
    pub(super) fn is_usable(&self) -> bool {
        self.is_heard() && !self.retired
    }

    /// Whether it is up and has not stalled: it may answer for what it carries.
    pub(super) fn is_heard(&self) -> bool {
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

    /// Whether an acknowledgement is to be expected on it. One that has been missing for long may never come, though the transport sees nothing wrong.
    pub(super) fn is_moving(&self, now: Instant) -> bool {
        let newest = self.in_flight.back().filter(|_| self.is_heard());
        newest.is_some_and(|sent| now < self.acknowledged_at.map_or(sent.taken, |at| at.max(sent.taken)) + LONGEST_WAY)
    }

    pub(super) fn put(&mut self, sent: Transmission) {
        self.bytes += u64::from(sent.length);
        self.in_flight.push_back(sent);
    }

    /// Notes how long the last of the first `chunks` took and how fast they went, if there is news of them.
    pub(super) fn observe(&mut self, now: Instant, chunks: u64) {
        let news = chunks.saturating_sub(self.first) as usize;
        let Some(newest) = news.checked_sub(1).and_then(|index| self.in_flight.get(index)) else { return };
        let took = now.saturating_duration_since(newest.taken);
        let bytes: u64 = self.in_flight.iter().take(news).map(|sent| u64::from(sent.length)).sum();
        let oldest = self.in_flight[0].taken;
        // What was known of a lane that has carried nothing for a while is replaced by what is seen of it now, and no mean is taken.
        let is_stale = self.acknowledged_at.is_some_and(|at| oldest.saturating_duration_since(at) >= STALE);
        if is_stale {
            self.service = Estimate::default();
        }
        // A lane that has had something in flight since the last acknowledgement, and never stood idle, was busy all the time.
        let since = self.acknowledged_at.filter(|at| *at >= oldest && self.rested_at.is_none_or(|rested| rested < *at));
        if let Some(since) = since {
            let busy_for = now.saturating_duration_since(since).max(SHORTEST_SAMPLE);
            self.rate.update(busy_for, bytes as f64 / busy_for.as_secs_f64());
        } else if bytes >= LEAST_SAMPLE {
            // Otherwise the time has a round trip in it, and what the acknowledgement was held back for, and perhaps a rest: the lane is no slower
            // than that. If it took far longer than all of these, it is no faster either.
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

    /// The rate that it was seen to carry. While its first chunk takes longer than that explains, no more than the chunk allows: nothing tells of a
    /// lane that has got stuck until something arrives, and what is left to it meanwhile waits as long.
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

    /// How long it will be until the chunk at `index` is there, going by the lane's rate.
    pub(super) fn remaining(&self, now: Instant, index: usize) -> Option<Duration> {
        let bytes: u64 = self.in_flight.iter().take(index + 1).map(|sent| u64::from(sent.length)).sum();
        let whole = Duration::try_from_secs_f64(bytes as f64 / self.rate.get()?).unwrap_or(Duration::MAX);
        let since = self.acknowledged_at.max(self.in_flight.front().map(|sent| sent.taken))?;
        Some(whole.saturating_sub(now.saturating_duration_since(since)))
    }

    /// The oldest that it was given, where it is among the first `end` of this connection: it has arrived.
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

    /// The peer has everything, or wants no more of it: nothing is waited for.
    pub(super) fn forget_in_flight(&mut self) {
        self.first += self.in_flight.len() as u64;
        self.in_flight.clear();
        (self.bytes, self.reinjected) = (0, 0);
    }

    /// The peer has read everything below `consumed`, which is in `outstanding` still. What only this lane, number `lane`, carries, came by it, and so did all that it was
    /// given before. What others carry as well it may have to deliver still, for nothing: how long that takes tells how fast the lane is.
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

/// So long after the last that was acknowledged, what is known of a lane is old.
const STALE: Duration = Duration::from_millis(200);
/// An acknowledgement that takes longer than this is not waited for: that is two of the longest chunks by default at 1 Mbit/s.
const LONGEST_WAY: Duration = Duration::from_secs(10);
/// The shortest time a rate is taken from: two acknowledgements that come together say nothing of it.
const SHORTEST_SAMPLE: Duration = Duration::from_millis(1);
/// Fewer bytes say nothing of a rate either.
const LEAST_SAMPLE: u64 = 16 << 10;
/// A lane that took so much longer than its way and a delayed acknowledgement explain was busy with what it had.
const LONG_SAMPLE: Duration = Duration::from_millis(20);
