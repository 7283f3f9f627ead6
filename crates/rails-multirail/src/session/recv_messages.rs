//! Messages that an end receives in a stream of a session.

use super::{error::RecvMessageError, recv_stream::RecvStream};
use bytes::Bytes;
use rails_proto::messages::Delimited;
use std::{
    future::poll_fn,
    task::{Context, Poll, ready},
};

/// Messages that this end receives in a stream of a
/// [`MultiRailSession`](crate::MultiRailSession), as its peer sends them with
/// [`SendMessages`](crate::SendMessages). Each one is received whole.
///
/// A message takes memory as its bytes arrive: at most twice as much as of it has arrived, and none
/// for its length alone. It may be longer than the
/// [window](crate::StreamOptions::stream_window) of the stream, as this end reads while it arrives.
/// Dropping it stops the stream as dropping a [`RecvStream`] does.
#[derive(Debug)]
pub struct RecvMessages {
    stream: RecvStream,
    messages: Delimited,
}

impl RecvStream {
    /// Receives messages, each of at most `max_length` bytes, that the peer
    /// [sends](crate::SendStream::into_messages) in the stream from here on.
    pub fn into_messages(mut self, max_length: usize) -> RecvMessages {
        let messages = Delimited::new(max_length, self.at_hand().len());
        RecvMessages { stream: self, messages }
    }
}

impl RecvMessages {
    /// Waits for the next message, which may be empty. `None` at the end of the stream. It is a
    /// slice of the bytes as they arrived if they arrived together, and a copy otherwise, or if it
    /// would keep much more memory than its length.
    ///
    /// Cancel safe: what has arrived of a message is kept for the next call.
    ///
    /// # Errors
    /// [`RecvMessageError`]. Behind a message that is too long nothing more is received, and each
    /// call fails with the same error.
    pub async fn recv(&mut self) -> Result<Option<Bytes>, RecvMessageError> {
        poll_fn(|context| self.poll_recv(context)).await
    }

    /// As [`recv`](Self::recv).
    ///
    /// # Errors
    /// As there.
    pub fn poll_recv(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Bytes>, RecvMessageError>> {
        self.messages.check()?;
        loop {
            let is_new = self.stream.at_hand().is_empty();
            if !ready!(self.stream.poll_fill(context))? {
                self.messages.end()?;
                return Poll::Ready(Ok(None));
            }
            let bytes = self.stream.at_hand();
            if is_new {
                self.messages.begin(bytes.len());
            }
            if let Some(message) = self.messages.take(bytes)? {
                return Poll::Ready(Ok(Some(message)));
            }
        }
    }

    /// The stream, to stop it or to wait for a reset. Bytes that are read from it are missing in
    /// the messages.
    pub fn stream(&mut self) -> &mut RecvStream {
        &mut self.stream
    }
}
