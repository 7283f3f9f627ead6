//! The public handle of a machine's queues.

use super::{
    blocking::Blockers,
    counters::QueueStats,
    error::NewTaskError,
    inner::{Inner, Step},
    objects::{ObjectId, Objects},
    options::{TaskOptions, TaskPriority},
    queues::Queues,
    task::Task,
};
use rails_topo::{CpuSet, Topology};
use std::{sync::Arc, time::Duration};

/// The task queues of a machine, one for each [object](crate::Object). Clones are the same queues.
/// When the last of them and the last [`Runner`](crate::Runner) are dropped, tasks that block are
/// cancelled.
#[derive(Debug, Clone)]
pub struct TaskQueues {
    pub(crate) queues: Arc<Queues>,
    pub(crate) blockers: Arc<Blockers>,
}

/// Makes [`TaskQueues`].
#[derive(Debug, Clone)]
#[must_use]
pub struct TaskQueuesBuilder {
    capacity: usize,
    is_timed: bool,
}

impl TaskQueues {
    /// Queues for a machine, each with a `capacity` of that number of tasks of each priority: one
    /// at least.
    pub fn new(topology: &Topology, capacity: usize) -> Self {
        Self::builder().capacity(capacity).build(topology)
    }

    /// Queues with options.
    pub fn builder() -> TaskQueuesBuilder {
        TaskQueuesBuilder { capacity: 256, is_timed: false }
    }

    /// A task that may run on these CPUs and on no others. It waits in the queue of the smallest
    /// object that covers them. Work that panics ends its task, and nothing else.
    ///
    /// # Errors
    /// [`NewTaskError`].
    pub fn task(
        &self,
        cpus: &CpuSet,
        priority: TaskPriority,
        work: impl Fn() -> Step + Send + Sync + 'static,
    ) -> Result<Task, NewTaskError> {
        self.task_with(cpus, priority.into(), work)
    }

    /// As [`task`](Self::task), with options.
    ///
    /// # Errors
    /// [`NewTaskError`].
    pub fn task_with(
        &self,
        cpus: &CpuSet,
        options: TaskOptions,
        work: impl Fn() -> Step + Send + Sync + 'static,
    ) -> Result<Task, NewTaskError> {
        let home = self.home_of(cpus)?;
        if options.run_within == Some(Duration::ZERO) {
            return Err(NewTaskError::ZeroDeadline);
        }
        if options.blocking.is_some() {
            self.blockers.ensure_thread().map_err(|error| NewTaskError::Thread(error.kind()))?;
        }
        let covers_home = self.objects().get(home).cpus == *cpus;
        let inner = Arc::new(Inner::new(cpus.clone(), home, covers_home, options, Box::new(work)));
        Ok(Task { inner, queues: Arc::clone(&self.queues) })
    }

    /// The object in whose queue a task for these CPUs waits.
    pub(crate) fn home_of(&self, cpus: &CpuSet) -> Result<ObjectId, NewTaskError> {
        self.objects().covering(cpus).ok_or_else(|| match cpus.is_empty() {
            true => NewTaskError::NoCpu,
            false => NewTaskError::Outside { cpus: cpus.clone(), online: self.queues.online().clone() },
        })
    }

    /// The machine's objects.
    pub fn objects(&self) -> &Objects {
        &self.queues.objects
    }

    /// The counters of an object's queue, which are not of one instant while tasks are submitted
    /// and run.
    pub fn stats(&self, object: ObjectId) -> QueueStats {
        self.queues.stats(object)
    }

    /// Takes no more tasks, and cancels those that wait. Runs that have begun come to their end. A
    /// masked task may stay pending until it is unmasked or cancelled. A thread that blocks for
    /// an event ends within its time limit.
    pub fn close(&self) {
        self.queues.close();
        self.blockers.close();
        self.queues.wake_all();
    }
}

impl TaskQueuesBuilder {
    /// The capacity of each queue for tasks of each priority: one at least. Default: 256.
    pub fn capacity(mut self, tasks: usize) -> Self {
        self.capacity = tasks.max(1);
        self
    }

    /// Measures how long tasks wait ([`QueueStats::waits`]), by two readings of the clock for each
    /// submission, which take some 20 ns each. Default: no.
    pub fn timed(mut self, is_timed: bool) -> Self {
        self.is_timed = is_timed;
        self
    }

    /// The queues of a machine.
    pub fn build(&self, topology: &Topology) -> TaskQueues {
        let queues = Arc::new(Queues::new(Objects::of(topology), self.capacity, self.is_timed));
        let blockers = Arc::new(Blockers::new(Arc::clone(&queues)));
        TaskQueues { queues, blockers }
    }
}
