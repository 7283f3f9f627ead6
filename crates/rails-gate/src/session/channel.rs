//! One connection of a session, as its owner has it.

use super::{
    channel_state::{ChannelShared, Connection, Phase},
    flow::Windows,
    shared::{NotOpened, Question, Session, SessionError},
};
use crate::{
    socket::Socket,
    traffic::Traffic,
    wire::{Frame, Refusal},
};
use bytes::Bytes;
use rails_multirail::MessageReceiver;
use std::{future::poll_fn, net::SocketAddr, sync::Arc, task::Poll};

/// This end of a channel. Dropping it before both directions have ended resets the channel.
#[derive(Debug)]
pub(crate) struct Channel {
    shared: Arc<ChannelShared>,
    session: Arc<Session>,
}

/// A channel ended at once: the peer's connection was reset, or the session was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the other end was reset")]
pub(crate) struct Reset;

/// A direction has no end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unfinished {
    /// The connection here was reset.
    ResetHere,
    Reset(Reset),
}

/// A connection that the peer asks for. Dropping it resets the channel.
#[derive(Debug)]
pub(crate) struct Asking {
    pub(crate) destination: SocketAddr,
    pub(crate) source: Option<SocketAddr>,
    channel: Channel,
}

impl Session {
    /// Asks the peer for a connection, and waits until its service has accepted. Dropping the
    /// future gives the channel up.
    ///
    /// # Errors
    /// [`NotOpened`].
    pub(crate) async fn open(
        self: &Arc<Self>,
        destination: SocketAddr,
        source: Option<SocketAddr>,
    ) -> Result<Channel, NotOpened> {
        let channel = Channel::new(self.ask(destination, source)?, self.clone());
        match channel.answered().await {
            Some(Ok(())) => Ok(channel),
            Some(Err(refusal)) => Err(NotOpened::Refused(refusal)),
            None => Err(NotOpened::Lost),
        }
    }

    /// Drives the session until it ends, and hands out the connections that the peer asks for.
    /// Every channel is reset at the end.
    pub(crate) async fn run(self: &Arc<Self>, receiver: MessageReceiver, asked: impl Fn(Asking)) -> SessionError {
        self.serve(receiver, |question| asked(Asking::new(question, self.clone()))).await
    }

    /// Takes a message of the peer, as [`run`](Self::run) does.
    #[cfg(feature = "fuzzing")]
    pub(crate) fn feed(self: &Arc<Self>, message: Bytes, asked: impl Fn(Asking)) -> Result<(), SessionError> {
        self.take_message(message, &|question| asked(Asking::new(question, self.clone())))
    }
}

impl Asking {
    fn new(question: Question, session: Arc<Session>) -> Self {
        let Question { destination, source, channel } = question;
        Self { destination, source, channel: Channel::new(channel, session) }
    }

    /// Refuses the connection.
    pub(crate) fn refuse(self, refusal: Refusal) {
        self.channel.refuse(refusal);
    }

    /// Waits until the peer gives the question up.
    pub(crate) async fn given_up(&self) {
        self.channel.is_reset().await;
    }

    /// Tells the peer that the service has accepted.
    ///
    /// # Errors
    /// [`Reset`] if the peer has given the question up.
    pub(crate) fn accept(self) -> Result<Channel, Reset> {
        self.channel.accept()?;
        Ok(self.channel)
    }
}

impl Channel {
    fn new(shared: Arc<ChannelShared>, session: Arc<Session>) -> Self {
        Self { shared, session }
    }

    /// Waits for the peer's answer; `None` if the session is lost. A service that resets what it
    /// has accepted has accepted.
    pub(super) async fn answered(&self) -> Option<Result<(), Refusal>> {
        poll_fn(|context| {
            self.shared.sender.register(context.waker());
            let state = self.shared.lock();
            let was_opened = state.was_opened;
            match state.phase {
                Phase::Asked | Phase::Asking => Poll::Pending,
                Phase::Open => Poll::Ready(Some(Ok(()))),
                Phase::Refused(refusal) => Poll::Ready(Some(Err(refusal))),
                Phase::Reset => Poll::Ready(was_opened.then_some(Ok(()))),
            }
        })
        .await
    }

    /// Tells the peer that the service has accepted.
    pub(super) fn accept(&self) -> Result<(), Reset> {
        {
            let mut state = self.shared.lock();
            if state.phase != Phase::Asking {
                return Err(Reset);
            }
            state.phase = Phase::Open;
        }
        self.session.say(&Frame::Opened { channel: self.shared.number, limit: Windows::FIRST }, &[]);
        Ok(())
    }

    /// Tells the peer that there is no connection.
    pub(super) fn refuse(self, refusal: Refusal) {
        let mut state = self.shared.lock();
        if state.phase == Phase::Asking {
            state.phase = Phase::Refused(refusal);
            drop(state);
            self.session.say(&Frame::Refused { channel: self.shared.number, refusal }, &[]);
        }
    }

    /// The channels of the session, this one among them.
    pub(crate) fn siblings(&self) -> usize {
        self.session.channels()
    }

    /// Whether the peer has given the channel up.
    pub(crate) async fn is_reset(&self) -> Reset {
        poll_fn(|context| {
            self.shared.receiver.register(context.waker());
            if self.shared.lock().phase == Phase::Reset { Poll::Ready(Reset) } else { Poll::Pending }
        })
        .await
    }

    /// Lets arriving bytes be written to this socket at once.
    pub(crate) fn attach(&self, socket: &Arc<Socket>, traffic: &Arc<Traffic>) {
        let connection = Connection { socket: socket.clone(), traffic: traffic.clone() };
        self.shared.lock().connection = Some(connection);
    }

    /// Waits for credit: the number of bytes that may be sent.
    pub(crate) async fn credit(&self) -> Result<u64, Reset> {
        poll_fn(|context| {
            self.shared.sender.register(context.waker());
            let mut state = self.shared.lock();
            let credit = state.flow.credit();
            let tells = match state.phase {
                Phase::Reset | Phase::Refused(_) => return Poll::Ready(Err(Reset)),
                _ if credit > 0 => return Poll::Ready(Ok(credit)),
                _ => state.flow.block(),
            };
            drop(state);
            if tells {
                self.session.say(&Frame::Blocked { channel: self.shared.number }, &[]);
            }
            Poll::Pending
        })
        .await
    }

    /// The header of a message with so many bytes of this channel.
    pub(crate) fn header(&self, bytes: usize) -> Frame {
        let length = u32::try_from(bytes).expect("a message is cut to fit");
        Frame::Data { channel: self.shared.number, length }
    }

    /// Sends a few bytes, for which there is credit, soon and together with those of other
    /// channels. Whether so many wait that the sender should [wait](Self::wait_for_room).
    pub(crate) fn send_soon(&self, bytes: &[u8]) -> Result<bool, Reset> {
        self.spend(bytes.len())?;
        Ok(self.session.say(&self.header(bytes.len()), bytes))
    }

    /// Waits until what waits for room was sent.
    pub(crate) async fn wait_for_room(&self) -> Result<(), Reset> {
        self.session.flush().await.map_err(|_| Reset)
    }

    /// Sends a message of `bytes` bytes, for which there is credit, behind their
    /// [header](Self::header).
    pub(crate) async fn send(&self, message: Bytes, bytes: usize) -> Result<(), Reset> {
        self.spend(bytes)?;
        self.session.send(message).await.map_err(|_| Reset)
    }

    fn spend(&self, bytes: usize) -> Result<(), Reset> {
        let mut state = self.shared.lock();
        if state.phase != Phase::Open {
            return Err(Reset);
        }
        state.flow.send(bytes as u64);
        Ok(())
    }

    /// Ends this end's direction, behind which a read found an end, if no write was told before
    /// that it is a reset.
    ///
    /// # Errors
    /// [`Unfinished`].
    pub(crate) async fn finish(&self) -> Result<(), Unfinished> {
        poll_fn(|context| {
            self.shared.sender.register(context.waker());
            let mut state = self.shared.lock();
            if state.phase != Phase::Open {
                return Poll::Ready(Err(Unfinished::Reset(Reset)));
            }
            if state.at_once.is_writing {
                state.at_once.is_awaited = true;
                return Poll::Pending;
            }
            if state.at_once.found_reset {
                return Poll::Ready(Err(Unfinished::ResetHere));
            }
            state.finished = true;
            Poll::Ready(Ok(()))
        })
        .await?;
        self.session.say(&Frame::Finish { channel: self.shared.number }, &[]);
        Ok(())
    }

    /// Waits for bytes; `None` at the end of the peer's direction. The bytes that were handed out
    /// before have been [`written`](Self::written).
    pub(crate) async fn receive(&self) -> Result<Option<Bytes>, Reset> {
        poll_fn(|context| {
            self.shared.receiver.register(context.waker());
            let mut state = self.shared.lock();
            if state.phase == Phase::Reset {
                return Poll::Ready(Err(Reset));
            }
            state.inbound.next().map(Ok)
        })
        .await
    }

    /// Notes that the socket has taken so many of the bytes that were handed out, and whether it
    /// has taken all of them.
    pub(crate) fn written(&self, bytes: usize, all: bool) {
        let mut state = self.shared.lock();
        if all {
            state.inbound.written();
        }
        let limit = state.flow.consume(bytes as u64);
        drop(state);
        if let Some(limit) = limit {
            self.session.say(&Frame::Credit { channel: self.shared.number, limit }, &[]);
        }
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        let connection = state.connection.take();
        let has_ended = match state.phase {
            Phase::Open => state.finished && state.inbound.has_ended(),
            Phase::Refused(_) | Phase::Reset => true,
            Phase::Asked | Phase::Asking => false,
        };
        if !has_ended {
            state.phase = Phase::Reset;
        }
        let thrown_away = state.inbound.throw_away();
        drop(state);
        drop((connection, thrown_away));
        self.session.forget(self.shared.number);
        if !has_ended {
            self.session.say(&Frame::Reset { channel: self.shared.number }, &[]);
        }
    }
}
