//! Chunks for lanes with room: the policy decides, and the scheduler carries that out.

use super::{Reissued, Scheduler, outstanding::Answer};
use crate::{
    chunk::Chunk,
    policy::{Cause, Decision, LONGEST_REFUSAL, SchedulerView, Sent, Streak, Traced},
    record::RecordedEvent,
};
use std::time::Instant;

impl Scheduler {
    /// Gives a lane that has room the next chunk, if there is one. The chunk is in flight on that lane from here on.
    pub fn take(&mut self, now: Instant, lane: usize) -> Option<Chunk> {
        debug_assert!(self.lanes[lane].is_up(), "a lane that is down asks for nothing");
        self.now = self.now.max(Some(now));
        self.lanes[lane].wake();
        if !self.may_give(lane) {
            return None;
        }
        self.refresh_lane_views();
        let seen = self.journal.blank_view();
        let view = self.view();
        let decision = self.policy.decide(&view, lane);
        let seen = seen.map(|blank| blank.of(&view, lane));
        let mut taken = self.carry_out(decision, lane);
        let mut overruled = None;
        if taken.is_some() {
            self.refused_since = None;
        } else {
            overruled = self.overrule(now);
            taken = overruled.and_then(|instead| self.carry_out(instead, lane));
        }
        let chunk = taken.as_ref().map(|(chunk, _)| (chunk.offset, chunk.length));
        let decided = Traced { slot: lane, number: self.number(lane), decision, overruled, chunk };
        self.journal.decided(self.now, decided, seen);
        let (chunk, cause) = taken?;
        self.note_sent(now, lane, &chunk, cause);
        Some(chunk)
    }

    /// Whether lane `lane` would get waiting bytes if it had room now.
    pub(crate) fn wants(&mut self, now: Instant, lane: usize) -> bool {
        if !self.lanes[lane].is_usable() || self.is_overfull(lane) {
            return false;
        }
        self.refresh_lane_views();
        // Lanes ask about chunks in flight when those are late, not each time that the application writes.
        let view = SchedulerView { in_flight: None, ..self.view() };
        let is_given = match self.policy.decide(&view, lane) {
            Decision::New(_) => view.waiting.is_some(),
            Decision::Requeue(_) => view.requeued.is_some(),
            Decision::Reinject(_) | Decision::Wait(_) => false,
        };
        is_given || self.overrule(now).is_some()
    }

    /// Notes that `lane` has taken a chunk.
    pub(super) fn note_sent(&mut self, now: Instant, lane: usize, chunk: &Chunk, cause: Cause) {
        let sent = Sent { lane, offset: chunk.offset, length: chunk.length, cause };
        if cause == Cause::New {
            let before = self.streak.filter(|streak| streak.lane == lane).map_or(0, |streak| streak.bytes);
            self.streak = Some(Streak { lane, bytes: before + u64::from(chunk.length) });
        } else {
            self.reissued += Reissued::of(&sent);
        }
        self.lanes[lane].put(now, chunk, Reissued::of(&sent));
        self.policy.on_sent(&sent);
        self.journal.note(self.now, RecordedEvent::Sent(sent));
        self.check();
    }

    /// Gives `lane` the chunk of a decision. `None` if there is no such chunk.
    pub(super) fn carry_out(&mut self, decision: Decision, lane: usize) -> Option<(Chunk, Cause)> {
        let by = self.next_transmission(lane);
        match decision {
            Decision::New(most) if self.may_keep_more() => {
                let chunk = self.unsent.cut(self.limit(), most.clamp(1, self.longest_chunk))?;
                self.outstanding.send(chunk.clone(), by);
                Some((chunk, Cause::New))
            }
            Decision::Requeue(most) => {
                let offset = self.outstanding.requeued().next()?.offset();
                Some((self.outstanding.send_again(offset, most.max(1), by)?, Cause::Requeued))
            }
            Decision::Reinject(offset) => {
                let segment = self.outstanding.at(offset)?;
                if segment.answering().is_none() || segment.is_sent_on(lane) {
                    return None;
                }
                Some((self.outstanding.send_again(offset, usize::MAX, by)?, Cause::Reinjected))
            }
            Decision::New(_) | Decision::Wait(_) => None,
        }
    }

    /// The transmission of the chunk that `lane` takes next.
    pub(super) fn next_transmission(&self, lane: usize) -> Answer {
        Answer { lane, number: self.lanes[lane].transmissions().next_number() }
    }

    /// Overrules a policy that gives nothing to a lane that asks. The lane gets a chunk if the policy has given no lane any of the
    /// waiting bytes for [`LONGEST_REFUSAL`], and no lane can expect an acknowledgement that might change the policy's answer.
    fn overrule(&mut self, now: Instant) -> Option<Decision> {
        if self.lanes_worth_of_work() == 0 {
            return None;
        }
        let since = *self.refused_since.get_or_insert(now);
        if now < since + LONGEST_REFUSAL || self.lanes.iter().any(|lane| lane.is_moving(now)) {
            return None;
        }
        let (longest, is_requeued) = (self.longest_chunk, self.outstanding.requeued_size().0 > 0);
        Some(if is_requeued { Decision::Requeue(longest) } else { Decision::New(longest) })
    }

    /// Whether there is anything that `lane` might [take](Self::take): most of the time a lane that asks again has just taken the last
    /// bytes.
    pub(crate) fn may_give(&self, lane: usize) -> bool {
        if !self.lanes[lane].is_usable() || self.is_overfull(lane) {
            return false;
        }
        let others =
            || self.lanes.iter().enumerate().any(|(other, state)| other != lane && state.in_flight_chunks() > 0);
        self.outstanding.requeued_size().0 > 0 || self.unsent.ready(self.limit()).is_some() || others()
    }
}
