//! The task that connects the sources, the state machine and the subscribers. Only this file reads
//! a clock.

use super::{Feed, MonitorError, Sources, Tracker, facts::Facts, tracker::Ticket};
use crate::{CpuSet, DetectError, linux::Root};
use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant, SystemTime},
};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinSet,
};

pub(super) struct Task {
    root: Arc<Root>,
    sources: Sources,
    tracker: Tracker,
    feed: Arc<Feed>,
    expectations: mpsc::UnboundedReceiver<(u32, CpuSet)>,
    /// Looks under way.
    looks: JoinSet<Option<Look>>,
    /// The last warning of a look that failed.
    warned: Option<Instant>,
}

/// A finished look.
struct Look {
    ticket: Ticket,
    facts: Result<Facts, DetectError>,
    took: Duration,
}

impl Task {
    pub(super) fn new(
        root: Arc<Root>,
        sources: Sources,
        tracker: Tracker,
        feed: Arc<Feed>,
        expectations: mpsc::UnboundedReceiver<(u32, CpuSet)>,
    ) -> Self {
        Self { root, sources, tracker, feed, expectations, looks: JoinSet::new(), warned: None }
    }

    pub(super) async fn run(mut self) {
        let error = loop {
            if let Err(error) = self.step().await {
                break error;
            }
        };
        self.feed.end(Some(error));
    }

    /// Waits for one event, and handles it.
    async fn step(&mut self) -> Result<(), MonitorError> {
        self.begin_looks();
        let next_look = self.tracker.next_due();
        let next_look = async {
            match next_look {
                Some(at) => tokio::time::sleep_until(at.into()).await,
                None => std::future::pending().await,
            }
        };
        let mut changes = Vec::new();
        tokio::select! {
            biased;
            Some((number, cpus)) = self.expectations.recv() => self.tracker.expect_interrupt(number, cpus),
            Some(look) = self.looks.join_next() => {
                let Look { ticket, facts, took } = look.ok().flatten().ok_or(MonitorError::Stopped)?;
                let now = Instant::now();
                match facts {
                    Ok(facts) => changes = self.tracker.looked(now, &ticket, facts),
                    Err(error) => {
                        self.tracker.not_looked(&ticket);
                        self.warn(now, &error);
                    }
                }
                if ticket.looks.interrupts {
                    self.tracker.slow_look_took(now, took);
                }
            }
            told = self.sources.told() => {
                for event in told? {
                    changes.extend(self.tracker.handle(Instant::now(), event));
                }
            }
            () = next_look => {}
        }
        self.feed.publish(SystemTime::now(), changes, self.tracker.snapshot());
        Ok(())
    }

    /// Warns once a minute at most: each reading fails while descriptors are short.
    fn warn(&mut self, now: Instant, error: &DetectError) {
        if self.warned.is_none_or(|warned| now >= warned + BETWEEN_WARNINGS) {
            self.warned = Some(now);
            let error: &dyn std::error::Error = error;
            tracing::warn!(error, "the machine cannot be read again, and counts as it was");
        }
    }

    fn begin_looks(&mut self) {
        for ticket in self.tracker.due(Instant::now()) {
            if ticket.looks.interrupts {
                // With the slow look: there is no event for a move into another cgroup.
                self.sources.follow_cgroup(&self.root);
            }
            let (root, known, looks) = (Arc::clone(&self.root), self.feed.snapshot(), ticket.looks.clone());
            let look = aside(move || {
                let begun = Instant::now();
                (Facts::look(&root, &looks, &known.topology), begun.elapsed())
            });
            self.looks.spawn(async move {
                let (facts, took) = look.await?;
                Some(Look { ticket, facts, took })
            });
        }
    }
}

/// Reads on a thread of its own, because a driver may take long to state the speed of its link; on
/// the calling thread if the system gives no other. `None` if the reading panicked.
pub(super) async fn aside<T: Send + 'static>(look: impl Fn() -> T + Send + Sync + 'static) -> Option<T> {
    let look = Arc::new(look);
    let there = Arc::clone(&look);
    let (done, found) = oneshot::channel();
    let thread = thread::Builder::new().name("rails-look".to_owned()).spawn(move || {
        // The send fails once the monitor has been dropped.
        let _ = done.send(there());
    });
    match thread {
        Ok(_) => found.await.ok(),
        Err(_) => Some(look()),
    }
}

/// The time between two warnings of failed readings.
const BETWEEN_WARNINGS: Duration = Duration::from_secs(60);
