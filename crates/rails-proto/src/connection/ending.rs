//! How a stream ends: finished, dropped, told to stop, given up.
//!
//! Each direction ends for itself. An application that goes has finished: what it wrote is delivered, and then its end, for as long as the stream may
//! linger. What comes for it from then on is in vain, and the peer is told so at once ([`Frame::Stop`], as `STOP_SENDING` in RFC 9000): its
//! writes fail, while it still receives what was written here. Only [`Connection::abort`] throws away what the peer does not have yet.

use super::{Connection, Failure, LaneId};
use crate::{violation::Violation, wire::Frame};
use std::time::{Duration, Instant};

/// What is known of a stream's end beside what the two directions know themselves.
#[derive(Debug)]
pub(super) struct Ending {
    /// How long what was written is still delivered once the application has gone.
    linger: Duration,
    /// Nobody reads at this end any more.
    nobody_reads: bool,
    /// What the peer is told of that, once it has sent something in vain: how far was read.
    read_to: Option<u64>,
    /// The peer reads no more: how many of the bytes that were written it has not read.
    stopped: Option<u64>,
    /// The application has gone, and what it wrote is to be delivered until then.
    linger_until: Option<Instant>,
    /// Since when nothing is wanted of the stream but its end, or it has failed.
    abandoned: Option<Instant>,
    /// A lane was closed by both ends after the stream was done, so the peer knows that it is; or the lanes have had the time for that.
    pub(super) settled: bool,
}

impl Ending {
    pub(super) fn new(linger: Duration) -> Self {
        let (nobody_reads, settled) = (false, false);
        Self { linger, nobody_reads, read_to: None, stopped: None, linger_until: None, abandoned: None, settled }
    }
}

impl Connection {
    /// The application has gone. What it wrote is delivered, and then its end, as long as the stream may linger. `unread` bytes were taken from the stream,
    /// and not read after all.
    pub fn drop_application(&mut self, now: Instant, unread: u64) {
        self.abandon(now);
        if self.is_done() || self.failure.is_some() {
            return;
        }
        self.ending.linger_until = Some(now + self.ending.linger);
        self.wakes.supervisor = true;
        self.finish(now);
        self.stop_reading(unread);
    }

    /// Nothing is wanted of the stream any more but its end: its lanes are closed at the latest when it has lingered, and the peer was told of that.
    pub fn abandon(&mut self, now: Instant) {
        if self.ending.abandoned.is_none() {
            self.ending.abandoned = Some(now);
            self.wakes.supervisor = true;
            for (lane, _) in self.lanes.iter().enumerate().filter(|(_, lane)| lane.up) {
                self.wakes.set_timer(LaneId(lane));
            }
        }
    }

    /// Whether there is nothing left for which a lane would have to be brought up.
    pub fn needs_no_lane(&self) -> bool {
        self.ending.settled || self.failure.is_some()
    }

    /// When every lane of an abandoned stream ends, even with bytes in flight.
    pub(super) fn lanes_end(&self) -> Option<Instant> {
        Some(self.ending.abandoned? + self.ending.linger + FAREWELL)
    }

    /// Nobody reads at this end any more, and `unread` bytes were taken from the stream and not read after all. The peer is told as soon as it has sent
    /// something that nobody has read; while it sends nothing, it can end its direction as ever.
    pub fn stop_reading(&mut self, unread: u64) {
        self.ending.nobody_reads = true;
        if unread > 0 || self.incoming.bytes_held() > 0 {
            self.refuse(unread);
        }
    }

    /// Gives the stream up, with all that the peer does not have yet.
    pub fn abort(&mut self, now: Instant) {
        if !self.is_done() && self.failure.is_none() {
            self.fail(now, Failure::Dropped);
        }
    }

    /// The peer's application reads nothing from the offset `read` on.
    ///
    /// # Errors
    /// [`Violation`]; the stream has failed with it.
    pub fn handle_stop(&mut self, now: Instant, read: u64) -> Result<(), Violation> {
        if self.failure.is_some() || self.is_sending_over() {
            return Ok(());
        }
        let unread = self.scheduler.give_up(read);
        self.ending.stopped = Some(self.or_fail(now, unread)?);
        self.wakes.writer = true;
        self.wakes.supervisor |= self.is_done();
        self.wake_all_lanes();
        self.observe(now);
        Ok(())
    }

    /// Why nothing can be written any more, where that is not because it was finished.
    pub fn write_failure(&self) -> Option<Failure> {
        let stopped = || self.ending.stopped.map(|unread| Failure::Stopped { unread });
        self.failure.clone().or_else(stopped)
    }

    /// Whether the peer has every byte that was written: all of them have arrived and the end as well, or it has read them and wants no more.
    pub fn is_sent(&self) -> bool {
        self.scheduler.is_complete() || self.ending.stopped == Some(0)
    }

    /// Whether both directions have come to their end.
    pub fn is_done(&self) -> bool {
        self.is_sending_over() && self.is_receiving_over()
    }

    /// How many bytes an application that has gone had written that were not delivered, once the stream has failed for that.
    pub fn undelivered(&self) -> u64 {
        if self.failure.is_none() || self.ending.linger_until.is_none() || self.is_sending_over() {
            return 0;
        }
        self.scheduler.bytes_unacknowledged() + self.scheduler.bytes_waiting() as u64
    }

    /// Whether there is nothing more to be sent: the peer has all of it, or wants none of it.
    pub fn is_sending_over(&self) -> bool {
        self.scheduler.is_complete() || self.is_stopped()
    }

    /// Whether the peer reads no more.
    pub(super) fn is_stopped(&self) -> bool {
        self.ending.stopped.is_some()
    }

    /// Whether whatever still arrives is in vain.
    pub(super) fn refuses(&self) -> bool {
        self.ending.read_to.is_some()
    }

    /// Something has arrived: nobody will read it where nobody reads any more. What comes a second time, because a lane was lost or slow, was read before.
    pub(super) fn refuse_what_came(&mut self) {
        if self.ending.nobody_reads && self.incoming.bytes_held() > 0 {
            self.refuse(0);
        }
    }

    /// Until when an application that has gone lets the stream linger, where that is still to be waited for.
    pub(super) fn linger_until(&self) -> Option<Instant> {
        self.ending.linger_until.filter(|_| self.failure.is_none() && !self.is_done())
    }

    /// The stream has lingered for as long as it may.
    pub(super) fn end_lingering(&mut self, now: Instant) {
        if self.is_sending_over() {
            self.refuse(0);
        } else {
            self.fail(now, Failure::Dropped);
        }
    }

    /// Appends what the peer has to be told on `lane`, once on each.
    pub(super) fn say_stop(&mut self, lane: LaneId, control: &mut Vec<u8>) -> bool {
        let Some(read) = self.ending.read_to else { return false };
        let news = !std::mem::replace(&mut self.lanes[lane.0].stop_sent, true);
        if news {
            control.extend_from_slice(&Frame::Stop { read }.encode());
        }
        news
    }

    /// Has the peer told that nobody reads, but not where it was told that everything has arrived.
    fn refuse(&mut self, unread: u64) {
        if self.failure.is_some() || self.refuses() || self.lanes.iter().any(|lane| lane.last_ack.complete) {
            return;
        }
        self.ending.read_to = Some(self.incoming.bytes_read().saturating_sub(unread));
        self.wakes.supervisor |= self.is_done();
        self.wake_all_lanes();
    }

    fn is_receiving_over(&self) -> bool {
        self.incoming.is_complete() || self.refuses()
    }
}

/// For how long a lane tries to tell the peer that it broke the protocol, or that the stream has lingered for long enough.
pub(crate) const FAREWELL: Duration = Duration::from_secs(1);
