//! The queues of a machine's objects, and the threads that sleep there.

use super::{
    counters::QueueStats,
    error::SubmitError,
    inner::{Inner, nanoseconds},
    objects::{ObjectId, Objects},
    queue::Queue,
    sleeper::{Sleeper, Trigger},
    sync::{AtomicBool, Relaxed, RwLock, SeqCst, fence},
};
use rails_topo::CpuSet;
use std::{
    sync::{Arc, PoisonError},
    time::{Duration, Instant},
};

/// The queues of a machine, which the handles of its tasks and the threads that run them share.
#[derive(Debug)]
pub(crate) struct Queues {
    pub(crate) objects: Objects,
    /// The queue of each object.
    pub(crate) by_object: Vec<Queue>,
    /// The threads that run tasks.
    runners: RwLock<Vec<Arc<Sleeper>>>,
    is_closed: AtomicBool,
    pub(crate) is_timed: bool,
    /// The start of the clock.
    clock_start: Instant,
}

impl Queues {
    pub(crate) fn new(objects: Objects, capacity: usize, is_timed: bool) -> Self {
        let by_object = (0..objects.len()).map(|_| Queue::new(capacity)).collect();
        let (runners, is_closed) = Default::default();
        Self { objects, by_object, runners, is_closed, is_timed, clock_start: Instant::now() }
    }

    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(SeqCst)
    }

    /// The time in nanoseconds.
    pub(crate) fn now(&self) -> u64 {
        nanoseconds(self.clock_start.elapsed())
    }

    /// The time until an instant of this clock.
    pub(crate) fn until(&self, instant: u64) -> Duration {
        Duration::from_nanos(instant.saturating_sub(self.now()))
    }

    pub(crate) fn online(&self) -> &CpuSet {
        &self.objects.get(ObjectId(0)).cpus
    }

    #[inline]
    pub(crate) fn queue(&self, object: ObjectId) -> &Queue {
        &self.by_object[object.0]
    }

    /// Queues a task whose state says so.
    #[inline]
    pub(crate) fn submit(&self, inner: &Arc<Inner>, near: ObjectId) -> Result<(), SubmitError> {
        inner.stamp_submission(self.is_timed, || self.now());
        let Some(object) = self.push(inner) else {
            inner.state.refuse();
            inner.wake_waiters();
            return Err(SubmitError::Full);
        };
        self.announce(inner, object, near);
        self.end_if_closed(inner)
    }

    /// Queues a task again that was submitted while it ran.
    pub(crate) fn submit_again(&self, inner: &Arc<Inner>) {
        inner.stamp_submission(self.is_timed, || self.now());
        self.put_back(inner);
    }

    /// Puts a task back into its queue that was held back or has waited for its event: there is
    /// always room for it.
    pub(crate) fn put_back(&self, inner: &Arc<Inner>) {
        let object = self.push_always(inner);
        self.queue(object).put_back.fetch_add(1, Relaxed);
        self.announce(inner, object, inner.home);
        // The owner sees from the task that it is over.
        let _ = self.end_if_closed(inner);
    }

    /// Puts a polling task back into its queue. A worker goes on with a task that it has run
    /// itself; if another thread has run it, this wakes a worker. `is_first` says whether the task
    /// begins to poll.
    pub(crate) fn put_back_polling(&self, inner: &Arc<Inner>, is_by_worker: bool, is_first: bool) {
        let object = self.push_always(inner);
        // The thread that closes the queues finds the task, or this one ends it.
        fence(SeqCst);
        if !is_by_worker {
            self.queue(object).polling_news.add();
            if self.queue(inner.home).sleepers.may_be_asleep() {
                self.wake(inner, inner.home, |trigger| trigger == Trigger::Idle);
            }
        }
        if is_first {
            self.wake_timer(inner);
        }
        let _ = self.end_if_closed(inner);
    }

    /// Notes that a task polls no more.
    #[inline]
    pub(crate) fn end_polling(&self, inner: &Arc<Inner>) {
        if inner.end_polling() {
            self.queue(inner.home).remove_polling(inner);
        }
    }

    /// Adds a thread that runs tasks.
    pub(crate) fn add_runner(&self, runner: Arc<Sleeper>) {
        self.runners.write().unwrap_or_else(PoisonError::into_inner).push(runner);
    }

    /// Removes a thread that runs tasks no more. The queues keep its counters.
    pub(crate) fn remove_runner(&self, runner: &Arc<Sleeper>) {
        let mut runners = self.runners.write().unwrap_or_else(PoisonError::into_inner);
        runners.retain(|other| !Arc::ptr_eq(other, runner));
        for (object, _) in &runner.path {
            let mut counted = self.queue(*object).counted.lock().unwrap_or_else(PoisonError::into_inner);
            runner.add_counters(*object, &mut counted);
        }
    }

    /// The counters of an object's queue.
    pub(crate) fn stats(&self, object: ObjectId) -> QueueStats {
        let queue = self.queue(object);
        let runners = self.runners.read().unwrap_or_else(PoisonError::into_inner);
        let mut stats = *queue.counted.lock().unwrap_or_else(PoisonError::into_inner);
        runners.iter().for_each(|runner| runner.add_counters(object, &mut stats));
        let put_back = queue.put_back.load(Relaxed);
        stats.submitted = queue.news.count().saturating_sub(put_back);
        stats.waiting = queue.len();
        stats.waits = self.is_timed.then(|| stats.waits.unwrap_or_default());
        stats
    }

    /// Takes no more tasks, and cancels those that wait.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, SeqCst);
        fence(SeqCst);
        for queue in &self.by_object {
            // With the count come the tasks that it counts.
            queue.news.count();
            queue.drain(
                || self.now(),
                |_| true,
                || true,
                |inner| {
                    inner.state.cancel();
                    // The task has left its queue.
                    inner.state.begin();
                    self.end_polling(&inner);
                    inner.wake_waiters();
                },
            );
        }
    }

    /// Wakes all threads that sleep, so that each looks at its queues.
    pub(crate) fn wake_all(&self) {
        let runners = self.runners.read().unwrap_or_else(PoisonError::into_inner);
        for runner in runners.iter() {
            runner.wake(&self.by_object);
        }
    }

    /// Wakes the nearest sleeping thread that may run a task, which was put into the queue of an
    /// object.
    #[inline]
    fn announce(&self, inner: &Inner, object: ObjectId, near: ObjectId) {
        self.queue(object).news.add();
        // Each thread that may run the task counts as a sleeper of its home.
        if self.queue(inner.home).sleepers.may_be_asleep() {
            self.wake(inner, near, |trigger| trigger != Trigger::Timer);
        }
        if inner.is_for_timer() {
            self.wake_timer(inner);
        }
    }

    /// Wakes a timer that sleeps and may run a task with a deadline, or one that polls.
    fn wake_timer(&self, inner: &Inner) {
        if self.queue(inner.home).timers.may_be_asleep() {
            self.wake(inner, inner.home, |trigger| trigger == Trigger::Timer);
        }
    }

    #[cold]
    fn wake(&self, inner: &Inner, near: ObjectId, is_meant: impl Fn(Trigger) -> bool) {
        let runners = self.runners.read().unwrap_or_else(PoisonError::into_inner);
        let may_run = |runner: &&Arc<Sleeper>| is_meant(runner.trigger) && runner.is_asleep() && runner.may_run(inner);
        let distance = |runner: &&Arc<Sleeper>| self.objects.distance(near, runner.object);
        // Another submitter may have woken it meanwhile.
        while let Some(nearest) = runners.iter().filter(may_run).min_by_key(distance)
            && !nearest.wake(&self.by_object)
        {}
    }

    /// Puts a task into the queue of its home, or of an object around it if that is full.
    #[inline]
    fn push(&self, inner: &Arc<Inner>) -> Option<ObjectId> {
        if inner.covers_home && inner.due().is_none() && self.queue(inner.home).push(inner) {
            return Some(inner.home);
        }
        self.objects.path(inner.home).find(|object| self.queue(*object).push_other(inner, false))
    }

    fn push_always(&self, inner: &Arc<Inner>) -> ObjectId {
        self.push(inner).unwrap_or_else(|| {
            self.queue(inner.home).push_other(inner, true);
            inner.home
        })
    }

    /// Cancels a task that came while the queues were closed: it may have missed the cancelling of
    /// the others.
    #[inline]
    fn end_if_closed(&self, inner: &Arc<Inner>) -> Result<(), SubmitError> {
        // The flag is in one order with the news.
        if !self.is_closed() {
            return Ok(());
        }
        inner.state.cancel();
        self.end_polling(inner);
        inner.wake_waiters();
        Err(SubmitError::Closed)
    }
}
