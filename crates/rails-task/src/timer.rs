//! The timer trigger: a thread that runs tasks at times, whether the CPU is idle or not.

use super::{
    control::Triggered,
    error::{AttachError, BudgetError},
    objects::ObjectId,
    sleeper::Trigger,
    task_queues::TaskQueues,
    trigger::TriggerThread,
};
use rails_bind::thread::ThreadPlacement;
use std::time::Duration;

/// A thread that runs the tasks of an object and of those around it once in each period while one
/// of them polls, and at the [deadline](crate::TaskOptions::run_before) of one that has not run by
/// then. It is bound to the object's CPUs, in the scheduling class of the thread that started it,
/// so it takes the CPU from threads that compute. While no task polls or has a deadline it sleeps,
/// without a timer. Dropping it ends it, after the task that it runs.
#[derive(Debug)]
pub struct TimerTrigger(TriggerThread);

impl TimerTrigger {
    /// Starts a timer on an object of the queues' machine, with a period above zero.
    ///
    /// # Errors
    /// [`AttachError`]. No thread is left then.
    ///
    /// # Panics
    /// If the object is one of a larger machine.
    ///
    /// # Privileges
    /// None, for CPUs inside the process's cpuset.
    pub fn start(queues: &TaskQueues, object: ObjectId, period: Duration) -> Result<Self, AttachError> {
        if period.is_zero() {
            return Err(AttachError::NoPeriod);
        }
        let run = move |thread: Triggered| thread.tick(period);
        TriggerThread::start(queues, object, Trigger::Timer, "timer", ThreadPlacement::new(), run).map(Self)
    }

    /// The object whose tasks the timer runs first.
    pub fn object(&self) -> ObjectId {
        self.0.object()
    }

    /// Switches the timer on or off. Switched off it runs no task, after the one that it runs, and
    /// uses no CPU; tasks wait for other threads. Default: on.
    pub fn set_enabled(&self, is_enabled: bool) {
        self.0.set_enabled(is_enabled);
    }

    /// Whether the timer is switched on.
    pub fn is_enabled(&self) -> bool {
        self.0.is_enabled()
    }

    /// Limits the timer to a share of one CPU's time, as
    /// [`Worker::set_budget`](crate::Worker::set_budget) does.
    ///
    /// # Errors
    /// [`BudgetError`]. The limit is as before.
    pub fn set_budget(&self, share: f64) -> Result<(), BudgetError> {
        self.0.set_budget(share)
    }
}
