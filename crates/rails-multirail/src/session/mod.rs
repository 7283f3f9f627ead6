//! Sessions: many streams and datagrams between two ends, over the same lanes.

mod error;
#[cfg(any(feature = "h3", feature = "web-transport"))]
mod polled;
mod recv_messages;
mod recv_stream;
mod send_messages;
mod send_stream;
mod sync;
mod waiting;
#[cfg(test)]
mod waiting_model;

use crate::{
    AddLaneError, Decisions, LaneAddress, OpenError, Pairing, RailId, Rails, StreamEvent, StreamId, StreamOptions,
    StreamStats, ToLaneAddresses,
    error::FailedLane,
    stream::{MultiRailStream, StreamShared, StreamTasks, keep},
};
use bytes::Bytes;
pub use error::{
    ClosedStream, ReadError, ReadToEndError, RecvMessageError, SendDatagramError, SendMessageError, SessionError,
    WriteError,
};
#[cfg(any(feature = "h3", feature = "web-transport"))]
pub use polled::PolledSession;
use rails_proto::{session::LONGEST_DATAGRAM, stream_number::Direction};
pub use recv_messages::RecvMessages;
pub use recv_stream::RecvStream;
pub use send_messages::SendMessages;
pub use send_stream::SendStream;
use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::broadcast;
use waiting::wait_for;

/// Many streams and datagrams between two ends, over every lane that is up. Its calls have the
/// names of those of quinn's `Connection`.
///
/// - **Streams** are independent: one that is not read holds up no other, within the windows
///   ([`StreamOptions::stream_window`], [`StreamOptions::window`]). Opening one costs no round
///   trip, and the peer learns of it with its first bytes or its end. A stream that waits costs no
///   task and no timer.
/// - **Lanes** carry all streams. Losing one loses no bytes, as of a [`MultiRailStream`].
/// - **Dropping** the last clone of the session and the last of its streams ends it: the lanes
///   deliver the bytes that were written, and then close the session with code 0. They have
///   [`StreamOptions::linger`] for it. Streams keep the session alive. [`close`](Self::close) ends
///   it at once.
/// - **Memory** is bounded for arriving bytes as that of one stream: by this end's window for all
///   streams together. A handle that has read a part of a chunk holds the rest besides, which is at
///   most the longest chunk and the stream's window. Written bytes that no lane has taken are
///   bounded by [`StreamOptions::send_buffer`] for each stream, and one message more of a stream
///   with [messages](SendMessages).
/// - **Libraries** for QUIC's streams run over a session: hyperium's h3 with the feature `h3`
///   (HTTP/3), and what is written for web-transport-trait with `web-transport`.
///
/// ```
/// use rails_multirail::{MultiRailListener, MultiRailSession, RailRequest, Rails, Secret, StreamOptions, plan_rails};
/// use rails_topo::Topology;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let rails = Rails::build(&plan_rails(&Topology::detect()?, &RailRequest::loopback(2))?)?;
/// let options = StreamOptions::new(Secret::pre_shared(b"at least sixteen bytes")?);
/// let listener = MultiRailListener::bind(&rails, ["127.0.0.1:0", "127.0.0.2:0"], &options).await?;
/// let near = MultiRailSession::connect(&rails, listener.local_addrs(), &options).await?;
/// let far = listener.accept_session().await?;
///
/// let (mut question, mut answer) = near.open_bi().await?;
/// question.write_all(b"which rails?").await?;
/// question.finish()?;
///
/// let (mut reply, mut asked) = far.accept_bi().await?;
/// assert_eq!(asked.read_to_end(1 << 10).await?, b"which rails?");
/// reply.write_all(b"both").await?;
/// reply.finish()?;
///
/// assert_eq!(answer.read_to_end(1 << 10).await?, b"both");
/// near.close(0, b"done");
/// assert_eq!(far.closed().await.to_string(), "the peer closed the session with code 0: done");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct MultiRailSession {
    /// The hold on the session, which its streams share: the session ends as the last is dropped.
    /// Of a session with many streams this stream carries no bytes.
    hold: Arc<MultiRailStream>,
}

impl MultiRailSession {
    /// The session of that hold.
    pub(crate) fn of(hold: MultiRailStream) -> Self {
        Self { hold: Arc::new(hold) }
    }

    /// Opens a session from `rails` to a [`MultiRailListener`](crate::MultiRailListener), whose
    /// application [accepts](crate::MultiRailListener::accept_session) it. Lanes lead to the
    /// addresses as those of [`MultiRailStream::connect`](crate::MultiRailStream::connect) do.
    ///
    /// # Errors
    /// [`OpenError`] if no lane came up.
    pub async fn connect(
        rails: &Rails,
        remotes: impl ToLaneAddresses,
        options: &StreamOptions,
    ) -> Result<Self, OpenError> {
        Ok(Self::of(MultiRailStream::hold_session(rails, remotes, options).await?))
    }

    /// Opens a session with one lane for each pair, as
    /// [`MultiRailStream::connect_paired`](crate::MultiRailStream::connect_paired) opens a stream.
    ///
    /// # Errors
    /// As there.
    pub async fn connect_paired(rails: &Rails, pairing: &Pairing, options: &StreamOptions) -> Result<Self, OpenError> {
        Ok(Self::of(MultiRailStream::hold_session_paired(rails, pairing, options).await?))
    }

    /// Opens a stream in both directions. Waits while as many streams are open as the peer allows
    /// ([`StreamOptions::max_concurrent_bi_streams`]). Cancel safe; several tasks may wait.
    ///
    /// # Errors
    /// [`SessionError`] once the session has ended.
    pub async fn open_bi(&self) -> Result<(SendStream, RecvStream), SessionError> {
        let tasks = self.open(Direction::Bi).await?;
        Ok(self.both(tasks))
    }

    /// Opens a stream in which this end sends. Waits while as many streams are open as the peer
    /// allows ([`StreamOptions::max_concurrent_uni_streams`]). Cancel safe; several tasks may wait.
    ///
    /// # Errors
    /// [`SessionError`] once the session has ended.
    pub async fn open_uni(&self) -> Result<SendStream, SessionError> {
        Ok(SendStream::new(self.hold.clone(), self.open(Direction::Uni).await?))
    }

    /// Waits for the next stream in both directions that the peer has opened and used. Streams come
    /// in the order of their numbers. Cancel safe; several tasks may wait.
    ///
    /// # Errors
    /// [`SessionError`] once the session has ended, and every stream that came before is accepted.
    pub async fn accept_bi(&self) -> Result<(SendStream, RecvStream), SessionError> {
        let tasks = self.accept(Direction::Bi).await?;
        Ok(self.both(tasks))
    }

    /// Waits for the next stream that the peer has opened to send in it. Streams come in the order
    /// of their numbers. Cancel safe; several tasks may wait.
    ///
    /// # Errors
    /// [`SessionError`] once the session has ended, and every stream that came before is accepted.
    pub async fn accept_uni(&self) -> Result<RecvStream, SessionError> {
        Ok(RecvStream::new(self.hold.clone(), self.accept(Direction::Uni).await?))
    }

    /// Sends a datagram, of at most [`max_datagram_size`](Self::max_datagram_size) bytes. It
    /// arrives whole, once or not at all: it is lost with its lane, and the oldest are dropped
    /// if more than 256 KiB of datagrams wait at either end. Datagrams overtake the bytes of
    /// streams.
    ///
    /// # Errors
    /// [`SendDatagramError`].
    pub fn send_datagram(&self, datagram: Bytes) -> Result<(), SendDatagramError> {
        let length = datagram.len();
        if length > LONGEST_DATAGRAM {
            return Err(SendDatagramError::TooLong { length });
        }
        let datagram = keep(datagram);
        self.shared().write(length, |state| match self.shared().error(state) {
            Some(error) => Err(SessionError::of(error).into()),
            None => {
                state.session.send_datagram(datagram);
                Ok(())
            }
        })
    }

    /// Waits for the next datagram. Cancel safe; several tasks may wait.
    ///
    /// # Errors
    /// [`SessionError`] once the session has ended, and every datagram that came before is read.
    pub async fn read_datagram(&self) -> Result<Bytes, SessionError> {
        wait_for(self.shared(), &self.shared().tasks.datagrams, |state| match state.session.read_datagram() {
            Some(datagram) => Some(Ok(datagram)),
            None => self.shared().error(state).map(|error| Err(SessionError::of(error))),
        })
        .await
    }

    /// The length of the longest datagram, in bytes: 16 KiB.
    pub fn max_datagram_size(&self) -> usize {
        LONGEST_DATAGRAM
    }

    /// Closes the session at once: bytes that the peer does not have are lost, and every call of
    /// either end that waits fails. The peer gets the code and the reason
    /// ([`SessionError::ClosedByPeer`]), of which 1,024 bytes are sent.
    ///
    /// A session that has ended stays as it is.
    pub fn close(&self, code: u64, reason: &[u8]) {
        let reason = Bytes::copy_from_slice(reason);
        self.shared().write(0, |state| state.session.close(Instant::now(), code, reason));
    }

    /// Waits for the end of the session, and gives its cause. Cancel safe; several tasks may wait.
    pub async fn closed(&self) -> SessionError {
        // The tasks that wait for a stream of the peer are woken when the session ends.
        wait_for(self.shared(), &self.shared().tasks.accept, |state| self.shared().error(state).map(SessionError::of))
            .await
    }

    /// The cause of the session's end; `None` while the session lasts.
    pub fn close_reason(&self) -> Option<SessionError> {
        self.shared().with(|state| self.shared().error(state)).map(SessionError::of)
    }

    /// Lets the peer have that many streams in both directions open at a time, up to 1,048,576. A
    /// smaller limit takes nothing back: the peer may still open the streams that it was allowed
    /// before, and further ones once fewer than the limit are left.
    pub fn set_max_concurrent_bi_streams(&self, max: u64) {
        self.set_max_streams(Direction::Bi, max);
    }

    /// Lets the peer have that many streams in one direction open at a time, up to 1,048,576. A
    /// smaller limit takes nothing back: the peer may still open the streams that it was allowed
    /// before, and further ones once fewer than the limit are left.
    pub fn set_max_concurrent_uni_streams(&self, max: u64) {
        self.set_max_streams(Direction::Uni, max);
    }

    /// The session's name. Both ends know the session by it.
    pub fn id(&self) -> StreamId {
        self.hold.id()
    }

    /// The local address of the lane that opened the session.
    pub fn local_addr(&self) -> SocketAddr {
        self.shared().opened_by.local
    }

    /// The peer's address of the lane that opened the session. [`stats`](Self::stats) has the
    /// addresses of every lane.
    pub fn peer_addr(&self) -> SocketAddr {
        self.shared().opened_by.peer
    }

    /// As [`MultiRailStream::peer_certificates`](crate::MultiRailStream::peer_certificates).
    pub fn peer_certificates(&self) -> &[Bytes] {
        self.hold.peer_certificates()
    }

    /// As [`MultiRailStream::peer_name`](crate::MultiRailStream::peer_name).
    pub fn peer_name(&self) -> Option<&str> {
        self.hold.peer_name()
    }

    /// The shortest round trip of the lanes that are up, as their transports measure it now. `None`
    /// if no transport knows it.
    pub fn rtt(&self) -> Option<Duration> {
        self.stats().lanes.iter().filter(|lane| lane.up).filter_map(|lane| lane.rtt).min()
    }

    /// The statistics of the session and its lanes up to now. Bytes are those of all streams
    /// together.
    pub fn stats(&self) -> StreamStats {
        self.hold.stats()
    }

    /// As [`MultiRailStream::decisions`](crate::MultiRailStream::decisions).
    pub fn decisions(&self) -> Decisions {
        self.hold.decisions()
    }

    /// The newest 256 events of the session and its lanes.
    pub fn events(&self) -> Vec<StreamEvent> {
        self.hold.events()
    }

    /// The events from now on. A subscriber that reads too slowly gets the number of events that it
    /// has missed.
    pub fn subscribe(&self) -> broadcast::Receiver<StreamEvent> {
        self.hold.subscribe()
    }

    /// The number of lanes that are up.
    pub fn lanes_up(&self) -> usize {
        self.hold.lanes_up()
    }

    /// As [`MultiRailStream::failed_lanes`](crate::MultiRailStream::failed_lanes).
    pub fn failed_lanes(&self) -> Vec<Arc<FailedLane>> {
        self.hold.failed_lanes()
    }

    /// As [`MultiRailStream::add_lane`](crate::MultiRailStream::add_lane).
    ///
    /// # Errors
    /// As there.
    pub fn add_lane(&self, rail: RailId, remote: impl Into<LaneAddress>) -> Result<u16, AddLaneError> {
        self.hold.dial(rail, remote.into())
    }

    /// As [`MultiRailStream::remove_lane`](crate::MultiRailStream::remove_lane).
    pub fn remove_lane(&self, lane: u16) -> bool {
        self.hold.remove_lane(lane)
    }

    /// The streams that this end has opened in that direction.
    #[cfg(feature = "web-transport")]
    pub(crate) fn opened(&self, direction: Direction) -> Option<rails_proto::session::Opened> {
        self.shared().with(|state| state.session.opened(direction))
    }

    fn shared(&self) -> &Arc<StreamShared> {
        &self.hold.shared
    }

    fn both(&self, tasks: Arc<StreamTasks>) -> (SendStream, RecvStream) {
        (SendStream::new(self.hold.clone(), tasks.clone()), RecvStream::new(self.hold.clone(), tasks))
    }

    async fn open(&self, direction: Direction) -> Result<Arc<StreamTasks>, SessionError> {
        wait_for(self.shared(), &self.shared().tasks.open, |state| {
            if let Some(error) = self.shared().error(state) {
                return Some(Err(SessionError::of(error)));
            }
            let number = state.session.open(direction)?;
            Some(Ok(state.tasks.add(number, handles(direction))))
        })
        .await
    }

    async fn accept(&self, direction: Direction) -> Result<Arc<StreamTasks>, SessionError> {
        let tasks = &self.shared().tasks;
        let _accepting = tasks.begin_accepting();
        wait_for(self.shared(), &tasks.accept, |state| match state.session.accept(direction) {
            Some(number) => Some(Ok(state.tasks.add(number, handles(direction)))),
            None => {
                state.tasks.note_acceptor();
                self.shared().error(state).map(|error| Err(SessionError::of(error)))
            }
        })
        .await
    }

    fn set_max_streams(&self, direction: Direction, max: u64) {
        let max = max.min(crate::options::MAX_STREAMS);
        self.shared().with(|state| state.session.set_max_streams(Instant::now(), direction, max));
    }
}

/// The number of handles of a stream at this end.
fn handles(direction: Direction) -> usize {
    match direction {
        Direction::Bi => 2,
        Direction::Uni => 1,
    }
}
