//! Tasks.

use super::{
    objects::ObjectId,
    queues::Shared,
    state::{State, Submit},
    sync::{AtomicBool, Relaxed},
};
use crate::SubmitError;
use rails_topo::CpuSet;
use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, PoisonError},
    thread::{self, Thread},
};

/// A piece of work with a CPU set, made once and submitted as often as wanted: a submission allocates nothing. Clones
/// are the same task.
#[derive(Clone)]
pub struct Task {
    pub(crate) inner: Arc<Inner>,
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Inner {
    pub(crate) state: State,
    work: Box<dyn Fn() -> Step + Send + Sync>,
    pub(crate) cpus: CpuSet,
    /// The smallest object that covers the CPUs.
    pub(crate) home: ObjectId,
    /// Whether it may run on all CPUs of its home.
    pub(crate) is_whole: bool,
    pub(crate) priority: Priority,
    has_panicked: AtomicBool,
    /// The threads that wait for its end.
    waiting: Mutex<Vec<Thread>>,
}

/// The result of a task's run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// It has nothing more to do, until it is submitted again.
    Done,
    /// It is to run again, as a task that polls for something.
    Again,
}

/// Which of the tasks in one queue run first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Priority {
    /// Before the normal ones.
    High,
    /// In the order in which they were submitted.
    #[default]
    Normal,
}

/// The outcome of a run.
pub(crate) enum Ran {
    Done,
    /// It polls: it goes into a queue again.
    Polling,
    /// It was submitted while it ran: it goes into a queue again.
    Submitted,
}

impl Inner {
    pub(crate) fn new(
        cpus: CpuSet,
        home: ObjectId,
        is_whole: bool,
        priority: Priority,
        work: Box<dyn Fn() -> Step + Send + Sync>,
    ) -> Self {
        let (state, has_panicked) = (State::new(), AtomicBool::new(false));
        Self { state, work, cpus, home, is_whole, priority, has_panicked, waiting: Mutex::default() }
    }

    /// Whether a thread with these CPUs may run it.
    pub(crate) fn allows(&self, cpus: &CpuSet) -> bool {
        cpus.is_subset(&self.cpus)
    }

    /// Runs it, once it has [begun](State::begin).
    pub(crate) fn run(&self) -> Ran {
        let step = catch_unwind(AssertUnwindSafe(&self.work)).unwrap_or_else(|_| {
            // The panic's hook has told of it.
            self.has_panicked.store(true, Relaxed);
            self.state.cancel();
            Step::Done
        });
        let is_polling = step == Step::Again;
        match self.state.end(is_polling) {
            true if is_polling => Ran::Polling,
            true => Ran::Submitted,
            false => {
                self.tell_end();
                Ran::Done
            }
        }
    }

    /// Wakes the threads that wait for its end, if it is not pending.
    pub(crate) fn tell_end(&self) {
        if self.state.take_awaited() {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            waiting.drain(..).for_each(|thread| thread.unpark());
        }
    }

    /// Has the calling thread woken at its end. Returns whether it is pending.
    pub(crate) fn await_end(&self) -> bool {
        let this = thread::current();
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let is_pending = self.state.await_end();
        waiting.retain(|other| other.id() != this.id());
        if is_pending {
            waiting.push(this);
        }
        is_pending
    }
}

impl Task {
    /// Puts the task into its queue, and wakes the nearest thread that sleeps and may run it. A task that is queued
    /// already stays there; one that runs is queued again after its run.
    ///
    /// # Errors
    /// [`SubmitError`]. The task is as before.
    pub fn submit(&self) -> Result<(), SubmitError> {
        self.submit_near(self.inner.home)
    }

    pub(crate) fn submit_near(&self, near: ObjectId) -> Result<(), SubmitError> {
        if self.shared.is_closed() {
            return Err(SubmitError::Closed);
        }
        match self.inner.state.submit() {
            Submit::Queue => self.shared.submit(&self.inner, near),
            Submit::Already => Ok(()),
            Submit::Cancelled => Err(SubmitError::Over),
        }
    }

    /// Ends the task: it does not run again. A run that has begun comes to its end. Returns whether it was pending.
    pub fn cancel(&self) -> bool {
        let was_pending = self.inner.state.cancel();
        self.inner.tell_end();
        was_pending
    }

    /// Keeps the task from running for now: it may be submitted, and runs once it is masked no more. A run that has begun
    /// comes to its end.
    pub fn mask(&self) {
        self.inner.state.mask();
    }

    /// Lets a masked task run again.
    pub fn unmask(&self) {
        if self.inner.state.unmask() {
            self.shared.put_back(&self.inner);
        }
    }

    /// Whether it is to run, or runs.
    pub fn is_pending(&self) -> bool {
        self.inner.state.is_pending()
    }

    /// Whether it does not run again: it was cancelled, or has panicked.
    pub fn is_over(&self) -> bool {
        self.inner.state.is_cancelled()
    }

    /// Whether a run has panicked. The task is over then.
    pub fn has_panicked(&self) -> bool {
        self.inner.has_panicked.load(Relaxed)
    }

    /// The CPUs on which it may run.
    pub fn cpus(&self) -> &CpuSet {
        &self.inner.cpus
    }

    /// The object in whose queue it waits.
    pub fn home(&self) -> ObjectId {
        self.inner.home
    }
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { state, cpus, home, priority, .. } = self;
        f.debug_struct("Task")
            .field("cpus", &cpus.to_string())
            .field("home", home)
            .field("priority", priority)
            .field("state", state)
            .finish_non_exhaustive()
    }
}
