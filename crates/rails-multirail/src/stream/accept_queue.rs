//! The streams and sessions of a listener that wait to be accepted.

use super::{MultiRailStream, wakers::among_others};
use crate::ListenerClosed;
use std::{
    collections::VecDeque,
    pin::pin,
    sync::{Mutex, MutexGuard, PoisonError},
};
use tokio::sync::{Notify, watch};

/// The streams and sessions that wait to be accepted, and the listener's end. One comes in when its
/// initiator has confirmed it: peers that never do so hold no place.
#[derive(Debug)]
pub(super) struct AcceptQueue {
    waiting: Mutex<Waiting>,
    /// Notified of each stream or session that comes, and of the end.
    arrived: Notify,
    /// The reason why the listener has stopped, if it has.
    ended: watch::Sender<Option<ListenerClosed>>,
}

/// Whether a peer has opened one stream or a session of many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Stream,
    Session,
}

/// Those that wait, the longest waiting first. An application that accepts none of one kind keeps
/// out none of the other.
#[derive(Debug, Default)]
struct Waiting {
    streams: VecDeque<MultiRailStream>,
    sessions: VecDeque<MultiRailStream>,
}

impl Waiting {
    fn of(&mut self, kind: Kind) -> &mut VecDeque<MultiRailStream> {
        match kind {
            Kind::Stream => &mut self.streams,
            Kind::Session => &mut self.sessions,
        }
    }
}

impl AcceptQueue {
    pub(super) fn new() -> Self {
        Self { waiting: Mutex::default(), arrived: Notify::new(), ended: watch::Sender::default() }
    }

    /// Whether so many of a kind wait that the listener opens no further one. Those that are being
    /// opened still come in.
    pub(super) fn is_full(&self, kind: Kind) -> bool {
        self.lock().of(kind).len() >= BACKLOG
    }

    /// Adds a stream or session. The queue of a closed listener aborts it, and so tells the peer.
    pub(super) fn push(&self, kind: Kind, stream: MultiRailStream) {
        // `close` waits for this borrow: in the queue of a closed listener the stream would stay for ever.
        let ended = self.ended.borrow();
        if is_closed(&ended) {
            drop(ended);
            return stream.abort();
        }
        self.lock().of(kind).push_back(stream);
        drop(ended);
        self.arrived.notify_waiters();
    }

    /// Waits for the next one of a kind. Cancel safe; several tasks may wait.
    ///
    /// # Errors
    /// The reason of the listener's end, once none waits; after [`close`](Self::close) at once.
    pub(super) async fn next(&self, kind: Kind) -> Result<MultiRailStream, ListenerClosed> {
        // A waiting task holds no lock, so a task that is not polled does not keep streams from others.
        loop {
            let mut arrived = pin!(self.arrived.notified());
            arrived.as_mut().enable();
            let ended = self.ended.borrow().clone();
            if is_closed(&ended) {
                return Err(ListenerClosed::Closed);
            }
            let next = self.lock().of(kind).pop_front();
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

    /// The application has closed the listener: aborts all that wait.
    pub(super) fn close(&self) {
        self.ended.send_replace(Some(ListenerClosed::Closed));
        self.arrived.notify_waiters();
        let waiting = std::mem::take(&mut *self.lock());
        waiting.streams.into_iter().chain(waiting.sessions).for_each(MultiRailStream::abort);
    }

    /// Waits until the application has closed the listener.
    pub(super) async fn closed(&self) {
        // The channel lives as long as `self`.
        let _ = self.ended.subscribe().wait_for(is_closed).await;
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_closed(ended: &Option<ListenerClosed>) -> bool {
    matches!(ended, Some(ListenerClosed::Closed))
}

/// The listener opens no further stream while this number of them waits to be accepted, and no
/// further session while as many of those wait.
const BACKLOG: usize = 64;
