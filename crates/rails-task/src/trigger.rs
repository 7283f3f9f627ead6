//! Threads that run tasks for a reason of their own, and how they are controlled.

use super::{
    budget::{Budget, check_share},
    error::{AttachError, BudgetError},
    objects::ObjectId,
    queues::TaskQueues,
    runner::{Runner, Trigger},
};
use nix::time::{ClockId, clock_gettime};
use rails_bind::thread::{ThreadPlacement, current_affinity};
use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
        mpsc,
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// A thread that runs tasks of an object. Dropping it ends it, after the task that it runs.
#[derive(Debug)]
pub(crate) struct TriggerThread {
    object: ObjectId,
    control: Arc<Control>,
    thread: Option<JoinHandle<()>>,
}

/// Tells the thread what to do.
#[derive(Debug)]
struct Control {
    is_over: AtomicBool,
    is_enabled: AtomicBool,
    /// The bits of its share of a CPU's time.
    share: AtomicU64,
}

/// The thread itself.
pub(crate) struct Triggered {
    pub(crate) runner: Runner,
    control: Arc<Control>,
    budget: Budget,
}

impl TriggerThread {
    /// Starts a thread, places it and makes it one that runs tasks, and then calls `body` on it.
    pub(crate) fn start(
        queues: &TaskQueues,
        object: ObjectId,
        trigger: Trigger,
        name: &str,
        placement: ThreadPlacement,
        body: impl FnOnce(Triggered) + Send + 'static,
    ) -> Result<Self, AttachError> {
        let control = Arc::new(Control::new());
        let (report, started) = mpsc::sync_channel(1);
        let cpus = queues.objects().get(object).cpus.clone();
        let spawned = thread::Builder::new().name(format!("{name}-{cpus}"));
        let (queues, controlled) = (queues.clone(), Arc::clone(&control));
        let attach = move || -> Result<_, AttachError> {
            let guard = placement.cpus(cpus).apply()?;
            Ok((guard, queues.attach_trigger(trigger, current_affinity()?)?))
        };
        let run = move || match attach() {
            Ok((_guard, runner)) => {
                let _ = report.send(Ok(()));
                body(Triggered::new(runner, controlled));
            }
            Err(error) => drop(report.send(Err(error))),
        };
        let thread = spawned.spawn(run).map_err(AttachError::Spawn)?;
        let started_thread = Self { object, control, thread: Some(thread) };
        let panicked = || AttachError::Spawn(io::Error::other("it panicked while it was placed"));
        started.recv().map_err(|_| panicked())?.map(|()| started_thread)
    }

    pub(crate) fn object(&self) -> ObjectId {
        self.object
    }

    pub(crate) fn set_enabled(&self, is_enabled: bool) {
        self.control.is_enabled.store(is_enabled, Relaxed);
        self.unpark();
    }

    pub(crate) fn is_enabled(&self) -> bool {
        self.control.is_enabled.load(Relaxed)
    }

    pub(crate) fn set_budget(&self, share: f64) -> Result<(), BudgetError> {
        self.control.share.store(check_share(share)?.to_bits(), Relaxed);
        self.unpark();
        Ok(())
    }

    fn unpark(&self) {
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }
}

impl Drop for TriggerThread {
    fn drop(&mut self) {
        self.control.is_over.store(true, Relaxed);
        self.unpark();
        // A panic of a task ends the task alone.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Control {
    fn new() -> Self {
        let [is_over, is_enabled] = [false, true].map(AtomicBool::new);
        Self { is_over, is_enabled, share: AtomicU64::new(1.0_f64.to_bits()) }
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Relaxed)
    }

    fn share(&self) -> f64 {
        f64::from_bits(self.share.load(Relaxed))
    }
}

impl Triggered {
    fn new(runner: Runner, control: Arc<Control>) -> Self {
        let budget = Budget::new(control.share(), Instant::now(), cpu_time());
        Self { runner, control, budget }
    }

    /// Waits while the thread is switched off. Returns whether it goes on then.
    pub(crate) fn goes_on(&self) -> bool {
        let is_off = || !self.control.is_enabled.load(Relaxed) && !self.control.is_over();
        if is_off() {
            self.runner.pass_on_wakes();
        }
        while is_off() {
            thread::park();
        }
        !self.control.is_over() && !self.runner.is_closed()
    }

    /// Sleeps off the time that the thread has used beyond its share.
    pub(crate) fn rest(&mut self) {
        let share = self.control.share();
        if share == 1.0 {
            return;
        }
        let (now, cpu_time) = (Instant::now(), cpu_time());
        if share != self.budget.share() {
            self.budget = Budget::new(share, now, cpu_time);
        }
        let until = self.budget.rest(now, cpu_time).map(|rest| now + rest);
        let left = || until.map(|until| until.saturating_duration_since(Instant::now())).filter(|left| !left.is_zero());
        while let Some(left) = left()
            && !self.control.is_over()
            && self.control.share() == share
        {
            thread::park_timeout(left);
        }
    }
}

/// The time that this thread has used.
fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("Linux has a clock for each thread").into()
}
