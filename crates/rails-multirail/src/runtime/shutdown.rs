//! The end of a rail's thread.

use super::DROP_LIMIT;
use crate::last_work::{self, LastWork};
use std::{
    pin::pin,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};
use tokio::{runtime::Handle, sync::Notify, time::timeout_at};

/// Why a rail's runtime has not stopped. Its thread ends by itself as soon as the cause has gone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShutdownError {
    /// A task computes or blocks on the rail's thread, instead of awaiting.
    #[error("rail `{rail}` has not stopped in {limit:?}: a task occupies its thread and does not await")]
    Occupied {
        /// The rail's name.
        rail: String,
        /// The time that the caller gave.
        limit: Duration,
    },
    /// The rail runs no task any more, but `spawn_blocking` work or the destructor of a task has
    /// not returned.
    #[error("rail `{rail}` has not stopped in {limit:?}: blocking work, or the destructor of a task, goes on")]
    Blocking {
        /// The rail's name.
        rail: String,
        /// The time that the caller gave.
        limit: Duration,
    },
    /// The caller is on the rail's own thread, or in its [`compute`](super::RailRuntime::compute),
    /// for which the thread waits: neither can wait for that end. The rail stops when the
    /// calling task awaits, or the work is done.
    #[error("a task of rail `{rail}` cannot wait for the rail to stop")]
    OnTheRail {
        /// The rail's name.
        rail: String,
    },
}

/// How far a rail's thread is on the way to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// The thread runs tasks.
    Running,
    /// The thread drops its tasks, and waits for blocking work.
    Stopping,
    Ended,
}

/// The stage of a thread, which others can wait for.
#[derive(Debug)]
pub(super) struct Life {
    stage: Mutex<Stage>,
    /// Wakes threads that wait for the end.
    changed: Condvar,
    /// Wakes tasks that wait for the end.
    ended: Notify,
}

impl Life {
    pub(super) fn new() -> Self {
        Self { stage: Mutex::new(Stage::Running), changed: Condvar::new(), ended: Notify::new() }
    }

    pub(super) fn enter(&self, stage: Stage) {
        *self.lock() = stage;
        self.changed.notify_all();
        if stage == Stage::Ended {
            self.ended.notify_waiters();
        }
    }

    pub(super) fn stage(&self) -> Stage {
        *self.lock()
    }

    /// Waits for the end until `deadline`, and returns the stage then.
    pub(super) async fn ended(&self, deadline: Option<Instant>) -> Stage {
        let ended = async {
            let mut ended = pin!(self.ended.notified());
            ended.as_mut().enable();
            if self.stage() != Stage::Ended {
                ended.await;
            }
        };
        match deadline {
            Some(deadline) => drop(timeout_at(deadline.into(), ended).await),
            None => ended.await,
        }
        self.stage()
    }

    /// Blocks the calling thread until the end, or until `deadline`, and returns the stage then.
    pub(super) fn wait_for_end(&self, deadline: Option<Instant>) -> Stage {
        let mut stage = self.lock();
        while *stage != Stage::Ended {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            stage = match left {
                Some(Duration::ZERO) => break,
                Some(left) => self.changed.wait_timeout(stage, left).unwrap_or_else(PoisonError::into_inner).0,
                None => self.changed.wait(stage).unwrap_or_else(PoisonError::into_inner),
            };
        }
        *stage
    }

    fn lock(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Held by the thread until it ends, also by a panic.
pub(super) struct Alive {
    pub(super) life: Arc<Life>,
    pub(super) rail: String,
}

impl Drop for Alive {
    fn drop(&mut self) {
        if thread::panicking() {
            tracing::error!(rail = self.rail, "a rail's thread panicked");
        }
        self.life.enter(Stage::Ended);
    }
}

/// A rail that stops, and whose end no caller has waited for.
pub(crate) struct Stopping {
    pub(super) rail: String,
    pub(super) life: Arc<Life>,
    pub(super) thread: JoinHandle<()>,
}

impl Stopping {
    /// Waits for the end until `deadline`, and logs a rail that goes on.
    fn end_by(self, deadline: Instant) {
        let Self { rail, life, thread } = self;
        match outcome(life.wait_for_end(Some(deadline)), rail, DROP_LIMIT) {
            // `Alive` has told of a panic.
            Ok(()) => drop(thread.join()),
            Err(error) => tracing::warn!(%error, "a dropped rail goes on"),
        }
    }
}

/// Waits for the end of rails that were dropped, for [`DROP_LIMIT`] at most. A thread that runs
/// tasks has another thread wait, as its tasks would wait with it; so has the thread of a rail,
/// which may be one of those that stop.
pub(crate) fn end_dropped(rails: Vec<Stopping>) {
    if rails.is_empty() {
        return;
    }
    let deadline = Instant::now() + DROP_LIMIT;
    let wait = move || rails.into_iter().for_each(|rail| rail.end_by(deadline));
    if Handle::try_current().is_err() && !last_work::is_done_on_this_thread() {
        return wait();
    }
    let last_work = LastWork::new(DROP_LIMIT, None);
    let waiting = move || {
        wait();
        drop(last_work);
    };
    if let Err(error) = thread::Builder::new().name("rails-end".to_owned()).spawn(waiting) {
        tracing::debug!(%error, "no thread waits for the end of dropped rails");
    }
}

/// The result of waiting for a rail that has come to that stage.
pub(super) fn outcome(stage: Stage, rail: String, limit: Duration) -> Result<(), ShutdownError> {
    match stage {
        Stage::Running => Err(ShutdownError::Occupied { rail, limit }),
        Stage::Stopping => Err(ShutdownError::Blocking { rail, limit }),
        Stage::Ended => Ok(()),
    }
}
