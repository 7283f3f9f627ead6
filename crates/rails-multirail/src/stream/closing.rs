//! The steps of an orderly end, each of which waits as long as the peer makes progress.

use super::{MultiRailStream, StreamShared, patience::within, wakers::among_others};
use crate::CloseError;
use std::{
    future::poll_fn,
    io::Result as IoResult,
    pin::pin,
    time::{Duration, Instant},
};

impl MultiRailStream {
    /// Shuts the write side down, and waits until the peer has every byte.
    pub(super) async fn deliver(&self) -> IoResult<()> {
        let (limit, bytes_left) = (self.shared.close_timeout, || self.shared.bytes_at_risk());
        let delivered = poll_fn(|context| self.poll_delivered(context));
        while_there_is_progress(limit, bytes_left, delivered).await.unwrap_or_else(|| {
            Err(CloseError::NotDelivered { stream: self.shared.id, bytes: bytes_left(), limit }.into())
        })
    }

    /// Waits until the lanes of a stream that has ended are closed.
    pub(super) async fn wait_for_lanes(&self) {
        let mut lanes_up = self.shared.lanes_up.subscribe();
        // The peer may keep its end open for a while, but both directions are complete.
        self.shared.with(|state| state.session.abandon(Instant::now()));
        let _ = among_others(lanes_up.wait_for(|up| *up == 0)).await;
        self.shared.rails.warn_of_unbound();
        self.shared.summarize();
    }
}

/// Waits for bytes of the peer before the end of its direction; the caller drops them.
pub(super) async fn in_time<T>(shared: &StreamShared, next: impl Future<Output = IoResult<T>>) -> IoResult<T> {
    let arrived = || shared.stats().lanes.iter().map(|lane| lane.bytes_received).sum();
    let limit = shared.close_timeout;
    let next = while_there_is_progress(limit, arrived, next).await;
    next.unwrap_or_else(|| Err(CloseError::NotEnded { stream: shared.id, limit }.into()))
}

/// Waits for a step for as long as the progress changes within each time of this limit; `None` if
/// it does not.
async fn while_there_is_progress<T>(
    limit: Duration,
    progress: impl Fn() -> u64,
    step: impl Future<Output = T>,
) -> Option<T> {
    let mut step = pin!(step);
    loop {
        let before = progress();
        if let Some(done) = within(limit, &mut step).await {
            return Some(done);
        }
        if progress() == before {
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        cell::Cell,
        future::{pending, ready},
    };
    use tokio::time::sleep;

    #[test]
    fn close_names_what_the_peer_has_not_taken() {
        let not_delivered = |bytes| {
            let (stream, limit) = (rails_proto::handshake::StreamId([0; 16]), Duration::from_secs(30));
            CloseError::NotDelivered { stream, bytes, limit }.to_string()
        };
        assert!(not_delivered(3).ends_with("for 30s the peer has taken none of the last 3 bytes"));
        assert!(not_delivered(0).ends_with("for 30s the peer has not acknowledged the stream's end"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_step_takes_as_long_as_there_is_progress() {
        let (limit, begun) = (Duration::from_secs(3), tokio::time::Instant::now());
        let seconds = || begun.elapsed().as_secs();
        let slow = sleep(Duration::from_secs(3600));
        assert_eq!(while_there_is_progress(limit, seconds, slow).await, Some(()));
        let stops = || seconds().min(3610);
        assert_eq!(while_there_is_progress(limit, stops, pending::<()>()).await, None);
        assert!((3610..=3616).contains(&seconds()), "{}", seconds());
        let calls = Cell::new(0);
        let counts = || calls.replace(calls.get() + 1);
        assert_eq!(while_there_is_progress(limit, counts, ready(7)).await, Some(7));
        assert_eq!(calls.get(), 1, "a step that is over asks for no further progress");
    }
}
