//! Messages over a stream.

use super::{
    MultiRailStream, StreamStats, closing, connect, dialer::Opening, first_messages::FirstMessages, lock,
    senders::SharedSender, shared::StreamState,
};
use crate::{EndpointError, OpenError, StreamOptions, error::MessageTooLong, rails::Rails};
use bytes::Bytes;
use futures_util::{Sink, Stream};
use rails_proto::{
    chunk::Priority,
    handshake::StreamId,
    messages::{Delivery, Message, next_of_packet},
    pairing::Pairing,
    session::{NotForMessages, Session},
    stream_number::StreamNumber,
};
use std::{
    future::poll_fn,
    io::{Error as IoError, ErrorKind, Result as IoResult},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Instant,
};
use tokio::task::coop;

/// Messages in both directions over every lane that is up. Each message arrives once and whole, and
/// messages of one priority arrive in the order of sending.
///
/// - **Large messages** are received straight into their own buffer, by all lanes at once; several
///   can be on their way. **Small messages** (up to 16 KiB) share packets while lanes are busy. The
///   receiver takes them out of a packet without a copy, unless a small message would keep a much
///   larger packet in memory.
/// - **Priorities**: a more urgent message is sent before the rest of others, and may be received
///   before them. It still needs room among the bytes that may be on their way: if large unread
///   messages take all of it, it waits.
/// - **Length**: the peer's [window](crate::StreamOptions::window) and this end's
///   [`max_unacknowledged`](crate::StreamOptions::max_unacknowledged) bound the bytes that may be
///   on their way. A message may be as long as three quarters of the smaller one; one that is
///   longer than half of it is alone on its way.
/// - **Ends**: as those of the [stream](MultiRailStream). [`finish`](MessageSender::finish) lets
///   the peer receive to the end, and resolves when it has every message. Each half ends its
///   direction when it is dropped: after the sender and its clones are dropped, the peer receives
///   the sent messages and then the end; after the receiver is dropped, the peer's sends fail. Only
///   [`abort`](Self::abort) throws away sent messages.
#[derive(Debug)]
pub struct MultiRailMessages {
    sender: MessageSender,
    receiver: MessageReceiver,
}

/// The sending half of [`MultiRailMessages`]. Clones send on the same stream, and each may wait for
/// room; none has a right to the next.
#[derive(Debug, Clone)]
pub struct MessageSender {
    sender: SharedSender,
}

/// The receiving half of [`MultiRailMessages`].
#[derive(Debug)]
pub struct MessageReceiver {
    stream: Arc<MultiRailStream>,
    /// Small messages that arrived together.
    packet: Bytes,
    packet_length: usize,
    priority: Priority,
    /// An error ended the stream of messages.
    has_failed: bool,
}

/// Why a message was not sent at once.
#[derive(Debug, thiserror::Error)]
pub enum TrySendError {
    /// The send buffer is full. The message is handed back.
    #[error("the send buffer is full")]
    Full(Bytes),
    /// The message cannot be sent, now or later.
    #[error(transparent)]
    Failed(#[from] IoError),
}

impl MultiRailStream {
    /// Uses the stream for messages. The peer has to use its end for messages too.
    ///
    /// # Errors
    /// [`NotForMessages`] inside an [`std::io::Error`] if the stream was used for bytes before, or
    /// if the chunks or the peer's window are too small; [`StreamError`](crate::StreamError) if
    /// the peer sent bytes.
    pub fn into_messages(self) -> IoResult<MultiRailMessages> {
        let outcome: IoResult<()> = self.shared.with(|state| {
            // If the stream had failed before, messages that have arrived can still be received.
            let has_failed = state.session.failure().is_some();
            let carried = state.session.carry_messages(Instant::now(), StreamNumber::FIRST);
            if let Some(error) = self.shared.error(state).filter(|_| !has_failed) {
                return Err(error.into());
            }
            let used = carried.and(if self.reading.is_empty() { Ok(()) } else { Err(NotForMessages::InUse) });
            used.map_err(|error| IoError::new(ErrorKind::InvalidInput, error))
        });
        outcome?;
        Ok(MultiRailMessages::of(self))
    }
}

impl MultiRailMessages {
    /// Opens a stream for messages with one lane for each pair, as
    /// [`MultiRailStream::connect_paired`] does, and sends the first messages along with the
    /// opening: with the last message of the handshake, before the peer has accepted the lane. A
    /// peer that answers them does so a round trip earlier than if they were sent after this call.
    ///
    /// As always, the call returns once the peer has accepted the stream, and its errors are those
    /// of any opening. Three things are to be known of first messages:
    /// - They may come to the peer's application **more than once**, each time on another stream:
    ///   an attempt to open the stream whose acceptance does not come in time is repeated, here or
    ///   over another lane. All of these streams but one end with a reset. First messages should
    ///   therefore ask, and change nothing. Nobody else can repeat them: see
    ///   [`Initiator::into_early`](rails_proto::handshake::Initiator::into_early).
    /// - With [`Security::psk`](crate::Security::psk) nothing tells an impostor before the
    ///   acceptance, and frames are not encrypted: there the messages wait for it, and save
    ///   nothing.
    /// - They have at most 12 KiB in all, so that they go into the first packets of a connection.
    ///
    /// # Errors
    /// As those of [`MultiRailStream::connect_paired`]; [`EndpointError::Option`] if the messages
    /// are longer than that, or than the [send buffer](StreamOptions::send_buffer). A lane whose
    /// peer takes no such messages fails with
    /// [`JoinError::Messages`](crate::error::JoinError::Messages).
    pub async fn connect_paired(
        rails: &Rails,
        pairing: &Pairing,
        options: &StreamOptions,
        first: &[(Bytes, Priority)],
    ) -> Result<Self, OpenError> {
        let first = FirstMessages::new(first, options).map_err(EndpointError::from)?;
        Ok(Self::of(connect::connect(rails, &pairing.pairs, options, Opening::Stream(Some(first))).await?))
    }

    /// The messages of a stream that carries messages.
    fn of(stream: MultiRailStream) -> Self {
        let stream = Arc::new(stream);
        let sender = MessageSender { sender: SharedSender::new(stream.clone()) };
        let receiver = MessageReceiver {
            stream,
            packet: Bytes::new(),
            packet_length: 0,
            priority: Priority::default(),
            has_failed: false,
        };
        Self { sender, receiver }
    }

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

    /// Splits the stream into two halves for different tasks.
    pub fn split(self) -> (MessageSender, MessageReceiver) {
        (self.sender, self.receiver)
    }

    /// The stream that carries the messages: its addresses, its peer, its events.
    pub fn stream(&self) -> &MultiRailStream {
        self.sender.stream()
    }

    /// The stream's name.
    pub fn id(&self) -> StreamId {
        self.stream().id()
    }

    /// The number of lanes that are up.
    pub fn lanes_up(&self) -> usize {
        self.stream().lanes_up()
    }

    /// The statistics of the stream and its lanes up to now. Bytes are those of the stream: a large
    /// message, or a packet of small ones, takes up whole slots of 512 bytes, and at least 256
    /// bytes more than its own length.
    pub fn stats(&self) -> StreamStats {
        self.sender.stats()
    }

    /// Ends both directions and gives the statistics: finishes, receives the peer's messages to
    /// their end and drops them (the caller should have received those that matter), and waits
    /// until the lanes are closed.
    ///
    /// The call waits for the peer as long as there is progress, and without any for
    /// [`StreamOptions::close_timeout`](crate::StreamOptions::close_timeout).
    ///
    /// # Errors
    /// As [`MultiRailStream::close`].
    ///
    /// # Panics
    /// Outside a tokio runtime with time enabled.
    pub async fn close(mut self) -> IoResult<StreamStats> {
        let shared = self.sender.stream().shared.clone();
        self.sender.stream().deliver().await?;
        while closing::in_time(&shared, self.receiver.recv()).await?.is_some() {}
        self.sender.stream().wait_for_lanes().await;
        Ok(self.stats())
    }
}

impl MessageSender {
    /// As [`MultiRailMessages::stream`].
    pub fn stream(&self) -> &MultiRailStream {
        self.sender.stream()
    }

    /// Sends a message: waits until there is room in the send buffer, and then takes the message
    /// whole, without a copy if it is large. A message may be longer than the send buffer.
    ///
    /// Cancel safe: if the future is dropped before it took the message, the message is dropped.
    ///
    /// # Errors
    /// [`MessageTooLong`] or [`StreamError`](crate::StreamError) inside an [`std::io::Error`];
    /// [`ErrorKind::BrokenPipe`] after [`finish`](Self::finish).
    pub async fn send(&mut self, message: Bytes, priority: Priority) -> IoResult<()> {
        let mut message = Some(message);
        poll_fn(|context| self.poll_send(context, &mut message, priority)).await
    }

    /// As [`send`](Self::send): takes the message out of `message` when there is room.
    ///
    /// # Errors
    /// As there.
    pub fn poll_send(
        &mut self,
        context: &mut Context<'_>,
        message: &mut Option<Bytes>,
        priority: Priority,
    ) -> Poll<IoResult<()>> {
        let length = message.as_ref().map_or(0, Bytes::len);
        self.sender.poll(context, |MultiRailStream { shared, .. }, context| {
            shared.poll_as_writer(context, || shared.write(length, |state| self.poll_take(state, message, priority)))
        })
    }

    /// Takes the message if there is room for it.
    fn poll_take(
        &self,
        state: &mut StreamState,
        message: &mut Option<Bytes>,
        priority: Priority,
    ) -> Poll<IoResult<()>> {
        MessageTooLong::check(message.as_ref().map_or(0, Bytes::len), state.session.longest_message())
            .map_err(|error| IoError::new(ErrorKind::InvalidInput, error))?;
        ready!(self.stream().shared.writing().room(state))?;
        if let Some(message) = message.take() {
            state.session.send(Instant::now(), StreamNumber::FIRST, priority, lock::keep(message));
        }
        Poll::Ready(Ok(()))
    }

    /// Sends a message if there is room for it now.
    ///
    /// # Errors
    /// [`TrySendError::Full`] with the message if there is no room; otherwise as
    /// [`send`](Self::send).
    pub fn try_send(&mut self, message: Bytes, priority: Priority) -> Result<(), TrySendError> {
        let (length, mut message) = (message.len(), Some(message));
        // No task waits for this, and one that waits in `send` goes on waiting.
        match self.stream().shared.write(length, |state| self.poll_take(state, &mut message, priority)) {
            Poll::Ready(sent) => Ok(sent?),
            Poll::Pending => Err(TrySendError::Full(message.unwrap_or_default())),
        }
    }

    /// Ends the sending direction, for every clone, and waits until the peer has all messages in
    /// its memory.
    ///
    /// # Errors
    /// [`StreamError`](crate::StreamError) inside an [`std::io::Error`].
    pub async fn finish(&mut self) -> IoResult<()> {
        poll_fn(|context| self.sender.poll(context, MultiRailStream::poll_delivered)).await
    }

    /// Gives the stream up at once, in both directions, as [`MultiRailStream::abort`] does.
    pub fn abort(self) {
        self.stream().shared.with(|state| state.session.abort(Instant::now()));
    }

    /// The number of lanes that are up.
    pub fn lanes_up(&self) -> usize {
        self.stream().lanes_up()
    }

    /// The length of the longest message that can be sent, in bytes.
    pub fn longest_message(&self) -> u64 {
        self.stream().shared.with(|state| state.session.longest_message().0)
    }

    /// As [`MultiRailMessages::stats`].
    pub fn stats(&self) -> StreamStats {
        self.stream().stats()
    }
}

impl MessageReceiver {
    /// As [`MultiRailMessages::stream`].
    pub fn stream(&self) -> &MultiRailStream {
        &self.stream
    }

    /// Waits for the next message: the most urgent one that has arrived with no earlier one of its
    /// priority missing. `None` at the end of the stream.
    ///
    /// The small messages of one packet are received one after the other, before a more urgent
    /// message that arrived later. Cancel safe.
    ///
    /// # Errors
    /// [`StreamError`](crate::StreamError) inside an [`std::io::Error`], after all messages that
    /// had arrived before.
    pub async fn recv(&mut self) -> IoResult<Option<Message>> {
        poll_fn(|context| self.poll_recv(context)).await
    }

    /// As [`recv`](Self::recv).
    ///
    /// # Errors
    /// As there.
    pub fn poll_recv(&mut self, context: &mut Context<'_>) -> Poll<IoResult<Option<Message>>> {
        loop {
            if !self.packet.is_empty() {
                ready!(coop::poll_proceed(context)).made_progress();
            }
            if let Some(payload) = next_of_packet(&mut self.packet, self.packet_length) {
                self.stream.shared.note_at_hand(!self.packet.is_empty());
                return Poll::Ready(Ok(Some(Message { priority: self.priority, payload })));
            }
            let shared = &self.stream.shared;
            match ready!(shared.poll_next(context, &shared.only, Session::receive))? {
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

/// Messages with their priorities, as [`send`](MessageSender::send) takes them. Closing
/// [finishes](MessageSender::finish).
impl Sink<(Bytes, Priority)> for MessageSender {
    type Error = IoError;

    fn poll_ready(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<IoResult<()>> {
        self.sender
            .poll(context, |MultiRailStream { shared, .. }, context| shared.writing().poll_room(context).map_ok(drop))
    }

    /// # Errors
    /// As [`MessageSender::send`]; [`ErrorKind::WouldBlock`] if the sink was not ready, or
    /// a clone took the room since, and the message is dropped.
    fn start_send(mut self: Pin<&mut Self>, (message, priority): (Bytes, Priority)) -> IoResult<()> {
        self.try_send(message, priority).map_err(|error| match error {
            TrySendError::Full(_) => ErrorKind::WouldBlock.into(),
            TrySendError::Failed(error) => error,
        })
    }

    /// Lanes send every message as soon as they have room: small ones that wait for others leave at
    /// once.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<IoResult<()>> {
        self.stream().shared.send_waiting();
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<IoResult<()>> {
        self.sender.poll(context, MultiRailStream::poll_delivered)
    }
}

/// Messages as [`recv`](MessageReceiver::recv) gives them. An error is the last item.
impl Stream for MessageReceiver {
    type Item = IoResult<Message>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<IoResult<Message>>> {
        if self.has_failed {
            return Poll::Ready(None);
        }
        let next = ready!(self.poll_recv(context));
        self.has_failed = next.is_err();
        Poll::Ready(next.transpose())
    }
}

/// Stops receiving: the peer learns of it once some of its bytes are left unread.
impl Drop for MessageReceiver {
    fn drop(&mut self) {
        let unread = self.packet.len() as u64;
        self.stream.shared.note_at_hand(false);
        self.stream.shared.with(|state| state.session.stop_reading(unread));
    }
}
