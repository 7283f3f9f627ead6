//! What a stream needs beside its lanes: somebody who keeps the time.

use super::{pool, shared::Shared};
use rails_net::LinkWatch;
use std::{sync::Arc, time::Instant};
use tokio::time::{sleep, sleep_until};

/// Keeps the time of one end of a stream and watches its links, until that end is over: fails it when there has been no lane for too long, and tells those who dial when to
/// stop.
pub(super) async fn supervise(shared: Arc<Shared>) {
    tokio::select! {
        () = keep_time(&shared) => {}
        () = watch_links(&shared) => {}
        () = tidy(&shared) => {}
    }
    shared.over.send_replace(true);
    let (bytes, failure) =
        shared.with(|state| (state.connection.undelivered(), state.connection.failure().map(ToString::to_string)));
    if bytes > 0 {
        tracing::warn!(stream = %shared.id, bytes, failure, "a dropped stream ended before all that was written was delivered");
    }
}

/// Tells the stream of links that go down and come up. It does not end.
async fn watch_links(shared: &Shared) {
    match LinkWatch::new() {
        Ok(mut links) => loop {
            match links.changed().await {
                Ok(changes) => shared.links_changed(&changes),
                // Too many at once, and some are lost: a link that is down shows as a stalled lane.
                Err(error) => {
                    tracing::debug!(stream = %shared.id, %error, "changes of links were missed");
                    shared.with(|state| state.connection.links_unknown(Instant::now()));
                }
            }
        },
        Err(error) => {
            tracing::debug!(stream = %shared.id, %error, "links cannot be watched; a link that is down shows as a stalled lane");
            std::future::pending().await
        }
    }
}

/// Gives buffers back that have not been used for a while. It does not end, and sleeps while there are none.
async fn tidy(shared: &Shared) {
    loop {
        shared.buffers.keeps.notified().await;
        sleep(pool::IDLE).await;
        while shared.buffers.give_back_idle() {
            sleep(pool::IDLE).await;
        }
    }
}

async fn keep_time(shared: &Shared) {
    loop {
        let (over, timeout) = shared.with(|state| {
            state.connection.handle_timeout(Instant::now());
            (state.connection.needs_no_lane(), state.connection.poll_timeout())
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
