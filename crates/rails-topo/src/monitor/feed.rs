//! What subscribers read: one log of changes for all, each with a place in it of its own.

use super::{Change, MonitorError, Snapshot};
use futures_core::Stream;
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, VecDeque},
    future::poll_fn,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
    time::SystemTime,
};

/// A change, and when the monitor learned of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamped {
    /// The time of the clock on the wall, in JSON as seconds and nanoseconds since 1970.
    pub at: SystemTime,
    /// What has changed.
    pub change: Change,
}

/// What a subscriber gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Update {
    /// Something has changed.
    Change(Arc<Stamped>),
    /// More has changed than is kept for a subscriber who does not read: instead of the changes here is how things are now. What comes next follows on that.
    Lagged {
        /// How many changes are left out.
        missed: u64,
        /// The machine, with all of them in it.
        snapshot: Arc<Snapshot>,
    },
}

/// A subscription: the changes since it was made. A [`Stream`] that ends when the [`Monitor`](super::Monitor) is dropped, or after an error.
pub struct Changes {
    feed: Arc<Feed>,
    id: u64,
    /// How many changes had been published before the one that comes next.
    next: u64,
    /// What the changes follow on.
    start: Arc<Snapshot>,
    ended: bool,
}

/// The log, and who waits for it.
#[derive(Debug)]
pub(super) struct Feed(Mutex<Log>);

#[derive(Debug)]
struct Log {
    kept: VecDeque<Arc<Stamped>>,
    /// How many had been published before those.
    before: u64,
    longest: usize,
    /// The machine after all of them.
    snapshot: Arc<Snapshot>,
    end: Option<Option<Arc<MonitorError>>>,
    waiting: BTreeMap<u64, Waker>,
    subscriptions: u64,
}

impl Feed {
    /// An empty log that keeps that many changes, at least one.
    pub(super) fn new(snapshot: Snapshot, longest: usize) -> Self {
        Self(Mutex::new(Log {
            kept: VecDeque::new(),
            before: 0,
            longest: longest.max(1),
            snapshot: Arc::new(snapshot),
            end: None,
            waiting: BTreeMap::new(),
            subscriptions: 0,
        }))
    }

    /// Publishes what has changed, and the machine after it.
    pub(super) fn publish(&self, at: SystemTime, changes: Vec<Change>, snapshot: &Snapshot) {
        if changes.is_empty() {
            return;
        }
        let mut log = self.lock();
        log.snapshot = Arc::new(snapshot.clone());
        for change in changes {
            if log.kept.len() == log.longest {
                log.kept.pop_front();
                log.before += 1;
            }
            log.kept.push_back(Arc::new(Stamped { at, change }));
        }
        log.wake();
    }

    /// Nothing comes any more.
    pub(super) fn end(&self, error: Option<MonitorError>) {
        let mut log = self.lock();
        if log.end.is_none() {
            log.end = Some(error.map(Arc::new));
        }
        log.wake();
    }

    pub(super) fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.lock().snapshot)
    }

    pub(super) fn subscribe(self: &Arc<Self>) -> Changes {
        let mut log = self.lock();
        log.subscriptions += 1;
        let (id, next, start) = (log.subscriptions, log.published(), Arc::clone(&log.snapshot));
        drop(log);
        Changes { feed: Arc::clone(self), id, next, start, ended: false }
    }

    /// A panic in between leaves no half of a change: each is published by plain moves.
    fn lock(&self) -> MutexGuard<'_, Log> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Log {
    fn published(&self) -> u64 {
        self.before + self.kept.len() as u64
    }

    fn wake(&mut self) {
        std::mem::take(&mut self.waiting).into_values().for_each(Waker::wake);
    }
}

impl Changes {
    /// The machine as it was when the subscription was made: the changes follow on it, none is missing in between.
    pub fn start(&self) -> &Arc<Snapshot> {
        &self.start
    }

    /// What comes next; `None` after the monitor was dropped. Cancel safe.
    ///
    /// # Errors
    /// What ended the monitor, once; then `None`.
    pub async fn next(&mut self) -> Option<Result<Update, Arc<MonitorError>>> {
        poll_fn(|context| self.poll(context)).await
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Update, Arc<MonitorError>>>> {
        let mut log = self.feed.lock();
        if let Some(index) = self.next.checked_sub(log.before) {
            if let Some(change) = log.kept.get(index as usize) {
                self.next += 1;
                return Poll::Ready(Some(Ok(Update::Change(Arc::clone(change)))));
            }
        } else {
            let published = log.published();
            let missed = published - self.next;
            self.next = published;
            return Poll::Ready(Some(Ok(Update::Lagged { missed, snapshot: Arc::clone(&log.snapshot) })));
        }
        match &log.end {
            Some(error) => {
                let error = error.clone().filter(|_| !self.ended);
                self.ended = true;
                Poll::Ready(error.map(Err))
            }
            None => {
                log.waiting.insert(self.id, context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Stream for Changes {
    type Item = Result<Update, Arc<MonitorError>>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll(context)
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        self.feed.lock().waiting.remove(&self.id);
    }
}

impl std::fmt::Debug for Changes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Changes").field("next", &self.next).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CpuId, Topology};

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

    /// What is there without waiting.
    fn ready(changes: &mut Changes) -> Option<Update> {
        match changes.poll(&mut Context::from_waker(Waker::noop())) {
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
    fn a_subscriber_gets_all_that_is_published_after_it_came() {
        let feed = Arc::new(Feed::new(snapshot(4), 10));
        publish(&feed, [0]);
        let mut changes = feed.subscribe();
        assert_eq!(**changes.start(), snapshot(7));
        publish(&feed, 1..4);
        assert_eq!(numbers(&mut changes), [change(1), change(2), change(3)]);
    }

    #[test]
    fn who_is_too_slow_is_told_how_much_is_missing_and_gets_the_machine_as_it_is() {
        let feed = Arc::new(Feed::new(snapshot(4), 3));
        let (mut slow, mut quick) = (feed.subscribe(), feed.subscribe());
        publish(&feed, 0..3);
        assert_eq!(numbers(&mut quick).len(), 3);
        publish(&feed, 3..4);
        let Some(Update::Lagged { missed: 4, snapshot: machine }) = ready(&mut slow) else {
            panic!("nothing is missing")
        };
        assert_eq!(*machine, snapshot(7));
        publish(&feed, 4..5);
        assert_eq!(numbers(&mut slow), [change(4)], "what the snapshot holds is not told again");
        assert_eq!(numbers(&mut quick), [change(3), change(4)]);
    }

    #[test]
    fn as_many_as_are_kept_are_no_lag() {
        let feed = Arc::new(Feed::new(snapshot(4), 3));
        let mut changes = feed.subscribe();
        publish(&feed, 0..3);
        assert_eq!(numbers(&mut changes).len(), 3);
    }

    #[test]
    fn the_end_comes_after_what_is_left_and_its_error_once() {
        let feed = Arc::new(Feed::new(snapshot(4), 3));
        let mut changes = feed.subscribe();
        publish(&feed, 0..1);
        feed.end(Some(MonitorError::Stopped));
        assert_eq!(ready(&mut changes).map(|update| matches!(update, Update::Change(_))), Some(true));
        let mut poll = || changes.poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(poll(), Poll::Ready(Some(Err(_)))));
        assert!(matches!(poll(), Poll::Ready(None)));
    }
}
