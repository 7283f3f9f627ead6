//! The application's calls, and the end of the stream.

use super::{Failure, LaneId, Session, receive_stream::ReceiveStream};
use crate::{scheduler::Unsent, stream_number::StreamNumber};
use bytes::Bytes;
use std::time::{Duration, Instant};

impl Session {
    /// How many bytes the application may write now in a stream.
    pub fn writable_bytes(&self, stream: StreamNumber) -> usize {
        self.scheduler.streams().unsent(stream).map_or(0, Unsent::writable_bytes)
    }

    /// Takes bytes to send in a stream, at most [`Session::writable_bytes`]; of a message among the
    /// bytes all of them, while there are any.
    pub fn write(&mut self, now: Instant, stream: StreamNumber, bytes: Bytes) {
        self.use_for_bytes(now, stream);
        self.scheduler.write(stream, bytes);
        self.wake_for_work(now);
        self.observe_application(now);
    }

    /// The application will write no more in a stream.
    pub fn finish(&mut self, now: Instant, stream: StreamNumber) {
        self.scheduler.finish(stream);
        self.wake_for_work(now);
        self.observe_application(now);
    }

    /// Whether [`Session::finish`] was called for the stream, or the stream is not open.
    pub fn is_finished(&self, stream: StreamNumber) -> bool {
        self.scheduler.streams().unsent(stream).is_none_or(Unsent::is_finished)
    }

    /// Takes the next bytes of a stream in order. `None` if there are none yet, or [no
    /// more](Session::is_read).
    pub fn read(&mut self, now: Instant, stream: StreamNumber) -> Option<Bytes> {
        self.use_for_bytes(now, stream);
        if !self.receiving.get(stream).is_some_and(ReceiveStream::is_readable) {
            return None;
        }
        let bytes = self.receiving.act(stream, ReceiveStream::read)??;
        self.has_read(now, stream);
        Some(bytes)
    }

    /// The application has read: lanes tell the peer the new limit when it has moved enough.
    pub(super) fn has_read(&mut self, now: Instant, stream: StreamNumber) {
        self.has_moved(now, now);
        if !self.has_arrived_whole() {
            self.tell_limit(now);
        }
        if self.many.is_some() {
            self.has_made_room(now, stream);
        }
        self.observe_application(now);
    }

    /// Prefers the lane that `near` gives for waiting bytes, until a chunk has arrived and if the
    /// lane is as good as the others: that of the writer's own thread.
    pub fn prefer(&mut self, near: impl FnOnce() -> Option<LaneId>) {
        self.lanes.prefer(near);
    }

    /// Whether bytes or a message of any stream have arrived that the application has not taken.
    pub fn is_readable(&self) -> bool {
        self.receiving.is_any_readable()
    }

    /// Whether the application has read every byte that the peer wrote in a stream.
    pub fn is_read(&self, stream: StreamNumber) -> bool {
        self.receiving.get(stream).is_some_and(ReceiveStream::is_finished)
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
        if self.many.is_some() {
            return self.close_when_delivered(now);
        }
        self.finish(now, StreamNumber::FIRST);
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
        self.receiving.act(StreamNumber::FIRST, ReceiveStream::stop_reading);
        if unread > 0 || self.only().is_some_and(|only| only.bytes_held() > 0) {
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
        self.receiving.act(StreamNumber::FIRST, |only| only.refuse(only.bytes_read().saturating_sub(unread)));
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
        let is_read = |only: &ReceiveStream| only.is_complete() || only.reading_stopped();
        self.bytes_at_risk() == 0 && self.only().is_some_and(is_read)
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
        let is_sent = match self.many {
            Some(_) => !self.owes_streams(),
            None => self.is_sending_over(),
        };
        self.needs_no_lane() || is_sent && !self.is_receiving_over() && !owes_last_acknowledgement()
    }

    /// Why the application cannot write any more in a stream, for another reason than
    /// [`Session::finish`].
    pub fn write_failure(&self, stream: StreamNumber) -> Option<Failure> {
        let cut_short = || {
            let stopped = self.scheduler.streams().get(stream)?.stopped().map(|unread| Failure::Stopped { unread });
            stopped.or_else(|| self.stopped_with(stream).map(|code| Failure::StoppedWith { code }))
        };
        self.failure().cloned().or_else(cut_short)
    }

    /// The code with which the peer stopped a stream of a session with many, if it did.
    pub fn stopped_with(&self, stream: StreamNumber) -> Option<u64> {
        let reset = self.scheduler.streams().get(stream)?.was_reset()?;
        reset.is_by_peer.then_some(reset.code)
    }

    /// Why the application cannot read on in a stream, if it cannot.
    pub fn read_failure(&self, stream: StreamNumber) -> Option<Failure> {
        let reset = || self.receiving.get(stream)?.reset_code();
        reset().map(|code| Failure::ResetWith { code }).or_else(|| self.failure().cloned())
    }

    /// Whether the peer has every written byte: it has received all of them and the end, or has
    /// read them and reads no more.
    pub fn is_sent(&self) -> bool {
        self.is_delivered() || self.stopped() == Some(0)
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
    /// reads no more, or has closed the session.
    pub fn bytes_at_risk(&self) -> u64 {
        if self.is_sending_over() || matches!(self.failure(), Some(Failure::ClosedByPeer { .. })) {
            return 0;
        }
        self.scheduler.flight().bytes_unacknowledged() + self.scheduler.streams().bytes() as u64
    }

    /// Whether there is nothing more to send in the only stream: the peer has every byte, or reads
    /// no more.
    pub fn is_sending_over(&self) -> bool {
        self.is_delivered() || self.stopped().is_some()
    }

    /// Whether the peer has every byte and the end of the only stream.
    pub(super) fn is_delivered(&self) -> bool {
        self.many.is_none() && self.scheduler.buffer().is_complete(StreamNumber::FIRST)
    }

    /// The number of written bytes of the only stream that the peer has not read, if it reads no
    /// more.
    pub(super) fn stopped(&self) -> Option<u64> {
        self.scheduler.streams().get(StreamNumber::FIRST).filter(|_| self.many.is_none())?.stopped()
    }

    /// The receiving side of the only stream.
    pub(super) fn only(&self) -> Option<&ReceiveStream> {
        self.receiving.get(StreamNumber::FIRST).filter(|_| self.many.is_none())
    }

    /// Whether every byte of the only stream has arrived.
    pub(super) fn has_arrived_whole(&self) -> bool {
        self.only().is_some_and(ReceiveStream::is_complete)
    }
}
