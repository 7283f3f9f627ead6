//! A stream used for messages.

use super::{MultiRailStream, StreamStats};
use bytes::Bytes;
use rails_proto::{
    chunk::Priority,
    connection::{Connection, NotForMessages},
    handshake::StreamId,
    messages::{Delivery, Message, next_of_packet},
};
use std::{
    future::poll_fn,
    io::{Error as IoError, ErrorKind, Result as IoResult},
    sync::Arc,
    task::{Context, Poll, ready},
    time::Instant,
};

/// Messages in both directions over every lane that is up: each arrives once and whole, and those of one priority in the order in which they
/// were sent.
///
/// - **Large messages** are received straight into their own buffer, by all lanes at once; several can be on their way. **Small ones** (up to
///   16 KiB) travel together while lanes are busy, and are taken out of what arrived without a copy unless they would hold much more than themselves.
/// - **Priorities**: a more urgent message is sent before what is left of others, and may be received before them. It still needs
///   room in the peer's window: where large messages that nobody reads fill it, it waits.
/// - **Length**: a message may be as long as three quarters of the peer's [window](crate::StreamOptions::window). One that is more than half of it
///   is alone on its way.
/// - **Ends**: as those of the [stream](MultiRailStream). [`finish`](MessageSender::finish) lets the peer receive to the end, and resolves when it
///   has everything. Each half ends its direction when it is dropped: the peer receives what was sent and then the end; what it sends itself fails.
///   Only [`abort`](Self::abort) throws away what was sent.
#[derive(Debug)]
pub struct MultiRailMessages {
    sender: MessageSender,
    receiver: MessageReceiver,
}

/// The sending half of [`MultiRailMessages`].
#[derive(Debug)]
pub struct MessageSender {
    stream: Arc<MultiRailStream>,
}

/// The receiving half of [`MultiRailMessages`].
#[derive(Debug)]
pub struct MessageReceiver {
    stream: Arc<MultiRailStream>,
    /// Small messages that arrived together.
    packet: Bytes,
    packet_length: usize,
    priority: Priority,
}

/// A message that is too long for the peer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a message of {length} bytes: the peer's window of {window} bytes takes at most {longest}")]
pub struct MessageTooLong {
    /// Its length in bytes.
    pub length: usize,
    /// The longest that the peer takes, in bytes.
    pub longest: u64,
    /// The peer's window in bytes.
    pub window: u64,
}

/// Why a message was not sent at once.
#[derive(Debug, thiserror::Error)]
pub enum TrySendError {
    /// The send buffer is full. Here is the message.
    #[error("the send buffer is full")]
    Full(Bytes),
    /// It cannot be sent at all.
    #[error(transparent)]
    Failed(#[from] IoError),
}

impl MultiRailStream {
    /// Uses the stream for messages. The peer has to do the same.
    ///
    /// # Errors
    /// [`NotForMessages`] inside an [`std::io::Error`], where bytes went out before or the peer takes too little at a time;
    /// [`StreamError`](crate::StreamError), where the peer sent bytes.
    pub fn into_messages(self) -> IoResult<MultiRailMessages> {
        let outcome: IoResult<()> = self.shared.with(|state| {
            // Where the stream had failed before, what had arrived can still be received.
            let has_failed = state.connection.failure().is_some();
            let carried = state.connection.carry_messages(Instant::now());
            if let Some(error) = self.shared.error(state).filter(|_| !has_failed) {
                return Err(error.into());
            }
            let used = carried.and(if self.reading.is_empty() { Ok(()) } else { Err(NotForMessages::InUse) });
            used.map_err(|error| IoError::new(ErrorKind::InvalidInput, error))
        });
        outcome?;
        let stream = Arc::new(self);
        let sender = MessageSender { stream: stream.clone() };
        let receiver =
            MessageReceiver { stream, packet: Bytes::new(), packet_length: 0, priority: Priority::default() };
        Ok(MultiRailMessages { sender, receiver })
    }
}

impl MultiRailMessages {
    /// As [`MessageSender::send`].
    ///
    /// # Errors
    /// As there.
    pub async fn send(&mut self, message: Bytes, priority: Priority) -> IoResult<()> {
        self.sender.send(message, priority).await
    }

    /// As [`MessageSender::try_send`].
    ///
    /// # Errors
    /// As there.
    pub fn try_send(&mut self, message: Bytes, priority: Priority) -> Result<(), TrySendError> {
        self.sender.try_send(message, priority)
    }

    /// As [`MessageReceiver::recv`].
    ///
    /// # Errors
    /// As there.
    pub async fn recv(&mut self) -> IoResult<Option<Message>> {
        self.receiver.recv().await
    }

    /// As [`MessageSender::finish`].
    ///
    /// # Errors
    /// As there.
    pub async fn finish(&mut self) -> IoResult<()> {
        self.sender.finish().await
    }

    /// As [`MultiRailStream::abort`].
    pub fn abort(self) {
        self.sender.abort();
    }

    /// Two halves that different tasks can use.
    pub fn split(self) -> (MessageSender, MessageReceiver) {
        (self.sender, self.receiver)
    }

    /// The stream's name.
    pub fn id(&self) -> StreamId {
        self.sender.stream.id()
    }

    /// How many lanes are up.
    pub fn lanes_up(&self) -> usize {
        self.sender.stream.lanes_up()
    }

    /// What the stream and its lanes have done up to now. Bytes are those of the stream: a message, and small ones together, take up whole
    /// slots of 512 bytes of it, at least 256 bytes more than they have.
    pub fn stats(&self) -> StreamStats {
        self.sender.stats()
    }

    /// Brings both directions to their end and says what the stream did: finishes, receives the peer's messages to their end (there
    /// should be none left that matter: they are dropped), and waits until the lanes are closed.
    ///
    /// # Errors
    /// [`StreamError`](crate::StreamError) inside an [`std::io::Error`], where one of that fails.
    pub async fn close(mut self) -> IoResult<StreamStats> {
        self.sender.finish().await?;
        while self.receiver.recv().await?.is_some() {}
        self.sender.stream.wait_for_lanes().await;
        Ok(self.stats())
    }
}

impl MessageSender {
    /// Sends a message: waits until there is room in the send buffer, and then takes it whole, without a copy if it is large. A message may be longer than the
    /// send buffer.
    ///
    /// Cancel safe: a message that was not taken is dropped.
    ///
    /// # Errors
    /// [`MessageTooLong`] or [`StreamError`](crate::StreamError) inside an [`std::io::Error`]; [`ErrorKind::BrokenPipe`] after [`finish`](Self::finish).
    pub async fn send(&mut self, message: Bytes, priority: Priority) -> IoResult<()> {
        let mut message = Some(message);
        poll_fn(|context| self.poll_send(context, &mut message, priority)).await
    }

    /// As [`send`](Self::send): takes what is in `message` once there is room.
    ///
    /// # Errors
    /// As there.
    pub fn poll_send(
        &mut self,
        context: &mut Context<'_>,
        message: &mut Option<Bytes>,
        priority: Priority,
    ) -> Poll<IoResult<()>> {
        self.stream.shared.with(|state| {
            let longest = state.connection.longest_message();
            check_length(message.as_ref().map_or(0, Bytes::len), longest)?;
            ready!(self.stream.shared.poll_room(state, context))?;
            if let Some(message) = message.take() {
                state.connection.send(Instant::now(), priority, message);
            }
            Poll::Ready(Ok(()))
        })
    }

    /// Sends a message if there is room for it now.
    ///
    /// # Errors
    /// [`TrySendError::Full`] with the message where there is none, otherwise as [`send`](Self::send).
    pub fn try_send(&mut self, message: Bytes, priority: Priority) -> Result<(), TrySendError> {
        let mut context = Context::from_waker(std::task::Waker::noop());
        let mut message = Some(message);
        match self.poll_send(&mut context, &mut message, priority) {
            Poll::Ready(sent) => Ok(sent?),
            Poll::Pending => Err(TrySendError::Full(message.unwrap_or_default())),
        }
    }

    /// Says that there are no more messages, and waits until the peer has all of them in its memory.
    ///
    /// # Errors
    /// [`StreamError`](crate::StreamError) inside an [`std::io::Error`].
    pub async fn finish(&mut self) -> IoResult<()> {
        poll_fn(|context| self.stream.poll_delivered(context)).await
    }

    /// Gives the stream up at once, in both directions, as [`MultiRailStream::abort`] does.
    pub fn abort(self) {
        self.stream.shared.with(|state| state.connection.abort(Instant::now()));
    }

    /// The longest message that the peer takes, in bytes.
    pub fn longest_message(&self) -> u64 {
        self.stream.shared.with(|state| state.connection.longest_message().0)
    }

    /// As [`MultiRailMessages::stats`].
    pub fn stats(&self) -> StreamStats {
        self.stream.stats()
    }
}

impl MessageReceiver {
    /// The next message: the most urgent that has arrived and has none of its priority before it. `None` at the end of the stream.
    ///
    /// Small messages that arrived together are received one behind the other, before a more urgent one that arrived later. Cancel safe.
    ///
    /// # Errors
    /// [`StreamError`](crate::StreamError) inside an [`std::io::Error`]. What had arrived before can be received first.
    pub async fn recv(&mut self) -> IoResult<Option<Message>> {
        poll_fn(|context| self.poll_recv(context)).await
    }

    /// As [`recv`](Self::recv).
    ///
    /// # Errors
    /// As there.
    pub fn poll_recv(&mut self, context: &mut Context<'_>) -> Poll<IoResult<Option<Message>>> {
        loop {
            if let Some(payload) = next_of_packet(&mut self.packet, self.packet_length) {
                return Poll::Ready(Ok(Some(Message { priority: self.priority, payload })));
            }
            match ready!(self.stream.shared.poll_next(context, Connection::receive))? {
                None => return Poll::Ready(Ok(None)),
                Some(Delivery::Message { priority, bytes: payload }) => {
                    return Poll::Ready(Ok(Some(Message { priority, payload })));
                }
                Some(Delivery::Packet { priority, bytes }) => {
                    (self.packet_length, self.packet, self.priority) = (bytes.len(), bytes, priority);
                }
            }
        }
    }
}

/// There are no more messages, as [`finish`](MessageSender::finish) says; nobody waits for the peer to have them.
impl Drop for MessageSender {
    fn drop(&mut self) {
        self.stream.shared.with(|state| state.connection.finish(Instant::now()));
    }
}

/// Nobody receives any more: the peer is told so as soon as it sends something.
impl Drop for MessageReceiver {
    fn drop(&mut self) {
        let unread = self.packet.len() as u64;
        self.stream.shared.with(|state| state.connection.stop_reading(unread));
    }
}

fn check_length(length: usize, (longest, window): (u64, u64)) -> IoResult<()> {
    if length as u64 <= longest {
        return Ok(());
    }
    Err(IoError::new(ErrorKind::InvalidInput, MessageTooLong { length, longest, window }))
}
