//! Wakers of the application, whose panics keep no other task asleep.

use super::lock::run_caught;
use futures_util::task::AtomicWaker;
use std::{
    future::poll_fn,
    pin::pin,
    sync::Arc,
    task::{Context, Wake, Waker},
};

/// Wakes the task that waits, if one does.
pub(super) fn wake(waiting: &AtomicWaker) {
    if let Some(waker) = waiting.take() {
        run_caught(PANICKED, || waker.wake());
    }
}

/// Waits for an event for which other tasks wait too.
pub(super) async fn among_others<T>(event: impl Future<Output = T>) -> T {
    let mut event = pin!(event);
    poll_fn(|context| {
        let waker = Waker::from(Arc::new(Caught(context.waker().clone())));
        event.as_mut().poll(&mut Context::from_waker(&waker))
    })
    .await
}

/// A waker that does not panic: tokio wakes the others of a list after it.
struct Caught(Waker);

impl Wake for Caught {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        run_caught(PANICKED, || self.0.wake_by_ref());
    }
}

const PANICKED: &str = "the waker of a task that waits for a stream has panicked";
