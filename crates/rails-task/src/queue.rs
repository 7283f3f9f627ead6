//! The queue of one object.

use super::{
    counters::QueueStats,
    inner::Inner,
    sync::{AtomicU64, AtomicUsize, Mutex, MutexGuard, Relaxed},
    wakeup::{News, Sleepers},
};
use crossbeam_queue::ArrayQueue;
use std::{
    collections::VecDeque,
    sync::{Arc, PoisonError},
};

/// The queue of an object.
#[derive(Debug)]
pub(crate) struct Queue {
    /// The tasks that every thread of the object may run, by priority.
    rings: [ArrayQueue<Arc<Inner>>; 2],
    /// The tasks that only some threads of the object may run, with a deadline, or whose ring was
    /// full, by priority.
    others: Mutex<[VecDeque<Arc<Inner>>; 2]>,
    /// The number of `others`, so that an empty list is seen without the lock.
    other_count: AtomicUsize,
    /// The number of `others` that have a deadline.
    deadline_count: AtomicUsize,
    capacity: usize,
    /// Counts the tasks put into the queue, apart from those that poll.
    pub(crate) news: News,
    /// The sleeping threads that look into this queue, apart from timers.
    pub(crate) sleepers: Sleepers,
    /// The timers that sleep.
    pub(crate) timers: Sleepers,
    /// The number of `news` that were not submitted.
    pub(crate) put_back: AtomicU64,
    /// Counts the tasks that poll, and were left by a thread that may not come back.
    pub(crate) polling_news: News,
    /// The tasks that poll, of those whose home this is.
    polling: Mutex<Vec<Arc<Inner>>>,
    /// The counters of the threads that run tasks no more.
    pub(crate) counted: Mutex<QueueStats>,
}

impl Queue {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            rings: [ArrayQueue::new(capacity), ArrayQueue::new(capacity)],
            others: Mutex::new([VecDeque::with_capacity(capacity), VecDeque::with_capacity(capacity)]),
            other_count: AtomicUsize::new(0),
            deadline_count: AtomicUsize::new(0),
            capacity,
            news: News::default(),
            sleepers: Sleepers::default(),
            timers: Sleepers::default(),
            put_back: AtomicU64::new(0),
            polling_news: News::default(),
            polling: Mutex::default(),
            counted: Mutex::default(),
        }
    }

    /// Puts a task in that every thread of the object may run. Returns whether there was room.
    #[inline]
    pub(crate) fn push(&self, inner: &Arc<Inner>) -> bool {
        self.rings[inner.priority as usize].push(Arc::clone(inner)).is_ok()
    }

    /// Puts any task in. Returns whether there was room.
    pub(crate) fn push_other(&self, inner: &Arc<Inner>, may_exceed_capacity: bool) -> bool {
        let others = &mut self.others()[inner.priority as usize];
        let has_room = others.len() < self.capacity || may_exceed_capacity;
        if has_room {
            others.push_back(Arc::clone(inner));
            self.other_count.fetch_add(1, Relaxed);
            self.deadline_count.fetch_add(usize::from(inner.due().is_some()), Relaxed);
        }
        has_room
    }

    /// The number of tasks that wait in the queue.
    pub(crate) fn len(&self) -> usize {
        self.rings.iter().map(ArrayQueue::len).sum::<usize>() + self.other_count.load(Relaxed)
    }

    /// Takes the tasks that wait and are allowed: those whose deadline is over, then the urgent
    /// ones, then the others. Tasks that come meanwhile are not among them, unless their
    /// deadline is over. Returns whether the pass has come to the end, because `goes_on` was
    /// true before each task.
    #[inline]
    pub(crate) fn drain(
        &self,
        clock: impl Fn() -> u64,
        is_allowed: impl Fn(&Inner) -> bool,
        goes_on: impl Fn() -> bool,
        mut then: impl FnMut(Arc<Inner>),
    ) -> bool {
        for (priority, ring) in self.rings.iter().enumerate() {
            // Empty queues are seen without a lock, and without taking a task.
            let count = if ring.is_empty() { 0 } else { ring.len() };
            let other_count = self.other_count.load(Relaxed);
            if count == 0 && other_count == 0 {
                continue;
            }
            for _ in 0..count {
                self.drain_overdue(&clock, &is_allowed, &goes_on, &mut then);
                if !goes_on() {
                    return false;
                }
                let Some(inner) = ring.pop() else { break };
                then(inner);
            }
            if other_count > 0 && !self.drain_others(priority, &clock, &is_allowed, &goes_on, &mut then) {
                return false;
            }
        }
        true
    }

    fn drain_others(
        &self,
        priority: usize,
        clock: &impl Fn() -> u64,
        is_allowed: &impl Fn(&Inner) -> bool,
        goes_on: &impl Fn() -> bool,
        then: &mut impl FnMut(Arc<Inner>),
    ) -> bool {
        let mut count = self.others()[priority].len();
        while count > 0 {
            // A task that has come meanwhile, and is taken instead of one of these, is news: there is another
            // pass.
            count = count.saturating_sub(self.drain_overdue(clock, is_allowed, goes_on, then)[priority]);
            if !goes_on() {
                return false;
            }
            let mut others = self.others();
            let place = others[priority].iter().position(|inner| count > 0 && is_allowed(inner));
            let Some(index) = place else { break };
            let inner = self.remove(&mut others[priority], index);
            drop(others);
            then(inner);
            count -= 1;
        }
        true
    }

    /// Takes the tasks whose deadline is over, the most overdue first. Returns their numbers, by
    /// priority.
    #[inline]
    fn drain_overdue(
        &self,
        clock: &impl Fn() -> u64,
        is_allowed: &impl Fn(&Inner) -> bool,
        goes_on: &impl Fn() -> bool,
        then: &mut impl FnMut(Arc<Inner>),
    ) -> [usize; 2] {
        let mut taken = [0; 2];
        for _ in 0..self.deadline_count.load(Relaxed) {
            if !goes_on() {
                break;
            }
            let now = clock();
            let mut others = self.others();
            let of_priority = |(priority, others): (usize, &VecDeque<Arc<Inner>>)| {
                let dues = others.iter().enumerate().filter(|(_, inner)| is_allowed(inner));
                let dues = dues.filter_map(|(index, inner)| Some((inner.due().filter(|due| *due <= now)?, index)));
                dues.min().map(|(due, index)| (due, priority, index))
            };
            let Some((_, priority, index)) = others.iter().enumerate().filter_map(of_priority).min() else { break };
            let inner = self.remove(&mut others[priority], index);
            drop(others);
            then(inner);
            taken[priority] += 1;
        }
        taken
    }

    /// The next deadline of an allowed task.
    pub(crate) fn next_due(&self, is_allowed: impl Fn(&Inner) -> bool) -> Option<u64> {
        if self.deadline_count.load(Relaxed) == 0 {
            return None;
        }
        let others = self.others();
        others.iter().flatten().filter(|inner| is_allowed(inner)).filter_map(|inner| inner.due()).min()
    }

    /// Lists a task, whose home this is, as one that polls.
    pub(crate) fn add_polling(&self, inner: &Arc<Inner>) {
        self.polling().push(Arc::clone(inner));
    }

    /// Drops a task, whose home this is, from the list of those that poll.
    pub(crate) fn remove_polling(&self, inner: &Arc<Inner>) {
        self.polling().retain(|other| !Arc::ptr_eq(other, inner));
    }

    /// Whether the list has an allowed task that polls.
    pub(crate) fn has_polling(&self, is_allowed: impl Fn(&Inner) -> bool) -> bool {
        self.polling().iter().any(|inner| inner.state.is_active() && is_allowed(inner))
    }

    fn remove(&self, others: &mut VecDeque<Arc<Inner>>, index: usize) -> Arc<Inner> {
        let inner = others.remove(index).expect("it was found there");
        self.other_count.fetch_sub(1, Relaxed);
        self.deadline_count.fetch_sub(usize::from(inner.due().is_some()), Relaxed);
        inner
    }

    fn others(&self) -> MutexGuard<'_, [VecDeque<Arc<Inner>>; 2]> {
        self.others.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn polling(&self) -> MutexGuard<'_, Vec<Arc<Inner>>> {
        self.polling.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
