//! Sending once more, on a faster lane, what a slower one still has on its way.

use super::{
    Chunk, Scheduler, bit,
    lane::{InFlight, LEAST_GAIN},
};
use std::time::Instant;

impl Scheduler {
    /// When a lane for which nothing waits should ask again, for what another is overdue with.
    pub fn ask_again_at(&self, lane: usize) -> Option<Instant> {
        if !self.policy.overtakes() || self.complete || !self.lanes[lane].is_usable() {
            return None;
        }
        let own = self.lanes[lane].service();
        self.others_oldest(lane).map(|(carrier, index)| self.lanes[carrier].overdue_at(index, own)).min()
    }

    /// When the oldest chunk that `lane` has in flight and no other has taken over will have taken so long that another should take it over.
    pub fn overdue_at(&self, lane: usize) -> Option<Instant> {
        if !self.policy.overtakes() {
            return None;
        }
        let lane = &self.lanes[lane];
        lane.in_flight.iter().position(|sent| !sent.passed_on).map(|index| lane.overdue_at(index, None))
    }

    /// Whether the last chunk that `lane` was given is one that it took over.
    pub fn has_taken_over(&self, lane: usize) -> bool {
        self.lanes[lane].in_flight.back().is_some_and(|sent| sent.carriers != bit(lane))
    }

    /// The chunk that the other end needs before it can read on, where its lane is overdue with it: it goes before what is new.
    pub(super) fn overtake_overdue(&mut self, now: Instant, lane: usize) -> Option<(Chunk, u64)> {
        if !self.policy.overtakes() {
            return None;
        }
        let own = self.lanes[lane].service();
        let (carrier, index) = self.others_oldest(lane).min_by_key(|at| self.offset(*at))?;
        let first = self.lanes.iter().filter_map(|lane| lane.in_flight.iter().find(|sent| !sent.passed_on));
        let is_first = first.map(|sent| sent.chunk.offset).min() == Some(self.offset((carrier, index)));
        let overdue = is_first && now >= self.lanes[carrier].overdue_at(index, own);
        overdue.then(|| self.pass_on(carrier, index))
    }

    /// The chunk of lowest offset that another lane has in flight and `lane` would have there sooner.
    pub(super) fn overtake_slower(&mut self, now: Instant, lane: usize) -> Option<(Chunk, u64)> {
        if !self.policy.overtakes() {
            return None;
        }
        let own = self.lanes[lane].service();
        let slower = |(carrier, index): &(usize, usize)| {
            let (carrier, sent) = (&self.lanes[*carrier], &self.lanes[*carrier].in_flight[*index]);
            let age = now.saturating_duration_since(sent.taken);
            let sooner =
                own.zip(carrier.expected(now)).is_some_and(|(own, theirs)| age + 2 * own + LEAST_GAIN < theirs);
            sooner || now >= carrier.overdue_at(*index, own)
        };
        let (carrier, index) = self.others_oldest(lane).filter(slower).min_by_key(|at| self.offset(*at))?;
        Some(self.pass_on(carrier, index))
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
