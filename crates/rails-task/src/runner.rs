//! Threads that run tasks.

use super::{
    error::AttachError,
    objects::ObjectId,
    queues::{Queue, Shared, TaskQueues},
    state::Begin,
    task::{Inner, Ran, Task},
    wakeup::{Asleep, Sleepers},
};
use crate::SubmitError;
use rails_topo::CpuSet;
use std::{
    cell::Cell,
    fmt,
    marker::PhantomData,
    sync::{Arc, PoisonError},
    thread,
    time::Duration,
};

/// The calling thread as one that runs tasks: those of the smallest object that covers the thread's CPUs, and of the
/// objects around it. It never runs one that is not allowed on each of the thread's CPUs.
#[derive(Debug)]
pub struct Runner {
    shared: Arc<Shared>,
    sleeper: Arc<Sleeper>,
    /// The thread's object and those around it, with the news of their queues that the last pass has seen.
    path: Vec<(ObjectId, Cell<[u64; 2]>)>,
    /// It belongs to its thread.
    thread: PhantomData<*const ()>,
}

/// A thread that runs tasks, as submitters see it.
pub(crate) struct Sleeper {
    pub(crate) object: ObjectId,
    cpus: CpuSet,
    /// Whether it goes on with tasks that poll.
    pub(crate) is_worker: bool,
    asleep: Asleep,
    wake: Box<dyn Fn() + Send + Sync>,
}

/// The outcome of one pass through the queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Pass {
    /// The tasks that ran.
    pub ran: usize,
    /// Those of them that poll: they want to run again.
    pub polling: usize,
}

impl TaskQueues {
    /// Makes the calling thread one that runs tasks. It is woken from [`Runner::sleep`] when a task comes.
    ///
    /// The thread has to stay on its CPUs as long as it runs tasks: bind it before
    /// ([`rails_bind::thread::bind_current`]).
    ///
    /// # Errors
    /// [`AttachError`].
    pub fn attach(&self) -> Result<Runner, AttachError> {
        let thread = thread::current();
        self.attach_with(move || thread.unpark())
    }

    /// As [`attach`](Self::attach), for a thread that sleeps in a place of its own, as in the runtime's: `wake` ends a
    /// sleep there, or the next one if it has not begun. It may not call these queues, which are locked meanwhile.
    /// [`Runner::begin_sleep`] has to say that the thread may sleep.
    ///
    /// # Errors
    /// [`AttachError`].
    pub fn attach_with(&self, wake: impl Fn() + Send + Sync + 'static) -> Result<Runner, AttachError> {
        self.attach_as(false, Box::new(wake))
    }

    /// The calling thread as one that does nothing else.
    pub(crate) fn attach_worker(&self) -> Result<Runner, AttachError> {
        let thread = thread::current();
        self.attach_as(true, Box::new(move || thread.unpark()))
    }

    fn attach_as(&self, is_worker: bool, wake: Box<dyn Fn() + Send + Sync>) -> Result<Runner, AttachError> {
        let cpus = rails_bind::thread::current_affinity()?;
        let objects = &self.shared.objects;
        let Some(object) = objects.covering(&cpus) else {
            return Err(AttachError::Outside { cpus, online: self.shared.online().clone() });
        };
        let sleeper = Arc::new(Sleeper { object, cpus, is_worker, asleep: Asleep::default(), wake });
        self.shared.runners.write().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&sleeper));
        let path = objects.path(object).map(|object| (object, Cell::new([0; 2]))).collect();
        Ok(Runner { shared: Arc::clone(&self.shared), sleeper, path, thread: PhantomData })
    }
}

impl Runner {
    /// Runs the tasks that wait in the queue of the thread's object and then in those of the objects around it. Those
    /// that come meanwhile, polling tasks among them, wait for the next pass.
    pub fn run(&self) -> Pass {
        self.run_while(|_| true)
    }

    /// As [`run`](Self::run), as long as `goes_on` says so before each task, which gets the pass so far. Tasks that are left
    /// keep the thread from [sleeping](Self::begin_sleep).
    pub fn run_while(&self, goes_on: impl Fn(&Pass) -> bool) -> Pass {
        let mut pass = Pass::default();
        for (object, seen) in &self.path {
            let queue = self.shared.queue(*object);
            let news = self.news(queue);
            let is_allowed = |inner: &Inner| inner.allows(&self.sleeper.cpus);
            let mut tasks = queue.take(is_allowed);
            loop {
                if !goes_on(&pass) {
                    return pass;
                }
                let Some(inner) = tasks.next() else { break };
                self.handle(&inner, *object, &mut pass);
            }
            seen.set(news);
        }
        pass
    }

    /// Submits a task. Of the threads that sleep and may run it, the one nearest to this thread is woken.
    ///
    /// # Errors
    /// [`SubmitError`].
    pub fn submit(&self, task: &Task) -> Result<(), SubmitError> {
        task.submit_near(self.sleeper.object)
    }

    /// Runs tasks until this one is not pending, and sleeps while there is none to run.
    pub fn wait(&self, task: &Task) {
        while task.is_pending() {
            let pass = self.run();
            if pass.ran == 0 && task.inner.await_end() {
                self.sleep(None);
            }
        }
    }

    /// Sleeps until a task comes that this thread may run, or the time is over, if there is a time. It may return early.
    pub fn sleep(&self, time: Option<Duration>) {
        if !self.begin_sleep() {
            return;
        }
        match time {
            Some(time) => thread::park_timeout(time),
            None => thread::park(),
        }
        self.end_sleep();
    }

    /// Says that the thread is about to sleep. Returns whether it may: there is no task that the last
    /// [pass](Self::run) has not seen. From then on a task that comes wakes it.
    pub fn begin_sleep(&self) -> bool {
        self.sleeper.asleep.fall(&self.shared.sleepers, || self.has_news())
    }

    /// Says that the thread is awake. Returns whether a task has woken it: no other thread was woken for that task, so the
    /// caller [runs](Self::run) tasks before it does anything that takes long.
    pub fn end_sleep(&self) -> bool {
        !self.sleeper.asleep.wake(&self.shared.sleepers)
    }

    /// The object whose tasks it runs first.
    pub fn object(&self) -> ObjectId {
        self.sleeper.object
    }

    /// Whether the queues are closed.
    pub fn is_closed(&self) -> bool {
        self.shared.is_closed()
    }

    /// Whether there are tasks that the last pass has not seen.
    fn has_news(&self) -> bool {
        self.path.iter().any(|(object, seen)| self.news(self.shared.queue(*object)) != seen.get())
    }

    /// The news of a queue that keep this thread from sleeping.
    fn news(&self, queue: &Queue) -> [u64; 2] {
        [queue.news.count(), if self.sleeper.is_worker { queue.polling_news.count() } else { 0 }]
    }

    /// Runs a task that was in the queue of an object.
    fn handle(&self, inner: &Arc<Inner>, object: ObjectId, pass: &mut Pass) {
        match inner.state.begin() {
            Begin::Cancelled => inner.tell_end(),
            Begin::Held => {}
            Begin::Run => {
                self.shared.queue(object).count_run(object == self.sleeper.object);
                pass.ran += 1;
                match inner.run() {
                    Ran::Done => {}
                    Ran::Submitted => self.shared.put_back(inner),
                    Ran::Polling => {
                        pass.polling += 1;
                        self.shared.put_back_polling(inner, self.sleeper.is_worker);
                    }
                }
            }
        }
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        self.end_sleep();
        let mut runners = self.shared.runners.write().unwrap_or_else(PoisonError::into_inner);
        runners.retain(|other| !Arc::ptr_eq(other, &self.sleeper));
        // It may have been woken for a task that it has not run.
        if self.has_news() {
            for other in runners.iter() {
                other.wake(&self.shared.sleepers);
            }
        }
    }
}

impl Sleeper {
    pub(crate) fn is_asleep(&self) -> bool {
        self.asleep.is_set()
    }

    pub(crate) fn may_run(&self, inner: &Inner) -> bool {
        inner.allows(&self.cpus)
    }

    /// Wakes the thread if it sleeps. Returns whether it did.
    pub(crate) fn wake(&self, sleepers: &Sleepers) -> bool {
        let slept = self.asleep.wake(sleepers);
        if slept {
            (self.wake)();
        }
        slept
    }
}

impl fmt::Debug for Sleeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleeper").field("object", &self.object).field("cpus", &self.cpus.to_string()).finish()
    }
}
