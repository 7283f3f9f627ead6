//! How a lane is closed.

use super::{LaneError, Stream};
use crate::connection::{FAREWELL, LaneId};
use std::time::Instant;

/// Which sides of a lane are closed, and what follows from that. A call gives how the lane ended, once it has.
#[derive(Debug)]
pub(super) struct Closing {
    lane: LaneId,
    received: bool,
    sent: bool,
    /// What the peer did on it against the protocol, and until when the peer is told.
    broken: Option<(LaneError, Instant)>,
}

impl Closing {
    /// For a lane that has joined.
    pub(super) fn new(lane: LaneId) -> Self {
        Self { lane, received: false, sent: false, broken: None }
    }

    /// Whether the lane is still read.
    pub(super) fn is_receiving(&self) -> bool {
        !self.received
    }

    /// Whether the lane is still sent on.
    pub(super) fn is_sending(&self) -> bool {
        !self.sent
    }

    /// The lane is not read any more: the peer has closed its side, which it may once the stream has come to its end, one way or the other, or the lane is taken out
    /// of it; or it cannot be.
    pub(super) fn received<S: Stream>(
        &mut self,
        now: Instant,
        stream: &mut S,
        end: Result<(), LaneError>,
    ) -> Option<Result<(), LaneError>> {
        self.received = true;
        match end {
            // The peer is told on this lane too, as far as it still listens.
            Err(error @ LaneError::Violation(_)) if !self.sent => {
                self.broken = Some((error, now + FAREWELL));
                None
            }
            Err(error) => Some(Err(error)),
            Ok(()) if self.sent => Some(Ok(())),
            Ok(()) => {
                let may_close = stream.with(|connection| {
                    connection.is_done() || connection.failure().is_some() || connection.is_leaving(self.lane)
                });
                (!may_close).then_some(Err(LaneError::Closed))
            }
        }
    }

    /// Nothing more is sent: this end has closed its side, or cannot send.
    pub(super) fn sent(&mut self, end: Result<(), LaneError>) -> Option<Result<(), LaneError>> {
        self.sent = true;
        match (self.broken.take(), end) {
            (Some((error, _)), _) | (None, Err(error)) => Some(Err(error)),
            (None, Ok(())) => self.received.then_some(Ok(())),
        }
    }

    /// When [`handle_timeout`](Self::handle_timeout) is to be called.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.broken.as_ref().map(|(_, until)| *until)
    }

    /// Time has passed.
    pub(super) fn handle_timeout(&mut self, now: Instant) -> Option<Result<(), LaneError>> {
        let (error, _) = self.broken.take_if(|(_, until)| *until <= now)?;
        Some(Err(error))
    }
}
