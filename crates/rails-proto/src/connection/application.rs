//! The application's calls, and the end of the stream.

use super::{Connection, Failure, LaneId};
use bytes::Bytes;
use std::time::{Duration, Instant};

impl Connection {
    /// How many bytes the application may write now.
    pub fn writable_bytes(&self) -> usize {
        self.scheduler.unsent().writable_bytes()
    }

    /// Takes bytes to send, at most [`Connection::writable_bytes`].
    pub fn write(&mut self, now: Instant, bytes: Bytes) {
        self.use_for_bytes(now);
        self.scheduler.write(bytes);
        self.wake_for_work(now);
        self.observe_application(now);
    }

    /// The application will write no more.
    pub fn finish(&mut self, now: Instant) {
        self.scheduler.buffer_mut().finish();
        self.wake_for_work(now);
        self.observe_application(now);
    }

    /// Whether [`Connection::finish`] was called.
    pub fn is_finished(&self) -> bool {
        self.scheduler.unsent().is_finished()
    }

    /// Takes the next bytes in order. `None` if there are none yet, or [no
    /// more](Connection::is_read).
    pub fn read(&mut self, now: Instant) -> Option<Bytes> {
        self.use_for_bytes(now);
        let bytes = self.incoming.read()?;
        self.has_read(now);
        Some(bytes)
    }

    /// The application has read: lanes tell the peer the new limit when it has moved enough.
    pub(super) fn has_read(&mut self, now: Instant) {
        self.has_moved(now, now);
        if !self.incoming.is_complete() {
            self.lanes.wake_for_limit(self.incoming.limit(), self.incoming.window());
        }
        self.observe_application(now);
    }

    /// Prefers the lane that `near` gives for waiting bytes, until a chunk has arrived and if the
    /// lane is as good as the others: that of the writer's own thread.
    pub fn prefer(&mut self, near: impl FnOnce() -> Option<LaneId>) {
        self.lanes.prefer(near);
    }

    /// Whether bytes or a message have arrived that the application has not taken.
    pub fn is_readable(&self) -> bool {
        self.incoming.is_readable()
    }

    /// Whether the application has read every byte that the peer wrote.
    pub fn is_read(&self) -> bool {
        self.incoming.is_finished()
    }

    /// The failure of the stream, if it has failed. The application can still read the bytes that
    /// have arrived in order.
    pub fn failure(&self) -> Option<&Failure> {
        self.ending.failure()
    }

    /// The application drops the stream. The lanes deliver its bytes and then its end, as long as
    /// the stream may linger. The application had taken `unread` bytes from the stream without
    /// reading them.
    pub fn drop_application(&mut self, now: Instant, unread: u64) {
        self.abandon(now);
        if self.is_over() {
            return;
        }
        self.ending.drop_application(now);
        self.wakes.supervisor = true;
        self.finish(now);
        self.stop_reading(unread);
    }

    /// Abandons the stream, which has only to end: its lanes close at the latest when the stream
    /// has lingered and has had the time to tell the peer.
    pub fn abandon(&mut self, now: Instant) {
        if self.ending.abandon(now) {
            self.wakes.supervisor = true;
            self.lanes.set_timers();
        }
    }

    /// The application reads no more, and had taken `unread` bytes from the stream without reading
    /// them. This end tells the peer as soon as the peer has sent bytes that the application
    /// has not read. A peer that sends nothing more can end its direction as usual.
    pub fn stop_reading(&mut self, unread: u64) {
        self.ending.stop_reading();
        if unread > 0 || self.incoming.bytes_held() > 0 {
            self.refuse(unread);
        }
    }

    /// Resets the stream, and discards all bytes that the peer does not have yet.
    pub fn abort(&mut self, now: Instant) {
        if !self.is_over() {
            self.fail(now, Failure::Dropped);
        }
    }

    /// Fails the stream: no runtime drives it at this end any more.
    pub fn runtime_stopped(&mut self, now: Instant) {
        if !self.is_over() {
            self.fail(now, Failure::RuntimeStopped);
        }
    }

    /// Tells the peer that this end reads no more, unless a lane has told it that everything has
    /// arrived.
    pub(super) fn refuse(&mut self, unread: u64) {
        if self.takes_nothing() || self.lanes.have_acknowledged_end() {
            return;
        }
        self.ending.refuse(self.incoming.bytes_read().saturating_sub(unread));
        self.wakes.supervisor |= self.is_done();
        self.lanes.wake_all();
    }

    /// Whether the stream needs no lane any more.
    pub fn needs_no_lane(&self) -> bool {
        self.ending.needs_no_lane()
    }

    /// Whether nothing is lost if every lane ends now: the peer has every written byte, and it has
    /// ended its own direction, or the application reads no more.
    pub fn loses_nothing(&self) -> bool {
        self.bytes_at_risk() == 0 && (self.incoming.is_complete() || self.ending.reading_stopped())
    }

    /// For how long the lanes still deliver written bytes after the application has dropped the
    /// stream.
    pub fn linger(&self) -> Duration {
        self.ending.linger()
    }

    /// Whether this end owes its peer nothing: the peer has every written byte and the end, or
    /// reads no more. If both directions are over, the peer has heard of that too; if the
    /// application has dropped the stream, the peer's bytes are acknowledged. A stream that has
    /// failed owes nothing.
    pub fn has_delivered(&self) -> bool {
        let owes_last_acknowledgement = || self.ending.is_dropped() && self.lanes.have_unacknowledged();
        self.needs_no_lane() || self.is_sending_over() && !self.is_receiving_over() && !owes_last_acknowledgement()
    }

    /// Why the application cannot write any more, for another reason than [`Connection::finish`].
    pub fn write_failure(&self) -> Option<Failure> {
        self.ending.write_failure()
    }

    /// Whether the peer has every written byte: it has received all of them and the end, or has
    /// read them and reads no more.
    pub fn is_sent(&self) -> bool {
        self.scheduler.buffer().is_complete() || self.ending.has_stopped_at_the_end()
    }

    /// Whether both directions have come to their end.
    pub fn is_done(&self) -> bool {
        self.is_sending_over() && self.is_receiving_over()
    }

    /// The bytes that the peer does not have, if the application has dropped the stream and the
    /// stream failed since.
    pub fn undelivered(&self) -> u64 {
        if self.has_failed() && self.ending.is_dropped() { self.bytes_at_risk() } else { 0 }
    }

    /// How many written bytes the peer does not have, as far as this end knows; none if the peer
    /// reads no more.
    pub fn bytes_at_risk(&self) -> u64 {
        if self.is_sending_over() {
            return 0;
        }
        self.scheduler.flight().bytes_unacknowledged() + self.scheduler.unsent().bytes() as u64
    }

    /// Whether there is nothing more to send: the peer has every byte, or reads no more.
    pub fn is_sending_over(&self) -> bool {
        self.scheduler.buffer().is_complete() || self.ending.is_stopped()
    }
}
