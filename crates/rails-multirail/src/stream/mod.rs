//! One logical stream over several lanes.

mod accept_queue;
mod active_lane;
mod admission;
mod alarm;
mod burst;
mod closing;
mod connect;
mod decisions;
mod dialer;
mod discovery;
mod drive;
mod driver;
mod events;
mod first_messages;
mod halves;
mod handoff;
#[cfg(test)]
mod handoff_model;
mod inline;
mod io;
mod join;
mod lane;
mod lane_metrics;
mod lending;
mod listener;
mod listener_security;
mod lock;
mod messages;
mod patience;
mod peer;
mod pool;
mod senders;
mod shared;
mod stats;
mod supervisor;
mod sync;
mod tasks;
#[cfg(test)]
mod tasks_model;
mod turn;
#[cfg(test)]
mod turn_model;
mod unread;
mod wakers;
mod writing;
mod yield_budget;

use crate::{
    AddLaneError, EndpointError, OpenError, PlanLanesError, RailId, StreamOptions, ToLaneAddresses, addresses,
    error::FailedLane, rails::Rails,
};
use bytes::Bytes;
pub use decisions::Decisions;
use dialer::{Dialer, Opening, Path};
pub use events::StreamEvent;
pub use halves::{OwnedReadHalf, OwnedWriteHalf, ReadHalf, ReuniteError, WriteHalf};
pub use listener::MultiRailListener;
pub(crate) use lock::keep;
pub use messages::{MessageReceiver, MessageSender, MultiRailMessages, TrySendError};
use rails_proto::{LaneAddress, chunk::Priority, handshake::StreamId, pairing::Pairing, parameters::MAX_LANES};
pub(crate) use shared::{StreamShared, StreamState};
pub use stats::{LaneStats, StreamStats, ThreadStats};
use std::{
    future::poll_fn,
    io::Result as IoResult,
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError, atomic::Ordering::Relaxed},
    task::{Context, Poll, ready},
    time::Instant,
};
pub(crate) use tasks::StreamTasks;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::{broadcast, mpsc},
};
pub(crate) use wakers::among_others;
pub(crate) use writing::Writing;

/// An ordered, reliable stream of bytes in both directions, over every lane that is up.
///
/// The stream is a tokio one ([`AsyncRead`] + [`AsyncWrite`]), so a protocol that runs on a
/// `TcpStream` runs on it. Bulk data goes faster through [`write_bytes`](Self::write_bytes) and
/// [`read_bytes`](Self::read_bytes), which copy nothing.
///
/// - **Half-close**: shutting the write side down lets the peer read to the end of the stream. It
///   resolves when the peer has every byte in its memory, which a TCP socket does not tell, or has
///   dropped the stream and reads no more. [`close`](Self::close) tells the two apart.
/// - **Losing a lane** loses no bytes: the other lanes send the bytes that the peer does not have,
///   and the end that opened the stream dials the lane again. While no lane is usable the stream
///   waits, up to [`StreamOptions::outage_limit`]. Then reads give the bytes that have arrived in
///   order, and after them a [`StreamError`](crate::StreamError); writes give the error at once.
/// - **Dropping** it ends it as dropping a `TcpStream` does: the lanes deliver the written bytes
///   and then the end of file, in the background and within [`StreamOptions::linger`]. Unread bytes
///   of the peer are lost, and its writes fail with [`BrokenPipe`](std::io::ErrorKind::BrokenPipe);
///   unlike with TCP it still receives all bytes written here. Bytes that cannot be delivered in
///   time are thrown away: the peer gets an error, and the log a warning. Only
///   [`abort`](Self::abort) gives the stream up at once.
/// - **Flushing** it has small writes leave that wait for others: answers to several requests at
///   hand leave together, when the task waits or at the end of its turn. A write that comes 50 us
///   after the first takes the others along. If the task blocks its thread instead, a lane's task
///   sends them a few milliseconds later, unless the lane lives on that thread. Lanes send all
///   other bytes as soon as they have room. As with a `TcpStream`, flushed bytes are not yet at the
///   peer.
/// - **The end of the process**, by a return from `main` or by [`exit`](std::process::exit), waits
///   until the streams that were dropped have delivered their bytes, within their linger and two
///   seconds. A signal or [`abort`](std::process::abort) does not, and streams that were not
///   dropped are not waited for. Only [`Rails::drain`], a
///   [shutdown](tokio::io::AsyncWriteExt::shutdown) and [`close`](Self::close) tell the program
///   that the bytes have arrived.
/// - **Memory** is bounded: for arriving bytes by this end's window and the chunks that are
///   arriving, one on each lane; for written bytes by the send buffer and
///   [`StreamOptions::max_unacknowledged`].
///
/// Errors come as [`std::io::Error`] around a [`StreamError`](crate::StreamError).
#[derive(Debug)]
pub struct MultiRailStream {
    pub(crate) shared: Arc<StreamShared>,
    /// Bytes taken from the stream and not yet copied out.
    reading: Bytes,
    /// `None` at the end that accepted the stream.
    dialing: Option<Dialing>,
}

/// The dialer of a stream's lanes, at the end that opened the stream.
#[derive(Debug)]
struct Dialing {
    dialer: Arc<Dialer>,
    /// The number of the next lane.
    next: Mutex<u16>,
}

impl MultiRailStream {
    fn new(shared: Arc<StreamShared>) -> Self {
        Self { shared, reading: Bytes::new(), dialing: None }
    }

    /// Opens a stream from `rails` to a [`MultiRailListener`].
    ///
    /// Lane *i* leads from rail *i* to address *i*; the shorter list starts over, so that two rails
    /// to one address make two lanes. It returns when every lane is up or has failed, or
    /// [`StreamOptions::join_grace`] after the first is up. The stream goes on without a lane
    /// that fails; the log and [`failed_lanes`](Self::failed_lanes) name it.
    ///
    /// A host name stands for all its addresses. They are called one after the other (RFC 8305,
    /// section 5): the next one as soon as one has failed, and at most 250 ms later. Once the
    /// stream is open all others are called, and those that answer are lanes too; `connect`
    /// waits for them 250 ms at most. Addresses of names beyond the most lanes of a stream are
    /// left out.
    ///
    /// # Errors
    /// [`OpenError`] if no lane came up.
    pub async fn connect(
        rails: &Rails,
        remotes: impl ToLaneAddresses,
        options: &StreamOptions,
    ) -> Result<Self, OpenError> {
        let pairing = connect::pair_in_order(rails, remotes, options).await?;
        Self::connect_paired(rails, &pairing, options).await
    }

    /// Asks the listener at `contact`, the first of these addresses that answers, for its lanes,
    /// and pairs them with `rails` by subnet and speed, as [`pair`](rails_proto::pairing::pair)
    /// does. It opens no stream; [`connect_paired`](Self::connect_paired) does that.
    ///
    /// The kernel's routes choose the path of the request, which no rail is bound to. The peer
    /// authenticates itself as for a stream. Its answer is authenticated, and encrypted if the
    /// stream would be. If the peer knows the contact by another address (address translation),
    /// the pairing keeps the called address.
    ///
    /// # Errors
    /// [`PlanLanesError`]. A pairing without lanes is not an error: it holds the reasons.
    pub async fn plan_lanes(
        rails: &Rails,
        contact: impl ToLaneAddresses,
        options: &StreamOptions,
    ) -> Result<Pairing, PlanLanesError> {
        discovery::plan_lanes(rails, addresses::resolve(contact).await.map_err(EndpointError::from)?.concat(), options)
            .await
    }

    /// Tries every pair without opening a stream: sends a request from the pair's rail. Gives the
    /// pairs that do not connect.
    ///
    /// Must be called on a tokio runtime.
    ///
    /// # Errors
    /// [`PlanLanesError::Endpoint`]. A lane that does not connect is not an error.
    pub async fn probe(
        rails: &Rails,
        pairing: &Pairing,
        options: &StreamOptions,
    ) -> Result<Vec<FailedLane>, PlanLanesError> {
        discovery::probe(rails, pairing, options).await
    }

    /// Opens a stream with one lane for each pair, and treats lanes that do not connect as
    /// [`connect`](Self::connect) does.
    ///
    /// # Errors
    /// [`OpenError`] if no lane came up, or the pairing has none, or it names rails that do not
    /// exist.
    pub async fn connect_paired(rails: &Rails, pairing: &Pairing, options: &StreamOptions) -> Result<Self, OpenError> {
        connect::connect(rails, &pairing.pairs, options, Opening::Stream(None)).await
    }

    /// Opens a session of many streams as [`connect`](Self::connect) opens a stream. The stream is
    /// the application's hold on the session.
    pub(crate) async fn hold_session(
        rails: &Rails,
        remotes: impl ToLaneAddresses,
        options: &StreamOptions,
    ) -> Result<Self, OpenError> {
        let pairing = connect::pair_in_order(rails, remotes, options).await?;
        Self::hold_session_paired(rails, &pairing, options).await
    }

    /// As [`hold_session`](Self::hold_session), with one lane for each pair.
    pub(crate) async fn hold_session_paired(
        rails: &Rails,
        pairing: &Pairing,
        options: &StreamOptions,
    ) -> Result<Self, OpenError> {
        connect::connect(rails, &pairing.pairs, options, Opening::Session).await
    }

    /// The stream's name.
    pub fn id(&self) -> StreamId {
        self.shared.id
    }

    /// The local address of the lane that opened the stream.
    ///
    /// # Errors
    /// None; the signature is that of `TcpStream`.
    pub fn local_addr(&self) -> IoResult<SocketAddr> {
        Ok(self.shared.opened_by.local)
    }

    /// The peer's address of the lane that opened the stream. [`stats`](Self::stats) has the
    /// addresses of every lane.
    ///
    /// # Errors
    /// None; the signature is that of `TcpStream`.
    pub fn peer_addr(&self) -> IoResult<SocketAddr> {
        Ok(self.shared.opened_by.peer)
    }

    /// The number of lanes that are up.
    pub fn lanes_up(&self) -> usize {
        *self.shared.lanes_up.borrow()
    }

    /// The lanes that have not come up so far, each with the error of its latest attempt. This end
    /// keeps dialling them, and a lane that comes up leaves the list. Empty at the end that
    /// accepted the stream.
    pub fn failed_lanes(&self) -> Vec<Arc<FailedLane>> {
        self.dialing.as_ref().map(|dialing| dialing.dialer.failed_lanes()).unwrap_or_default()
    }

    /// The statistics of the stream and its lanes up to now.
    pub fn stats(&self) -> StreamStats {
        self.shared.stats()
    }

    /// The scheduling decisions of this end, if the options
    /// [record](StreamOptions::record_decisions) them. The handle outlives the stream.
    pub fn decisions(&self) -> Decisions {
        Decisions::of(&self.shared)
    }

    /// The newest 256 events of the stream and its lanes.
    pub fn events(&self) -> Vec<StreamEvent> {
        self.shared.events()
    }

    /// The events from now on. A subscriber that reads too slowly gets the number of events that it
    /// has missed.
    pub fn subscribe(&self) -> broadcast::Receiver<StreamEvent> {
        self.shared.subscribe()
    }

    /// Adds a lane from `rail` to `remote` while the stream runs, and gives its number. The stream
    /// dials it until it is up; [`subscribe`](Self::subscribe) reports when.
    ///
    /// # Errors
    /// [`AddLaneError`] at the end that accepted the stream, for an unknown rail or transport, and
    /// beyond 64 lanes.
    pub fn add_lane(&mut self, rail: RailId, remote: impl Into<LaneAddress>) -> Result<u16, AddLaneError> {
        self.dial(rail, remote.into())
    }

    /// As [`add_lane`](Self::add_lane), for several tasks.
    pub(crate) fn dial(&self, rail: RailId, remote: LaneAddress) -> Result<u16, AddLaneError> {
        let Dialing { dialer, next } = self.dialing.as_ref().ok_or(AddLaneError::Accepted)?;
        if rail.0 >= dialer.rails.len() {
            return Err(AddLaneError::NoSuchRail(rail));
        }
        dialer.options.transport_of(remote.scheme)?;
        let mut next = next.lock().unwrap_or_else(PoisonError::into_inner);
        let index = *next;
        if usize::from(index) >= MAX_LANES {
            return Err(AddLaneError::TooMany);
        }
        *next += 1;
        drop(next);
        self.shared.with(|state| state.session.dialled(index));
        // No caller waits for the report.
        let (report, _) = mpsc::channel(1);
        dialer.start(Path { index, rail, remote }, report);
        Ok(index)
    }

    /// Removes a lane while the stream runs, at either end. The lane gets no more chunks, closes
    /// after those in flight are acknowledged, and is not dialled again. `false` if no such
    /// lane is up.
    pub fn remove_lane(&self, lane: u16) -> bool {
        self.shared.remove_lane(lane)
    }

    /// Writes all of `bytes` without copying them, and waits for room as often as needed.
    ///
    /// Not cancel safe: after the future is dropped, the caller does not know how many bytes were
    /// taken.
    ///
    /// # Errors
    /// As [`AsyncWrite::poll_write`].
    pub async fn write_bytes(&mut self, bytes: Bytes) -> IoResult<()> {
        self.writer().write_bytes(bytes).await
    }

    /// Takes as many bytes from the front of `bytes` as there is room for, at least one unless
    /// `bytes` is empty. For empty `bytes` it is ready at once, with an error if the write side
    /// is closed.
    ///
    /// # Errors
    /// As [`AsyncWrite::poll_write`].
    pub fn poll_write_bytes(&mut self, context: &mut Context<'_>, bytes: &mut Bytes) -> Poll<IoResult<usize>> {
        self.writer().poll_write_bytes(context, bytes)
    }

    /// Waits for the next bytes in order, and gives them without a copy; `None` at the end of the
    /// stream. Cancel safe.
    ///
    /// # Errors
    /// As [`AsyncRead::poll_read`].
    pub async fn read_bytes(&mut self) -> IoResult<Option<Bytes>> {
        poll_fn(|context| self.poll_read_bytes(context)).await
    }

    /// As [`read_bytes`](Self::read_bytes).
    ///
    /// # Errors
    /// As [`AsyncRead::poll_read`].
    pub fn poll_read_bytes(&mut self, context: &mut Context<'_>) -> Poll<IoResult<Option<Bytes>>> {
        self.reader().poll_read_bytes(context)
    }

    /// As [`read_bytes`](Self::read_bytes), at most `limit` bytes; the others come with the next
    /// read, without a copy too. A limit of 0 gives no bytes, at once.
    ///
    /// # Errors
    /// As [`AsyncRead::poll_read`].
    pub async fn read_bytes_up_to(&mut self, limit: usize) -> IoResult<Option<Bytes>> {
        self.reader().read_bytes_up_to(limit).await
    }

    /// Ends both directions and gives the statistics: shuts the write side down, reads the peer's
    /// bytes to their end and drops them (the caller should have read those that matter), and
    /// waits until the lanes are closed.
    ///
    /// The call waits for the peer as long as there is progress, and without any for
    /// [`StreamOptions::close_timeout`].
    ///
    /// # Errors
    /// [`StreamError`](crate::StreamError) inside an [`std::io::Error`] if one of these steps
    /// fails, or if the peer has dropped the stream with unread bytes
    /// ([`Failure::Stopped`](rails_proto::session::Failure::Stopped));
    /// [`CloseError`](crate::CloseError) if the peer does not come to its end.
    ///
    /// # Panics
    /// Outside a tokio runtime with time enabled.
    pub async fn close(mut self) -> IoResult<StreamStats> {
        self.deliver().await?;
        let shared = self.shared.clone();
        while closing::in_time(&shared, self.read_bytes()).await?.is_some() {}
        self.wait_for_lanes().await;
        Ok(self.stats())
    }

    /// Shuts the write side down, and waits until the peer has every byte. A peer that reads no
    /// more is an error unless it has read every byte.
    fn poll_delivered(&self, context: &mut Context<'_>) -> Poll<IoResult<()>> {
        let poll = |state: &mut shared::StreamState| {
            ready!(self.shared.poll_finished(state))?;
            match self.shared.write_error(state) {
                Some(error) if !state.session.is_sent() => Poll::Ready(Err(error.into())),
                _ => Poll::Ready(Ok(())),
            }
        };
        self.shared.finish();
        self.shared.poll_as_writer(context, || self.shared.with(poll))
    }

    /// Gives the stream up at once: throws away the bytes that the peer does not have yet. The peer
    /// gets an error ([`ConnectionReset`](std::io::ErrorKind::ConnectionReset)) in place of the
    /// end of file. Dropping the stream delivers the written bytes instead.
    pub fn abort(self) {
        self.shared.with(|state| state.session.abort(Instant::now()));
    }
}

impl AsyncRead for MultiRailStream {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<IoResult<()>> {
        Pin::new(&mut self.reader()).poll_read(context, buffer)
    }
}

impl AsyncWrite for MultiRailStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &[u8]) -> Poll<IoResult<usize>> {
        Pin::new(&mut self.writer()).poll_write(context, buffer)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<IoResult<()>> {
        Pin::new(&mut self.writer()).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<IoResult<()>> {
        Pin::new(&mut self.writer()).poll_shutdown(context)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[std::io::IoSlice<'_>],
    ) -> Poll<IoResult<usize>> {
        Pin::new(&mut self.writer()).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }
}

/// Ends the stream; the lanes deliver the written bytes in the background.
impl Drop for MultiRailStream {
    fn drop(&mut self) {
        self.shared.drop_application(self.reading.len() as u64 + self.shared.unread.load(Relaxed));
    }
}
