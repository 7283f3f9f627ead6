//! A task as its handles, its queue and the threads that run it share it.

use super::{
    objects::ObjectId,
    options::{TaskOptions, TaskPriority},
    state::TaskState,
    sync::{AtomicBool, AtomicU64, Mutex, Relaxed, Thread, thread},
};
use rails_topo::CpuSet;
use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::PoisonError,
    time::Duration,
};

pub(crate) struct Inner {
    pub(crate) state: TaskState,
    work: Box<dyn Fn() -> Step + Send + Sync>,
    pub(crate) cpus: CpuSet,
    /// The smallest object that covers the CPUs.
    pub(crate) home: ObjectId,
    /// Whether the task may run on all CPUs of its home.
    pub(crate) covers_home: bool,
    pub(crate) priority: TaskPriority,
    pub(crate) options: TaskOptions,
    has_panicked: AtomicBool,
    /// The threads that wait for the task's end.
    waiting: Mutex<Vec<Thread>>,

    // Times in nanoseconds of the queues' clock, and facts of a task that polls. The thread that has put the task into
    // a state or taken it out of its queue is the only one that uses them.
    submitted: AtomicU64,
    /// The task's deadline, or [`NEVER`].
    due: AtomicU64,
    /// The time since which the task polls, or [`NEVER`].
    polls_since: AtomicU64,
    /// Whether the queue of the task's home lists it as one that polls.
    is_listed: AtomicBool,
}

/// Stands for "no time".
const NEVER: u64 = u64::MAX;

/// The result of a task's run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The task has nothing more to do, until it is submitted again.
    Done,
    /// The task is to run again, as one that polls for something.
    Again,
}

impl Inner {
    pub(crate) fn new(
        cpus: CpuSet,
        home: ObjectId,
        covers_home: bool,
        options: TaskOptions,
        work: Box<dyn Fn() -> Step + Send + Sync>,
    ) -> Self {
        Self {
            state: TaskState::new(),
            work,
            cpus,
            home,
            covers_home,
            priority: options.priority,
            options,
            has_panicked: AtomicBool::new(false),
            waiting: Mutex::default(),
            submitted: AtomicU64::new(0),
            due: AtomicU64::new(NEVER),
            polls_since: AtomicU64::new(NEVER),
            is_listed: AtomicBool::new(false),
        }
    }

    /// Whether a thread with these CPUs may run the task.
    #[inline]
    pub(crate) fn allows(&self, cpus: &CpuSet) -> bool {
        cpus.is_subset(&self.cpus)
    }

    /// Notes the time of a submission.
    #[inline]
    pub(crate) fn stamp_submission(&self, is_timed: bool, clock: impl Fn() -> u64) {
        let time = self.options.run_within;
        if is_timed || time.is_some() {
            let now = clock();
            self.submitted.store(now, Relaxed);
            self.due.store(time.map_or(NEVER, |time| now.saturating_add(nanoseconds(time))), Relaxed);
        }
    }

    /// Forgets the times of a submission whose run begins. Returns the time that it has waited if
    /// that is known, and whether it has missed its deadline.
    #[inline]
    pub(crate) fn take_submission(&self, is_timed: bool, clock: impl Fn() -> u64) -> (Option<u64>, bool) {
        let due = self.due();
        // The later runs of a polling task follow no submission.
        let is_first = is_timed && self.submitted.load(Relaxed) != NEVER;
        if !is_first && due.is_none() {
            return (None, false);
        }
        let now = clock();
        let submitted = self.submitted.swap(NEVER, Relaxed);
        self.due.store(NEVER, Relaxed);
        (is_timed.then(|| now.saturating_sub(submitted)), due.is_some_and(|due| due <= now))
    }

    /// The task's deadline, if its run has not begun.
    pub(crate) fn due(&self) -> Option<u64> {
        Some(self.due.load(Relaxed)).filter(|due| *due != NEVER)
    }

    /// Whether the task is one for a timer: it has a deadline, or polls.
    #[inline]
    pub(crate) fn is_for_timer(&self) -> bool {
        self.options.run_within.is_some() || self.is_listed.load(Relaxed)
    }

    /// Calls the work of a task that has [begun](TaskState::begin).
    #[inline]
    pub(crate) fn step(&self) -> Step {
        catch_unwind(AssertUnwindSafe(&self.work)).unwrap_or_else(|_| {
            self.note_panic();
            Step::Done
        })
    }

    /// Whether the task has polled in vain long enough to block.
    pub(crate) fn should_block(&self, clock: impl Fn() -> u64) -> bool {
        self.options.blocking.as_ref().is_some_and(|blocking| {
            let now = clock();
            let since = self.polls_since.load(Relaxed).min(now);
            self.polls_since.store(since, Relaxed);
            now - since >= nanoseconds(blocking.after)
        })
    }

    /// Ends a time of polling. Returns whether the queue of the task's home lists it, and has to
    /// drop it from the list.
    #[inline]
    pub(crate) fn end_polling(&self) -> bool {
        self.polls_since.store(NEVER, Relaxed);
        self.is_listed.load(Relaxed) && self.is_listed.swap(false, Relaxed)
    }

    /// Notes that the task polls. Returns whether the queue of its home has to list it.
    pub(crate) fn begin_polling(&self) -> bool {
        !self.is_listed.load(Relaxed) && !self.is_listed.swap(true, Relaxed)
    }

    /// Blocks until the task's event or for the time limit. Returns whether the event has come.
    pub(crate) fn block(&self, limit: Duration) -> bool {
        let wait = &self.options.blocking.as_ref().expect("it has a blocking variant").wait;
        catch_unwind(AssertUnwindSafe(|| wait(limit))).unwrap_or_else(|_| {
            self.note_panic();
            self.wake_waiters();
            false
        })
    }

    /// Ends the task, whose panic the panic hook has reported.
    #[cold]
    fn note_panic(&self) {
        self.has_panicked.store(true, Relaxed);
        self.state.cancel();
    }

    /// Wakes the threads that wait for the task's end, if it is not pending.
    pub(crate) fn wake_waiters(&self) {
        if self.state.take_awaited() {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            waiting.drain(..).for_each(|thread| thread.unpark());
        }
    }

    /// Whether a run has panicked.
    pub(crate) fn has_panicked(&self) -> bool {
        self.has_panicked.load(Relaxed)
    }

    /// Has the calling thread woken at the task's end. Returns whether the task is pending.
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

/// A duration in nanoseconds, of hundreds of years at most.
pub(crate) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
