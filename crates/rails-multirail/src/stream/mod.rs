//! One logical stream over several lanes.

mod admission;
mod connect;
mod decisions;
mod dialer;
mod discovery;
mod driver;
mod events;
mod io;
mod join;
mod lane;
mod lane_metrics;
mod listener;
mod messages;
mod pool;
mod prometheus;
mod shared;
mod stats;
mod supervisor;
mod yield_budget;

pub use decisions::Decisions;
pub use driver::Driver;
pub use events::StreamEvent;
pub use listener::MultiRailListener;
pub use messages::{MessageReceiver, MessageSender, MessageTooLong, MultiRailMessages, TrySendError};
pub use prometheus::StreamMetrics;
pub use stats::{LaneStats, StreamStats, ThreadStats};

use crate::{
    AddLaneError, OpenError, PlanLanesError, RailId, StreamOptions, ToLaneAddresses, addresses, error::FailedLane,
    rails::Rails,
};
use bytes::{Buf, Bytes};
use dialer::{Dialer, Path};
use rails_proto::{
    LaneAddress,
    connection::Connection,
    handshake::StreamId,
    pairing::{self, Pairing},
    parameters::MOST_LANES,
};
use shared::{Shared, State};
use std::{
    future::poll_fn,
    io::Result as IoResult,
    pin::Pin,
    sync::Arc,
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
/// - **Half-close**: shutting the write side down lets the other end read to the end of the stream. It resolves when the other
///   end has every byte in its memory, which is more than a TCP socket says, or has dropped the stream and wants none of them, which is as much.
///   [`close`](Self::close) tells the two apart.
/// - **Losing a lane** loses nothing: what the other end does not have goes over the others, and the end that opened the stream dials the lane
///   again. While no lane can be used the stream waits, up to [`StreamOptions::outage_limit`]; then reads give what had arrived in order and
///   then a [`StreamError`](crate::StreamError), writes give it at once.
/// - **Dropping** it ends it as dropping a `TcpStream` does: what was written is delivered, and then the end of file, in the background and within
///   [`StreamOptions::linger`]. What the other end has sent that was not read, or sends from then on, is in vain, and its writes fail with
///   [`BrokenPipe`](std::io::ErrorKind::BrokenPipe); unlike with TCP it still receives all that was written here. What cannot be delivered in time is thrown away:
///   the other end gets an error, and the log a warning. Only [`abort`](Self::abort) gives the stream up at once.
/// - **The end of the process** is the end of its lanes. The kernel delivers what a `TcpStream` was given, whatever becomes of the process; here the rails' threads
///   do, so that a program that is about to end shuts its streams down or [closes](Self::close) them first. Dropping [`Rails`] waits for nothing: streams that linger
///   keep the rails that they need.
/// - **Memory** is bounded by this end's window for what arrives, and by the send buffer and the other end's window for what
///   is sent.
///
/// Errors come as [`std::io::Error`] around a [`StreamError`](crate::StreamError).
#[derive(Debug)]
pub struct MultiRailStream {
    shared: Arc<Shared>,
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
        if rails.is_empty() || remotes.is_empty() {
            let missing = if rails.is_empty() { "no rails to connect from" } else { "no addresses to connect to" };
            return Err(OpenError::NoLanes(missing));
        }
        let ours = rails.offers(remotes[0].scheme);
        Self::connect_paired(rails, &pairing::in_order(&ours, &remotes), options).await
    }

    /// Asks the listener at `contact`, any of its addresses, which lanes it has, and pairs them with `rails`: by subnet and speed, as
    /// [`pair`](rails_proto::pairing::pair) does. Nothing is opened yet; [`connect_paired`](Self::connect_paired) does that.
    ///
    /// The question is asked as the routes lead, from no rail in particular. The other end proves itself as for a stream, and what it says
    /// is authenticated, and encrypted where the stream would be. A contact that the other end knows by another address
    /// (address translation) keeps the one that was called.
    ///
    /// # Errors
    /// [`PlanLanesError`]. That nothing could be paired is none: the pairing says why.
    pub async fn plan(
        rails: &Rails,
        contact: impl ToLaneAddresses,
        options: &StreamOptions,
    ) -> Result<Pairing, PlanLanesError> {
        discovery::plan(rails, addresses::resolve(contact.named()).await?, options).await
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
    pub async fn write_bytes(&mut self, mut bytes: Bytes) -> IoResult<()> {
        loop {
            poll_fn(|context| self.poll_write_bytes(context, &mut bytes)).await?;
            if bytes.is_empty() {
                return Ok(());
            }
        }
    }

    /// Takes from the front of `bytes` what there is room for, at least one byte where there is any. None are taken at once, unless nothing can be written
    /// any more.
    ///
    /// # Errors
    /// As [`AsyncWrite::poll_write`].
    pub fn poll_write_bytes(&mut self, context: &mut Context<'_>, bytes: &mut Bytes) -> Poll<IoResult<usize>> {
        self.shared.with(|state| {
            if bytes.is_empty() {
                // Nothing is written at once, whether or not there is room.
                return Poll::Ready(writable(&self.shared, state).map(|()| 0));
            }
            let room = ready!(poll_room(&self.shared, state, context))?;
            let taken = bytes.split_to(room.min(bytes.len()));
            let length = taken.len();
            state.connection.write(Instant::now(), taken);
            Poll::Ready(Ok(length))
        })
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
        if !self.reading.is_empty() {
            return Poll::Ready(Ok(Some(std::mem::take(&mut self.reading))));
        }
        self.shared.poll_next(context, Connection::read)
    }

    /// Brings both directions to their end and says what the stream did: shuts the write side down, reads the other end's bytes to
    /// their end (there should be none left that matter: they are dropped), and waits until the lanes are closed.
    ///
    /// # Errors
    /// [`StreamError`](crate::StreamError) inside an [`std::io::Error`], where one of that fails, or the other end has dropped the stream with bytes that it
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
        // The other end may keep its side open for a while; what it wrote and what it was sent is complete.
        self.shared.with(|state| state.connection.abandon(Instant::now()));
        let _ = lanes_up.wait_for(|up| *up == 0).await;
        self.shared.summarize();
    }

    /// Shuts the write side down, and waits until the peer has everything, or wants nothing more, which is an error unless it has read everything.
    fn poll_delivered(&self, context: &mut Context<'_>) -> Poll<IoResult<()>> {
        self.shared.with(|state| {
            ready!(poll_finish(&self.shared, state, context))?;
            match self.shared.write_error(state) {
                Some(error) if !state.connection.is_sent() => Poll::Ready(Err(error.into())),
                _ => Poll::Ready(Ok(())),
            }
        })
    }

    /// Gives the stream up at once: what the other end does not have yet is thrown away, and it gets an error
    /// ([`ConnectionReset`](std::io::ErrorKind::ConnectionReset)) and no end of file. Dropping the stream delivers what was written instead.
    pub fn abort(self) {
        self.shared.with(|state| state.connection.abort(Instant::now()));
    }
}

/// Shuts the write side down, and waits until the peer has everything, or wants nothing more.
fn poll_finish(shared: &Shared, state: &mut State, context: &mut Context<'_>) -> Poll<IoResult<()>> {
    if !state.connection.is_finished() {
        state.connection.finish(Instant::now());
    }
    if state.connection.is_sending_over() {
        return Poll::Ready(Ok(()));
    }
    if let Some(error) = shared.write_error(state) {
        return Poll::Ready(Err(error.into()));
    }
    state.writer = Some(context.waker().clone());
    Poll::Pending
}

/// Whether anything can be written, be there room for it now or not.
fn writable(shared: &Shared, state: &State) -> IoResult<()> {
    if let Some(error) = shared.write_error(state) {
        return Err(error.into());
    }
    if state.connection.is_finished() {
        let kind = std::io::ErrorKind::BrokenPipe;
        return Err(std::io::Error::new(kind, "the write side of the stream was shut down"));
    }
    Ok(())
}

/// Waits for room to write.
fn poll_room(shared: &Shared, state: &mut State, context: &mut Context<'_>) -> Poll<IoResult<usize>> {
    writable(shared, state)?;
    match state.connection.room() {
        0 => {
            state.writer = Some(context.waker().clone());
            Poll::Pending
        }
        room => Poll::Ready(Ok(room)),
    }
}

impl AsyncRead for MultiRailStream {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<IoResult<()>> {
        if buffer.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        if self.reading.is_empty() {
            match ready!(self.poll_read_bytes(context))? {
                Some(bytes) => self.reading = bytes,
                None => return Poll::Ready(Ok(())),
            }
        }
        let count = buffer.remaining().min(self.reading.len());
        buffer.put_slice(&self.reading[..count]);
        self.reading.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for MultiRailStream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &[u8]) -> Poll<IoResult<usize>> {
        // The copy is made outside the lock. What is little is copied without asking for room, which is nearly always there; for more, nobody else
        // writes, so the room cannot shrink meanwhile.
        let most = match buffer.len() {
            little @ ..=LITTLE => little,
            length => ready!(self.shared.with(|state| poll_room(&self.shared, state, context)))?.min(length),
        };
        let mut copy = Bytes::copy_from_slice(&buffer[..most.min(MOST_COPIED)]);
        self.poll_write_bytes(context, &mut copy)
    }

    /// There is nothing to flush: what is written is sent as soon as a lane has room.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<IoResult<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<IoResult<()>> {
        self.shared.with(|state| poll_finish(&self.shared, state, context))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[std::io::IoSlice<'_>],
    ) -> Poll<IoResult<usize>> {
        if slices.iter().all(|slice| slice.is_empty()) {
            return self.poll_write(context, &[]);
        }
        let room = ready!(self.shared.with(|state| poll_room(&self.shared, state, context)))?;
        let mut copy = bytes::BytesMut::new();
        for slice in slices {
            let rest = room.min(MOST_COPIED) - copy.len();
            copy.extend_from_slice(&slice[..slice.len().min(rest)]);
        }
        self.poll_write_bytes(context, &mut copy.freeze())
    }

    fn is_write_vectored(&self) -> bool {
        true
    }
}

/// Delivers what was written, and ends the stream.
impl Drop for MultiRailStream {
    fn drop(&mut self) {
        let unread = self.reading.len() as u64;
        self.shared.with(|state| state.connection.drop_application(Instant::now(), unread));
    }
}

/// Copying so many bytes costs less than taking the lock.
const LITTLE: usize = 4 << 10;
/// The most that one write copies: what a lane takes at once, so that the first chunk is on its way while the next is copied.
const MOST_COPIED: usize = 256 << 10;
