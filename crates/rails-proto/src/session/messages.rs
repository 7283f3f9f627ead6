//! A session that carries messages.
//!
//! The driver hands in chunks with a [content](Content) through [`Session::admit_content`].
//! Depending on the answer, it hands the chunk in whole through [`Session::handle_content`], or
//! reads it straight into the message's buffer, through [`Session::lend`] and
//! [`Session::handle_part`].

use super::{LaneId, Session, receive_stream::ReceiveStream};
use crate::{
    chunk::{Content, Priority},
    messages::{Delivery, Lent, MIN_CHUNK, MIN_WINDOW, MessageBuffer, Place, longest_message},
    stream_number::StreamNumber,
    violation::{Form, Violation},
    wire::DataHeader,
};
use bytes::{Bytes, BytesMut};
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

impl Session {
    // The application's side.

    /// Uses the stream for messages from here on. If bytes have arrived already, the stream fails
    /// with [`Violation::Form`].
    ///
    /// # Errors
    /// [`NotForMessages`]; the stream is as it was.
    pub fn carry_messages(&mut self, now: Instant, stream: StreamNumber) -> Result<(), NotForMessages> {
        let (window, chunk) = (self.window_for_messages(), self.scheduler.buffer().longest_chunk());
        if chunk < MIN_CHUNK || window < MIN_WINDOW {
            return Err(NotForMessages::TooSmall { chunk, window });
        }
        // A peer that reads no more has ended this end's sending, but it may have sent messages before.
        let is_for_bytes = |stream: &ReceiveStream| stream.form() == Some(Form::Bytes);
        if self.receiving.get(stream).is_some_and(is_for_bytes)
            || !(self.stopped().is_some() || self.scheduler.buffer_mut().carry_messages(stream, window))
        {
            return Err(NotForMessages::InUse);
        }
        let chosen = self.receiving.act(stream, |stream| stream.choose(Form::Messages)).unwrap_or(Ok(()));
        let _ = self.or_fail(now, chosen);
        Ok(())
    }

    /// The most bytes of a stream of messages that may be on their way.
    fn window_for_messages(&self) -> u64 {
        let window = self.scheduler.window().size();
        self.many.as_ref().map_or(window, |many| window.min(many.their_window))
    }

    /// The longest message that can be sent, in bytes, and the most bytes that may be on their way:
    /// the peer's window,
    /// or less ([`Config::max_unacknowledged`](super::Config::max_unacknowledged)).
    pub fn longest_message(&self) -> (u64, u64) {
        let window = self.window_for_messages();
        (longest_message(window), window)
    }

    /// Takes a message to send, of at most [`Session::longest_message`] bytes, while there are
    /// any [`Session::writable_bytes`]. The message may be longer than that.
    ///
    /// # Panics
    /// If the stream does not carry messages or is finished.
    pub fn send(&mut self, now: Instant, stream: StreamNumber, priority: Priority, message: Bytes) {
        self.scheduler.send(stream, priority, message);
        self.wake_for_work(now);
        self.observe_application(now);
    }

    /// Takes the next message, or the packet with the next messages. `None` if there is none yet,
    /// or [no more](Session::is_read).
    pub fn receive(&mut self, now: Instant, stream: StreamNumber) -> Option<Delivery> {
        let delivery = self.receiving.act(stream, ReceiveStream::read_message)??;
        self.has_read(now, stream);
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
        self.or_fail(now, self.receiving.check_length(header))?;
        if self.takes_nothing() {
            return Ok(Place::Own);
        }
        let place = self.name(now, header.stream).and_then(|()| {
            self.receiving.take(header.stream, |stream| {
                if stream.form().is_none() {
                    stream.agree(Form::Messages)?;
                }
                stream.admit_content(lane.0, header, content, spare)
            })
        });
        let place = self.or_fail(now, place)?;
        self.refuse_what_came();
        Ok(place.unwrap_or(Place::Own))
    }

    /// The memory that `lane` reads the chunk with that header into, after [`Place::Message`]. It
    /// is the lane's own if nothing of the stream is kept any more.
    pub fn lend(&mut self, lane: LaneId, header: &DataHeader) -> Lent {
        let lent = self.receiving.act(header.stream, |stream| stream.lend(lane.0)).flatten();
        lent.unwrap_or_else(|| Lent::Own(BytesMut::zeroed(header.length as usize)))
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
        header: &DataHeader,
        piece: MessageBuffer,
        filled: usize,
    ) -> Result<(), Violation> {
        let was_complete = self.has_arrived_whole();
        let given = self.receiving.act(header.stream, |stream| stream.give_back(lane.0, piece, filled));
        self.or_fail(now, given.unwrap_or(Ok(())))?;
        self.note_arrivals(now, header.stream, was_complete);
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
        let was_complete = self.has_arrived_whole();
        let filled = self.receiving.act(header.stream, |stream| stream.fill(lane.0, piece));
        self.or_fail(now, filled.unwrap_or(Ok(())))?;
        if !self.takes_nothing() {
            let again = self.receiving.act(header.stream, ReceiveStream::count_arrival);
            self.has_arrived(now, lane, header, was_complete, again);
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
        let was_complete = self.has_arrived_whole();
        let inserted = self.receiving.take(header.stream, |stream| stream.insert_content(header, content, payload));
        self.or_fail(now, inserted)?;
        let again = self.receiving.act(header.stream, ReceiveStream::count_arrival);
        self.has_arrived(now, lane, header, was_complete, again);
        Ok(())
    }

    /// The application reads or writes bytes.
    pub(super) fn use_for_bytes(&mut self, now: Instant, stream: StreamNumber) {
        if self.receiving.get(stream).is_some_and(|stream| stream.form().is_none()) {
            let chosen = self.receiving.act(stream, |stream| stream.choose(Form::Bytes)).unwrap_or(Ok(()));
            let _ = self.or_fail(now, chosen);
        }
    }
}
