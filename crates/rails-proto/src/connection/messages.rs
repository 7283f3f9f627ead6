//! A connection that carries messages.
//!
//! The driver hands in chunks with a [content](Content) through [`Connection::admit_content`].
//! Depending on the answer, it hands the chunk in whole through [`Connection::handle_content`], or
//! reads it straight into the message's buffer, through [`Connection::lend`] and
//! [`Connection::handle_part`].

use super::{Connection, LaneId};
use crate::{
    chunk::{Content, Priority},
    messages::{Delivery, Lent, MIN_CHUNK, MIN_WINDOW, MessageBuffer, Place, longest_message},
    violation::{Form, Violation},
    wire::DataHeader,
};
use bytes::Bytes;
use std::time::Instant;

/// The reason why a stream cannot carry messages.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotForMessages {
    /// The application has used the stream for bytes before.
    #[error("bytes were written to it, or its write side was shut down, before")]
    InUse,
    /// The chunks, the peer's window or the bytes that this end keeps for the peer are too small.
    #[error("the ends take chunks of {chunk} bytes, and {window} may be on their way; messages need 64 and 2048")]
    TooSmall {
        /// The longest chunk that both ends take.
        chunk: usize,
        /// The most bytes that may be on their way: the peer's window, or less
        /// ([`Config::max_unacknowledged`](super::Config::max_unacknowledged)).
        window: u64,
    },
}

impl Connection {
    // The application's side.

    /// Uses the stream for messages from here on. If bytes have arrived already, the stream fails
    /// with [`Violation::Form`].
    ///
    /// # Errors
    /// [`NotForMessages`]; the stream is as it was.
    pub fn carry_messages(&mut self, now: Instant) -> Result<(), NotForMessages> {
        let (window, chunk) = (self.scheduler.window().size(), self.scheduler.buffer().longest_chunk());
        if chunk < MIN_CHUNK || window < MIN_WINDOW {
            return Err(NotForMessages::TooSmall { chunk, window });
        }
        // A peer that reads no more has ended this end's sending, but it may have sent messages before.
        if self.incoming.form() == Some(Form::Bytes)
            || !(self.ending.is_stopped() || self.scheduler.buffer_mut().carry_messages())
        {
            return Err(NotForMessages::InUse);
        }
        let chosen = self.incoming.choose(Form::Messages);
        let _ = self.or_fail(now, chosen);
        Ok(())
    }

    /// The longest message that can be sent, in bytes, and the most bytes that may be on their way:
    /// the peer's window,
    /// or less ([`Config::max_unacknowledged`](super::Config::max_unacknowledged)).
    pub fn longest_message(&self) -> (u64, u64) {
        let window = self.scheduler.window().size();
        (longest_message(window), window)
    }

    /// Takes a message to send, of at most [`Connection::longest_message`] bytes, while there are
    /// any [`Connection::writable_bytes`]. The message may be longer than that.
    ///
    /// # Panics
    /// If the stream does not carry messages or is finished.
    pub fn send(&mut self, now: Instant, priority: Priority, message: Bytes) {
        self.scheduler.buffer_mut().send(priority, message);
        self.wake_for_work(now);
        self.observe_application(now);
    }

    /// Takes the next message, or the packet with the next messages. `None` if there is none yet,
    /// or [no more](Connection::is_read).
    pub fn receive(&mut self, now: Instant) -> Option<Delivery> {
        let delivery = self.incoming.read_message()?;
        self.has_read(now);
        Some(delivery)
    }

    // The lanes' side.

    /// Checks the header and the content of a chunk of messages before the driver spends memory on
    /// the payload, and returns the place for the payload.
    ///
    /// # Errors
    /// [`Violation`]; the stream has failed with it.
    pub fn admit_content(
        &mut self,
        now: Instant,
        lane: LaneId,
        header: &DataHeader,
        content: &Content,
        spare: &mut Option<MessageBuffer>,
    ) -> Result<Place, Violation> {
        self.or_fail(now, self.incoming.check_length(header))?;
        if self.takes_nothing() {
            return Ok(Place::Own);
        }
        if self.incoming.form().is_none() {
            let agreed = self.incoming.agree(Form::Messages);
            let _ = self.or_fail(now, agreed);
        }
        let place = self.incoming.admit_content(lane.0, header, content, spare);
        let place = self.or_fail(now, place)?;
        self.refuse_what_came();
        Ok(place)
    }

    /// The memory that `lane` reads into, after [`Place::Message`]. `None` if the stream has
    /// failed.
    pub fn lend(&mut self, lane: LaneId) -> Option<Lent> {
        self.incoming.lend(lane.0)
    }

    /// Takes back the memory that `lane` borrowed, with `filled` bytes of it read in all.
    ///
    /// # Errors
    /// [`Violation`], if the message became whole because another lane brought its part; the stream
    /// has failed with it.
    pub fn give_back(
        &mut self,
        now: Instant,
        lane: LaneId,
        piece: MessageBuffer,
        filled: usize,
    ) -> Result<(), Violation> {
        let was_complete = self.incoming.is_complete();
        let given = self.incoming.give_back(lane.0, piece, filled);
        self.or_fail(now, given)?;
        self.note_arrivals(was_complete);
        Ok(())
    }

    /// Takes back the memory that `lane` borrowed: the whole part has arrived, with a right
    /// checksum.
    ///
    /// # Errors
    /// [`Violation`]; the stream has failed with it.
    pub fn handle_part(
        &mut self,
        now: Instant,
        lane: LaneId,
        header: &DataHeader,
        piece: MessageBuffer,
    ) -> Result<(), Violation> {
        let was_complete = self.incoming.is_complete();
        let filled = self.incoming.fill(lane.0, piece);
        self.or_fail(now, filled)?;
        if !self.takes_nothing() {
            self.has_arrived(now, lane, header.length, was_complete);
        }
        Ok(())
    }

    /// Takes a chunk of messages that has arrived whole on `lane`, in a buffer of its own, with a
    /// right checksum.
    ///
    /// # Errors
    /// [`Violation`]; the stream has failed with it.
    pub fn handle_content(
        &mut self,
        now: Instant,
        lane: LaneId,
        header: &DataHeader,
        content: &Content,
        payload: Bytes,
    ) -> Result<(), Violation> {
        if self.takes_nothing() {
            return Ok(());
        }
        let was_complete = self.incoming.is_complete();
        let inserted = self.incoming.insert_content(header, content, payload);
        self.or_fail(now, inserted)?;
        self.has_arrived(now, lane, header.length, was_complete);
        Ok(())
    }

    /// The application reads or writes bytes.
    pub(super) fn use_for_bytes(&mut self, now: Instant) {
        if self.incoming.form().is_none() {
            let chosen = self.incoming.choose(Form::Bytes);
            let _ = self.or_fail(now, chosen);
        }
    }

    /// Notes arrivals after a message may have become whole without a new chunk.
    fn note_arrivals(&mut self, was_complete: bool) {
        if self.incoming.is_complete() && !was_complete {
            self.lanes.wake_all();
        }
        self.wakes.reader |= self.incoming.is_readable() || self.incoming.is_finished();
        self.wakes.writer |= self.is_done();
    }
}
