//! How a stream ends: finished, dropped, told to stop, given up.
//!
//! Each direction ends separately. When the application drops the stream, the lanes still deliver
//! its bytes and then its end, as long as the stream may linger. This end tells the peer at once
//! that it reads no more ([`Frame::Stop`](crate::wire::Frame::Stop), as `STOP_SENDING` in RFC
//! 9000): the peer's writes fail, while it still receives this end's bytes. Only
//! [`Session::abort`](super::Session::abort) discards bytes that the peer does not have yet.

use super::Failure;
use crate::countdown::Countdown;
use std::time::{Duration, Instant};

/// How the stream as a whole ends, beside the ends of its two directions.
#[derive(Debug)]
pub(super) struct Ending {
    /// For how long the lanes still deliver written bytes after the application has dropped the
    /// stream.
    linger: Duration,
    /// The failure of the stream.
    failure: Option<Failure>,
    /// The time for which the lanes deliver the bytes of a stream that the application has dropped.
    linger_countdown: Option<Countdown>,
    /// The time to linger and to tell the peer, since the application abandoned the stream or the
    /// stream failed.
    abandon_countdown: Option<Countdown>,
    /// The time for the peer of a stream that is done to dial again, since the peer's kernel closed
    /// or reset the last lane, or that lane left.
    return_countdown: Option<Countdown>,
    /// Both ends closed a lane that was not leaving after the stream was done, so the peer knows
    /// that the stream is done; or the time for that is over.
    settled: bool,
}

impl Ending {
    pub(super) fn new(linger: Duration) -> Self {
        let (linger_countdown, abandon_countdown, return_countdown) = (None, None, None);
        Self { linger, failure: None, linger_countdown, abandon_countdown, return_countdown, settled: false }
    }

    /// For how long the lanes still deliver written bytes after the application has dropped the
    /// stream.
    pub(super) fn linger(&self) -> Duration {
        self.linger
    }

    pub(super) fn fail(&mut self, failure: Failure) {
        self.failure = Some(failure);
    }

    pub(super) fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }

    pub(super) fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Abandons the stream, which has only to end. Returns whether its lanes did not know that.
    pub(super) fn abandon(&mut self, now: Instant) -> bool {
        let is_news = self.abandon_countdown.is_none();
        self.abandon_countdown.get_or_insert_with(|| Countdown::new(now, self.linger + FAREWELL));
        is_news
    }

    /// Whether every lane of an abandoned stream ends, even with bytes in flight.
    pub(super) fn has_lingered(&self) -> bool {
        self.abandon_countdown.as_ref().is_some_and(Countdown::is_over)
    }

    /// The application drops the stream, which has bytes to deliver.
    pub(super) fn drop_application(&mut self, now: Instant) {
        self.linger_countdown = Some(Countdown::new(now, self.linger));
    }

    /// Whether the application has dropped the stream while there was something to deliver.
    pub(super) fn is_dropped(&self) -> bool {
        self.linger_countdown.is_some()
    }

    /// Settles a stream that is done: the peer knows of the end, or no peer is left to hear of it.
    pub(super) fn settle(&mut self) {
        self.settled = true;
    }

    /// Whether the stream needs no lane any more.
    pub(super) fn needs_no_lane(&self) -> bool {
        self.settled || self.failure.is_some()
    }

    /// The last lane of a stream that is done has ended, and may have left the peer ignorant of the
    /// end. The stream waits at most `limit` for the peer to dial again; `rtt` is the lane's
    /// round trip.
    pub(super) fn expect_return(&mut self, now: Instant, rtt: Option<Duration>, limit: Duration) {
        let redial = (REDIAL + REDIAL_ROUND_TRIPS * rtt.unwrap_or_default()).min(limit);
        self.return_countdown = Some(Countdown::new(now, redial.max(MIN_RETURN)));
    }

    /// Notes that a lane has come up: the peer learns of the end on it.
    pub(super) fn has_returned(&mut self) {
        self.return_countdown = None;
    }

    /// When to [handle](Self::handle) the end of the stream next. `is_done` says whether both
    /// directions are over.
    pub(super) fn check_at(&self, is_done: bool) -> Option<Instant> {
        let linger_countdown = self.linger_countdown.filter(|_| !is_done && self.failure.is_none());
        let limits = [linger_countdown, self.abandon_countdown, self.return_countdown].into_iter().flatten();
        limits.filter(|limit| !limit.is_over()).map(|limit| limit.check_at()).min()
    }

    /// Counts the time up to `now`. Returns whether the time is over for which a dropped stream
    /// lingers.
    pub(super) fn handle(&mut self, now: Instant) -> bool {
        let Self { linger_countdown, abandon_countdown, return_countdown, settled, .. } = self;
        let has_lingered = linger_countdown.as_mut().is_some_and(|limit| limit.count(now));
        for limit in [abandon_countdown, return_countdown].into_iter().flatten() {
            *settled |= limit.count(now);
        }
        has_lingered && self.failure.is_none()
    }
}

/// A redial whose first packet is lost takes a second (the first timeout of TCP, RFC 6298), the
/// pause before it and the noise of busy machines included half a second more.
const REDIAL: Duration = Duration::from_millis(1500);
/// Half a round trip until the peer hears of the reset, two and a half until its proof arrives, and
/// one for slow paths.
const REDIAL_ROUND_TRIPS: u32 = 4;
/// How long a stream that is done waits at least for a peer that may not know: the round trip may
/// be unknown.
const MIN_RETURN: Duration = Duration::from_secs(2);
/// For how long a lane tries to tell the peer that it broke the protocol, or that the linger time
/// is over.
pub(crate) const FAREWELL: Duration = Duration::from_secs(1);
