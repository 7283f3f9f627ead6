//! The queues of a machine's objects.

use super::{
    blocking::Blockers,
    counters::QueueStats,
    error::{SubmitError, TaskError},
    objects::{ObjectId, Objects},
    options::TaskOptions,
    queue::Queue,
    runner::{Sleeper, Trigger},
    sync::{AtomicBool, Relaxed, RwLock, SeqCst, fence},
    task::{Inner, Priority, Step, Task},
};
use rails_topo::{CpuSet, Topology};
use std::{
    sync::{Arc, PoisonError},
    time::{Duration, Instant},
};

/// The task queues of a machine, one for each [object](crate::Object). Clones are the same queues.
#[derive(Debug, Clone)]
pub struct TaskQueues {
    pub(crate) shared: Arc<Shared>,
}

/// Makes [`TaskQueues`].
#[derive(Debug, Clone)]
#[must_use]
pub struct TaskQueuesBuilder {
    room: usize,
    is_timed: bool,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) objects: Objects,
    queues: Vec<Queue>,
    /// The threads that run tasks.
    pub(crate) runners: RwLock<Vec<Arc<Sleeper>>>,
    /// The threads that block for events of tasks.
    pub(crate) blockers: Arc<Blockers>,
    is_closed: AtomicBool,
    pub(crate) is_timed: bool,
    /// The start of the clock.
    began: Instant,
}

impl TaskQueues {
    /// The queues of a machine, each with room for so many tasks of each priority: one at least.
    pub fn new(topology: &Topology, room: usize) -> Self {
        Self::builder().room(room).build(topology)
    }

    /// Queues with options.
    pub fn builder() -> TaskQueuesBuilder {
        TaskQueuesBuilder { room: 256, is_timed: false }
    }

    /// A task that may run on these CPUs and on no others. It waits in the queue of the smallest object that covers
    /// them. Work that panics ends its task, and nothing else.
    ///
    /// # Errors
    /// [`TaskError`].
    pub fn task(
        &self,
        cpus: &CpuSet,
        priority: Priority,
        work: impl Fn() -> Step + Send + Sync + 'static,
    ) -> Result<Task, TaskError> {
        self.task_with(cpus, priority.into(), work)
    }

    /// As [`task`](Self::task), with options.
    ///
    /// # Errors
    /// [`TaskError`].
    pub fn task_with(
        &self,
        cpus: &CpuSet,
        options: TaskOptions,
        work: impl Fn() -> Step + Send + Sync + 'static,
    ) -> Result<Task, TaskError> {
        let home = self.home_of(cpus)?;
        if options.run_before == Some(Duration::ZERO) {
            return Err(TaskError::NoTime);
        }
        if options.blocking.is_some() {
            self.shared.blockers.ensure_thread().map_err(|error| TaskError::Thread(error.kind()))?;
        }
        let is_whole = self.objects().get(home).cpus == *cpus;
        let inner = Arc::new(Inner::new(cpus.clone(), home, is_whole, options, Box::new(work)));
        Ok(Task { inner, shared: Arc::clone(&self.shared) })
    }

    /// The object in whose queue a task for these CPUs waits.
    pub(crate) fn home_of(&self, cpus: &CpuSet) -> Result<ObjectId, TaskError> {
        self.objects().covering(cpus).ok_or_else(|| match cpus.is_empty() {
            true => TaskError::NoCpu,
            false => TaskError::Outside { cpus: cpus.clone(), online: self.shared.online().clone() },
        })
    }

    /// The machine's objects.
    pub fn objects(&self) -> &Objects {
        &self.shared.objects
    }

    /// The counters of an object's queue, which are not of one instant while tasks are submitted and run.
    pub fn stats(&self, object: ObjectId) -> QueueStats {
        let (shared, queue) = (&self.shared, self.shared.queue(object));
        let runners = shared.runners.read().unwrap_or_else(PoisonError::into_inner);
        let mut stats = *queue.counted.lock().unwrap_or_else(PoisonError::into_inner);
        runners.iter().for_each(|runner| runner.add_counters(object, &mut stats));
        let put_back = queue.put_back.load(Relaxed);
        stats.submitted = queue.news.count().saturating_sub(put_back);
        stats.waiting = queue.len();
        stats.waits = shared.is_timed.then(|| stats.waits.unwrap_or_default());
        stats
    }

    /// Takes no more tasks, and cancels those that wait. Runs that have begun come to their end. A masked task may stay
    /// pending until it is unmasked or cancelled. A thread that blocks for an event ends within its time limit.
    pub fn close(&self) {
        let shared = &self.shared;
        shared.is_closed.store(true, SeqCst);
        fence(SeqCst);
        for queue in &shared.queues {
            // With the count come the tasks that it counts.
            queue.news.count();
            queue.drain(
                || shared.now(),
                |_| true,
                || true,
                |inner| {
                    inner.state.cancel();
                    // The task has left its queue.
                    inner.state.begin();
                    shared.end_polling(&inner);
                    inner.tell_end();
                },
            );
        }
        shared.blockers.close();
        shared.wake_all();
    }
}

impl TaskQueuesBuilder {
    /// The room of each queue for tasks of each priority: one at least. Default: 256.
    pub fn room(mut self, tasks: usize) -> Self {
        self.room = tasks.max(1);
        self
    }

    /// Measures how long tasks wait ([`QueueStats::waits`]), by two readings of the clock for each submission, which
    /// take some 20 ns each. Default: no.
    pub fn timed(mut self, is_timed: bool) -> Self {
        self.is_timed = is_timed;
        self
    }

    /// The queues of a machine.
    pub fn build(&self, topology: &Topology) -> TaskQueues {
        let objects = Objects::of(topology);
        let queues = (0..objects.len()).map(|_| Queue::new(self.room)).collect();
        let shared = Shared {
            objects,
            queues,
            runners: RwLock::default(),
            blockers: Arc::default(),
            is_closed: AtomicBool::new(false),
            is_timed: self.is_timed,
            began: Instant::now(),
        };
        TaskQueues { shared: Arc::new(shared) }
    }
}

impl Shared {
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(SeqCst)
    }

    /// The time in nanoseconds.
    pub(crate) fn now(&self) -> u64 {
        super::task::nanoseconds(self.began.elapsed())
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
        &self.queues[object.0]
    }

    /// Queues a task whose state says so.
    #[inline]
    pub(crate) fn submit(&self, inner: &Arc<Inner>, near: ObjectId) -> Result<(), SubmitError> {
        inner.stamp(self.is_timed, || self.now());
        let Some(object) = self.push(inner) else {
            inner.state.refuse();
            inner.tell_end();
            return Err(SubmitError::Full);
        };
        self.announce(inner, object, near);
        self.end_if_closed(inner)
    }

    /// Queues a task again that was submitted while it ran.
    pub(crate) fn submit_again(&self, inner: &Arc<Inner>) {
        inner.stamp(self.is_timed, || self.now());
        self.put_back(inner);
    }

    /// Queues a task again that was held back or has waited for its event: there is always room for it.
    pub(crate) fn put_back(&self, inner: &Arc<Inner>) {
        let object = self.push_always(inner);
        self.queue(object).put_back.fetch_add(1, Relaxed);
        self.announce(inner, object, inner.home);
        // The owner sees from the task that it is over.
        let _ = self.end_if_closed(inner);
    }

    /// Queues a task again that polls, for the first time or not. A worker goes on with it; if another thread leaves
    /// it, a worker is woken.
    pub(crate) fn put_back_polling(&self, inner: &Arc<Inner>, is_by_worker: bool, is_first: bool) {
        let object = self.push_always(inner);
        // The thread that closes the queues finds the task, or this one ends it.
        fence(SeqCst);
        if !is_by_worker {
            self.queue(object).polling_news.add();
            if self.queue(inner.home).sleepers.are_there() {
                self.wake(inner, inner.home, |trigger| trigger == Trigger::Worker);
            }
        }
        if is_first {
            self.tell_timer(inner);
        }
        let _ = self.end_if_closed(inner);
    }

    /// A task polls no more.
    #[inline]
    pub(crate) fn end_polling(&self, inner: &Arc<Inner>) {
        if inner.end_polling() {
            self.queue(inner.home).remove_polling(inner);
        }
    }

    /// Wakes all threads that sleep, so that each looks at its queues.
    pub(crate) fn wake_all(&self) {
        let runners = self.runners.read().unwrap_or_else(PoisonError::into_inner);
        for runner in runners.iter() {
            runner.wake(self);
        }
    }

    /// A task was put into the queue of an object: the nearest thread that sleeps and may run it is woken.
    #[inline]
    fn announce(&self, inner: &Inner, object: ObjectId, near: ObjectId) {
        self.queue(object).news.add();
        // Each thread that may run the task counts as a sleeper of its home.
        if self.queue(inner.home).sleepers.are_there() {
            self.wake(inner, near, |trigger| trigger != Trigger::Timer);
        }
        if inner.is_for_timer() {
            self.tell_timer(inner);
        }
    }

    /// A task may be due at a time.
    fn tell_timer(&self, inner: &Inner) {
        if self.queue(inner.home).timers.are_there() {
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
            && !nearest.wake(self)
        {}
    }

    /// Puts a task into the queue of its home, or of an object around it if that is full.
    #[inline]
    fn push(&self, inner: &Arc<Inner>) -> Option<ObjectId> {
        if inner.is_whole && inner.due().is_none() && self.queue(inner.home).push(inner) {
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

    /// A task that came while the queues were closed may have come behind the others, which were cancelled.
    #[inline]
    fn end_if_closed(&self, inner: &Arc<Inner>) -> Result<(), SubmitError> {
        // The flag is in one order with the news.
        if !self.is_closed() {
            return Ok(());
        }
        inner.state.cancel();
        self.end_polling(inner);
        inner.tell_end();
        Err(SubmitError::Closed)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.blockers.close();
    }
}
