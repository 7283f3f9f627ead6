//! The supervisor of one end of a stream: its timeouts, its links, and its idle buffers.

use super::{alarm::poll_alarm, pool, shared::StreamShared};
use std::{
    future::poll_fn,
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::time::{sleep, timeout};

/// Starts the supervisor of one end of a stream, on the calling rail. It handles the timeouts and
/// watches the links until that end is over; a timeout fails a stream that has had no lane for too
/// long. At the end, it tells the dialer to stop.
///
/// If its rail stops, the supervisor moves to the next one. If every rail has stopped, the stream
/// fails: nothing would ever end a read or a write on it.
pub(super) fn supervise(shared: Arc<StreamShared>) {
    tokio::spawn(Supervisor { shared, rails_tried: 0, has_ended: false }.run());
}

/// The supervisor of one end. If it is dropped before its end, by a rail that stops, it moves to
/// the next rail.
struct Supervisor {
    shared: Arc<StreamShared>,
    /// The number of rails that the supervisor has moved to.
    rails_tried: usize,
    has_ended: bool,
}

impl Supervisor {
    async fn run(mut self) {
        tokio::select! {
            () = keep_time(&self.shared) => {}
            () = watch_links(&self.shared) => {}
            () = tidy(&self.shared) => {}
        }
        if self.shared.has_many() {
            self.shared.over.send_replace(true);
            // The lanes tell the peer why the session has ended. The end of the process waits for that.
            let mut lanes_up = self.shared.lanes_up.subscribe();
            let _ = timeout(TELLING, lanes_up.wait_for(|up| *up == 0)).await;
        }
        self.end();
    }

    fn end(&mut self) {
        self.has_ended = true;
        let shared = &self.shared;
        shared.over.send_replace(true);
        let (bytes, failure) =
            shared.with(|state| (state.session.undelivered(), state.session.failure().map(ToString::to_string)));
        if bytes > 0 {
            tracing::warn!(stream = %shared.id, bytes, failure, "a dropped stream ended before the peer had all written bytes");
        }
        shared.has_delivered();
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        let shared = self.shared.clone();
        match shared.rails().iter().nth(self.rails_tried) {
            // A stopped rail drops the task at once, and so moves it on. A stopping one keeps it until its lanes have
            // ended: they would tell the peer of a failure before that.
            Some(rail) => {
                let next = Self { shared: shared.clone(), rails_tried: self.rails_tried + 1, has_ended: false };
                drop(rail.runtime().handle().spawn(next.run()));
            }
            None => {
                shared.with(|state| state.session.runtime_stopped(Instant::now()));
                self.end();
            }
        }
    }
}

/// Tells the stream of links that go down and come up. Never returns.
async fn watch_links(shared: &StreamShared) {
    let mut links = shared.link_reports();
    loop {
        match links.next().await {
            Some(changes) => shared.links_changed(&changes),
            // A link that is down shows as a stalled lane.
            None => shared.with(|state| state.session.links_unknown(Instant::now())),
        }
    }
}

/// Frees buffers that have not been used for a while. Never returns, and sleeps while the pool is
/// empty.
async fn tidy(shared: &StreamShared) {
    loop {
        shared.buffers.keeps.notified().await;
        sleep(pool::IDLE).await;
        while shared.buffers.give_back_idle() {
            sleep(pool::IDLE).await;
        }
    }
}

/// How long the lanes of a session that has ended may take to tell the peer.
const TELLING: Duration = Duration::from_secs(1);

async fn keep_time(shared: &StreamShared) {
    let mut alarm = pin!(sleep(Duration::ZERO));
    loop {
        let (over, delivered, timeout) = shared.with(|state| {
            let session = &mut state.session;
            session.handle_timeout(Instant::now());
            (session.needs_no_lane(), session.has_delivered(), session.poll_timeout())
        });
        if over {
            return;
        }
        if delivered {
            shared.has_delivered();
        }
        tokio::select! {
            () = shared.supervise.notified() => {}
            () = poll_fn(|context| poll_alarm(context, alarm.as_mut(), timeout)) => {}
        }
    }
}
