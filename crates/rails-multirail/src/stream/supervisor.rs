//! The supervisor of one end of a stream: its timeouts, its links, and its idle buffers.

use super::{alarm::poll_alarm, pool, shared::Shared};
use std::{
    future::poll_fn,
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::time::sleep;

/// Handles the timeouts of one end of a stream and watches its links until that end is over. A timeout fails a stream
/// that has had no lane for too long. At the end, this tells the dialer to stop.
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
        tracing::warn!(stream = %shared.id, bytes, failure, "a dropped stream ended before the peer had all written bytes");
    }
}

/// Tells the stream of links that go down and come up. Never returns.
async fn watch_links(shared: &Shared) {
    let mut links = shared.link_reports();
    loop {
        match links.next().await {
            Some(changes) => shared.links_changed(&changes),
            // A link that is down shows as a stalled lane.
            None => shared.with(|state| state.connection.links_unknown(Instant::now())),
        }
    }
}

/// Frees buffers that have not been used for a while. Never returns, and sleeps while the pool is empty.
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
    let mut alarm = pin!(sleep(Duration::ZERO));
    loop {
        let (over, timeout) = shared.with(|state| {
            state.connection.handle_timeout(Instant::now());
            (state.connection.needs_no_lane(), state.connection.poll_timeout())
        });
        if over {
            return;
        }
        tokio::select! {
            () = shared.supervise.notified() => {}
            () = poll_fn(|context| poll_alarm(context, alarm.as_mut(), timeout)) => {}
        }
    }
}
