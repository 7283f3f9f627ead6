//! The tasks that wait for a session of many streams, and wakers of the application, whose panics
//! keep no other task asleep.

use super::lock::run_caught;
use futures_util::task::AtomicWaker;
use std::{
    future::poll_fn,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Wake, Waker},
};
use tokio::sync::Notify;

/// The tasks that wait for a session of many streams, any number of each kind.
#[derive(Debug, Default)]
pub(crate) struct SessionTasks {
    /// Those that wait for a stream of the peer.
    pub(crate) accept: Notify,
    /// How many of them there are.
    accepting: AtomicUsize,
    /// Those that wait until they may open a stream.
    pub(crate) open: Notify,
    /// Those that wait for a datagram.
    pub(crate) datagrams: Notify,
}

/// Counts a task that waits for a stream of the peer, until it is dropped.
pub(crate) struct Accepting<'a>(&'a AtomicUsize);

impl SessionTasks {
    /// A task begins to wait for a stream of the peer.
    pub(crate) fn begin_accepting(&self) -> Accepting<'_> {
        self.accepting.fetch_add(1, Relaxed);
        Accepting(&self.accepting)
    }

    /// Whether a task waits for a stream of the peer.
    pub(super) fn are_any_accepting(&self) -> bool {
        self.accepting.load(Relaxed) > 0
    }
}

impl Drop for Accepting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// Wakes the task that waits, if one does.
pub(super) fn wake(waiting: &AtomicWaker) {
    if let Some(waker) = waiting.take() {
        run_caught(PANICKED, || waker.wake());
    }
}

/// Waits for an event for which other tasks wait too.
pub(crate) async fn among_others<T>(event: impl Future<Output = T>) -> T {
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
