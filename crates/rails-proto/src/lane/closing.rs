//! The end of a lane.

use super::{LaneError, StreamAccess};
use crate::session::{FAREWELL, LaneId};
use std::time::Instant;

/// The sides of a lane that are closed. The methods return the lane's end as soon as the lane has
/// ended.
#[derive(Debug)]
pub(super) struct Closing {
    lane: LaneId,
    received: bool,
    sent: bool,
    /// The peer's violation, and the time until which this end tries to tell the peer.
    broken: Option<(LaneError, Instant)>,
}

impl Closing {
    /// Creates the state of a lane that has joined.
    pub(super) fn new(lane: LaneId) -> Self {
        Self { lane, received: false, sent: false, broken: None }
    }

    /// Whether this end still reads the lane.
    pub(super) fn is_receiving(&self) -> bool {
        !self.received
    }

    /// Whether this end still sends on the lane.
    pub(super) fn is_sending(&self) -> bool {
        !self.sent
    }

    /// This end stops reading the lane. Either the peer has closed its side, as it may once the
    /// stream is over or the lane is leaving it; or reading has failed.
    pub(super) fn received<S: StreamAccess>(
        &mut self,
        now: Instant,
        stream: &mut S,
        end: Result<(), LaneError>,
    ) -> Option<Result<(), LaneError>> {
        self.received = true;
        match end {
            // This end tells the peer on this lane too, if the peer still listens.
            Err(error @ LaneError::Violation(_)) if !self.sent => {
                self.broken = Some((error, now + FAREWELL));
                None
            }
            Err(error) => Some(Err(error)),
            Ok(()) if self.sent => Some(Ok(())),
            Ok(()) => {
                let may_close = stream
                    .with(|session| session.is_done() || session.failure().is_some() || session.is_leaving(self.lane));
                (!may_close).then_some(Err(LaneError::Closed))
            }
        }
    }

    /// This end sends no more: it has closed its side, or cannot send.
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

    /// Ends the lane if the time to tell the peer is over.
    pub(super) fn handle_timeout(&mut self, now: Instant) -> Option<Result<(), LaneError>> {
        let (error, _) = self.broken.take_if(|(_, until)| *until <= now)?;
        Some(Err(error))
    }
}
