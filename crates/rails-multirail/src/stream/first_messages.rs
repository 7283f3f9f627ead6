//! The messages that go along with the opening of a stream.

use super::Priority;
use crate::{
    OptionError, StreamOptions,
    error::{JoinError, MessageTooLong},
};
use bytes::Bytes;
use rails_proto::{session::Session, stream_number::StreamNumber};
use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{
            AtomicBool,
            Ordering::{AcqRel, Release},
        },
    },
    time::Instant,
};

/// The first messages of a stream, until a lane has opened it.
///
/// Each attempt to open the stream sends them on a stream of its own. One attempt at a time sends
/// them before the peer has accepted it, so that a race of lanes leaves no crowd of streams at the
/// peer's application.
#[derive(Debug)]
pub(super) struct FirstMessages {
    messages: Mutex<Arc<[(Bytes, Priority)]>>,
    /// Whether an attempt under way has sent them early.
    is_under_way: AtomicBool,
}

/// The right of one attempt to send the messages early, until this is dropped.
pub(super) struct EarlyTurn<'a>(&'a FirstMessages);

impl FirstMessages {
    /// # Errors
    /// [`OptionError`] for more than [`MAX_BYTES`], or more than the send buffer takes.
    pub(super) fn new(messages: &[(Bytes, Priority)], options: &StreamOptions) -> Result<Self, OptionError> {
        let value = messages.iter().map(|(message, _)| message.len() as u64).sum();
        let max = MAX_BYTES.min(options.send_buffer as u64);
        if value > max {
            return Err(OptionError { what: "first messages in bytes", value, min: 0, max });
        }
        Ok(Self { messages: Mutex::new(messages.into()), is_under_way: AtomicBool::new(false) })
    }

    /// Has a new connection carry messages, and send these first.
    ///
    /// # Errors
    /// [`JoinError::Messages`] if the peer's parameters are too small for them.
    pub(super) fn queue(&self, session: &mut Session) -> Result<(), JoinError> {
        let now = Instant::now();
        session.carry_messages(now, StreamNumber::FIRST).map_err(|error| JoinError::Messages(error.into()))?;
        let messages = self.messages.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for (message, priority) in messages.iter() {
            MessageTooLong::check(message.len(), session.longest_message())
                .map_err(|error| JoinError::Messages(error.into()))?;
            session.send(now, StreamNumber::FIRST, *priority, message.clone());
        }
        Ok(())
    }

    /// The right to send the messages early, if no other attempt has it.
    pub(super) fn early_turn(&self) -> Option<EarlyTurn<'_>> {
        (!self.is_under_way.swap(true, AcqRel)).then_some(EarlyTurn(self))
    }

    /// Forgets the messages: the stream is open and has them.
    pub(super) fn forget(&self) {
        let messages = std::mem::take(&mut *self.messages.lock().unwrap_or_else(PoisonError::into_inner));
        // The memory of a message is foreign.
        drop(messages);
    }
}

impl Drop for EarlyTurn<'_> {
    fn drop(&mut self) {
        self.0.is_under_way.store(false, Release);
    }
}

/// The most bytes of first messages. A new connection has ten packets on their way before it hears
/// of the first (RFC 6928): they fit into those, with the handshake's last messages.
const MAX_BYTES: u64 = 12 << 10;
