//! Sleep without lost wake-ups: a submitter puts a task into a queue and then looks for sleepers; a
//! thread says that it sleeps and then looks at the queues. One of them sees the other.

use super::sync::{AtomicBool, AtomicU64, AtomicUsize, SeqCst, order_accesses};

/// Counts the tasks that were put into a queue.
#[derive(Debug, Default)]
pub(crate) struct News(AtomicU64);

/// The number of threads that sleep and want to know of a queue's [`News`].
#[derive(Debug, Default)]
pub(crate) struct Sleepers(AtomicUsize);

/// Whether a thread sleeps, or is about to.
#[derive(Debug, Default)]
pub(crate) struct Asleep(AtomicBool);

impl News {
    /// Notes that a task was put into the queue.
    #[inline]
    pub(crate) fn add(&self) {
        self.0.fetch_add(1, SeqCst);
    }

    /// The tasks so far.
    #[inline]
    pub(crate) fn count(&self) -> u64 {
        self.0.load(SeqCst)
    }
}

impl Sleepers {
    /// Whether a thread that does not know of the [`News`] added before may be asleep.
    #[inline]
    pub(crate) fn may_be_asleep(&self) -> bool {
        order_accesses();
        self.0.load(SeqCst) > 0
    }
}

impl Asleep {
    /// Marks the thread as asleep, unless there are news that it does not know. Returns whether it
    /// may sleep. The thread is counted among the sleepers of each queue whose news it wants.
    pub(crate) fn mark_asleep<'a>(
        &self,
        sleepers: impl Iterator<Item = &'a Sleepers> + Clone,
        has_news: impl FnOnce() -> bool,
    ) -> bool {
        // In this order: a submitter that finds the flag set counts it out again.
        sleepers.clone().for_each(|sleepers| _ = sleepers.0.fetch_add(1, SeqCst));
        self.0.store(true, SeqCst);
        order_accesses();
        if has_news() {
            self.mark_awake(sleepers);
            return false;
        }
        true
    }

    /// Whether the thread sleeps, as of the last change that this thread has seen.
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(SeqCst)
    }

    /// Marks the thread as awake. Returns whether it slept: then this caller, and no other, wakes
    /// it.
    pub(crate) fn mark_awake<'a>(&self, sleepers: impl Iterator<Item = &'a Sleepers>) -> bool {
        let slept = self.0.swap(false, SeqCst);
        if slept {
            sleepers.for_each(|sleepers| _ = sleepers.0.fetch_sub(1, SeqCst));
        }
        slept
    }
}
