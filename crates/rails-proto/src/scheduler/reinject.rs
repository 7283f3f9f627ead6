//! Sending once more, on a faster lane, what a slower one still has on its way.

use super::{
    Scheduler,
    lane::{LEAST_REINJECTION_GAIN, Lane, Transmission},
    outstanding::Segment,
};
use crate::chunk::Chunk;
use std::time::{Duration, Instant};

impl Scheduler {
    /// When the oldest chunk that `lane` answers for will have taken so long that another lane should take it over.
    pub fn overdue_at(&self, lane: usize) -> Option<Instant> {
        if !self.policy.reinjects() {
            return None;
        }
        let oldest = self.oldest(lane, |_| true)?;
        Some(self.lanes[lane].overdue_at(oldest.index, self.others_service(lane)))
    }

    /// Whether another lane could have something that `lane` answers for there sooner.
    pub fn lags(&self, now: Instant, lane: usize) -> bool {
        let Some(own) = self.others_service(lane).filter(|_| self.policy.reinjects()) else { return false };
        if self.outstanding.answered_by(lane) == 0 {
            return false;
        }
        let carrier = &self.lanes[lane];
        let last = carrier.in_flight.iter().rposition(|sent| self.answers_for(lane, sent).next().is_some());
        last.and_then(|index| carrier.remaining(now, index))
            .is_some_and(|theirs| 2 * own + LEAST_REINJECTION_GAIN < theirs)
    }

    /// Whether a lane is overdue with what the peer needs before it can read on.
    pub fn is_first_overdue(&self, now: Instant) -> bool {
        let answering = self.outstanding.first().and_then(Segment::answering);
        answering.and_then(|lane| self.overdue_at(lane)).is_some_and(|at| at <= now)
    }

    /// The chunk that the peer needs before it can read on, where its lane is overdue with it: it goes before what is new.
    pub(super) fn reinject_overdue(&mut self, now: Instant, lane: usize) -> Option<Chunk> {
        let first = self.outstanding.first().filter(|first| self.policy.reinjects() && !first.is_carried_by(lane))?;
        let (carrier, offset) = (first.answering()?, first.offset());
        let index = self.lanes[carrier].in_flight.iter().position(|sent| sent.covers(offset))?;
        if !self.is_overdue(now, carrier, index) {
            return None;
        }
        self.outstanding.send_again(offset, usize::MAX, lane)
    }

    /// Of the oldest chunks of the other lanes that `lane` would have there sooner, the one of lowest offset.
    pub(super) fn reinject_slower(&mut self, now: Instant, lane: usize) -> Option<Chunk> {
        if !self.policy.reinjects() {
            return None;
        }
        let own = self.lanes[lane].would_take();
        let is_slower = |carrier: usize, index: usize| {
            let state = &self.lanes[carrier];
            let age = now.saturating_duration_since(state.in_flight[index].taken);
            // By how long chunks took there up to now, or by how much is before it.
            let sooner = own
                .zip(state.expected(now))
                .is_some_and(|(own, theirs)| age + 2 * own + LEAST_REINJECTION_GAIN < theirs);
            let is_before = own
                .zip(state.remaining(now, index))
                .is_some_and(|(own, theirs)| 2 * own + LEAST_REINJECTION_GAIN < theirs);
            sooner || is_before || self.is_overdue(now, carrier, index)
        };
        let others = (0..self.lanes.len()).filter(|other| *other != lane);
        let slower = others.filter_map(|other| {
            let oldest = self.oldest(other, |segment| !segment.is_carried_by(lane))?;
            is_slower(other, oldest.index).then_some(oldest.offset)
        });
        let offset = slower.min()?;
        self.outstanding.send_again(offset, usize::MAX, lane)
    }

    fn is_overdue(&self, now: Instant, carrier: usize, index: usize) -> bool {
        now >= self.lanes[carrier].overdue_at(index, self.others_service(carrier))
    }

    /// How long chunks take on the fastest of the other lanes.
    fn others_service(&self, lane: usize) -> Option<Duration> {
        let others = self.lanes.iter().enumerate().filter(|(index, other)| *index != lane && other.is_usable());
        others.filter_map(|(_, other)| other.would_take()).min()
    }

    /// The first that `lane` was given and answers for, of those that are `wanted`.
    fn oldest(&self, lane: usize, wanted: impl Fn(&Segment) -> bool) -> Option<Oldest> {
        if self.outstanding.answered_by(lane) == 0 {
            return None;
        }
        let Lane { in_flight, reinjected, .. } = &self.lanes[lane];
        let mut sent = in_flight.range(*reinjected..).enumerate();
        sent.find_map(|(index, sent)| {
            let segment = self.answers_for(lane, sent).find(|segment| wanted(segment))?;
            Some(Oldest { index: reinjected + index, offset: segment.offset() })
        })
    }

    /// What of a transmission `lane` answers for still.
    fn answers_for<'a>(&'a self, lane: usize, sent: &Transmission) -> impl Iterator<Item = &'a Segment> + use<'a> {
        self.outstanding.within(sent.range()).filter(move |segment| segment.answering() == Some(lane))
    }
}

/// A segment, and the index of the transmission that it is of.
struct Oldest {
    index: usize,
    offset: u64,
}
