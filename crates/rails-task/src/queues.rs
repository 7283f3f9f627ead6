//! The queues of a machine's objects.

use super::{
    error::TaskError,
    objects::{ObjectId, Objects},
    runner::Sleeper,
    sync::{Acquire, AtomicBool, AtomicU64, AtomicUsize, Relaxed, Release, SeqCst, fence},
    task::{Inner, Priority, Step, Task},
    wakeup::{News, Sleepers},
};
use crate::SubmitError;
use crossbeam_queue::ArrayQueue;
use rails_topo::{CpuSet, Topology};
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
};

/// The task queues of a machine, one for each [object](crate::Object). Clones are the same queues.
#[derive(Debug, Clone)]
pub struct TaskQueues {
    pub(crate) shared: Arc<Shared>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) objects: Objects,
    queues: Vec<Queue>,
    pub(crate) sleepers: Sleepers,
    /// The threads that run tasks.
    pub(crate) runners: RwLock<Vec<Arc<Sleeper>>>,
    is_closed: AtomicBool,
}

/// The queue of an object.
#[derive(Debug)]
pub(crate) struct Queue {
    /// The tasks that every thread of the object may run, by priority.
    rings: [ArrayQueue<Arc<Inner>>; 2],
    /// Those that some of its threads may run, and those that found their ring full, by priority.
    others: Mutex<[VecDeque<Arc<Inner>>; 2]>,
    /// Their number, so that none is seen without the lock.
    other_count: AtomicUsize,
    room: usize,
    pub(crate) news: News,
    /// Those that poll, and were left by a thread that may not come back.
    pub(crate) polling_news: News,
    submitted: AtomicU64,
    run_here: AtomicU64,
    run_below: AtomicU64,
}

/// The counters of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct QueueStats {
    /// Tasks that were submitted to it.
    pub submitted: u64,
    /// Runs by threads of this object.
    pub run_here: u64,
    /// Runs by threads of the objects inside it.
    pub run_below: u64,
    /// Tasks that wait in it now.
    pub waiting: usize,
}

impl TaskQueues {
    /// The queues of a machine, each with room for so many tasks of each priority: one at least.
    pub fn new(topology: &Topology, room: usize) -> Self {
        let objects = Objects::of(topology);
        let queues = (0..objects.len()).map(|_| Queue::new(room.max(1))).collect();
        let shared = Shared {
            objects,
            queues,
            sleepers: Sleepers::default(),
            runners: RwLock::default(),
            is_closed: AtomicBool::new(false),
        };
        Self { shared: Arc::new(shared) }
    }

    /// A task that may run on these CPUs and on no others. It waits in the queue of the smallest object that covers them.
    /// Work that panics ends its task, and nothing else.
    ///
    /// # Errors
    /// [`TaskError`].
    pub fn task(
        &self,
        cpus: &CpuSet,
        priority: Priority,
        work: impl Fn() -> Step + Send + Sync + 'static,
    ) -> Result<Task, TaskError> {
        let home = self.home_of(cpus)?;
        let is_whole = self.objects().get(home).cpus == *cpus;
        let inner = Arc::new(Inner::new(cpus.clone(), home, is_whole, priority, Box::new(work)));
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

    /// The counters of an object's queue.
    pub fn stats(&self, object: ObjectId) -> QueueStats {
        let queue = &self.shared.queues[object.0];
        QueueStats {
            submitted: queue.submitted.load(Relaxed),
            run_here: queue.run_here.load(Relaxed),
            run_below: queue.run_below.load(Relaxed),
            waiting: queue.rings.iter().map(ArrayQueue::len).sum::<usize>() + queue.other_count.load(Relaxed),
        }
    }

    /// Takes no more tasks, and cancels those that wait. Runs that have begun come to their end. A masked task may stay
    /// pending until it is unmasked or cancelled.
    pub fn close(&self) {
        self.shared.is_closed.store(true, Release);
        fence(SeqCst);
        for inner in self.shared.queues.iter().flat_map(|queue| queue.take(|_| true)) {
            inner.state.cancel();
            // It is in no queue any more.
            inner.state.begin();
            inner.tell_end();
        }
        let runners = self.shared.runners.read().unwrap_or_else(PoisonError::into_inner);
        for runner in runners.iter() {
            runner.wake(&self.shared.sleepers);
        }
    }
}

impl Shared {
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Acquire)
    }

    pub(crate) fn online(&self) -> &CpuSet {
        &self.objects.get(ObjectId(0)).cpus
    }

    pub(crate) fn queue(&self, object: ObjectId) -> &Queue {
        &self.queues[object.0]
    }

    /// Queues a task whose state says so.
    pub(crate) fn submit(&self, inner: &Arc<Inner>, near: ObjectId) -> Result<(), SubmitError> {
        let Some(object) = self.push(inner) else {
            inner.state.refuse();
            inner.tell_end();
            return Err(SubmitError::Full);
        };
        self.queue(object).submitted.fetch_add(1, Relaxed);
        self.announce(inner, object, near);
        self.end_if_closed(inner)
    }

    /// Queues a task again that runs or was held back: there is always room for it.
    pub(crate) fn put_back(&self, inner: &Arc<Inner>) {
        let object = self.push_always(inner);
        self.announce(inner, object, inner.home);
        // Its owner learns of it from the task.
        let _ = self.end_if_closed(inner);
    }

    /// Queues a task again that polls. A worker goes on with it; if another thread leaves it, a worker is woken.
    pub(crate) fn put_back_polling(&self, inner: &Arc<Inner>, is_by_worker: bool) {
        let object = self.push_always(inner);
        // The thread that closes the queues finds it, or this one ends it.
        fence(SeqCst);
        if !is_by_worker {
            self.queue(object).polling_news.add();
            if self.sleepers.are_there() {
                self.wake(inner, inner.home, |runner| runner.is_worker);
            }
        }
        let _ = self.end_if_closed(inner);
    }

    /// A task was put into the queue of an object: the nearest thread that sleeps and may run it is woken.
    fn announce(&self, inner: &Inner, object: ObjectId, near: ObjectId) {
        self.queue(object).news.add();
        if self.sleepers.are_there() {
            self.wake(inner, near, |_| true);
        }
    }

    #[cold]
    fn wake(&self, inner: &Inner, near: ObjectId, is_meant: impl Fn(&Sleeper) -> bool) {
        let runners = self.runners.read().unwrap_or_else(PoisonError::into_inner);
        let may_run = |runner: &&Arc<Sleeper>| runner.is_asleep() && is_meant(runner) && runner.may_run(inner);
        let distance = |runner: &&Arc<Sleeper>| self.objects.distance(near, runner.object);
        // Another submitter may have woken it meanwhile.
        while let Some(nearest) = runners.iter().filter(may_run).min_by_key(distance)
            && !nearest.wake(&self.sleepers)
        {}
    }

    /// Puts a task into the queue of its home, or of an object around it if that is full.
    fn push(&self, inner: &Arc<Inner>) -> Option<ObjectId> {
        if inner.is_whole && self.queue(inner.home).push(inner) {
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
    fn end_if_closed(&self, inner: &Arc<Inner>) -> Result<(), SubmitError> {
        // Each push is followed by a fence.
        if !self.is_closed() {
            return Ok(());
        }
        inner.state.cancel();
        inner.tell_end();
        Err(SubmitError::Closed)
    }
}

impl Queue {
    fn new(room: usize) -> Self {
        Self {
            rings: [ArrayQueue::new(room), ArrayQueue::new(room)],
            others: Mutex::new([VecDeque::with_capacity(room), VecDeque::with_capacity(room)]),
            other_count: AtomicUsize::new(0),
            room,
            news: News::default(),
            polling_news: News::default(),
            submitted: AtomicU64::new(0),
            run_here: AtomicU64::new(0),
            run_below: AtomicU64::new(0),
        }
    }

    fn push(&self, inner: &Arc<Inner>) -> bool {
        self.rings[inner.priority as usize].push(Arc::clone(inner)).is_ok()
    }

    fn others(&self) -> MutexGuard<'_, [VecDeque<Arc<Inner>>; 2]> {
        self.others.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push_other(&self, inner: &Arc<Inner>, is_beyond_room: bool) -> bool {
        let others = &mut self.others()[inner.priority as usize];
        let has_room = others.len() < self.room || is_beyond_room;
        if has_room {
            others.push_back(Arc::clone(inner));
            self.other_count.fetch_add(1, Relaxed);
        }
        has_room
    }

    /// Takes the tasks that wait and are allowed, the urgent ones first. Those that come meanwhile are not among them.
    pub(crate) fn take(&self, is_allowed: impl Fn(&Inner) -> bool + Copy) -> impl Iterator<Item = Arc<Inner>> {
        (0..2).flat_map(move |priority| {
            let ring = &self.rings[priority];
            // Empty queues are seen without a lock, and without taking a task.
            let count = if ring.is_empty() { 0 } else { ring.len() };
            let others = if self.other_count.load(Relaxed) == 0 { 0 } else { self.others()[priority].len() };
            let one_of_others = move || {
                let others = &mut self.others()[priority];
                let index = others.iter().position(|inner| is_allowed(inner))?;
                self.other_count.fetch_sub(1, Relaxed);
                others.remove(index)
            };
            (0..count).map_while(|_| ring.pop()).chain((0..others).map_while(move |_| one_of_others()))
        })
    }

    pub(crate) fn count_run(&self, is_here: bool) {
        (if is_here { &self.run_here } else { &self.run_below }).fetch_add(1, Relaxed);
    }
}
