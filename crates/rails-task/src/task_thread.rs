//! Threads that do nothing but run tasks.

use super::{
    budget::check_share,
    control::{Control, TaskLoop},
    error::{AttachError, BudgetError},
    objects::ObjectId,
    sleeper::Trigger,
    task_queues::TaskQueues,
};
use rails_bind::{
    limits::name_thread_limits,
    thread::{SchedulingClass, ThreadPlacement, current_affinity},
};
use std::{
    io,
    sync::{Arc, mpsc},
    thread::{self, JoinHandle},
    time::Duration,
};

/// A thread that does nothing but run the tasks of an object and of those around it, bound to the
/// object's CPUs. Dropping the handle ends the thread, after the task that it runs.
#[derive(Debug)]
pub struct TaskThread {
    object: ObjectId,
    control: Arc<Control>,
    thread: Option<JoinHandle<()>>,
}

impl TaskThread {
    /// Starts a thread in the idle class (`SCHED_IDLE`), so that it gets the time that no other
    /// thread wants. It polls as long as a task polls, and sleeps while none is queued. The object
    /// is one of the queues' machine.
    ///
    /// # Errors
    /// [`AttachError`]. No thread is left then.
    ///
    /// # Panics
    /// If the object is one of a larger machine.
    ///
    /// # Privileges
    /// None, for CPUs inside the process's cpuset.
    pub fn idle(queues: &TaskQueues, object: ObjectId) -> Result<Self, AttachError> {
        let placement = ThreadPlacement::new().class(SchedulingClass::Idle);
        Self::start(queues, object, Trigger::Idle, "task", placement, TaskLoop::work)
    }

    /// Starts a thread that runs tasks once in each period while one of them polls, and at the
    /// [deadline](crate::TaskOptions::run_within) of one that has not run by then. It is in the
    /// scheduling class of the calling thread, so it takes the CPU from threads that compute. While
    /// no task polls or has a deadline it sleeps, without a timer. The period is above zero.
    ///
    /// # Errors
    /// As [`idle`](Self::idle).
    ///
    /// # Panics
    /// As [`idle`](Self::idle).
    ///
    /// # Privileges
    /// As [`idle`](Self::idle).
    pub fn periodic(queues: &TaskQueues, object: ObjectId, period: Duration) -> Result<Self, AttachError> {
        if period.is_zero() {
            return Err(AttachError::ZeroPeriod);
        }
        let run = move |thread: TaskLoop| thread.tick(period);
        Self::start(queues, object, Trigger::Timer, "timer", ThreadPlacement::new(), run)
    }

    /// Starts a thread, places it and makes it one that runs tasks, and then calls `body` on it.
    fn start(
        queues: &TaskQueues,
        object: ObjectId,
        trigger: Trigger,
        name: &str,
        placement: ThreadPlacement,
        body: impl FnOnce(TaskLoop) + Send + 'static,
    ) -> Result<Self, AttachError> {
        let control = Arc::new(Control::new());
        let (report, started) = mpsc::sync_channel(1);
        let cpus = queues.objects().get(object).cpus.clone();
        let spawned = thread::Builder::new().name(format!("{name}-{cpus}"));
        let (queues, controlled) = (queues.clone(), Arc::clone(&control));
        let attach = move || -> Result<_, AttachError> {
            // The thread ends as it is placed: putting it back would take a privilege for some classes.
            placement.cpus(cpus).apply()?.keep();
            queues.attach_trigger(trigger, current_affinity()?)
        };
        let run = move || match attach() {
            Ok(runner) => {
                let _ = report.send(Ok(()));
                body(TaskLoop::new(runner, controlled));
            }
            Err(error) => drop(report.send(Err(error))),
        };
        let thread = spawned.spawn(run).map_err(|error| AttachError::Spawn(name_thread_limits(error)))?;
        let started_thread = Self { object, control, thread: Some(thread) };
        let panicked = || AttachError::Spawn(io::Error::other("it panicked while it was placed"));
        started.recv().map_err(|_| panicked())?.map(|()| started_thread)
    }

    /// The object whose tasks the thread runs first.
    pub fn object(&self) -> ObjectId {
        self.object
    }

    /// Switches the thread on or off. A thread that is off finishes the task that it runs, runs no
    /// other, and uses no CPU; tasks wait for other threads. Default: on.
    pub fn set_enabled(&self, is_enabled: bool) {
        self.control.enable(is_enabled);
        self.unpark();
    }

    /// Whether the thread is switched on.
    pub fn is_enabled(&self) -> bool {
        self.control.is_enabled()
    }

    /// Limits the thread to a share of one CPU's time: 0.001 to 1. By the thread's own clock, it
    /// uses no more than its share of 10 ms at once, and then sleeps until its share amounts to
    /// the time used. One task is not interrupted. Default: 1, no limit.
    ///
    /// # Errors
    /// [`BudgetError`]. The limit is as before.
    pub fn set_budget(&self, share: f64) -> Result<(), BudgetError> {
        self.control.set_share(check_share(share)?);
        self.unpark();
        Ok(())
    }

    fn unpark(&self) {
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }
}

impl Drop for TaskThread {
    fn drop(&mut self) {
        self.control.end();
        self.unpark();
        // A panic of a task ends the task alone.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
