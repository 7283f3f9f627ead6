//! Connections over sockets: a control channel over TCP, segments over UDP, and a task that drives
//! both.

mod ahead;
mod bursts;
mod byte_stream;
mod driver;
mod error;
mod greeting;
mod lane;
mod listener;
mod lock;
mod open;
mod options;
mod outgoing;
mod places;
mod random;
mod scatter;
mod sealing;
mod secure;
mod shared;
mod stream;
mod waiting;

use crate::proto::{
    blocks::SentBlocks,
    incoming::{Outcome, ReceivedMessage},
    receiver::ReceiverStats,
    sender::SenderStats,
};
pub use ahead::HelperStats;
use bytes::{Bytes, BytesMut};
pub use error::{CloseError, ConnectionError, OpenConnectionError, ReceiveError, SendError};
pub use lane::CeleritasTransport;
pub use listener::CeleritasListener;
pub use options::CeleritasOptions;
use places::KnownOrigin;
pub use places::TurnedAway;
use rails_topo::Bandwidth;
pub use scatter::ScatterStats;
use shared::{ConnectionShared, ConnectionState};
use std::{
    future::{Future, poll_fn},
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};
pub use stream::CeleritasStream;
use tokio::{
    sync::{Mutex, oneshot},
    task::coop,
    time::timeout_at,
};
use waiting::{Waiting, Writer};

/// One end of a connection that carries messages both ways. Dropping it ends the connection at
/// once: see [`close`](Self::close).
#[derive(Debug)]
pub struct Connection {
    shared: Arc<ConnectionShared>,
    local: SocketAddr,
    peer: SocketAddr,
    segments: SocketAddr,
    /// The index of the interface that segments leave by; `None` where the system does not tell it.
    link: Option<u32>,
    /// The bytes that may wait unsent.
    max_unsent: u64,
    close_timeout: Duration,
    /// The callers that send wait for room one after the other.
    turns: Mutex<()>,
    _familiar: Option<KnownOrigin>,
}

/// A message on its way, and a future of its arrival: `Ok` says that all of it is in the peer's
/// memory, and any other outcome is an error. Dropping it does not stop the message.
#[derive(Debug)]
#[must_use = "the message goes on its way, and its outcome is not known without this"]
pub struct Sending {
    number: u32,
    shared: Arc<ConnectionShared>,
    done: oneshot::Receiver<Result<(), SendError>>,
}

/// The figures of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConnectionStats {
    /// The sending half.
    pub sender: SenderStats,
    /// The receiving half.
    pub receiver: ReceiverStats,
    /// The places where received segments landed.
    pub scatter: ScatterStats,
    /// The work of other cores.
    pub helpers: HelperStats,
    /// The rate at which this end sends.
    pub rate: Bandwidth,
    /// The smoothed round-trip time.
    pub rtt: Duration,
    /// The least round-trip time.
    pub min_rtt: Duration,
    /// The bytes that were sent and are not known to have arrived.
    pub unacknowledged: u64,
    /// The largest IP packet that the path is taken to carry, in bytes.
    pub path_mtu: u32,
}

impl Connection {
    /// Sends a message: these blocks, one after the other, without copying them. They are kept
    /// until they have arrived. Messages are sent in the order of the calls, and several are on
    /// their way at a time.
    ///
    /// The call waits until there is room among the bytes that [wait
    /// unsent](CeleritasOptions::max_unsent), and not for the arrival: [`Sending`] does. A
    /// message that is longer than all the room waits until there is no other.
    ///
    /// # Cancel safety
    /// Cancel safe: a call that is dropped before it returns has sent nothing, and holds no later
    /// one up.
    ///
    /// # Errors
    /// [`SendError`], also for a message without bytes.
    pub async fn send(&self, blocks: Vec<Bytes>) -> Result<Sending, SendError> {
        self.send_in_turn(blocks, None).await
    }

    /// Sends a message that is of use for a limited time, such as a frame of video. A message that
    /// has not arrived within `time` is given up as a whole ([`SendError::Expired`]), and the peer
    /// learns of it ([`ReceiveError::GivenUp`]). The time begins with the call; if all of it passes
    /// without room, the message is not sent ([`SendError::Full`]).
    ///
    /// # Cancel safety
    /// As [`send`](Self::send).
    ///
    /// # Errors
    /// As [`send`](Self::send).
    ///
    /// # Panics
    /// Outside of a tokio runtime with time enabled.
    pub async fn send_within(&self, blocks: Vec<Bytes>, time: Duration) -> Result<Sending, SendError> {
        // A time beyond the clock's range is no deadline.
        let Some(deadline) = Instant::now().checked_add(time) else { return self.send(blocks).await };
        let sending = self.send_in_turn(blocks, Some(deadline));
        timeout_at(deadline.into(), sending).await.unwrap_or(Err(SendError::Full))
    }

    /// As [`send`](Self::send), for a caller that may not wait. A clone of the blocks shares their
    /// memory, if they are needed again.
    ///
    /// # Errors
    /// As [`send`](Self::send), and [`SendError::Full`] without room, or while another caller waits
    /// for it.
    pub fn try_send(&self, blocks: Vec<Bytes>) -> Result<Sending, SendError> {
        let mut blocks = Some(SentBlocks::new(blocks));
        let _turn = self.turns.try_lock().map_err(|_| SendError::Full)?;
        self.sending(self.shared.change(|state| state.submit(&mut blocks, None, self.max_unsent)))
    }

    /// Sends once it is the caller's turn and there is room.
    async fn send_in_turn(&self, blocks: Vec<Bytes>, deadline: Option<Instant>) -> Result<Sending, SendError> {
        let mut blocks = Some(SentBlocks::new(blocks));
        let _turn = self.turns.lock().await;
        let room = blocks.iter().map(|blocks| self.max_unsent.saturating_sub(blocks.cost())).sum();
        let submitted = poll_fn(|context| {
            let submit = |state: &mut ConnectionState| match state.submit(&mut blocks, deadline, self.max_unsent) {
                Err(SendError::Full) => None,
                outcome => Some(outcome),
            };
            let (outcome, _unused) = self.shared.poll(context.waker().clone(), submit, |waiting, waker| {
                let writer = Writer { unsent: room, heeds_failures: false, waker };
                waiting.writer.replace(writer).map(|replaced| replaced.waker)
            });
            outcome
        })
        .await;
        // The driver sends it.
        self.shared.change(|_| {});
        self.sending(submitted)
    }

    fn sending(&self, submitted: Result<Submitted, SendError>) -> Result<Sending, SendError> {
        submitted.map(|(number, done)| Sending { number, shared: Arc::clone(&self.shared), done })
    }

    /// Receives the next message, in memory of this end. `None`: the peer sends no more. Callers
    /// get messages in the order of their calls.
    ///
    /// # Cancel safety
    /// Cancel safe: a caller that is dropped leaves its message to the next call. Callers that wait
    /// already keep theirs, so messages may come out of order then.
    ///
    /// # Errors
    /// [`ReceiveError`]. After one that names a message, the next call gets the next message.
    pub async fn receive(&self) -> Result<Option<ReceivedMessage>, ReceiveError> {
        self.take(None).await
    }

    /// Receives the next message into these blocks, each as long as it is: [`BytesMut::zeroed`]
    /// makes one. Segments that come as expected land there without a copy, if this is called
    /// before the message comes. The message has the blocks, cut to its length.
    ///
    /// A message that is longer is refused. If all of it has arrived before this call, and the peer
    /// may know, then it comes in memory of this end all the same.
    ///
    /// # Cancel safety
    /// As [`receive`](Self::receive); the blocks are gone.
    ///
    /// # Errors
    /// As [`receive`](Self::receive). The blocks are gone then.
    pub async fn receive_into(&self, blocks: Vec<BytesMut>) -> Result<Option<ReceivedMessage>, ReceiveError> {
        self.take(Some(blocks)).await
    }

    /// Tells the peer that no message follows those that were sent. A call of [`send`](Self::send)
    /// that waits for room has sent nothing, and fails with [`SendError::Closed`], as all later
    /// ones do.
    pub fn finish(&self) {
        self.shared.change(|state| state.protocol.finish());
    }

    /// [Finishes](Self::finish), and waits until the peer has finished too and all messages have
    /// arrived, or were refused or given up. Messages of the peer that no caller has received
    /// are lost, or refused if not arrived.
    ///
    /// The call waits for the peer as long as there is progress, and without any for
    /// [`close_timeout`](CeleritasOptions::close_timeout).
    ///
    /// # Cancel safety
    /// The call has the connection: dropping it ends the connection at once.
    ///
    /// # Errors
    /// [`CloseError`] if the connection ends before, or the peer does not come to its end.
    pub async fn close(self) -> Result<(), CloseError> {
        let (remote, limit) = (self.peer, self.close_timeout);
        self.shared.change(|state| state.protocol.close(Instant::now(), limit));
        let look = |state: &mut ConnectionState| match state.not_closed {
            Some(0) => Some(Err(CloseError::NotEnded { remote, limit })),
            Some(bytes) => Some(Err(CloseError::NotDelivered { remote, bytes, limit })),
            None => state.end.clone().map(|end| end.map_err(CloseError::from)),
        };
        self.wait_for(look, |waiting, waker| waiting.closer.replace(waker)).await
    }

    /// The local address of the control channel.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// The peer's address of the control channel.
    pub fn peer_addr(&self) -> SocketAddr {
        self.peer
    }

    /// The UDP address at which segments of the peer arrive: a firewall has to let them through.
    pub fn segments_addr(&self) -> SocketAddr {
        self.segments
    }

    /// The figures so far.
    pub fn stats(&self) -> ConnectionStats {
        let state = self.shared.lock();
        let (sender, receiver) = state.protocol.stats();
        ConnectionStats {
            sender,
            receiver,
            scatter: state.scatter,
            helpers: state.helpers,
            rate: state.protocol.rate(),
            rtt: state.protocol.rtt().smoothed(),
            min_rtt: state.protocol.rtt().min(),
            unacknowledged: state.protocol.unacknowledged(),
            path_mtu: state.protocol.path_mtu(),
        }
    }

    async fn take(&self, blocks: Option<Vec<BytesMut>>) -> Result<Option<ReceivedMessage>, ReceiveError> {
        let number = self.shared.change(|state| state.protocol.reserve(Instant::now(), blocks));
        let mut turn = Turn { connection: self, number: Some(number) };
        let look = |state: &mut ConnectionState| match state.protocol.take(Instant::now(), number) {
            Some(outcome) => Some(Ok(outcome)),
            None => state.end.clone().map(|end| end.map(|()| Outcome::None)),
        };
        let outcome = self.wait_for(look, |waiting, waker| waiting.receivers.insert(number, waker)).await;
        turn.number = None;
        // The peer may send further now.
        self.shared.change(|_| {});
        match outcome? {
            Outcome::Message(message) => Ok(Some(message)),
            Outcome::GivenUp => Err(ReceiveError::GivenUp(number)),
            Outcome::TooLong { length } => Err(ReceiveError::TooLong { number, length }),
            Outcome::None => Ok(None),
        }
    }

    /// Waits until `look` finds something, with the caller's waker in its `place`.
    async fn wait_for<R>(
        &self,
        mut look: impl FnMut(&mut ConnectionState) -> Option<R>,
        place: impl Fn(&mut Waiting, Waker) -> Option<Waker>,
    ) -> R {
        // A caller that always finds a message lets the other tasks of its thread have their turn.
        coop::consume_budget().await;
        poll_fn(|context| {
            let (outcome, _unused) = self.shared.poll(context.waker().clone(), &mut look, &place);
            outcome
        })
        .await
    }
}

impl ConnectionState {
    /// Submits a message if there is room, and takes the blocks then.
    fn submit(
        &mut self,
        blocks: &mut Option<SentBlocks>,
        deadline: Option<Instant>,
        max_unsent: u64,
    ) -> Result<Submitted, SendError> {
        match &self.end {
            Some(Err(error)) => return Err(error.clone().into()),
            _ if self.end.is_some() || self.protocol.is_finished() => return Err(SendError::Closed),
            _ => {}
        }
        let length = blocks.as_ref().map_or(0, SentBlocks::len);
        let cost = blocks.as_ref().map_or(0, SentBlocks::cost);
        let unsent = self.protocol.unsent_cost();
        if unsent > 0 && unsent.saturating_add(cost) > max_unsent {
            return Err(SendError::Full);
        }
        let number = self.protocol.submit(Instant::now(), length)?;
        deadline.into_iter().for_each(|deadline| self.protocol.set_deadline(number, deadline));
        let blocks = blocks.take().expect("a message is submitted once");
        Ok((number, self.outgoing.insert(number, blocks)))
    }
}

/// The number of a message that was submitted, and the channel of its outcome.
type Submitted = (u32, oneshot::Receiver<Result<(), SendError>>);

impl Drop for Connection {
    fn drop(&mut self) {
        // An abandoned connection still delivers its messages.
        self.shared.change(|state| state.protocol.drop_at_once());
    }
}

/// A caller's turn to receive a message; dropping it leaves the message to the next caller.
struct Turn<'a> {
    connection: &'a Connection,
    number: Option<u32>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            let _waker = self.connection.shared.change(|state| {
                state.protocol.release(number);
                state.waiting.receivers.remove(&number)
            });
        }
    }
}

impl Sending {
    /// The message's number, counted from 0.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Gives the message up: the bytes that have not left stay here. It may have arrived as a whole
    /// all the same.
    pub fn give_up(self) {
        self.shared.change(|state| {
            if state.protocol.give_up(Instant::now(), self.number) {
                state.outgoing.forget(self.number);
            }
        });
    }
}

impl Future for Sending {
    type Output = Result<(), SendError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.done).poll(context).map(|done| {
            done.unwrap_or_else(|_| match &self.shared.lock().end {
                Some(Err(error)) => Err(error.clone().into()),
                _ => Err(ConnectionError::Stopped.into()),
            })
        })
    }
}
