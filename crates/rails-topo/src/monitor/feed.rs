//! The changes that subscribers read.

use super::{Change, MonitorError, Snapshot};
use futures_util::{Stream, StreamExt, stream};
use serde::{Deserialize, Serialize};
use std::{
    fmt,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
    time::SystemTime,
};
use tokio::sync::broadcast::{self, error::RecvError};

/// A change, and the time at which the monitor learned of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamped {
    /// The wall-clock time, in JSON as seconds and nanoseconds since 1970.
    pub at: SystemTime,
    /// The change.
    pub change: Change,
}

/// An update for a subscriber.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Update {
    /// A change.
    Change(Arc<Stamped>),
    /// The subscriber has not read in time: the snapshot replaces the changes that are no longer
    /// kept, and later updates continue from it.
    Lagged {
        /// The number of changes left out.
        missed: u64,
        /// The machine after these changes.
        snapshot: Arc<Snapshot>,
    },
}

/// A subscription: the changes since it was made. A [`Stream`] that ends when the
/// [`Monitor`](super::Monitor) is dropped, or after an error.
pub struct Changes {
    feed: Arc<Feed>,
    published: Published,
    /// The number of changes before the next one.
    next: u64,
    start: Arc<Snapshot>,
    ended: bool,
}

/// The changes since a moment; [`Lagged`] where some of them are no longer kept.
type Published = Pin<Box<dyn Stream<Item = Result<Arc<Stamped>, Lagged>> + Send + Sync>>;

struct Lagged;

/// The machine, and the changes that subscribers have not read yet.
#[derive(Debug)]
pub(super) struct Feed(Mutex<FeedState>);

#[derive(Debug)]
struct FeedState {
    /// The machine after all published changes.
    snapshot: Arc<Snapshot>,
    published: u64,
    /// `None` once the monitor has ended.
    sender: Option<broadcast::Sender<Arc<Stamped>>>,
    error: Option<Arc<MonitorError>>,
}

impl Feed {
    /// A feed that keeps at least that many changes.
    pub(super) fn new(snapshot: Snapshot, kept: usize) -> Self {
        let (sender, _) = broadcast::channel(kept.clamp(1, MAX_KEPT));
        Self(Mutex::new(FeedState { snapshot: Arc::new(snapshot), published: 0, sender: Some(sender), error: None }))
    }

    /// Publishes changes, and the machine after them.
    pub(super) fn publish(&self, at: SystemTime, changes: Vec<Change>, snapshot: &Snapshot) {
        if changes.is_empty() {
            return;
        }
        let mut state = self.lock();
        state.snapshot = Arc::new(snapshot.clone());
        state.published += changes.len() as u64;
        for change in changes {
            // Without a subscriber there is no need for it.
            let _ = state.sender.as_ref().map(|sender| sender.send(Arc::new(Stamped { at, change })));
        }
    }

    /// Ends each subscription after its last change; only the first call counts.
    pub(super) fn end(&self, error: Option<MonitorError>) {
        let mut state = self.lock();
        if state.sender.take().is_some() {
            state.error = error.map(Arc::new);
        }
    }

    pub(super) fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.lock().snapshot)
    }

    pub(super) fn subscribe(self: &Arc<Self>) -> Changes {
        let state = self.lock();
        let (published, next, start) = (state.later_changes(), state.published, Arc::clone(&state.snapshot));
        Changes { feed: Arc::clone(self), published, next, start, ended: false }
    }

    /// A panic leaves no half-published change: each is published by plain moves.
    fn lock(&self) -> MutexGuard<'_, FeedState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FeedState {
    /// The changes that are published from now on.
    fn later_changes(&self) -> Published {
        let ended = || broadcast::channel(1).1;
        let receiver = self.sender.as_ref().map_or_else(ended, broadcast::Sender::subscribe);
        let read = |mut receiver: broadcast::Receiver<_>| async move {
            match receiver.recv().await {
                Ok(stamped) => Some((Ok(stamped), receiver)),
                Err(RecvError::Lagged(_)) => Some((Err(Lagged), receiver)),
                Err(RecvError::Closed) => None,
            }
        };
        Box::pin(stream::unfold(receiver, read).fuse())
    }
}

impl Changes {
    /// The machine at the time of the subscription; the changes continue from it without a gap.
    pub fn start(&self) -> &Arc<Snapshot> {
        &self.start
    }

    /// The next update; `None` after the monitor was dropped. Cancel safe.
    ///
    /// # Errors
    /// The error that ended the monitor, once; then `None`.
    pub async fn next(&mut self) -> Option<Result<Update, Arc<MonitorError>>> {
        StreamExt::next(self).await
    }
}

impl Stream for Changes {
    type Item = Result<Update, Arc<MonitorError>>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        let read = ready!(this.published.as_mut().poll_next(context));
        Poll::Ready(match read {
            Some(Ok(stamped)) => {
                this.next += 1;
                Some(Ok(Update::Change(stamped)))
            }
            Some(Err(Lagged)) => {
                // The snapshot also includes the changes that are still kept.
                let state = this.feed.lock();
                let missed = state.published - this.next;
                (this.published, this.next) = (state.later_changes(), state.published);
                Some(Ok(Update::Lagged { missed, snapshot: Arc::clone(&state.snapshot) }))
            }
            None => {
                let error = this.feed.lock().error.clone().filter(|_| !this.ended);
                this.ended = true;
                error.map(Err)
            }
        })
    }
}

impl fmt::Debug for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Changes").field("next", &self.next).field("ended", &self.ended).finish_non_exhaustive()
    }
}

/// The room for the changes is taken at the start.
const MAX_KEPT: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CpuId, Topology};
    use std::task::Waker;

    fn snapshot(cpus: u32) -> Snapshot {
        let topology = Topology::synthetic(&format!("core:{cpus} pu:1"), Vec::new()).unwrap();
        Snapshot { topology, memory_blocks: None }
    }

    fn change(number: u32) -> Change {
        Change::CpuOffline { cpu: CpuId(number) }
    }

    fn publish(feed: &Feed, numbers: impl IntoIterator<Item = u32>) {
        feed.publish(SystemTime::UNIX_EPOCH, numbers.into_iter().map(change).collect(), &snapshot(7));
    }

    fn poll(changes: &mut Changes) -> Poll<Option<Result<Update, Arc<MonitorError>>>> {
        Pin::new(changes).poll_next(&mut Context::from_waker(Waker::noop()))
    }

    /// The update that is there without waiting.
    fn ready(changes: &mut Changes) -> Option<Update> {
        match poll(changes) {
            Poll::Ready(update) => Some(update.expect("it has not ended").expect("nothing failed")),
            Poll::Pending => None,
        }
    }

    fn numbers(changes: &mut Changes) -> Vec<Change> {
        let mut read = Vec::new();
        while let Some(update) = ready(changes) {
            let Update::Change(stamped) = update else { panic!("{update:?}") };
            read.push(stamped.change.clone());
        }
        read
    }

    #[test]
    fn changes_since_the_subscription() {
        let feed = Arc::new(Feed::new(snapshot(4), 10));
        publish(&feed, [0]);
        let mut changes = feed.subscribe();
        assert_eq!(**changes.start(), snapshot(7));
        publish(&feed, 1..4);
        assert_eq!(numbers(&mut changes), [change(1), change(2), change(3)]);
    }

    #[test]
    fn snapshot_for_a_slow_subscriber() {
        let feed = Arc::new(Feed::new(snapshot(4), 4));
        let (mut slow, mut quick) = (feed.subscribe(), feed.subscribe());
        publish(&feed, 0..4);
        assert_eq!(numbers(&mut quick).len(), 4, "as many as are kept are no lag");
        publish(&feed, 4..5);
        let Some(Update::Lagged { missed: 5, snapshot: machine }) = ready(&mut slow) else {
            panic!("nothing is missing")
        };
        assert_eq!(*machine, snapshot(7));
        publish(&feed, 5..6);
        assert_eq!(numbers(&mut slow), [change(5)], "the changes in the snapshot are not sent again");
        assert_eq!(numbers(&mut quick), [change(4), change(5)]);
        publish(&feed, 6..12);
        feed.end(None);
        assert!(matches!(ready(&mut slow), Some(Update::Lagged { missed: 6, .. })));
        assert!(matches!(poll(&mut slow), Poll::Ready(None)));
    }

    #[test]
    fn error_once_after_the_last_change() {
        let feed = Arc::new(Feed::new(snapshot(4), 3));
        let mut changes = feed.subscribe();
        publish(&feed, 0..1);
        feed.end(Some(MonitorError::Stopped));
        assert_eq!(ready(&mut changes).map(|update| matches!(update, Update::Change(_))), Some(true));
        assert!(matches!(poll(&mut changes), Poll::Ready(Some(Err(_)))));
        assert!(matches!(poll(&mut changes), Poll::Ready(None)));
    }
}
