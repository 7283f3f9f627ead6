//! The tasks that send messages on one stream. The stream itself has a place for one waker only.

use super::{MultiRailStream, wakers::wake};
use futures_util::task::AtomicWaker;
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Wake, Waker},
};

/// One of the senders of a stream's messages.
#[derive(Debug)]
pub(super) struct SharedSender {
    all: Arc<AllSenders>,
    /// The waker of the task that waits to send by this one.
    waiting: Arc<AtomicWaker>,
}

/// The senders of a stream's messages. The sending direction ends when the last one is dropped.
#[derive(Debug)]
struct AllSenders {
    stream: Arc<MultiRailStream>,
    waiting: Arc<SenderWakers>,
    /// The stream's waker: `waiting`.
    waker: Waker,
}

/// The wakers of all senders. The stream holds them as its waker, so they must not hold the stream.
#[derive(Debug, Default)]
struct SenderWakers(Mutex<Vec<Arc<AtomicWaker>>>);

impl SharedSender {
    /// The first sender.
    pub(super) fn new(stream: Arc<MultiRailStream>) -> Self {
        let waiting: Arc<SenderWakers> = Arc::default();
        let waker = waiting.clone().into();
        Self::among(Arc::new(AllSenders { stream, waiting, waker }))
    }

    fn among(all: Arc<AllSenders>) -> Self {
        let waiting = Arc::new(AtomicWaker::new());
        all.waiting.lock().push(waiting.clone());
        Self { all, waiting }
    }

    pub(super) fn stream(&self) -> &MultiRailStream {
        &self.all.stream
    }

    /// Polls the stream, which wakes the task of this sender, and those of all others that wait.
    pub(super) fn poll<T>(
        &self,
        context: &mut Context<'_>,
        poll: impl FnOnce(&MultiRailStream, &mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        self.waiting.register(context.waker());
        poll(&self.all.stream, &mut Context::from_waker(&self.all.waker))
    }
}

impl Clone for SharedSender {
    fn clone(&self) -> Self {
        Self::among(self.all.clone())
    }
}

impl Drop for SharedSender {
    fn drop(&mut self) {
        self.all.waiting.lock().retain(|waiting| !Arc::ptr_eq(waiting, &self.waiting));
    }
}

impl Drop for AllSenders {
    fn drop(&mut self) {
        self.stream.shared.finish();
    }
}

impl SenderWakers {
    fn lock(&self) -> MutexGuard<'_, Vec<Arc<AtomicWaker>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakes every sender that waits. Each looks for room anew.
impl Wake for SenderWakers {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // A waker may drop a sender, which takes the lock.
        let waiting = self.lock().clone();
        waiting.iter().for_each(|waiting| wake(waiting));
    }
}
