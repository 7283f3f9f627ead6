//! Before a rail's thread sleeps, it runs the task queues' tasks, and it may stay awake for a
//! while.

use futures_util::task::AtomicWaker;
use rails_task::{AttachError, Helpers, Pass, Runner, TaskQueues};
use rails_topo::CpuSet;
use std::{
    cell::{Cell, RefCell},
    future::{Future, poll_fn},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

/// The hooks that tokio calls before the thread of a `current_thread` runtime sleeps, and after
/// that.
///
/// If the first hook wakes the future of `block_on`, tokio looks for events without sleeping, and
/// comes to the hook again. The hook does so as long as tasks of the queues have run, and for the
/// time that the thread is to stay awake, beginning when the thread has done all work that woke it.
/// Then the thread sleeps until the next event, or the next task.
#[derive(Debug)]
pub(super) struct Parking {
    stays_awake: Duration,
    /// The future of `block_on`.
    main: AtomicWaker,
    queues: Option<TaskQueues>,
    /// How often another thread has bound this one.
    moves: AtomicU64,
}

thread_local! {
    /// The end of the time in which this thread does not sleep; `None` if it has slept since the last one.
    static AWAKE_UNTIL: Cell<Option<Instant>> = const { Cell::new(None) };
    static RUNNER: RefCell<Option<RailRunner>> = const { RefCell::new(None) };
}

/// A rail's thread as one that runs tasks.
struct RailRunner {
    runner: Runner,
    /// The number of moves before the thread was attached. A thread that moves has other CPUs than
    /// it was attached for.
    moves: u64,
    is_asleep: Cell<bool>,
}

impl Parking {
    pub(super) fn new(stays_awake: Duration, queues: Option<TaskQueues>) -> Self {
        Self { stays_awake, main: AtomicWaker::new(), queues, moves: AtomicU64::new(0) }
    }

    /// Whether tokio needs the hooks.
    pub(super) fn is_needed(&self) -> bool {
        !self.stays_awake.is_zero() || self.runs_tasks()
    }

    /// Whether the thread runs tasks of queues.
    pub(super) fn runs_tasks(&self) -> bool {
        self.queues.is_some()
    }

    /// The future of `block_on`: ends with the other one.
    pub(super) async fn until(&self, mut end: impl Future + Unpin) {
        poll_fn(|context| {
            self.main.register(context.waker());
            Pin::new(&mut end).poll(context).map(drop)
        })
        .await;
    }

    /// Detaches the calling thread, whose runtime has ended, from the queues: it runs no more
    /// tasks.
    pub(super) fn detach(&self) {
        // The waker has the runtime, and the runtime the hooks with this.
        drop(self.main.take());
        RUNNER.set(None);
        Helpers::set_current(None);
    }

    /// Notes that another thread is about to bind this one, which then runs no tasks until it is
    /// attached anew.
    pub(super) fn suspend(&self) {
        self.moves.fetch_add(1, SeqCst);
    }

    /// Takes [`suspend`](Self::suspend) back: the thread was not bound after all. It
    /// may be asleep already, where no task would wake it.
    pub(super) fn resume(&self) {
        self.moves.fetch_sub(1, SeqCst);
        self.main.wake();
    }

    /// Makes the calling thread, which was placed, one that runs the queues' tasks, if there are
    /// queues.
    pub(super) fn attach(self: &Arc<Self>) -> Result<(), AttachError> {
        let Some(queues) = &self.queues else { return Ok(()) };
        RUNNER.set(None);
        let (moves, parking) = (self.moves.load(SeqCst), Arc::clone(self));
        let runner = queues.attach_with(move || parking.main.wake())?;
        RUNNER.set(Some(RailRunner { runner, moves, is_asleep: Cell::new(false) }));
        Ok(())
    }

    /// Gives the calling thread the helpers on these CPUs, if there are queues and CPUs.
    pub(super) fn set_helpers(&self, cpus: &CpuSet) {
        let Some(queues) = &self.queues else { return };
        let set = match Helpers::current() {
            Some(helpers) => helpers.move_to(cpus),
            None if cpus.is_empty() => Ok(()),
            None => {
                Helpers::new(queues, cpus).map(|helpers| Helpers::set_current(Some(helpers.while_busy(Instant::now()))))
            }
        };
        set.unwrap_or_else(|error| tracing::warn!(%error, "the further cores of a rail do not help it"));
    }

    /// tokio's hook before the thread sleeps.
    pub(super) fn before_sleep(&self) {
        if self.run_tasks() {
            return self.main.wake();
        }
        Self::note_idle(true);
        if self.stays_awake() || !self.begin_sleep() {
            self.main.wake();
        }
    }

    /// tokio's hook after the thread has slept, or looked for events.
    pub(super) fn after_sleep(&self) {
        Self::note_idle(false);
        let is_for_task = self.with_runner(|runner| runner.is_asleep.replace(false) && runner.runner.end_sleep());
        // The runtime may be busy for long from now on.
        if is_for_task == Some(true) && self.run_tasks() {
            self.main.wake();
        }
    }

    /// Tells the thread's helpers whether it has nothing to do.
    fn note_idle(is_idle: bool) {
        Helpers::with_current(|helpers| {
            if let Some(helpers) = helpers {
                helpers.set_asleep(is_idle, Instant::now());
            }
        });
    }

    /// Runs some of the tasks that wait, as long as the thread is where it was attached. Returns
    /// whether there may be more: tasks that poll wait for the next event.
    fn run_tasks(&self) -> bool {
        // Tasks that poll are as many as wait, and keep no thread awake.
        let goes_on = |pass: &Pass| pass.ran - pass.polling < MAX_TASKS;
        let run = |runner: &RailRunner| runner.runner.run_while(|pass| goes_on(pass) && self.is_placed(runner));
        self.with_runner(run).is_some_and(|pass| pass.ran > pass.polling)
    }

    fn stays_awake(&self) -> bool {
        if self.stays_awake.is_zero() {
            return false;
        }
        let now = Instant::now();
        let until = AWAKE_UNTIL.get().unwrap_or(now + self.stays_awake);
        AWAKE_UNTIL.set(Some(until).filter(|until| now < *until));
        now < until
    }

    /// Has the next task wake the thread. Returns whether the thread may sleep.
    fn begin_sleep(&self) -> bool {
        let begin = |runner: &RailRunner| {
            if self.is_placed(runner) {
                runner.is_asleep.set(runner.runner.begin_sleep());
                return runner.is_asleep.get();
            }
            true
        };
        self.with_runner(begin).unwrap_or(true)
    }

    fn is_placed(&self, runner: &RailRunner) -> bool {
        runner.moves == self.moves.load(SeqCst)
    }

    fn with_runner<T>(&self, act: impl FnOnce(&RailRunner) -> T) -> Option<T> {
        RUNNER.with_borrow(|runner| runner.as_ref().map(act))
    }
}

/// The most tasks, besides those that poll, that run before the runtime looks for events.
const MAX_TASKS: usize = 16;
