//! Options of a task.

use std::{fmt, time::Duration};

/// Options of a task, for [`TaskQueues::task_with`](crate::TaskQueues::task_with).
#[derive(Debug, Default)]
pub struct TaskOptions {
    pub(crate) priority: TaskPriority,
    pub(crate) run_within: Option<Duration>,
    pub(crate) blocking: Option<Blocking>,
}

/// The order of the tasks in one queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum TaskPriority {
    /// Tasks that run before the normal ones.
    High,
    /// Tasks in the order in which they were submitted.
    #[default]
    Normal,
}

/// The blocking variant of a polling task.
pub(crate) struct Blocking {
    pub(crate) after: Duration,
    pub(crate) wait: Box<dyn Fn(Duration) -> bool + Send + Sync>,
}

impl TaskOptions {
    /// A task of normal priority, without a deadline, that never blocks.
    pub fn new() -> Self {
        Self::default()
    }

    /// The task's place among those in one queue. Default: [`TaskPriority::Normal`].
    pub fn priority(mut self, priority: TaskPriority) -> Self {
        self.priority = priority;
        self
    }

    /// The first run after a submission is to begin within this time, which is above zero. Default:
    /// no deadline.
    ///
    /// A task whose deadline is over is taken before the others of its queue, and counted as
    /// [missed](crate::QueueStats::missed). A [periodic thread](crate::TaskThread::periodic) runs
    /// it at its deadline if no other thread has done so. A task that is masked past its
    /// deadline misses it. Such a task is queued under a lock, and the clock is read when it is
    /// submitted and run.
    pub fn run_within(mut self, time: Duration) -> Self {
        self.run_within = Some(time);
        self
    }

    /// Lets a task that polls block instead once it has polled in vain for the time `after`:
    /// threads stop polling it, and a thread of its own calls `wait`, which blocks until the
    /// event that the task polls for, as `poll(2)` does. Then the task runs again, and polls
    /// anew. Default: a task polls as long as it wants to.
    ///
    /// `wait` gets a time limit, of 100 ms, and returns whether the event has come. A thread calls
    /// it again until the event comes, the task is submitted or cancelled, or the queues are
    /// closed. `wait` runs in the scheduling class and on the CPUs of the thread that made the
    /// first such task, not on the task's. If the task is submitted while `wait` blocks, two
    /// threads may call it at a time. If `wait` panics, the task is over.
    pub fn blocking(mut self, after: Duration, wait: impl Fn(Duration) -> bool + Send + Sync + 'static) -> Self {
        self.blocking = Some(Blocking { after, wait: Box::new(wait) });
        self
    }
}

impl From<TaskPriority> for TaskOptions {
    fn from(priority: TaskPriority) -> Self {
        Self::new().priority(priority)
    }
}

impl fmt::Debug for Blocking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Blocking").field("after", &self.after).finish_non_exhaustive()
    }
}
