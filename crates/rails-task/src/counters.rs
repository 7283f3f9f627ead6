//! Counters of queues. Each thread has its own for the queues that it looks into, so that a run
//! writes to no cache line that threads share.

use super::sync::{AtomicU64, Relaxed};
use std::time::Duration;

/// The counters of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct QueueStats {
    /// Tasks that were submitted to the queue.
    pub submitted: u64,
    /// Runs by threads of the queue's object.
    pub run_here: u64,
    /// Runs by threads of the objects inside that one.
    pub run_below: u64,
    /// Runs that began after the task's [deadline](crate::TaskOptions::run_within).
    pub missed: u64,
    /// The time that tasks waited; `None` unless the queues are
    /// [timed](crate::TaskQueuesBuilder::timed).
    pub waits: Option<Waits>,
    /// Tasks that wait in the queue.
    pub waiting: usize,
}

/// The time from submission to the start of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Waits {
    /// The time of all submissions together.
    pub total: Duration,
    /// The longest time.
    pub longest: Duration,
}

/// Counts the runs that one thread takes from one queue. No other thread writes it.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    runs: AtomicU64,
    missed: AtomicU64,
    waited: AtomicU64,
    longest_wait: AtomicU64,
}

impl Counters {
    #[inline]
    pub(crate) fn add_run(&self) {
        add(&self.runs, 1);
    }

    pub(crate) fn add_missed(&self) {
        add(&self.missed, 1);
    }

    /// Adds the time that a task has waited.
    pub(crate) fn add_wait(&self, nanoseconds: u64) {
        add(&self.waited, nanoseconds);
        self.longest_wait.store(self.longest_wait.load(Relaxed).max(nanoseconds), Relaxed);
    }

    /// Adds these counts to the statistics of a queue. `is_here` says whether the thread is one of
    /// the queue's object.
    pub(crate) fn add_to(&self, stats: &mut QueueStats, is_here: bool) {
        let runs = if is_here { &mut stats.run_here } else { &mut stats.run_below };
        *runs += self.runs.load(Relaxed);
        stats.missed += self.missed.load(Relaxed);
        let waits = stats.waits.get_or_insert_default();
        waits.total += Duration::from_nanos(self.waited.load(Relaxed));
        waits.longest = waits.longest.max(Duration::from_nanos(self.longest_wait.load(Relaxed)));
    }
}

/// Adds to a counter that this thread alone writes.
#[inline]
fn add(counter: &AtomicU64, amount: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(amount), Relaxed);
}
