//! The end of a rail's thread.

use std::{
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

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
    /// The rail runs no task any more, but `spawn_blocking` work or the destructor of a task has not returned.
    #[error("rail `{rail}` has not stopped in {limit:?}: blocking work, or the destructor of a task, goes on")]
    Blocking {
        /// The rail's name.
        rail: String,
        /// The time that the caller gave.
        limit: Duration,
    },
    /// The caller is on the rail's own thread, or in its [`compute`](super::RailRuntime::compute), for which the thread
    /// waits: neither can wait for that end. The rail stops when the calling task awaits, or the work is done.
    #[error("a task of rail `{rail}` cannot wait for the rail to stop")]
    OnTheRail {
        /// The rail's name.
        rail: String,
    },
}

/// How far a rail's thread is on the way to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// It runs tasks.
    Running,
    /// It drops its tasks, and waits for blocking work.
    Stopping,
    Ended,
}

/// The stage of a thread, which others can wait for.
#[derive(Debug)]
pub(super) struct Life {
    stage: Mutex<Stage>,
    changed: Condvar,
}

impl Life {
    pub(super) fn new() -> Self {
        Self { stage: Mutex::new(Stage::Running), changed: Condvar::new() }
    }

    pub(super) fn enter(&self, stage: Stage) {
        *self.lock() = stage;
        self.changed.notify_all();
    }

    pub(super) fn stage(&self) -> Stage {
        *self.lock()
    }

    /// Waits for the end until `deadline`, and returns the stage then.
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

/// Held by the thread to its end, by a panic too.
pub(super) struct Alive(pub(super) std::sync::Arc<Life>);

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.enter(Stage::Ended);
    }
}
