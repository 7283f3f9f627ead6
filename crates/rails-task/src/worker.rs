//! The idle trigger: threads that do nothing but run tasks, when nothing else wants their CPUs.

use super::{
    control::Triggered,
    error::{AttachError, BudgetError},
    objects::ObjectId,
    sleeper::Trigger,
    task_queues::TaskQueues,
    trigger::TriggerThread,
};
use rails_bind::thread::{SchedulingClass, ThreadPlacement};

/// A thread that runs tasks of an object and of those around it: bound to the object's CPUs, and in
/// the idle class (`SCHED_IDLE`), so that it gets the time that no other thread wants. It polls as
/// long as a task polls, and sleeps while none is queued. Dropping it ends it, after the task that
/// it runs.
#[derive(Debug)]
pub struct Worker(TriggerThread);

impl Worker {
    /// Starts a worker on an object of the queues' machine.
    ///
    /// # Errors
    /// [`AttachError`]. No thread is left then.
    ///
    /// # Panics
    /// If the object is one of a larger machine.
    ///
    /// # Privileges
    /// None, for CPUs inside the process's cpuset.
    pub fn start(queues: &TaskQueues, object: ObjectId) -> Result<Self, AttachError> {
        let placement = ThreadPlacement::new().class(SchedulingClass::Idle);
        TriggerThread::start(queues, object, Trigger::Worker, "task", placement, Triggered::work).map(Self)
    }

    /// The object whose tasks the worker runs first.
    pub fn object(&self) -> ObjectId {
        self.0.object()
    }

    /// Switches the worker on or off. Switched off it runs no task, after the one that it runs, and
    /// uses no CPU; tasks wait for other threads. Default: on.
    pub fn set_enabled(&self, is_enabled: bool) {
        self.0.set_enabled(is_enabled);
    }

    /// Whether the worker is switched on.
    pub fn is_enabled(&self) -> bool {
        self.0.is_enabled()
    }

    /// Limits the worker to a share of one CPU's time: 0.001 to 1. By the thread's own clock, it
    /// uses no more than its share of 10 ms at once, and then sleeps until its share amounts to
    /// the time used. One task is not interrupted. Default: 1, no limit.
    ///
    /// # Errors
    /// [`BudgetError`]. The limit is as before.
    pub fn set_budget(&self, share: f64) -> Result<(), BudgetError> {
        self.0.set_budget(share)
    }
}
