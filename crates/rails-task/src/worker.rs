//! Threads that do nothing but run tasks, when nothing else wants their CPUs.

use super::{error::AttachError, objects::ObjectId, queues::TaskQueues, runner::Runner};
use rails_bind::thread::{SchedulingClass, ThreadPlacement};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc,
    },
    thread::{self, JoinHandle},
};

/// A thread that runs tasks of an object and of those around it: bound to the object's CPUs, and in the idle class
/// (`SCHED_IDLE`), so that it gets the time that no other thread wants. It polls as long as a task polls, and sleeps
/// while none is queued. Dropping it ends it, after the task that it runs.
#[derive(Debug)]
pub struct Worker {
    object: ObjectId,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

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
        let is_over = Arc::new(AtomicBool::new(false));
        let (report, started) = mpsc::sync_channel(1);
        let cpus = queues.objects().get(object).cpus.clone();
        let (queues, ends) = (queues.clone(), Arc::clone(&is_over));
        let spawned = thread::Builder::new().name(format!("task-{cpus}"));
        let run = move || {
            let placement = ThreadPlacement::new().cpus(cpus).class(SchedulingClass::Idle).apply();
            let attached = placement.map_err(AttachError::from).and_then(|guard| Ok((guard, queues.attach_worker()?)));
            match attached {
                Ok((_guard, runner)) => {
                    let _ = report.send(Ok(()));
                    work(&runner, &ends);
                }
                Err(error) => drop(report.send(Err(error))),
            }
        };
        let thread = spawned.spawn(run).map_err(AttachError::Spawn)?;
        let worker = Self { object, is_over, thread: Some(thread) };
        let panicked = || AttachError::Spawn(std::io::Error::other("it panicked while it was placed"));
        started.recv().map_err(|_| panicked())?.map(|()| worker)
    }

    /// The object whose tasks it runs first.
    pub fn object(&self) -> ObjectId {
        self.object
    }
}

fn work(runner: &Runner, is_over: &AtomicBool) {
    while !is_over.load(Relaxed) && !runner.is_closed() {
        let pass = runner.run();
        match pass.polling {
            0 if pass.ran == 0 => runner.sleep(None),
            0 => {}
            // Another thread of the idle class may want the CPU.
            _ => thread::yield_now(),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
        let Some(thread) = self.thread.take() else { return };
        thread.thread().unpark();
        // A panic of a task ends the task alone.
        let _ = thread.join();
    }
}
