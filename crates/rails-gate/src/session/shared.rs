//! Frames on their way between the stream of messages and the channels.

use super::{
    channel_state::ChannelShared,
    flow::{Violation, Windows},
    limits::{Full, Limits},
};
use crate::wire::{ChannelNumber, Frame, Instance, MAX_FRAME, Refusal, VERSION, WireError};
use bytes::Bytes;
use rails_multirail::{MessageReceiver, MessageSender, Priority};
use std::{
    collections::{HashMap, VecDeque},
    fmt, io,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{
    runtime::Handle,
    sync::{Notify, futures::Notified},
    time::timeout,
};

/// The longest message with bytes of a channel.
pub(crate) const MAX_MESSAGE: usize = 256 << 10;

/// A session with another gate.
pub(crate) struct Session {
    side: Side,
    /// The other gate.
    peer: Instance,
    limits: Arc<Limits>,
    routes: Mutex<Routes>,
    /// One task at a time waits for room, in the order of asking.
    outlet: tokio::sync::Mutex<Outlet>,
    batch: Mutex<Batch>,
    /// A batch was sent.
    has_sent: Notify,
    /// The runtime of tasks that send what was said outside of any.
    runtime: Handle,
    /// A channel has ended.
    ended: Notify,
}

/// Which end of a session this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// The end that dialled.
    Dialled,
    /// The end that accepted.
    Accepted,
}

/// A connection that the peer asks for.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) destination: SocketAddr,
    pub(super) source: Option<SocketAddr>,
    pub(super) channel: Arc<ChannelShared>,
}

/// Why a channel was not opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotOpened {
    #[error("{0}")]
    Refused(Refusal),
    #[error("the session with the peer was lost")]
    Lost,
    #[error(transparent)]
    Full(#[from] Full),
}

/// Why a session ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SessionError {
    #[error("the session was lost")]
    Lost(#[source] io::Error),
    #[error("the peer ended the session")]
    Ended,
    #[error("the peer broke the protocol of sessions: {0}")]
    Violation(#[from] Violation),
    #[error("the peer broke the protocol of sessions: {0}")]
    Wire(#[from] WireError),
    #[error("the peer's gate speaks version {theirs} of the protocol, this one version {VERSION}")]
    Version { theirs: u16 },
    #[error("the peer is this gate itself")]
    Itself,
    #[error("the peer did not greet within {} s", GREETING.as_secs())]
    Mute,
}

#[derive(Debug)]
struct Routes {
    channels: HashMap<ChannelNumber, Arc<ChannelShared>>,
    /// The number of the next channel that this end opens.
    next: u64,
    /// No channel of the peer has had this number or a higher one.
    unused: u64,
    has_ended: bool,
}

/// Small frames that leave as one message, so that a round of ready connections costs one send.
#[derive(Debug, Default)]
struct Batch {
    urgent: Vec<u8>,
    normal: Vec<u8>,
    /// A task that nobody drops is to send them.
    is_due: bool,
}

/// The way out.
#[derive(Debug)]
struct Outlet {
    sender: MessageSender,
    /// Messages of batches, which a task that was dropped has left here.
    unsent: VecDeque<(Bytes, Priority)>,
}

impl Outlet {
    /// Sends the batch. A task that is dropped meanwhile loses none of it.
    async fn flush(&mut self, session: &Session) -> io::Result<()> {
        self.unsent.extend(session.batch().take());
        while let Some((frames, priority)) = self.unsent.front() {
            self.sender.send(frames.clone(), *priority).await?;
            self.unsent.pop_front();
            session.has_sent.notify_one();
        }
        Ok(())
    }
}

impl Batch {
    fn push(&mut self, frame: &Frame, bytes: &[u8]) {
        let mut room = [0; MAX_FRAME];
        let to = if frame.is_urgent() { &mut self.urgent } else { &mut self.normal };
        to.extend_from_slice(frame.encode_into(&mut room));
        to.extend_from_slice(bytes);
    }

    fn len(&self) -> usize {
        self.urgent.len() + self.normal.len()
    }

    /// Takes the messages that there are, the urgent one first.
    fn take(&mut self) -> impl Iterator<Item = (Bytes, Priority)> + use<> {
        let taken = [(&mut self.urgent, Priority::HIGHEST), (&mut self.normal, Priority::NORMAL)];
        let taken = taken.map(|(frames, priority)| (Bytes::from(std::mem::take(frames)), priority));
        taken.into_iter().filter(|(frames, _)| !frames.is_empty())
    }
}

impl Session {
    /// Greets the peer, and makes a session of the stream, which [`serve`](Self::serve) drives.
    ///
    /// # Errors
    /// [`SessionError`].
    pub(crate) async fn begin(
        mut sender: MessageSender,
        mut receiver: MessageReceiver,
        side: Side,
        own: Instance,
        limits: Arc<Limits>,
    ) -> Result<(Arc<Self>, MessageReceiver), SessionError> {
        let hello = Frame::Hello { version: VERSION, instance: own };
        sender.send(hello.encode(), Priority::NORMAL).await.map_err(SessionError::Lost)?;
        let greeting = timeout(GREETING, receiver.recv()).await.map_err(|_| SessionError::Mute)?;
        let greeting = greeting.map_err(SessionError::Lost)?.ok_or(SessionError::Ended)?;
        let mut greeting = greeting.payload;
        let (Frame::Hello { version, instance }, _) = Frame::take(&mut greeting)? else {
            return Err(Violation::Greeting.into());
        };
        if !greeting.is_empty() {
            return Err(Violation::Greeting.into());
        }
        if version != VERSION {
            return Err(SessionError::Version { theirs: version });
        }
        if instance == own {
            return Err(SessionError::Itself);
        }
        Ok((Arc::new(Self::new(sender, side, instance, limits)), receiver))
    }

    /// A session whose peer has greeted.
    fn new(sender: MessageSender, side: Side, peer: Instance, limits: Arc<Limits>) -> Self {
        Self {
            side,
            peer,
            limits,
            routes: Mutex::new(Routes {
                channels: HashMap::new(),
                next: u64::from(side == Side::Accepted),
                unused: u64::from(side == Side::Dialled),
                has_ended: false,
            }),
            outlet: tokio::sync::Mutex::new(Outlet { sender, unsent: VecDeque::new() }),
            batch: Mutex::default(),
            has_sent: Notify::new(),
            runtime: Handle::current(),
            ended: Notify::new(),
        }
    }

    /// A session that nothing drives: the caller feeds it.
    #[cfg(feature = "fuzzing")]
    pub(crate) fn fed(sender: MessageSender, side: Side, limits: Arc<Limits>) -> Arc<Self> {
        Arc::new(Self::new(sender, side, Instance([0; 16]), limits))
    }

    /// The bytes of frames that wait for room.
    #[cfg(feature = "fuzzing")]
    pub(crate) fn bytes_waiting(&self) -> usize {
        self.batch().len()
    }

    /// Routes frames until the session ends, and hands out the connections that the peer asks for.
    /// Every channel is reset at the end.
    pub(super) async fn serve(self: &Arc<Self>, receiver: MessageReceiver, asked: impl Fn(Question)) -> SessionError {
        // Ends the channels also where this future is dropped.
        let _ended = Ended(self);
        self.route(receiver, asked).await
    }

    async fn route(self: &Arc<Self>, mut receiver: MessageReceiver, asked: impl Fn(Question)) -> SessionError {
        loop {
            let message = match receiver.recv().await {
                Ok(Some(message)) => message.payload,
                Ok(None) => return SessionError::Ended,
                Err(error) => return SessionError::Lost(error),
            };
            if let Err(error) = self.take_message(message, &asked) {
                return error;
            }
            // A peer that asks, and takes no answers, is not heard until it does.
            if self.has_much_to_say() && timeout(PATIENCE, self.said_enough()).await.is_err() {
                return Violation::TakesNothing.into();
            }
        }
    }

    /// Whether more waits for room than there is for a peer that asks for no more connections than
    /// it may.
    fn has_much_to_say(&self) -> bool {
        let frames = self.limits.max_channels().saturating_mul(3).saturating_add(MAX_SAID);
        self.batch().len() > frames.saturating_mul(MAX_FRAME)
    }

    async fn said_enough(&self) {
        loop {
            let sent = self.has_sent.notified();
            if !self.has_much_to_say() {
                return;
            }
            sent.await;
        }
    }

    /// Takes a message of the peer.
    pub(super) fn take_message(
        self: &Arc<Self>,
        mut message: Bytes,
        asked: &impl Fn(Question),
    ) -> Result<(), SessionError> {
        while !message.is_empty() {
            self.take(&mut message, asked)?;
        }
        Ok(())
    }

    /// Takes the next frame of a message.
    fn take(self: &Arc<Self>, message: &mut Bytes, asked: &impl Fn(Question)) -> Result<(), SessionError> {
        let (frame, bytes) = Frame::take(message)?;
        match frame {
            Frame::Data { channel, .. } => {
                if let Some(found) = self.channel(channel)?
                    && let Some(limit) = found.arrive(bytes)?
                {
                    self.say(&Frame::Credit { channel, limit }, &[]);
                }
            }
            Frame::Credit { channel, limit } => {
                if let Some(found) = self.channel(channel)? {
                    found.raise(limit);
                }
            }
            Frame::Blocked { channel } => {
                let found = self.channel(channel)?;
                if let Some(limit) = found.and_then(|found| found.peer_blocked(self.limits.windows())) {
                    self.say(&Frame::Credit { channel, limit }, &[]);
                }
            }
            Frame::Hello { .. } => return Err(Violation::Greeting.into()),
            Frame::Open { channel, destination, source, limit } => {
                if let Some(question) = self.asking(channel, destination, source, limit)? {
                    asked(question);
                }
            }
            Frame::Opened { channel, limit } => {
                self.own(channel)?.map_or(Ok(()), |found| found.opened(limit))?;
            }
            Frame::Refused { channel, refusal } => {
                self.own(channel)?.map_or(Ok(()), |found| found.refused(refusal))?;
            }
            Frame::Finish { channel } => {
                self.channel(channel)?.map_or(Ok(()), |found| found.peer_finished())?;
            }
            Frame::Reset { channel } => {
                if let Some(found) = self.lock().channels.get(&channel).cloned() {
                    found.reset();
                }
            }
        }
        Ok(())
    }

    /// The channel of a frame; `None` if it has ended.
    fn channel(&self, number: ChannelNumber) -> Result<Option<Arc<ChannelShared>>, Violation> {
        let routes = self.lock();
        match routes.channels.get(&number) {
            Some(channel) => Ok(Some(channel.clone())),
            None if number.0 < routes.bound(self.side, number) => Ok(None),
            None => Err(Violation::NeverOpened),
        }
    }

    /// As [`channel`](Self::channel), for a channel that this end opened.
    fn own(&self, number: ChannelNumber) -> Result<Option<Arc<ChannelShared>>, Violation> {
        if is_own(self.side, number) { self.channel(number) } else { Err(Violation::Answer) }
    }

    /// Notes a channel that the peer opens; `None` if it is refused.
    fn asking(
        self: &Arc<Self>,
        number: ChannelNumber,
        destination: SocketAddr,
        source: Option<SocketAddr>,
        limit: u64,
    ) -> Result<Option<Question>, Violation> {
        let mut routes = self.lock();
        if is_own(self.side, number) || number.0 < routes.unused {
            return Err(Violation::Number);
        }
        routes.unused = number.0.checked_add(1).ok_or(Violation::Number)?;
        if let Err(full) = self.limits.take() {
            drop(routes);
            self.say(&Frame::Refused { channel: number, refusal: full.into() }, &[]);
            return Ok(None);
        }
        let channel = Arc::new(ChannelShared::asking(number, limit));
        routes.channels.insert(number, channel.clone());
        drop(routes);
        Ok(Some(Question { destination, source, channel }))
    }

    /// Asks the peer for a connection.
    pub(super) fn ask(
        self: &Arc<Self>,
        destination: SocketAddr,
        source: Option<SocketAddr>,
    ) -> Result<Arc<ChannelShared>, NotOpened> {
        let mut routes = self.lock();
        if routes.has_ended {
            return Err(NotOpened::Lost);
        }
        self.limits.take()?;
        let number = ChannelNumber(routes.next);
        routes.next += 2;
        let channel = Arc::new(ChannelShared::asked(number));
        routes.channels.insert(number, channel.clone());
        // Under the lock, so that the peer is asked in the order of the numbers.
        self.say(&Frame::Open { channel: number, destination, source, limit: Windows::FIRST }, &[]);
        Ok(channel)
    }

    /// Sends a message with bytes of a channel when there is room.
    pub(super) async fn send(&self, message: Bytes) -> io::Result<()> {
        debug_assert!(message.len() <= MAX_FRAME + MAX_MESSAGE, "a message of a channel is cut to fit");
        let mut outlet = self.outlet.lock().await;
        outlet.flush(self).await?;
        outlet.sender.send(message, Priority::NORMAL).await
    }

    /// Waits until what was said before was sent.
    pub(super) async fn flush(&self) -> io::Result<()> {
        self.outlet.lock().await.flush(self).await
    }

    /// Sends a frame, and a few bytes behind it, after the tasks that are ready now, together with
    /// what they say; whether or not there is room. Whether much waits.
    pub(super) fn say(self: &Arc<Self>, frame: &Frame, bytes: &[u8]) -> bool {
        let mut batch = self.batch();
        batch.push(frame, bytes);
        let is_much = batch.len() >= MUCH;
        let is_due = std::mem::replace(&mut batch.is_due, true);
        drop(batch);
        if !is_due {
            let session = self.clone();
            let runtime = Handle::try_current().unwrap_or_else(|_| self.runtime.clone());
            runtime.spawn(async move {
                let mut outlet = session.outlet.lock().await;
                session.batch().is_due = false;
                // A session that is lost tells its receiver.
                let _ = outlet.flush(&session).await;
            });
        }
        is_much
    }

    /// Forgets a channel that has ended.
    pub(super) fn forget(&self, number: ChannelNumber) {
        let forgotten = self.lock().channels.remove(&number);
        if let Some(channel) = forgotten {
            channel.give_back(&self.limits);
        }
        self.ended.notify_waiters();
    }

    /// Waits until a channel ends, from this call on.
    pub(crate) fn channel_ended(&self) -> Notified<'_> {
        self.ended.notified()
    }

    fn end(&self) {
        let mut routes = self.lock();
        routes.has_ended = true;
        let channels: Vec<_> = routes.channels.values().cloned().collect();
        drop(routes);
        channels.iter().for_each(|channel| channel.reset());
    }

    /// The peer's gate.
    pub(crate) fn peer(&self) -> Instance {
        self.peer
    }

    /// Which end this is.
    pub(crate) fn side(&self) -> Side {
        self.side
    }

    /// The channels that are open.
    pub(crate) fn channels(&self) -> usize {
        self.lock().channels.len()
    }

    fn lock(&self) -> MutexGuard<'_, Routes> {
        self.routes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn batch(&self) -> MutexGuard<'_, Batch> {
        self.batch.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Routes {
    /// The lowest number that no channel of that end has had.
    fn bound(&self, side: Side, number: ChannelNumber) -> u64 {
        if is_own(side, number) { self.next } else { self.unused }
    }
}

/// Whether this end opens channels by such numbers.
fn is_own(side: Side, number: ChannelNumber) -> bool {
    number.0.is_multiple_of(2) == (side == Side::Dialled)
}

/// Ends the channels of a session when it is dropped.
struct Ended<'a>(&'a Session);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("side", &self.side).field("channels", &self.channels()).finish()
    }
}

/// How long a peer may take to greet.
const GREETING: Duration = Duration::from_secs(10);
/// The frames at most that wait for room, beside three for each channel, before the peer is no
/// longer heard.
const MAX_SAID: usize = 4096;
/// The length of a batch at which its senders wait until it was sent.
const MUCH: usize = 64 << 10;
/// How long a peer that is not heard may take no frames.
const PATIENCE: Duration = Duration::from_secs(60);
