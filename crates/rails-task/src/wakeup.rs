//! Sleep without lost wake-ups: a submitter puts a task into a queue and then looks for sleepers; a thread says that it
//! sleeps and then looks at the queues. One of them sees the other.

use super::sync::{AcqRel, Acquire, AtomicBool, AtomicU64, AtomicUsize, Relaxed, Release, SeqCst, fence};

/// Counts the tasks that were put into a queue.
#[derive(Debug, Default)]
pub(crate) struct News(AtomicU64);

/// The number of threads that sleep.
#[derive(Debug, Default)]
pub(crate) struct Sleepers(AtomicUsize);

/// Whether a thread sleeps, or is about to.
#[derive(Debug, Default)]
pub(crate) struct Asleep(AtomicBool);

impl News {
    /// A task was put into the queue.
    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Release);
    }

    /// The tasks so far.
    pub(crate) fn count(&self) -> u64 {
        self.0.load(Acquire)
    }
}

impl Sleepers {
    /// Whether a thread may sleep that does not know of the [`News`] that were added before.
    pub(crate) fn are_there(&self) -> bool {
        fence(SeqCst);
        self.0.load(Relaxed) > 0
    }
}

impl Asleep {
    /// The thread falls asleep, unless there are news that it does not know. Returns whether it may.
    pub(crate) fn fall(&self, sleepers: &Sleepers, has_news: impl FnOnce() -> bool) -> bool {
        sleepers.0.fetch_add(1, Relaxed);
        self.0.store(true, Relaxed);
        fence(SeqCst);
        if has_news() {
            self.wake(sleepers);
            return false;
        }
        true
    }

    /// Whether the thread sleeps, as of the last change that this thread has seen.
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Acquire)
    }

    /// It sleeps no more, or is to be woken by the caller. Returns whether it slept: one caller alone wakes it.
    pub(crate) fn wake(&self, sleepers: &Sleepers) -> bool {
        let slept = self.0.swap(false, AcqRel);
        if slept {
            sleepers.0.fetch_sub(1, Relaxed);
        }
        slept
    }
}
