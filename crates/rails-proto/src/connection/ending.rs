//! How a stream ends: finished, dropped, told to stop, given up.
//!
//! Each direction ends for itself. An application that goes has finished: its bytes and then its end are delivered, for as long as the stream may
//! linger. The peer is told at once that nobody reads any more ([`Frame::Stop`], as `STOP_SENDING` in RFC 9000): its writes fail, while it still
//! receives the bytes of this end. Only [`Connection::abort`] throws away bytes that the peer does not have yet.

use super::{Connection, Failure, LaneId};
use crate::{violation::Violation, wire::Frame};
use std::time::{Duration, Instant};

/// The state of a stream's end, beside that of the two directions.
#[derive(Debug)]
pub(super) struct Ending {
    /// For how long written bytes are still delivered once the application has gone.
    linger: Duration,
    /// Nobody reads at this end any more.
    nobody_reads: bool,
    /// The offset up to which this end has read, once the peer has sent bytes that nobody reads.
    read_to: Option<u64>,
    /// The peer reads no more: how many of the written bytes it has not read.
    stopped: Option<u64>,
    /// The application has gone. Until this time its bytes are delivered.
    linger_until: Option<Instant>,
    /// Since when the stream has only to end, or has failed.
    abandoned: Option<Instant>,
    /// Both ends closed a lane after the stream was done, so the peer knows that it is done; or the time for that is over.
    pub(super) settled: bool,
}

impl Ending {
    pub(super) fn new(linger: Duration) -> Self {
        let (nobody_reads, settled) = (false, false);
        Self { linger, nobody_reads, read_to: None, stopped: None, linger_until: None, abandoned: None, settled }
    }
}

impl Connection {
    /// The application has gone. Its bytes and then its end are delivered, as long as the stream may linger. It had taken `unread` bytes from the
    /// stream without reading them.
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

    /// The stream has only to end: its lanes are closed at the latest when it has lingered, and the peer was told.
    pub fn abandon(&mut self, now: Instant) {
        if self.ending.abandoned.is_none() {
            self.ending.abandoned = Some(now);
            self.wakes.supervisor = true;
            for (lane, _) in self.lanes.iter().enumerate().filter(|(_, lane)| lane.up) {
                self.wakes.set_timer(LaneId(lane));
            }
        }
    }

    /// Whether the stream needs no lane any more.
    pub fn needs_no_lane(&self) -> bool {
        self.ending.settled || self.failure.is_some()
    }

    /// When every lane of an abandoned stream ends, even with bytes in flight.
    pub(super) fn lanes_end(&self) -> Option<Instant> {
        Some(self.ending.abandoned? + self.ending.linger + FAREWELL)
    }

    /// Nobody reads at this end any more, and `unread` bytes were taken from the stream without being read. The peer is told as soon as it has sent
    /// bytes that nobody has read. While it sends nothing, it can end its direction as usual.
    pub fn stop_reading(&mut self, unread: u64) {
        self.ending.nobody_reads = true;
        if unread > 0 || self.incoming.bytes_held() > 0 {
            self.refuse(unread);
        }
    }

    /// Gives the stream up, with all bytes that the peer does not have yet.
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

    /// Why nothing can be written any more, for another reason than [`Connection::finish`].
    pub fn write_failure(&self) -> Option<Failure> {
        let stopped = || self.ending.stopped.map(|unread| Failure::Stopped { unread });
        self.failure.clone().or_else(stopped)
    }

    /// Whether the peer has every written byte: all of them and the end have arrived, or it has read them and reads no more.
    pub fn is_sent(&self) -> bool {
        self.scheduler.is_complete() || self.ending.stopped == Some(0)
    }

    /// Whether both directions have come to their end.
    pub fn is_done(&self) -> bool {
        self.is_sending_over() && self.is_receiving_over()
    }

    /// How many bytes of an application that has gone were not delivered, if the stream has failed for that.
    pub fn undelivered(&self) -> u64 {
        if self.failure.is_none() || self.ending.linger_until.is_none() || self.is_sending_over() {
            return 0;
        }
        self.scheduler.bytes_unacknowledged() + self.scheduler.bytes_waiting() as u64
    }

    /// Whether there is nothing more to send: the peer has every byte, or reads no more.
    pub fn is_sending_over(&self) -> bool {
        self.scheduler.is_complete() || self.is_stopped()
    }

    /// Whether the peer reads no more.
    pub(super) fn is_stopped(&self) -> bool {
        self.ending.stopped.is_some()
    }

    /// Whether nobody reads the bytes that still arrive.
    pub(super) fn refuses(&self) -> bool {
        self.ending.read_to.is_some()
    }

    /// Refuses new bytes if nobody reads any more. A copy, which a lost or slow lane causes, was read before.
    pub(super) fn refuse_what_came(&mut self) {
        if self.ending.nobody_reads && self.incoming.bytes_held() > 0 {
            self.refuse(0);
        }
    }

    /// Until when the stream lingers, if it does.
    pub(super) fn linger_until(&self) -> Option<Instant> {
        self.ending.linger_until.filter(|_| self.failure.is_none() && !self.is_done())
    }

    /// The time to linger is over.
    pub(super) fn end_lingering(&mut self, now: Instant) {
        if self.is_sending_over() {
            self.refuse(0);
        } else {
            self.fail(now, Failure::Dropped);
        }
    }

    /// Appends `Stop` if the peer is to be told, once on each lane.
    pub(super) fn say_stop(&mut self, lane: LaneId, control: &mut Vec<u8>) -> bool {
        let Some(read) = self.ending.read_to else { return false };
        let news = !std::mem::replace(&mut self.lanes[lane.0].stop_sent, true);
        if news {
            control.extend_from_slice(&Frame::Stop { read }.encode());
        }
        news
    }

    /// Has the peer told that nobody reads, unless it was told that everything has arrived.
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
