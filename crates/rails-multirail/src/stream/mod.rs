//! One logical stream over several lanes.

mod admission;
mod connect;
mod decisions;
mod dialer;
mod discovery;
mod driver;
mod events;
mod halves;
mod io;
mod join;
mod lane;
mod lane_metrics;
mod listener;
mod messages;
mod pool;
#[cfg(feature = "prometheus")]
mod prometheus;
mod shared;
mod stats;
mod supervisor;
mod yield_budget;

pub use decisions::Decisions;
pub use driver::Driver;
pub use events::StreamEvent;
pub use halves::{OwnedReadHalf, OwnedWriteHalf, ReadHalf, ReuniteError, WriteHalf};
pub use listener::MultiRailListener;
pub use messages::{MessageReceiver, MessageSender, MessageTooLong, MultiRailMessages, TrySendError};
#[cfg(feature = "prometheus")]
pub use prometheus::StreamMetrics;
pub use stats::{LaneStats, StreamStats, ThreadStats};

use crate::{
    AddLaneError, OpenError, PlanLanesError, RailId, StreamOptions, ToLaneAddresses, addresses, error::FailedLane,
    rails::Rails,
};
use bytes::Bytes;
use dialer::{Dialer, Path};
use rails_proto::{
    LaneAddress,
    handshake::StreamId,
    pairing::{self, Pairing},
    parameters::MOST_LANES,
};
use shared::Shared;
use std::{
    future::poll_fn,
    io::Result as IoResult,
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, atomic::Ordering::Relaxed},
    task::{Context, Poll, ready},
    time::Instant,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::{broadcast, mpsc},
};

/// An ordered, reliable stream of bytes in both directions, over every lane that is up.
///
/// It is a tokio stream ([`AsyncRead`] + [`AsyncWrite`]), so whatever runs on a `TcpStream` runs on it. Bulk data goes faster
/// through [`write_bytes`](Self::write_bytes) and [`read_bytes`](Self::read_bytes), which copy nothing.
///
/// - **Half-close**: shutting the write side down lets the peer read to the end of the stream. It resolves when the other
///   end has every byte in its memory, which is more than a TCP socket says, or has dropped the stream and wants none of them, which is as much.
///   [`close`](Self::close) tells the two apart.
/// - **Losing a lane** loses nothing: what the peer does not have goes over the others, and the end that opened the stream dials the lane
///   again. While no lane can be used the stream waits, up to [`StreamOptions::outage_limit`]; then reads give what had arrived in order and
///   then a [`StreamError`](crate::StreamError), writes give it at once.
/// - **Dropping** it ends it as dropping a `TcpStream` does: what was written is delivered, and then the end of file, in the background and within
///   [`StreamOptions::linger`]. What the peer has sent that was not read, or sends from then on, is in vain, and its writes fail with
///   [`BrokenPipe`](std::io::ErrorKind::BrokenPipe); unlike with TCP it still receives all that was written here. What cannot be delivered in time is thrown away:
///   the peer gets an error, and the log a warning. Only [`abort`](Self::abort) gives the stream up at once.
/// - **The end of the process** is the end of its lanes. The kernel delivers what a `TcpStream` was given, whatever becomes of the process; here the rails' threads
///   do, so that a program that is about to end shuts its streams down or [closes](Self::close) them first. Dropping [`Rails`] waits for nothing: streams that linger
///   keep the rails that they need.
/// - **Memory** is bounded by this end's window for what arrives, and by the send buffer and the peer's window for what
///   is sent.
///
/// Errors come as [`std::io::Error`] around a [`StreamError`](crate::StreamError).
#[derive(Debug)]
pub struct MultiRailStream {
    pub(crate) shared: Arc<Shared>,
    /// What was taken from the stream and not yet copied out.
    reading: Bytes,
    /// Where this end opened the stream.
    dialing: Option<Dialing>,
}

/// What brings up the lanes of a stream.
#[derive(Debug)]
struct Dialing {
    dialer: Arc<Dialer>,
    /// The number of the next lane.
    next: u16,
}

impl MultiRailStream {
    fn new(shared: Arc<Shared>) -> Self {
        Self { shared, reading: Bytes::new(), dialing: None }
    }

    /// Opens a stream from `rails` to a [`MultiRailListener`].
    ///
    /// Lane *i* leads from rail *i* to address *i*; the shorter list starts over, so that two rails to one address make
    /// two lanes. It returns when every lane is up or has failed, or [`StreamOptions::join_grace`] after the first is up. A
    /// lane that fails is logged and listed by [`failed_lanes`](Self::failed_lanes), and the stream goes on without it.
    ///
    /// # Errors
    /// [`OpenError`] where not one lane came up.
    pub async fn connect(
        rails: &Rails,
        remotes: impl ToLaneAddresses,
        options: &StreamOptions,
    ) -> Result<Self, OpenError> {
        let remotes = addresses::resolve(remotes.named()).await?;
        if rails.is_empty() {
            return Err(OpenError::NoRails);
        }
        let first = remotes.first().ok_or(OpenError::NoAddresses)?;
        let ours = rails.offers(first.scheme);
        Self::connect_paired(rails, &pairing::in_order(&ours, &remotes), options).await
    }

    /// Asks the listener at `contact`, any of its addresses, which lanes it has, and pairs them with `rails`: by subnet and speed, as
    /// [`pair`](rails_proto::pairing::pair) does. Nothing is opened yet; [`connect_paired`](Self::connect_paired) does that.
    ///
    /// The question is asked as the routes lead, from no rail in particular. The peer proves itself as for a stream, and what it says
    /// is authenticated, and encrypted where the stream would be. A contact that the peer knows by another address
    /// (address translation) keeps the one that was called.
    ///
    /// # Errors
    /// [`PlanLanesError`]. That nothing could be paired is none: the pairing says why.
    pub async fn plan_lanes(
        rails: &Rails,
        contact: impl ToLaneAddresses,
        options: &StreamOptions,
    ) -> Result<Pairing, PlanLanesError> {
        discovery::plan_lanes(rails, addresses::resolve(contact.named()).await?, options).await
    }

    /// Tries every pair, without opening a stream: asks through it from its rail. Gives those that do not connect.
    ///
    /// Must be called on a tokio runtime.
    ///
    /// # Errors
    /// [`PlanLanesError::Security`]. A lane that does not connect is none.
    pub async fn probe(
        rails: &Rails,
        pairing: &Pairing,
        options: &StreamOptions,
    ) -> Result<Vec<FailedLane>, PlanLanesError> {
        discovery::probe(rails, pairing, options).await
    }

    /// Opens a stream with one lane for each pair. Lanes that do not connect are as with [`connect`](Self::connect).
    ///
    /// # Errors
    /// [`OpenError`] where not one lane came up, or the pairing has none, or names rails that are not there.
    pub async fn connect_paired(rails: &Rails, pairing: &Pairing, options: &StreamOptions) -> Result<Self, OpenError> {
        let lanes: Vec<(RailId, LaneAddress)> = pairing.lanes().collect();
        connect::connect(rails, &lanes, options).await
    }

    /// The stream's name.
    pub fn id(&self) -> StreamId {
        self.shared.id
    }

    /// This end's address of the lane that has opened the stream, which is the [peer's address](Self::peer_addr) at the peer.
    ///
    /// # Errors
    /// None; the signature is that of `TcpStream`.
    pub fn local_addr(&self) -> IoResult<SocketAddr> {
        Ok(self.shared.opened_by.local)
    }

    /// The peer's address of the lane that has opened the stream. Those of each lane are in [`stats`](Self::stats).
    ///
    /// # Errors
    /// None; the signature is that of `TcpStream`.
    pub fn peer_addr(&self) -> IoResult<SocketAddr> {
        Ok(self.shared.opened_by.peer)
    }

    /// The certificates that the peer has shown when the stream was opened, in DER, its own first (X.509, RFC 5280). Empty unless the stream is kept by
    /// [TLS](crate::Security::tls_server), and empty at the server where the client has shown none.
    pub fn peer_certificates(&self) -> &[Bytes] {
        &self.shared.opened_by.peer_certificates
    }

    /// How many lanes are up.
    pub fn lanes_up(&self) -> usize {
        *self.shared.lanes_up.borrow()
    }

    /// The lanes that have not come up so far, each with how its latest attempt went. They are dialled on, and one that comes up leaves this list. Empty at the end
    /// that accepted the stream.
    pub fn failed_lanes(&self) -> Vec<Arc<FailedLane>> {
        self.dialing.as_ref().map(|dialing| dialing.dialer.failed_lanes()).unwrap_or_default()
    }

    /// What the stream and its lanes have done up to now.
    pub fn stats(&self) -> StreamStats {
        self.shared.stats()
    }

    /// The scheduling decisions of this end, if the options [record](StreamOptions::record_decisions) them. The handle outlives the stream.
    pub fn decisions(&self) -> Decisions {
        Decisions::of(&self.shared)
    }

    /// What happened to the lanes up to now, the newest 256 events of it.
    pub fn events(&self) -> Vec<StreamEvent> {
        self.shared.events()
    }

    /// What happens to the lanes from now on. Who reads too slowly is told how many events it has missed.
    pub fn subscribe(&self) -> broadcast::Receiver<StreamEvent> {
        self.shared.subscribe()
    }

    /// Adds a lane from `rail` to `remote` while the stream runs, and gives its number. It is dialled as long as the stream lasts, until it comes up;
    /// [`subscribe`](Self::subscribe) tells when.
    ///
    /// # Errors
    /// [`AddLaneError`] at the end that accepted the stream, for a rail or a transport that it does not have, and beyond 64 lanes.
    pub fn add_lane(&mut self, rail: RailId, remote: impl Into<LaneAddress>) -> Result<u16, AddLaneError> {
        let remote = remote.into();
        let dialing = self.dialing.as_mut().ok_or(AddLaneError::Accepted)?;
        if rail.0 >= dialing.dialer.rails.len() {
            return Err(AddLaneError::NoSuchRail(rail));
        }
        dialing.dialer.options.transport_of(remote.scheme)?;
        if dialing.next as usize >= MOST_LANES {
            return Err(AddLaneError::TooMany);
        }
        let index = dialing.next;
        dialing.next += 1;
        self.shared.with(|state| state.connection.dialled(index));
        // Nobody waits for it.
        let (report, _) = mpsc::channel(1);
        dialing.dialer.start(Path { index, rail, remote }, report);
        Ok(index)
    }

    /// Takes a lane out while the stream runs, at either end: it is given nothing more, what it carries is waited for, and it is not dialled again.
    /// `false` where no such lane is up.
    pub fn remove_lane(&self, lane: u16) -> bool {
        self.shared.remove_lane(lane)
    }

    /// Writes all of `bytes` without copying them, waiting for room as often as it takes.
    ///
    /// Not cancel safe: how much was taken when this is dropped is not known.
    ///
    /// # Errors
    /// As [`AsyncWrite::poll_write`].
    pub async fn write_bytes(&mut self, bytes: Bytes) -> IoResult<()> {
        self.writer().write_bytes(bytes).await
    }

    /// Takes from the front of `bytes` what there is room for, at least one byte where there is any. None are taken at once, unless nothing can be written
    /// any more.
    ///
    /// # Errors
    /// As [`AsyncWrite::poll_write`].
    pub fn poll_write_bytes(&mut self, context: &mut Context<'_>, bytes: &mut Bytes) -> Poll<IoResult<usize>> {
        self.writer().poll_write_bytes(context, bytes)
    }

    /// The next bytes in order, as they arrived; `None` at the end of the stream. Cancel safe.
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

    /// Brings both directions to their end and says what the stream did: shuts the write side down, reads the peer's bytes to
    /// their end (there should be none left that matter: they are dropped), and waits until the lanes are closed.
    ///
    /// # Errors
    /// [`StreamError`](crate::StreamError) inside an [`std::io::Error`], where one of that fails, or the peer has dropped the stream with bytes that it
    /// had not read ([`Failure::Stopped`](rails_proto::connection::Failure::Stopped)).
    pub async fn close(mut self) -> IoResult<StreamStats> {
        poll_fn(|context| self.poll_delivered(context)).await?;
        while self.read_bytes().await?.is_some() {}
        self.wait_for_lanes().await;
        Ok(self.stats())
    }

    /// Waits until the lanes of a stream that has come to its end are closed.
    async fn wait_for_lanes(&self) {
        let mut lanes_up = self.shared.lanes_up.subscribe();
        // The peer may keep its side open for a while; what it wrote and what it was sent is complete.
        self.shared.with(|state| state.connection.abandon(Instant::now()));
        let _ = lanes_up.wait_for(|up| *up == 0).await;
        self.shared.summarize();
    }

    /// Shuts the write side down, and waits until the peer has everything, or wants nothing more, which is an error unless it has read everything.
    fn poll_delivered(&self, context: &mut Context<'_>) -> Poll<IoResult<()>> {
        self.shared.with(|state| {
            ready!(self.shared.poll_finish(state, context))?;
            match self.shared.write_error(state) {
                Some(error) if !state.connection.is_sent() => Poll::Ready(Err(error.into())),
                _ => Poll::Ready(Ok(())),
            }
        })
    }

    /// Gives the stream up at once: what the peer does not have yet is thrown away, and it gets an error
    /// ([`ConnectionReset`](std::io::ErrorKind::ConnectionReset)) and no end of file. Dropping the stream delivers what was written instead.
    pub fn abort(self) {
        self.shared.with(|state| state.connection.abort(Instant::now()));
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

/// Delivers what was written, and ends the stream.
impl Drop for MultiRailStream {
    fn drop(&mut self) {
        let unread = self.reading.len() as u64 + self.shared.unread.load(Relaxed);
        self.shared.with(|state| state.connection.drop_application(Instant::now(), unread));
    }
}
