//! What a stream needs beside its lanes: somebody who keeps the time.

use super::shared::Shared;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::time::{sleep, sleep_until};

/// Keeps the time of one end of a stream, until that end is over: fails it when there has been no lane for too long, and tells those who dial when to
/// stop.
pub(super) async fn supervise(shared: Arc<Shared>, linger: Duration) {
    let mut abandoned = shared.abandoned.subscribe();
    let lingered = async {
        // The channel lives as long as `shared`, so waiting for it cannot fail.
        let _ = abandoned.wait_for(|abandoned| *abandoned).await;
        sleep(linger).await;
    };
    tokio::select! {
        () = keep_time(&shared) => {}
        () = lingered => {}
    }
    shared.over.send_replace(true);
}

async fn keep_time(shared: &Shared) {
    loop {
        let (over, timeout) = shared.with(|state| {
            state.connection.handle_timeout(Instant::now());
            (state.needs_no_lane(), state.connection.next_timeout())
        });
        if over {
            return;
        }
        match timeout {
            None => shared.supervise.notified().await,
            Some(at) => tokio::select! {
                () = shared.supervise.notified() => {}
                () = sleep_until(at.into()) => {}
            },
        }
    }
}
