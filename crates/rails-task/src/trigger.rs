//! Threads that run tasks for a reason of their own.

use super::{
    budget::check_share,
    control::{Control, Triggered},
    error::{AttachError, BudgetError},
    objects::ObjectId,
    sleeper::Trigger,
    task_queues::TaskQueues,
};
use rails_bind::{
    limits::name_thread_limits,
    thread::{ThreadPlacement, current_affinity},
};
use std::{
    io,
    sync::{Arc, mpsc},
    thread::{self, JoinHandle},
};

/// A thread that runs tasks of an object. Dropping it ends it, after the task that it runs.
#[derive(Debug)]
pub(crate) struct TriggerThread {
    object: ObjectId,
    control: Arc<Control>,
    thread: Option<JoinHandle<()>>,
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
            // The thread ends as it is placed: putting it back would take a privilege for some classes.
            placement.cpus(cpus).apply()?.keep();
            queues.attach_trigger(trigger, current_affinity()?)
        };
        let run = move || match attach() {
            Ok(runner) => {
                let _ = report.send(Ok(()));
                body(Triggered::new(runner, controlled));
            }
            Err(error) => drop(report.send(Err(error))),
        };
        let thread = spawned.spawn(run).map_err(|error| AttachError::Spawn(name_thread_limits(error)))?;
        let started_thread = Self { object, control, thread: Some(thread) };
        let panicked = || AttachError::Spawn(io::Error::other("it panicked while it was placed"));
        started.recv().map_err(|_| panicked())?.map(|()| started_thread)
    }

    pub(crate) fn object(&self) -> ObjectId {
        self.object
    }

    pub(crate) fn set_enabled(&self, is_enabled: bool) {
        self.control.enable(is_enabled);
        self.unpark();
    }

    pub(crate) fn is_enabled(&self) -> bool {
        self.control.is_enabled()
    }

    pub(crate) fn set_budget(&self, share: f64) -> Result<(), BudgetError> {
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

impl Drop for TriggerThread {
    fn drop(&mut self) {
        self.control.end();
        self.unpark();
        // A panic of a task ends the task alone.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
