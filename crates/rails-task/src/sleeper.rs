//! The threads that run tasks, as submitters see them.

use super::{
    counters::{Counters, QueueStats},
    inner::Inner,
    objects::{ObjectId, Objects},
    queue::Queue,
    wakeup::{Asleep, Sleepers},
};
use rails_topo::CpuSet;
use std::fmt;

/// A thread that runs tasks, as submitters see it.
pub(crate) struct Sleeper {
    pub(crate) object: ObjectId,
    /// The thread's object and those around it, with the thread's counters of their queues.
    pub(crate) path: Vec<(ObjectId, Counters)>,
    pub(crate) cpus: CpuSet,
    pub(crate) trigger: Trigger,
    asleep: Asleep,
    wake: Box<dyn Fn() + Send + Sync>,
}

/// The reason for which a thread runs tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trigger {
    /// The thread's owner says when.
    Caller,
    /// The thread's CPU is idle: the thread goes on with tasks that poll.
    Idle,
    /// A timer has fired: tasks that poll and deadlines alone decide when.
    Timer,
}

impl Sleeper {
    /// A thread of an object. The thread is awake, and `wake` ends a sleep.
    pub(crate) fn new(
        object: ObjectId,
        objects: &Objects,
        cpus: CpuSet,
        trigger: Trigger,
        wake: Box<dyn Fn() + Send + Sync>,
    ) -> Self {
        let path = objects.path(object).map(|object| (object, Counters::default())).collect();
        Self { object, path, cpus, trigger, asleep: Asleep::default(), wake }
    }

    pub(crate) fn is_asleep(&self) -> bool {
        self.asleep.is_set()
    }

    pub(crate) fn may_run(&self, inner: &Inner) -> bool {
        inner.allows(&self.cpus)
    }

    /// Marks the thread as asleep unless there are news. Returns whether it may sleep. `queues` are
    /// those of all objects.
    pub(crate) fn fall_asleep(&self, queues: &[Queue], has_news: impl FnOnce() -> bool) -> bool {
        self.asleep.mark_asleep(self.counts(queues), has_news)
    }

    /// Marks the thread as awake. Returns whether no submitter has done so.
    pub(crate) fn end_sleep(&self, queues: &[Queue]) -> bool {
        self.asleep.mark_awake(self.counts(queues))
    }

    /// Wakes the thread if it sleeps. Returns whether it did.
    pub(crate) fn wake(&self, queues: &[Queue]) -> bool {
        let slept = self.end_sleep(queues);
        if slept {
            (self.wake)();
        }
        slept
    }

    /// Adds the thread's counters of an object's queue.
    pub(crate) fn add_counters(&self, object: ObjectId, stats: &mut QueueStats) {
        let of_object = self.path.iter().find(|(other, _)| *other == object);
        if let Some((_, counters)) = of_object {
            counters.add_to(stats, object == self.object);
        }
    }

    /// The counts of sleepers that include this thread.
    fn counts<'a>(&'a self, queues: &'a [Queue]) -> impl Iterator<Item = &'a Sleepers> + Clone {
        let is_timer = self.trigger == Trigger::Timer;
        self.path.iter().map(move |(object, _)| {
            let queue = &queues[object.0];
            if is_timer { &queue.timers } else { &queue.sleepers }
        })
    }
}

impl fmt::Debug for Sleeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleeper").field("object", &self.object).field("cpus", &self.cpus.to_string()).finish()
    }
}
