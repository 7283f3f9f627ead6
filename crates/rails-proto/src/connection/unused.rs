//! Idle lanes while the stream is at work. They stand by for lanes whose threads are busy with something else. Probes renew the estimates of
//! a lane to which the scheduler gives nothing, and an event reports it.

use super::{Connection, EventKind, LaneId, lane::Lane};
use crate::{policy::probe_interval, scheduler::Scheduler};
use std::time::{Duration, Instant};

/// The probes of a lane to which the scheduler gives nothing.
#[derive(Debug, Default)]
pub(super) struct Unused {
    /// When the next probe is due, while the stream is at work.
    try_at: Option<Instant>,
    /// The number of probes since the lane was last used.
    tries: u32,
    /// Whether the lane gets a probe when it asks next.
    due: bool,
    /// How long the lane had left waiting bytes to others when it was last used.
    left_before: Duration,
    /// Whether an event has reported the lane as unused.
    pub(super) told: bool,
}

impl Connection {
    /// Whether `lane`, which asks and gets nothing else, gets a probe now.
    pub(super) fn is_to_be_tried(&mut self, lane: LaneId) -> bool {
        std::mem::take(&mut self.lanes[lane.0].unused.due)
    }

    /// The policy gave `lane` something.
    pub(super) fn was_used(&mut self, now: Instant, lane: LaneId) {
        let left_before = self.lanes[lane.0].clock.times(now).left_to_others;
        self.lanes[lane.0].unused = Unused { left_before, ..Unused::default() };
    }

    /// The stream is at work: idle lanes check its progress after a while.
    pub(super) fn stand_by(&mut self, now: Instant) {
        for (index, lane) in self.lanes.iter_mut().enumerate() {
            // A lane with bytes in flight has a check of its own.
            let has_none = self.scheduler.lane(index).in_flight_chunks() == 0;
            if lane.up && lane.idle && has_none && self.scheduler.lane(index).is_usable() {
                lane.unused.try_at.get_or_insert(now + lane.unused.interval());
                if lane.health.check_by(now + STAND_BY) {
                    self.wakes.stand_by(LaneId(index));
                }
            }
        }
    }

    /// `lane` has nothing more to send. Idle lanes stand by, unless the stream waits for this lane alone: then drivers that do not know yet that a lane is
    /// to stand by need not wake it.
    pub(super) fn stand_by_or_down(&mut self, now: Instant, lane: LaneId) {
        let is_in_flight = |lane| self.scheduler.lane(lane).in_flight() > 0;
        if waits_for_one_lane(&self.lanes, &self.scheduler)
            && (is_in_flight(lane.0) || !self.scheduler.flight().is_in_flight())
        {
            self.wakes.stand_down().for_each(|lane| self.drop_check(lane));
            self.standstill.call_off();
        } else if self.scheduler.buffer().is_at_work() {
            self.stand_by(now);
        }
    }

    /// Nothing has come or gone on `lane` for a while: drops a check for which there is no need any more.
    pub fn rest(&mut self, lane: LaneId) {
        let is_in_flight = self.scheduler.lane(lane.0).in_flight_chunks() > 0;
        let is_needed =
            is_in_flight || !self.scheduler.lane(lane.0).is_usable() || self.scheduler.buffer().is_at_work();
        if !is_needed {
            self.drop_check(lane);
        }
    }

    fn drop_check(&mut self, lane: LaneId) {
        (self.lanes[lane.0].unused.try_at, self.lanes[lane.0].health.check_at) = (None, None);
    }

    /// Wakes `lane`, which has nothing in flight, if others have left work undone or its probe is due. Returns when to check again.
    pub(super) fn check_others(&mut self, now: Instant, lane: LaneId) -> Option<Instant> {
        if !self.lanes[lane.0].idle || !self.scheduler.lane(lane.0).is_usable() || !self.scheduler.buffer().is_at_work()
        {
            self.lanes[lane.0].unused.try_at = None;
            return None;
        }
        let is_missed = self.scheduler.wants(now, lane.0) || self.scheduler.is_first_overdue(now);
        let can_be_tried = self.scheduler.can_probe(lane.0);
        let unused = &mut self.lanes[lane.0].unused;
        let try_at = *unused.try_at.get_or_insert(now + unused.interval());
        if is_missed {
            // The thread of the lane that was woken for it may be busy with something else.
            self.wake(lane);
        } else if can_be_tried && now >= try_at {
            unused.tries += 1;
            unused.due = true;
            unused.try_at = Some(now + unused.interval());
            self.tell_of_unused(now, lane);
            self.wake(lane);
        }
        Some(now + STAND_BY)
    }

    fn tell_of_unused(&mut self, now: Instant, lane: LaneId) {
        let left_to_others = self.lanes[lane.0].clock.times(now).left_to_others;
        let unused = &mut self.lanes[lane.0].unused;
        let unused_for = left_to_others.saturating_sub(unused.left_before);
        if unused_for >= WORTH_TELLING && !std::mem::replace(&mut unused.told, true) {
            let (own, others) = self.scheduler.arrivals(lane.0);
            self.tell(now, Some(lane), EventKind::Unused { unused_for, own, others });
        }
    }
}

/// Whether the stream waits for nothing but an answer to the bytes in flight on one usable lane. That lane has checks of its own.
pub(super) fn waits_for_one_lane(lanes: &[Lane], scheduler: &Scheduler) -> bool {
    let mut at_work = (0..lanes.len()).filter(|lane| scheduler.lane(*lane).in_flight() > 0);
    scheduler.unsent().bytes() == 0
        && scheduler.buffer().lanes_worth_of_work() == 0
        && !scheduler.unsent().is_finished()
        && at_work.next().is_none_or(|lane| scheduler.lane(lane).is_usable())
        && at_work.next().is_none()
}

impl Unused {
    /// The lane had stalled and makes progress again: its probes start afresh.
    pub(super) fn begin_anew(&mut self) {
        (self.try_at, self.tries) = (None, 0);
    }

    fn interval(&self) -> Duration {
        probe_interval(self.tries)
    }
}

/// How often an idle lane checks, while the stream is at work, whether the other lanes take the work. Each check wakes a thread.
const STAND_BY: Duration = Duration::from_millis(100);
/// An event reports a lane that has left waiting bytes to others for so long.
const WORTH_TELLING: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::{
        super::{Config, LinkSample, Transmit},
        *,
    };
    use crate::{parameters::TransportParameters, policy::Policy, scheduler::LaneTraits};
    use bytes::Bytes;

    const MS: Duration = Duration::from_millis(1);

    /// A stream with idle lanes.
    fn connection<const N: usize>(now: Instant) -> (Connection, [LaneId; N]) {
        let parameters = TransportParameters { longest_chunk: 1000, window: 1_000_000 };
        let (outage_limit, linger) = (100 * MS, 100 * MS);
        let config = Config {
            longest_chunk: 1000,
            send_buffer: 1 << 20,
            max_unacknowledged: parameters.window,
            parameters,
            outage_limit,
            linger,
        };
        let mut connection = Connection::new(config, Policy::Adaptive.build(), parameters);
        let lanes = std::array::from_fn(|number| {
            let traits = LaneTraits { number: number as u16, ..LaneTraits::default() };
            connection.lane_up(now, traits).expect("there is room")
        });
        for lane in lanes {
            assert!(matches!(connection.poll_transmit(now, lane, &mut Vec::new()), Transmit::Idle));
        }
        let _ = connection.take_wakes();
        (connection, lanes)
    }

    /// Has `lane` send a message, and go idle.
    fn send(connection: &mut Connection, now: Instant, lane: LaneId) {
        connection.write(now, Bytes::from_static(b"message"));
        assert!(matches!(connection.poll_transmit(now, lane, &mut Vec::new()), Transmit::Send(Some(_))));
        assert!(matches!(connection.poll_transmit(now, lane, &mut Vec::new()), Transmit::Idle));
    }

    fn woken(connection: &mut Connection) -> (Vec<LaneId>, bool) {
        let wakes = connection.take_wakes();
        (wakes.lanes().collect(), wakes.supervisor)
    }

    #[test]
    fn a_message_that_is_sent_at_once_wakes_no_other_lane() {
        let now = Instant::now();
        let (mut connection, [one, other]) = connection(now);
        connection.write(now, Bytes::from_static(b"message"));
        let urgent = connection.take_urgent_wakes();
        assert_eq!((urgent.lanes().collect(), urgent.supervisor), (vec![one], false));
        assert!(matches!(connection.poll_transmit(now, one, &mut Vec::new()), Transmit::Send(Some(_))));
        assert!(matches!(connection.poll_transmit(now, one, &mut Vec::new()), Transmit::Idle));
        assert_eq!(woken(&mut connection), (vec![one], false), "its own check");
        assert_eq!((connection.poll_timeout(), connection.progress_check_at(other)), (None, None));
        // Without an answer, the lane's own check calls the others.
        let at = connection.progress_check_at(one).expect("a chunk is in flight");
        connection.check_progress(at, one, &LinkSample::default());
        let (lanes, supervisor) = woken(&mut connection);
        assert!(lanes.contains(&other) && supervisor);
        assert!(connection.poll_timeout().is_some() && connection.progress_check_at(other).is_some());
    }

    #[test]
    fn a_lane_with_bytes_in_flight_keeps_its_check() {
        let now = Instant::now();
        let (mut connection, [one, other]) = connection(now);
        send(&mut connection, now, one);
        let _ = connection.take_wakes();
        let check = Some(now + 300 * MS);
        connection.lanes[one.0].health.check_at = check;
        assert!(matches!(connection.poll_transmit(now, other, &mut Vec::new()), Transmit::Idle));
        let _ = connection.take_urgent_wakes();
        assert!(matches!(connection.poll_transmit(now, one, &mut Vec::new()), Transmit::Idle));
        assert_eq!(connection.progress_check_at(one), check);
    }

    #[test]
    fn bytes_that_nobody_takes_at_once_wake_the_others() {
        let now = Instant::now();
        let (mut connection, [one, other]) = connection(now);
        connection.write(now, Bytes::from_static(b"message"));
        let urgent = connection.take_urgent_wakes();
        assert_eq!((urgent.lanes().collect(), urgent.supervisor), (vec![one], false));
        assert_eq!(woken(&mut connection), (vec![other], true), "the first lane has not come");
    }

    #[test]
    fn a_lane_at_rest_keeps_no_check() {
        let now = Instant::now();
        let (mut connection, [lane]) = connection(now);
        send(&mut connection, now, lane);
        connection.rest(lane);
        assert!(connection.progress_check_at(lane).is_some(), "the chunk is in flight");
        let ack = crate::wire::Ack { chunks: 1, limit: 1_000_000, complete: false };
        connection.handle_ack(now + MS, lane, &ack).expect("the chunk was sent");
        connection.rest(lane);
        assert_eq!(connection.progress_check_at(lane), None);
        send(&mut connection, now + 2 * MS, lane);
        assert!(woken(&mut connection).0.contains(&lane), "the check is announced anew");
    }
}
