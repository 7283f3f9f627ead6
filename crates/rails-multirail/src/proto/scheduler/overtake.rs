//! Sending once more, on a faster lane, what a slower one still has on its way.

use super::{
    Chunk, Scheduler, bit,
    lane::{InFlight, LEAST_GAIN},
};
use std::time::{Duration, Instant};

impl Scheduler {
    /// When the oldest chunk that `lane` has in flight and no other has taken over will have taken so long that another should take it over.
    pub fn overdue_at(&self, lane: usize) -> Option<Instant> {
        if !self.policy.overtakes() || self.complete {
            return None;
        }
        let index = self.lanes[lane].in_flight.iter().position(|sent| !sent.passed_on)?;
        Some(self.lanes[lane].overdue_at(index, self.others_service(lane)))
    }

    /// Whether another lane could have something that `lane` has in flight there sooner.
    pub fn lags(&self, now: Instant, lane: usize) -> bool {
        let Some(own) = self.others_service(lane).filter(|_| self.policy.overtakes()) else { return false };
        let carrier = &self.lanes[lane];
        let last = carrier.in_flight.iter().rposition(|sent| !sent.passed_on);
        last.and_then(|index| carrier.remaining(now, index)).is_some_and(|theirs| 2 * own + LEAST_GAIN < theirs)
    }

    /// The chunk that the other end needs before it can read on, where its lane is overdue with it: it goes before what is new.
    pub(super) fn overtake_overdue(&mut self, now: Instant, lane: usize) -> Option<(Chunk, u64)> {
        if !self.policy.overtakes() {
            return None;
        }
        let (carrier, index) = self.others_oldest(lane).min_by_key(|at| self.offset(*at))?;
        let first = self.lanes.iter().filter_map(|lane| lane.in_flight.iter().find(|sent| !sent.passed_on));
        let is_first = first.map(|sent| sent.chunk.offset).min() == Some(self.offset((carrier, index)));
        let overdue = is_first && self.is_overdue(now, (carrier, index));
        overdue.then(|| self.pass_on(carrier, index))
    }

    /// The chunk of lowest offset that another lane has in flight and `lane` would have there sooner.
    pub(super) fn overtake_slower(&mut self, now: Instant, lane: usize) -> Option<(Chunk, u64)> {
        if !self.policy.overtakes() {
            return None;
        }
        let own = self.lanes[lane].would_take();
        let slower = |at: &(usize, usize)| {
            let (carrier, sent) = (&self.lanes[at.0], &self.lanes[at.0].in_flight[at.1]);
            let age = now.saturating_duration_since(sent.taken);
            let own = own.map(|own| 2 * own + LEAST_GAIN);
            // By how long chunks took there up to now, or by how much is before it.
            let sooner = own.zip(carrier.expected(now)).is_some_and(|(own, theirs)| age + own < theirs);
            let is_before = own.zip(carrier.remaining(now, at.1)).is_some_and(|(own, theirs)| own < theirs);
            sooner || is_before || self.is_overdue(now, *at)
        };
        let (carrier, index) = self.others_oldest(lane).filter(slower).min_by_key(|at| self.offset(*at))?;
        Some(self.pass_on(carrier, index))
    }

    fn is_overdue(&self, now: Instant, (carrier, index): (usize, usize)) -> bool {
        now >= self.lanes[carrier].overdue_at(index, self.others_service(carrier))
    }

    /// How long chunks take on the fastest of the other lanes.
    fn others_service(&self, lane: usize) -> Option<Duration> {
        let others = self.lanes.iter().enumerate().filter(|(index, other)| *index != lane && other.is_usable());
        others.filter_map(|(_, other)| other.would_take()).min()
    }

    fn pass_on(&mut self, carrier: usize, index: usize) -> (Chunk, u64) {
        let sent = &mut self.lanes[carrier].in_flight[index];
        sent.passed_on = true;
        (sent.chunk.clone(), sent.carriers)
    }

    fn offset(&self, (carrier, index): (usize, usize)) -> u64 {
        self.lanes[carrier].in_flight[index].chunk.offset
    }

    /// Of each lane but `lane`, the oldest chunk that was not passed on and that `lane` has not had.
    fn others_oldest(&self, lane: usize) -> impl Iterator<Item = (usize, usize)> {
        let others = self.lanes.iter().enumerate().filter(move |(index, _)| *index != lane);
        let is_new = move |sent: &InFlight| !sent.passed_on && sent.carriers & bit(lane) == 0;
        others.filter_map(move |(index, other)| Some((index, other.in_flight.iter().position(is_new)?)))
    }
}
