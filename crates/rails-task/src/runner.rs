//! Threads that run tasks.

use super::{
    blocking::Blockers,
    counters::Counters,
    error::{AttachError, SubmitError},
    inner::{Inner, Step},
    objects::ObjectId,
    queue::Queue,
    queues::Queues,
    sleeper::{Sleeper, Trigger},
    state::{Begin, End},
    sync::{SeqCst, fence, is_on, thread},
    task::Task,
    task_queues::TaskQueues,
};
use rails_bind::{Property, Unheld};
use rails_topo::CpuSet;
use std::{cell::Cell, marker::PhantomData, sync::Arc, time::Duration};

/// Makes the thread that owns it run tasks: those of the smallest object that covers the thread's
/// CPUs, and of the objects around that one. A task runs only if it is allowed on each of the
/// thread's CPUs.
#[derive(Debug)]
pub struct Runner {
    queues: Arc<Queues>,
    blockers: Arc<Blockers>,
    sleeper: Arc<Sleeper>,
    /// The news of the thread's queues that the last pass has seen.
    seen: Vec<Cell<[u64; 2]>>,
    /// Whether the queues' end has kept the thread from sleeping.
    has_seen_end: Cell<bool>,
    /// Whether the last pass found the thread elsewhere than on its CPUs, which are offline.
    is_displaced: Cell<bool>,
    /// Keeps the runner on its thread.
    thread: PhantomData<*const ()>,
}

/// The outcome of one pass through the queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Pass {
    /// The tasks that ran.
    pub ran: usize,
    /// The tasks among them that poll: they want to run again.
    pub polling: usize,
}

impl TaskQueues {
    /// Makes the calling thread one that runs tasks. It is woken from [`Runner::sleep`] when a task
    /// comes.
    ///
    /// The thread has to stay on its CPUs as long as it runs tasks: bind it before
    /// ([`rails_bind::thread::bind_current`]). A thread whose CPUs cannot be read may be on any CPU
    /// of the machine, and runs only tasks that are allowed everywhere.
    ///
    /// # Errors
    /// [`AttachError`].
    pub fn attach(&self) -> Result<Runner, AttachError> {
        let thread = thread::current();
        self.attach_with(move || thread.unpark())
    }

    /// As [`attach`](Self::attach), for a thread that sleeps elsewhere than in [`Runner::sleep`],
    /// such as in an async runtime: `wake` ends a sleep there, or the next one if it has not begun.
    /// `wake` may not call these queues, which are locked meanwhile. [`Runner::begin_sleep`] has to
    /// say that the thread may sleep.
    ///
    /// # Errors
    /// [`AttachError`].
    pub fn attach_with(&self, wake: impl Fn() + Send + Sync + 'static) -> Result<Runner, AttachError> {
        let cpus = match rails_bind::thread::current_affinity() {
            Ok(cpus) => cpus,
            Err(error) => Unheld::by_refusal(Property::Cpus, error).map(|_| self.queues.online().clone())?,
        };
        self.attach_as(Trigger::Caller, cpus, Box::new(wake))
    }

    /// As [`attach`](Self::attach), for a thread on these CPUs that does nothing but run tasks.
    pub(crate) fn attach_trigger(&self, trigger: Trigger, cpus: CpuSet) -> Result<Runner, AttachError> {
        let thread = thread::current();
        self.attach_as(trigger, cpus, Box::new(move || thread.unpark()))
    }

    fn attach_as(
        &self,
        trigger: Trigger,
        cpus: CpuSet,
        wake: Box<dyn Fn() + Send + Sync>,
    ) -> Result<Runner, AttachError> {
        let objects = &self.queues.objects;
        let Some(object) = objects.covering(&cpus) else {
            return Err(AttachError::Outside { cpus, online: self.queues.online().clone() });
        };
        let sleeper = Arc::new(Sleeper::new(object, objects, cpus, trigger, wake));
        let seen = sleeper.path.iter().map(|_| Cell::new([0; 2])).collect();
        let (has_seen_end, is_displaced) = (Cell::new(false), Cell::new(false));
        self.queues.add_runner(Arc::clone(&sleeper));
        let (queues, blockers) = (Arc::clone(&self.queues), Arc::clone(&self.blockers));
        Ok(Runner { queues, blockers, sleeper, seen, has_seen_end, is_displaced, thread: PhantomData })
    }
}

impl Runner {
    /// Runs the tasks that wait in the queue of the thread's object and then in those of the
    /// objects around it. Those that come meanwhile, polling tasks among them, wait for the
    /// next pass. Runs none while the thread's CPUs are offline.
    #[inline]
    pub fn run(&self) -> Pass {
        self.run_while(|_| true)
    }

    /// As [`run`](Self::run), as long as `goes_on` says so before each task, which gets the pass so
    /// far. Tasks that are left keep the thread from [sleeping](Self::begin_sleep).
    #[inline]
    pub fn run_while(&self, goes_on: impl Fn(&Pass) -> bool) -> Pass {
        let pass = Cell::new(Pass::default());
        self.is_displaced.set(false);
        let goes_on = || {
            self.is_displaced.set(!self.is_in_place());
            goes_on(&pass.get()) && !self.is_displaced.get()
        };
        for ((object, counters), seen) in self.sleeper.path.iter().zip(&self.seen) {
            let queue = self.queues.queue(*object);
            let news = self.news(queue);
            let is_allowed = |inner: &Inner| inner.allows(&self.sleeper.cpus);
            let then = |inner: Arc<Inner>| {
                let mut so_far = pass.get();
                self.handle(&inner, counters, &mut so_far);
                pass.set(so_far);
            };
            // A thread that is astray may sleep, and looks again by itself.
            if queue.drain(|| self.queues.now(), is_allowed, goes_on, then) || self.is_displaced.get() {
                seen.set(news);
            } else {
                break;
            }
        }
        pass.get()
    }

    /// Submits a task. Of the threads that sleep and may run it, the one nearest to this thread is
    /// woken.
    ///
    /// # Errors
    /// [`SubmitError`].
    #[inline]
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

    /// Sleeps until a task comes that this thread may run, or the time is over, if there is a time.
    /// The sleep may end early.
    pub fn sleep(&self, time: Option<Duration>) {
        if !self.begin_sleep() {
            return;
        }
        let time = if self.is_displaced.get() {
            Some(time.map_or(RECHECK_INTERVAL, |time| time.min(RECHECK_INTERVAL)))
        } else {
            time
        };
        match time {
            Some(time) => thread::park_timeout(time),
            None => thread::park(),
        }
        self.end_sleep();
    }

    /// Whether the thread is on its CPUs. The kernel lets a thread run anywhere whose CPUs go
    /// offline, also after they are back, so this binds the thread again.
    #[inline]
    fn is_in_place(&self) -> bool {
        is_on(&self.sleeper.cpus) || is_bound_again(&self.sleeper.cpus)
    }

    /// Says that the thread is about to sleep. Returns whether it may: there is no task that the
    /// last [pass](Self::run) has not seen. From then on a task that comes wakes it, and so
    /// does the end of the queues; if they are closed already, the first call returns `false`.
    pub fn begin_sleep(&self) -> bool {
        self.fall_asleep(|| self.path().zip(&self.seen).any(|(queue, seen)| self.news(queue) != seen.get()))
    }

    /// As [`begin_sleep`](Self::begin_sleep), with other news. The closing of the queues is among
    /// them, once.
    pub(crate) fn fall_asleep(&self, has_news: impl FnOnce() -> bool) -> bool {
        let has_news = || self.is_closed() && !self.has_seen_end.replace(true) || has_news();
        self.sleeper.fall_asleep(&self.queues.by_object, has_news)
    }

    /// Whether a task polls that this thread may run.
    pub(crate) fn has_polling_task(&self) -> bool {
        self.path().any(|queue| queue.has_polling(|inner| inner.allows(&self.sleeper.cpus)))
    }

    /// The next deadline of a task that this thread may run, in nanoseconds of the queues' clock.
    pub(crate) fn next_due(&self) -> Option<u64> {
        self.path().filter_map(|queue| queue.next_due(|inner| inner.allows(&self.sleeper.cpus))).min()
    }

    /// The time until an instant of the queues' clock.
    pub(crate) fn until(&self, instant: u64) -> Duration {
        self.queues.until(instant)
    }

    /// Passes the wake-ups that this thread got, and has not followed, on to other threads.
    pub(crate) fn pass_on_wakes(&self) {
        self.end_sleep();
        fence(SeqCst);
        if self.path().any(|queue| queue.len() > 0) {
            self.queues.wake_all();
        }
    }

    /// Says that the thread is awake. Returns whether a task has woken it: no other thread was
    /// woken for that task, so the caller [runs](Self::run) tasks before it does anything that
    /// takes long.
    pub fn end_sleep(&self) -> bool {
        !self.sleeper.end_sleep(&self.queues.by_object)
    }

    /// The object whose tasks the thread runs first.
    pub fn object(&self) -> ObjectId {
        self.sleeper.object
    }

    /// Whether the queues are closed.
    pub fn is_closed(&self) -> bool {
        self.queues.is_closed()
    }

    /// The news of a queue that keep this thread awake.
    #[inline]
    fn news(&self, queue: &Queue) -> [u64; 2] {
        let is_idle = self.sleeper.trigger == Trigger::Idle;
        [queue.news.count(), if is_idle { queue.polling_news.count() } else { 0 }]
    }

    fn path(&self) -> impl Iterator<Item = &Queue> {
        self.sleeper.path.iter().map(|(object, _)| self.queues.queue(*object))
    }

    /// Runs a task that was in a queue.
    #[inline]
    fn handle(&self, inner: &Arc<Inner>, counters: &Counters, pass: &mut Pass) {
        match inner.state.begin() {
            Begin::Cancelled => {
                self.queues.end_polling(inner);
                inner.wake_waiters();
            }
            Begin::Held => {}
            Begin::Run => {
                let (waited, has_missed) = inner.take_submission(self.queues.is_timed, || self.queues.now());
                if let Some(waited) = waited {
                    counters.add_wait(waited);
                }
                if has_missed {
                    counters.add_missed();
                }
                counters.add_run();
                pass.ran += 1;
                match inner.step() {
                    Step::Done => {
                        self.queues.end_polling(inner);
                        self.finish_run(inner, inner.state.end(false));
                    }
                    Step::Again => self.requeue_polling(inner, pass),
                }
            }
        }
    }

    /// Handles a task that has run, and is to run again.
    fn requeue_polling(&self, inner: &Arc<Inner>, pass: &mut Pass) {
        if inner.should_block(|| self.queues.now()) {
            self.queues.end_polling(inner);
            return self.finish_run(inner, inner.state.block());
        }
        let is_first = inner.begin_polling();
        if is_first {
            self.queues.queue(inner.home).add_polling(inner);
        }
        match inner.state.end(true) {
            End::Queue => {
                pass.polling += 1;
                self.queues.put_back_polling(inner, self.sleeper.trigger == Trigger::Idle, is_first);
            }
            end => {
                // The task was cancelled.
                self.queues.queue(inner.home).remove_polling(inner);
                self.finish_run(inner, end);
            }
        }
    }

    /// Handles the end of a run.
    #[inline]
    fn finish_run(&self, inner: &Arc<Inner>, end: End) {
        match end {
            End::Ended { is_awaited: false } => {}
            End::Ended { is_awaited: true } => inner.wake_waiters(),
            End::Queue => self.queues.submit_again(inner),
            End::Blocked => self.blockers.hand_over(inner),
        }
    }
}

#[cold]
fn is_bound_again(cpus: &CpuSet) -> bool {
    rails_bind::thread::bind_current(cpus).map(|guard| guard.keep()).is_ok() && is_on(cpus)
}

/// How often a displaced thread checks whether its CPUs are back.
const RECHECK_INTERVAL: Duration = Duration::from_millis(100);

impl Drop for Runner {
    fn drop(&mut self) {
        self.end_sleep();
        self.queues.remove_runner(&self.sleeper);
        self.pass_on_wakes();
    }
}
