//! The streams of a listener that wait to be accepted.

use super::{MultiRailStream, wakers::among_others};
use crate::ListenerClosed;
use std::{
    collections::VecDeque,
    pin::pin,
    sync::{Mutex, MutexGuard, PoisonError},
};
use tokio::sync::{Notify, watch};

/// The streams that wait to be accepted, and the listener's end. A stream comes in when its
/// initiator has confirmed it: peers that never do so hold no place.
#[derive(Debug)]
pub(super) struct AcceptQueue {
    waiting: Mutex<VecDeque<MultiRailStream>>,
    /// Notified of each stream that comes, and of the end.
    arrived: Notify,
    /// The reason why the listener has stopped, if it has.
    ended: watch::Sender<Option<ListenerClosed>>,
}

impl AcceptQueue {
    pub(super) fn new() -> Self {
        Self { waiting: Mutex::default(), arrived: Notify::new(), ended: watch::Sender::default() }
    }

    /// Whether the queue is full, so that the listener opens no further stream. Those that are
    /// being opened still come in.
    pub(super) fn is_full(&self) -> bool {
        self.lock().len() >= BACKLOG
    }

    /// Adds a stream. The queue of a closed listener aborts it, and so tells the peer.
    pub(super) fn push(&self, stream: MultiRailStream) {
        // `close` waits for this borrow: in the queue of a closed listener the stream would stay for ever.
        let ended = self.ended.borrow();
        if is_closed(&ended) {
            drop(ended);
            return stream.abort();
        }
        self.lock().push_back(stream);
        drop(ended);
        self.arrived.notify_waiters();
    }

    /// Waits for the next stream. Cancel safe; several tasks may wait.
    ///
    /// # Errors
    /// The reason of the listener's end, once no stream waits; after [`close`](Self::close) at
    /// once.
    pub(super) async fn next(&self) -> Result<MultiRailStream, ListenerClosed> {
        // A waiting task holds no lock, so a task that is not polled does not keep streams from others.
        loop {
            let mut arrived = pin!(self.arrived.notified());
            arrived.as_mut().enable();
            let ended = self.ended.borrow().clone();
            if is_closed(&ended) {
                return Err(ListenerClosed::Closed);
            }
            let next = self.lock().pop_front();
            match (next, ended) {
                (Some(stream), _) => return Ok(stream),
                (None, Some(ended)) => return Err(ended),
                (None, None) => among_others(arrived).await,
            }
        }
    }

    /// The listener has stopped for this reason, unless it had stopped before.
    pub(super) fn end(&self, reason: ListenerClosed) {
        self.ended.send_modify(|ended| {
            ended.get_or_insert(reason);
        });
        self.arrived.notify_waiters();
    }

    /// The application has closed the listener: aborts the streams that wait.
    pub(super) fn close(&self) {
        self.ended.send_replace(Some(ListenerClosed::Closed));
        self.arrived.notify_waiters();
        let waiting = std::mem::take(&mut *self.lock());
        waiting.into_iter().for_each(MultiRailStream::abort);
    }

    /// Waits until the application has closed the listener.
    pub(super) async fn closed(&self) {
        // The channel lives as long as `self`.
        let _ = self.ended.subscribe().wait_for(is_closed).await;
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<MultiRailStream>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_closed(ended: &Option<ListenerClosed>) -> bool {
    matches!(ended, Some(ListenerClosed::Closed))
}

/// The listener opens no further stream while this number of them waits to be accepted.
const BACKLOG: usize = 64;
