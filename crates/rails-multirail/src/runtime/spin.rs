//! Staying awake for a while before sleeping.

use futures_util::task::AtomicWaker;
use std::{
    cell::Cell,
    future::{Future, poll_fn},
    pin::Pin,
    time::{Duration, Instant},
};

/// Keeps the thread of a `current_thread` runtime from sleeping.
///
/// tokio calls a hook before the thread sleeps. If the hook wakes the future of `block_on`, tokio looks for events
/// without sleeping, and comes to the hook again. The hook does so for a time, beginning when the thread has done all
/// work that woke it; then the thread sleeps until the next event.
#[derive(Debug)]
pub(super) struct Spin {
    time: Duration,
    /// The future of `block_on`.
    main: AtomicWaker,
}

thread_local! {
    /// The end of the time in which this thread does not sleep; `None` if it has slept since the last one.
    static AWAKE_UNTIL: Cell<Option<Instant>> = const { Cell::new(None) };
}

impl Spin {
    pub(super) fn new(time: Duration) -> Self {
        Self { time, main: AtomicWaker::new() }
    }

    /// The future of `block_on`: ends with the other one.
    pub(super) async fn until(&self, mut end: impl Future + Unpin) {
        poll_fn(|context| {
            self.main.register(context.waker());
            Pin::new(&mut end).poll(context).map(drop)
        })
        .await;
    }

    /// tokio's hook before a thread sleeps.
    pub(super) fn before_sleep(&self) {
        let now = Instant::now();
        let until = AWAKE_UNTIL.get().unwrap_or(now + self.time);
        AWAKE_UNTIL.set(Some(until).filter(|until| now < *until));
        if now < until {
            self.main.wake();
        }
    }
}
