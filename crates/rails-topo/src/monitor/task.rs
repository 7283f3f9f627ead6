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
    /// Readings under way.
    readings: JoinSet<Option<Reading>>,
    /// The time of the last warning of a failed reading.
    warned: Option<Instant>,
}

/// A finished reading.
struct Reading {
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
        Self { root, sources, tracker, feed, expectations, readings: JoinSet::new(), warned: None }
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
        self.begin_readings();
        let next_due = self.tracker.next_due();
        let next_due = async {
            match next_due {
                Some(at) => tokio::time::sleep_until(at.into()).await,
                None => std::future::pending().await,
            }
        };
        let mut changes = Vec::new();
        tokio::select! {
            biased;
            Some((number, cpus)) = self.expectations.recv() => self.tracker.expect_interrupt(number, cpus),
            Some(reading) = self.readings.join_next() => {
                let Reading { ticket, facts, took } = reading.ok().flatten().ok_or(MonitorError::Stopped)?;
                let now = Instant::now();
                match facts {
                    Ok(facts) => changes = self.tracker.facts_read(now, &ticket, facts),
                    Err(error) => {
                        self.tracker.reading_failed(&ticket);
                        self.warn(now, &error);
                    }
                }
                if ticket.kinds.interrupts {
                    self.tracker.poll_took(now, took);
                }
            }
            events = self.sources.next_events() => {
                for event in events? {
                    changes.extend(self.tracker.handle(Instant::now(), event));
                }
            }
            () = next_due => {}
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

    fn begin_readings(&mut self) {
        for ticket in self.tracker.due(Instant::now()) {
            if ticket.kinds.interrupts {
                // Checked with the poll, because a move into another cgroup causes no event.
                self.sources.follow_cgroup(&self.root);
            }
            let (root, known, kinds) = (Arc::clone(&self.root), self.feed.snapshot(), ticket.kinds.clone());
            let reading = aside(move || {
                let begun = Instant::now();
                (Facts::read(&root, &kinds, &known.topology), begun.elapsed())
            });
            self.readings.spawn(async move {
                let (facts, took) = reading.await?;
                Some(Reading { ticket, facts, took })
            });
        }
    }
}

/// Reads on a thread of its own, because a driver may take long to state the speed of its link; on
/// the calling thread if the system gives no other. `None` if the reading panicked.
pub(super) async fn aside<T: Send + 'static>(read: impl Fn() -> T + Send + Sync + 'static) -> Option<T> {
    let read = Arc::new(read);
    let there = Arc::clone(&read);
    let (done, found) = oneshot::channel();
    let thread = thread::Builder::new().name("rails-topo-read".to_owned()).spawn(move || {
        // The send fails once the monitor has been dropped.
        let _ = done.send(there());
    });
    match thread {
        Ok(_) => found.await.ok(),
        Err(_) => Some(read()),
    }
}

/// The time between two warnings of failed readings.
const BETWEEN_WARNINGS: Duration = Duration::from_secs(60);
