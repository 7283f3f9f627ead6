//! How a stream ends: finished, dropped, told to stop, given up.
//!
//! Each direction ends separately. When the application drops the stream, the lanes still deliver its bytes and then its end, as long as the stream
//! may linger. This end tells the peer at once that it reads no more ([`Frame::Stop`], as `STOP_SENDING` in RFC 9000): the peer's writes fail,
//! while it still receives this end's bytes. Only [`Connection::abort`] discards bytes that the peer does not have yet.

use super::{Connection, Failure, LaneId};
use crate::{countdown::Countdown, violation::Violation, wire::Frame};
use std::time::{Duration, Instant};

/// The state of a stream's end, beside that of the two directions.
#[derive(Debug)]
pub(super) struct Ending {
    /// For how long the lanes still deliver written bytes after the application has dropped the stream.
    linger: Duration,
    /// The application reads no more.
    nobody_reads: bool,
    /// The offset up to which this end has read; set when the peer sends bytes that the application does not read.
    read_to: Option<u64>,
    /// The number of written bytes that the peer has not read, if it reads no more.
    stopped: Option<u64>,
    /// The time for which the lanes deliver the bytes of a stream that the application has dropped.
    lingers: Option<Countdown>,
    /// The time to linger and to tell the peer, since the application abandoned the stream or the stream failed.
    abandoned: Option<Countdown>,
    /// The time for the peer of a stream that is done to dial again, since the peer's kernel closed or reset the last
    /// lane, or that lane left.
    returns: Option<Countdown>,
    /// Both ends closed a lane that was not leaving after the stream was done, so the peer knows that the stream is
    /// done; or the time for that is over.
    pub(super) settled: bool,
}

impl Ending {
    pub(super) fn new(linger: Duration) -> Self {
        let (nobody_reads, settled) = (false, false);
        let (lingers, abandoned, returns) = (None, None, None);
        Self { linger, nobody_reads, read_to: None, stopped: None, lingers, abandoned, returns, settled }
    }
}

impl Connection {
    /// The application drops the stream. The lanes deliver its bytes and then its end, as long as the stream may linger. The application had taken
    /// `unread` bytes from the stream without reading them.
    pub fn drop_application(&mut self, now: Instant, unread: u64) {
        self.abandon(now);
        if self.is_done() || self.failure.is_some() {
            return;
        }
        self.ending.lingers = Some(Countdown::new(now, self.ending.linger));
        self.wakes.supervisor = true;
        self.finish(now);
        self.stop_reading(unread);
    }

    /// The stream has only to end: its lanes close at the latest when the stream has lingered and had the time to tell the peer.
    pub fn abandon(&mut self, now: Instant) {
        if self.ending.abandoned.is_none() {
            self.ending.abandoned = Some(Countdown::new(now, self.ending.linger + FAREWELL));
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

    /// Whether nothing is lost if every lane ends now: the peer has every written byte, and it has ended its own direction, or the application reads
    /// no more.
    pub fn loses_nothing(&self) -> bool {
        self.bytes_at_risk() == 0 && (self.incoming.is_complete() || self.ending.nobody_reads)
    }

    /// For how long the lanes still deliver written bytes after the application has dropped the stream.
    pub fn linger(&self) -> Duration {
        self.ending.linger
    }

    /// Whether this end owes its peer nothing: the peer has every written byte and the end, or reads no more. If both directions are over, the peer has
    /// heard of that too; if the application has dropped the stream, the peer's bytes are acknowledged. A stream that has failed owes nothing.
    pub fn has_delivered(&self) -> bool {
        self.needs_no_lane() || self.is_sending_over() && !self.is_receiving_over() && !self.owes_last_acknowledgement()
    }

    fn owes_last_acknowledgement(&self) -> bool {
        self.ending.lingers.is_some() && self.lanes.iter().any(|lane| lane.up && lane.since.is_some())
    }

    /// A lane has acknowledged all that has arrived on it.
    pub(super) fn has_acknowledged(&mut self) {
        self.wakes.supervisor |= self.ending.lingers.is_some();
    }

    /// The peer's kernel has closed or reset a lane with this round trip, or the lane has left the stream. If it was
    /// the last of a stream that is done, either the peer is gone, or it has still to hear of the end and dials again
    /// soon.
    pub(super) fn expect_return(&mut self, now: Instant, rtt: Option<Duration>) {
        if self.is_done_without_lanes() {
            let redial = (REDIAL + REDIAL_ROUND_TRIPS * rtt.unwrap_or_default()).min(self.outage_limit);
            self.ending.returns = Some(Countdown::new(now, redial.max(MIN_RETURN)));
            self.wakes.supervisor = true;
        }
    }

    /// A lane has come up: the peer gets to know of the end by the lane.
    pub(super) fn has_returned(&mut self) {
        self.ending.returns = None;
    }

    /// The peer refuses every lane that this end dials again: no peer is left to hear of the end of a stream that is
    /// done.
    pub(super) fn nobody_returns(&mut self) {
        let settles = self.is_done_without_lanes();
        self.ending.settled |= settles;
        self.wakes.supervisor |= settles;
    }

    fn is_done_without_lanes(&self) -> bool {
        self.is_done() && self.failure.is_none() && self.lanes().next().is_none()
    }

    /// Whether every lane of an abandoned stream ends, even with bytes in flight.
    pub(super) fn has_lingered(&self) -> bool {
        self.ending.abandoned.as_ref().is_some_and(Countdown::is_over)
    }

    /// When to [handle](Self::handle_ending) the end of the stream next.
    pub(super) fn ending_check_at(&self) -> Option<Instant> {
        let lingers = self.ending.lingers.filter(|_| self.is_lingering());
        let limits = [lingers, self.ending.abandoned, self.ending.returns].into_iter().flatten();
        limits.filter(|limit| !limit.is_over()).map(|limit| limit.check_at()).min()
    }

    /// Ends the lingering of a dropped stream, and then its lanes, if it is time for that.
    pub(super) fn handle_ending(&mut self, now: Instant) {
        let Ending { lingers, abandoned, returns, settled, .. } = &mut self.ending;
        let has_lingered = lingers.as_mut().is_some_and(|limit| limit.count(now));
        for limit in [abandoned, returns].into_iter().flatten() {
            *settled |= limit.count(now);
        }
        if has_lingered && self.is_lingering() {
            self.end_lingering(now);
        }
    }

    /// The application reads no more, and had taken `unread` bytes from the stream without reading them. This end tells the peer as soon as the
    /// peer has sent bytes that the application has not read. A peer that sends nothing more can end its direction as usual.
    pub fn stop_reading(&mut self, unread: u64) {
        self.ending.nobody_reads = true;
        if unread > 0 || self.incoming.bytes_held() > 0 {
            self.refuse(unread);
        }
    }

    /// Resets the stream, and discards all bytes that the peer does not have yet.
    pub fn abort(&mut self, now: Instant) {
        if !self.is_done() && self.failure.is_none() {
            self.fail(now, Failure::Dropped);
        }
    }

    /// Nothing drives the stream any more at this end: it fails.
    pub fn runtime_stopped(&mut self, now: Instant) {
        if !self.is_done() && self.failure.is_none() {
            self.fail(now, Failure::RuntimeStopped);
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
        self.watch_for_outage(now);
        self.wakes.writer = true;
        self.wakes.supervisor = true;
        self.wake_all_lanes();
        self.observe(now);
        Ok(())
    }

    /// Why the application cannot write any more, for another reason than [`Connection::finish`].
    pub fn write_failure(&self) -> Option<Failure> {
        let stopped = || self.ending.stopped.map(|unread| Failure::Stopped { unread });
        self.failure.clone().or_else(stopped)
    }

    /// Whether the peer has every written byte: it has received all of them and the end, or has read them and reads no more.
    pub fn is_sent(&self) -> bool {
        self.scheduler.is_complete() || self.ending.stopped == Some(0)
    }

    /// Whether both directions have come to their end.
    pub fn is_done(&self) -> bool {
        self.is_sending_over() && self.is_receiving_over()
    }

    /// The bytes that the peer does not have, if the application has dropped the stream and the stream failed since.
    pub fn undelivered(&self) -> u64 {
        if self.failure.is_none() || self.ending.lingers.is_none() { 0 } else { self.bytes_at_risk() }
    }

    /// How many written bytes the peer does not have, as far as this end knows; none if the peer reads no more.
    pub fn bytes_at_risk(&self) -> u64 {
        if self.is_sending_over() {
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

    /// Whether this end refuses the bytes that still arrive.
    pub(super) fn refuses(&self) -> bool {
        self.ending.read_to.is_some()
    }

    /// Refuses new bytes if the application reads no more. A copy that a lost or slow lane causes does not count: the application has read its
    /// bytes.
    pub(super) fn refuse_what_came(&mut self) {
        if self.ending.nobody_reads && self.incoming.bytes_held() > 0 {
            self.refuse(0);
        }
    }

    /// Whether the lanes deliver the bytes of a stream that the application has dropped.
    fn is_lingering(&self) -> bool {
        self.ending.lingers.is_some() && self.failure.is_none() && !self.is_done()
    }

    /// The time to linger is over.
    fn end_lingering(&mut self, now: Instant) {
        if self.is_sending_over() {
            self.refuse(0);
        } else {
            self.fail(now, Failure::Dropped);
        }
    }

    /// Appends `Stop` if this end has to tell the peer, once on each lane.
    pub(super) fn say_stop(&mut self, lane: LaneId, control: &mut Vec<u8>) -> bool {
        let Some(read) = self.ending.read_to else { return false };
        let news = !std::mem::replace(&mut self.lanes[lane.0].stop_sent, true);
        if news {
            control.extend_from_slice(&Frame::Stop { read }.encode());
        }
        news
    }

    /// Tells the peer that this end reads no more, unless a lane has told it that everything has arrived.
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

/// A redial whose first packet is lost takes a second (the first timeout of TCP, RFC 6298), the pause before it and the
/// noise of busy machines included half a second more.
const REDIAL: Duration = Duration::from_millis(1500);
/// Half a round trip until the peer hears of the reset, two and a half until its proof arrives, and one for slow paths.
const REDIAL_ROUND_TRIPS: u32 = 4;
/// How long a stream that is done waits at least for a peer that may not know: the round trip may be unknown.
const MIN_RETURN: Duration = Duration::from_secs(2);
/// For how long a lane tries to tell the peer that it broke the protocol, or that the linger time is over.
pub(crate) const FAREWELL: Duration = Duration::from_secs(1);
