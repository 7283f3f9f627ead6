//! One lane as the scheduler sees it: what it has in flight, and how it has done up to now.

use super::{Chunk, Reissued, estimate::Estimate};
use crate::proto::policy::Standing;
use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// A lane.
#[derive(Debug, Default)]
pub(super) struct Lane {
    /// It was joined and has not ended.
    pub(super) up: bool,
    /// It is silent: what it has is for the others, and it is given nothing more.
    pub(super) silent: bool,
    /// It is given nothing more, but keeps what it has.
    pub(super) retired: bool,
    /// It stands idle, and asks when it is woken.
    pub(super) resting: bool,
    pub(super) weight: u32,
    /// The least round trip that the driver spoke of.
    pub(super) rtt: Option<Duration>,
    /// Chunks given to this lane, oldest first; the first of them was the lane's `first`-th.
    pub(super) in_flight: VecDeque<InFlight>,
    pub(super) first: u64,
    /// Bytes of them.
    pub(super) bytes: u64,
    /// How many of them are [settled](InFlight::settled).
    pub(super) settled: usize,
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

/// A chunk on its way.
#[derive(Debug)]
pub(super) struct InFlight {
    pub(super) chunk: Chunk,
    pub(super) taken: Instant,
    /// Another lane has it as well, or is to, and is the one to be watched; or nobody has to.
    pub(super) passed_on: bool,
    /// The other end has read it, though it was not acknowledged on this lane: it came by another, or its acknowledgement is late.
    pub(super) settled: bool,
    /// The lanes that it was on when this one took it, and this one: none of them takes it again.
    pub(super) carriers: u64,
}

impl Lane {
    pub(super) fn is_usable(&self) -> bool {
        self.up && !self.silent && !self.retired
    }

    pub(super) fn standing(&self, now: Option<Instant>) -> Standing {
        Standing {
            usable: self.is_usable(),
            promising: self.is_usable() && (self.resting || !self.in_flight.is_empty()),
            weight: self.weight,
            in_flight: self.bytes,
            rate: self.rate_by(now),
            rtt: self.rtt,
            service: self.service(),
        }
    }

    pub(super) fn put(&mut self, sent: InFlight) {
        self.bytes += u64::from(sent.chunk.length);
        self.in_flight.push_back(sent);
    }

    /// Notes how long the last of the first `chunks` took and how fast they went, if there is news of them.
    pub(super) fn observe(&mut self, now: Instant, chunks: u64) {
        let news = chunks.saturating_sub(self.first) as usize;
        let Some(newest) = news.checked_sub(1).and_then(|index| self.in_flight.get(index)) else { return };
        let took = now.saturating_duration_since(newest.taken);
        let bytes: u64 = self.in_flight.iter().take(news).map(|sent| u64::from(sent.chunk.length)).sum();
        let oldest = self.in_flight[0].taken;
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
        let allowed = f64::from(front.chunk.length.max(1)) / busy_for.as_secs_f64();
        Some(if busy_for > LONG_SAMPLE { rate.min(allowed) } else { rate })
    }

    /// How long chunks take, or at least take.
    pub(super) fn service(&self) -> Option<Duration> {
        self.known_service().max(self.service_at_least)
    }

    /// How long a chunk would take that the lane were given now: where none was seen yet and nothing is before it, a round trip and the other
    /// end's patience.
    pub(super) fn would_take(&self) -> Option<Duration> {
        let unseen = || self.rtt.filter(|_| self.in_flight.is_empty()).map(|rtt| rtt + ACK_DELAY);
        self.service().or_else(unseen)
    }

    fn known_service(&self) -> Option<Duration> {
        self.service.get().map(Duration::from_secs_f64)
    }

    /// How long a chunk should take: no less than the oldest has taken up to now, for the lane keeps them in order.
    pub(super) fn expected(&self, now: Instant) -> Option<Duration> {
        let oldest = self.in_flight.front().map(|sent| now.saturating_duration_since(sent.taken));
        self.service().max(oldest)
    }

    /// How long it will be until the chunk at `index` is there, going by the lane's rate.
    pub(super) fn remaining(&self, now: Instant, index: usize) -> Option<Duration> {
        let bytes: u64 = self.in_flight.iter().take(index + 1).map(|sent| u64::from(sent.chunk.length)).sum();
        let whole = Duration::try_from_secs_f64(bytes as f64 / self.rate.get()?).unwrap_or(Duration::MAX);
        let since = self.acknowledged_at.max(self.in_flight.front().map(|sent| sent.taken))?;
        Some(whole.saturating_sub(now.saturating_duration_since(since)))
    }

    /// When the chunk at `index` has taken so much longer than chunks did before that something must be wrong. Where none was
    /// seen to arrive, that is four times as long as they take on a lane that would take it over, for which chunks take `others`.
    pub(super) fn overdue_at(&self, index: usize, others: Option<Duration>) -> Instant {
        let unknown = || {
            let least = LEAST_GAIN.max(4 * self.rtt.unwrap_or_default());
            others.map_or(UNKNOWN_SERVICE, |others| (4 * others).min(UNKNOWN_SERVICE)).max(least)
        };
        let known = self.known_service().filter(|_| self.service_at_least.is_none());
        let longest = LONGEST_OVERDUE.max(4 * self.rtt.unwrap_or_default());
        self.in_flight[index].taken + known.map_or_else(unknown, |service| (2 * service).clamp(LEAST_OVERDUE, longest))
    }

    /// Lets go of the first `chunks` that this lane was given, and of those that lie below `consumed`. Where another lane has taken one of these over, this
    /// one still has it to carry: its bytes are let go, but not that it is on its way, for how long that takes tells how fast the lane is.
    pub(super) fn release(&mut self, now: Instant, chunks: u64, consumed: u64) {
        let known = self.in_flight.iter().take_while(|sent| sent.settled || sent.chunk.is_known_below(consumed));
        // What no other lane has had came by this one, and with it all that went before.
        let alone = |sent: &InFlight| !sent.passed_on && sent.carriers.is_power_of_two();
        let own = known.enumerate().filter(|(_, sent)| alone(sent)).last().map_or(0, |(index, _)| index as u64 + 1);
        let end = chunks.max(self.first + own);
        while self.first < end
            && let Some(front) = self.in_flight.pop_front()
        {
            self.bytes -= u64::from(front.chunk.length);
            self.settled -= usize::from(front.settled);
            self.first += 1;
        }
        for sent in self.in_flight.iter_mut().skip_while(|sent| sent.settled) {
            if !sent.chunk.is_known_below(consumed) {
                break;
            }
            (sent.settled, sent.passed_on) = (true, true);
            self.settled += 1;
            sent.chunk.payload = Vec::new();
            let least = now.saturating_duration_since(sent.taken);
            if self.service.get().is_none_or(|service| Duration::from_secs_f64(service) < least) {
                self.service_at_least = self.service_at_least.max(Some(least));
            }
        }
    }

    /// How many chunks are kept for it.
    pub(super) fn kept(&self) -> usize {
        self.in_flight.len() - self.settled
    }

    /// Bytes of what it has in flight that the other end is not known to have from elsewhere.
    pub(super) fn at_risk(&self) -> u64 {
        self.in_flight.iter().filter(|sent| !sent.settled).map(|sent| u64::from(sent.chunk.length)).sum()
    }
}

/// How long a chunk may take at most on a lane that has not had one acknowledged yet.
pub(super) const UNKNOWN_SERVICE: Duration = Duration::from_millis(500);
/// No chunk is overdue before this on a lane that is known: acknowledgements wait for 10 ms, and a busy machine schedules as it likes.
const LEAST_OVERDUE: Duration = Duration::from_millis(60);
/// Every chunk is overdue after this, or four round trips: a lane may be as slow as that, but then no reader waits for it.
const LONGEST_OVERDUE: Duration = Duration::from_millis(200);
/// The shortest time a rate is taken from: two acknowledgements that come together say nothing of it.
const SHORTEST_SAMPLE: Duration = Duration::from_millis(1);
/// Fewer bytes say nothing of a rate either.
const LEAST_SAMPLE: u64 = 16 << 10;
/// A lane that took so much longer than its way and the other end's patience explain was busy with what it had.
const LONG_SAMPLE: Duration = Duration::from_millis(20);
/// How long an acknowledgement may wait for more to acknowledge. What it holds up is memory at the sender, not speed, so it
/// is a round trip of a fair distance; each one saved is two system calls.
pub(in crate::proto) const ACK_DELAY: Duration = Duration::from_millis(10);
/// Less time than this is not worth sending a chunk twice.
pub(super) const LEAST_GAIN: Duration = Duration::from_millis(50);
