//! The sending side of one stream.

use super::{turns::Turn, unsent::Unsent};
use crate::{
    chunk::{Chunk, Priority},
    mutation::{self, Mutation},
    violation::Violation,
};
use bytes::Bytes;

/// The sending side of one stream: the bytes that no lane has taken, how far the peer lets this end
/// send, and how the side ended, if it did so early.
#[derive(Debug)]
pub(crate) struct SendStream {
    unsent: Unsent,
    /// The offset up to which the peer lets this end send.
    limit: u64,
    /// The stream's urgency: of two streams, the one with the greater value sends first.
    urgency: i32,
    turn: Turn,
    end: EarlyEnd,
    /// The application has dropped its handle.
    is_released: bool,
}

/// How the sending side of a stream ended before its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EarlyEnd {
    Not,
    /// The peer reads no more of a session that is one stream.
    Stopped {
        /// The number of written bytes that the peer has not read.
        unread: u64,
    },
    Reset(Reset),
}

/// The reset of a stream by this end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reset {
    /// The application's code, or that with which the peer stopped the stream.
    pub(crate) code: u64,
    /// Whether the peer asked for the reset.
    pub(crate) is_by_peer: bool,
    is_acknowledged: bool,
}

impl SendStream {
    /// A stream without bytes. The application may let `capacity` bytes wait, and the peer lets
    /// this end send `limit`.
    pub(super) fn new(capacity: usize, limit: u64) -> Self {
        Self {
            unsent: Unsent::new(capacity),
            limit,
            urgency: 0,
            turn: Turn::default(),
            end: EarlyEnd::Not,
            is_released: false,
        }
    }

    /// The bytes that no lane has taken.
    pub(crate) fn unsent(&self) -> &Unsent {
        &self.unsent
    }

    /// The bytes that no lane has taken, for the application to write more.
    pub(super) fn unsent_mut(&mut self) -> &mut Unsent {
        &mut self.unsent
    }

    /// Takes a message.
    ///
    /// # Panics
    /// If the stream carries bytes, and after it was finished.
    pub(super) fn send(&mut self, priority: Priority, message: Bytes) {
        self.unsent.send(priority, message);
    }

    /// The peer has read up to the offset `read` and reads no more: lanes take no more bytes.
    ///
    /// # Errors
    /// [`Violation::NeverSent`] if `read` lies beyond the last byte sent.
    pub(super) fn stop(&mut self, read: u64) -> Result<(), Violation> {
        let sent = self.unsent.next();
        if read > sent {
            return Err(Violation::NeverSent { acknowledged: read, sent });
        }
        self.end = EarlyEnd::Stopped { unread: sent + self.unsent.give_up() - read };
        Ok(())
    }

    /// The number of written bytes that the peer has not read, if it reads no more of a session
    /// that is one stream.
    pub(crate) fn stopped(&self) -> Option<u64> {
        if let EarlyEnd::Stopped { unread } = self.end { Some(unread) } else { None }
    }

    /// Resets the stream with the application's code, or that with which the peer stopped it: lanes
    /// take no more bytes.
    pub(super) fn reset(&mut self, code: u64, is_by_peer: bool) {
        self.unsent.give_up();
        self.end = EarlyEnd::Reset(Reset { code, is_by_peer, is_acknowledged: false });
    }

    /// The reset of the stream by this end.
    pub(crate) fn was_reset(&self) -> Option<Reset> {
        if let EarlyEnd::Reset(reset) = self.end { Some(reset) } else { None }
    }

    /// The peer knows of the reset.
    pub(super) fn reset_is_known(&mut self) {
        if let EarlyEnd::Reset(reset) = &mut self.end {
            reset.is_acknowledged = true;
        }
    }

    /// Whether the side has ended early, and not because all was sent.
    pub(crate) fn is_cut_short(&self) -> bool {
        self.end != EarlyEnd::Not
    }

    /// Whether lanes have nothing left to do for the stream: they have taken the end, or the peer
    /// knows of the reset.
    pub(super) fn is_settled(&self) -> bool {
        match self.end {
            EarlyEnd::Not | EarlyEnd::Stopped { .. } => self.unsent.is_end_cut(),
            EarlyEnd::Reset(reset) => reset.is_acknowledged || mutation::has(Mutation::ResetNotAwaited),
        }
    }

    /// The application has dropped its handle.
    pub(super) fn release(&mut self) {
        self.is_released = true;
    }

    pub(crate) fn is_released(&self) -> bool {
        self.is_released
    }

    pub(crate) fn urgency(&self) -> i32 {
        self.urgency
    }

    pub(super) fn set_urgency(&mut self, urgency: i32) {
        self.urgency = urgency;
    }

    /// The stream's next turn.
    pub(super) fn turn(&mut self) -> &mut Turn {
        &mut self.turn
    }

    /// The peer lets this end send up to `limit`. A limit never shrinks.
    pub(super) fn extend(&mut self, limit: u64) {
        self.limit = self.limit.max(limit);
    }

    /// How many bytes wait that lanes may take before they have taken `allowance` more; `None` if
    /// there is nothing to take, not even the end.
    pub(super) fn ready(&self, allowance: u64) -> Option<usize> {
        self.unsent.ready(self.limit(allowance))
    }

    /// Cuts the next chunk, of about `max` bytes at most and within `allowance`. A new part of the
    /// stream begins at `position` in the session.
    pub(super) fn cut(&mut self, allowance: u64, max: usize, position: u64) -> Option<Chunk> {
        let limit = self.limit(allowance);
        self.unsent.cut(limit, max, position)
    }

    fn limit(&self, allowance: u64) -> u64 {
        let limit = if mutation::has(Mutation::StreamLimitIgnored) { u64::MAX } else { self.limit };
        self.unsent.next().saturating_add(allowance).min(limit)
    }
}
