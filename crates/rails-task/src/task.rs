//! Handles of tasks.

use super::{error::SubmitError, inner::Inner, objects::ObjectId, queues::Queues, state::Submit};
use rails_topo::CpuSet;
use std::{fmt, sync::Arc};

/// A piece of work with a CPU set, made once and submitted as often as wanted: a submission
/// allocates nothing. Clones are the same task.
#[derive(Clone)]
pub struct Task {
    pub(crate) inner: Arc<Inner>,
    pub(crate) queues: Arc<Queues>,
}

impl Task {
    /// Puts the task into its queue, and wakes the nearest thread that sleeps and may run it. A
    /// task that is queued already stays there; one that runs is queued again after its run.
    ///
    /// # Errors
    /// [`SubmitError`]. The task is as before.
    #[inline]
    pub fn submit(&self) -> Result<(), SubmitError> {
        self.submit_near(self.inner.home)
    }

    #[inline]
    pub(crate) fn submit_near(&self, near: ObjectId) -> Result<(), SubmitError> {
        if self.queues.is_closed() {
            return Err(SubmitError::Closed);
        }
        match self.inner.state.submit() {
            Submit::Queue => self.queues.submit(&self.inner, near),
            Submit::Already => Ok(()),
            Submit::Cancelled => Err(SubmitError::Over),
        }
    }

    /// Ends the task: it does not run again. A run that has begun comes to its end. Returns whether
    /// it was pending.
    pub fn cancel(&self) -> bool {
        let was_pending = self.inner.state.cancel();
        // A thread that runs it does the same at the end.
        self.queues.end_polling(&self.inner);
        self.inner.wake_waiters();
        was_pending
    }

    /// Keeps the task from running for now: it may be submitted, and runs once it is masked no
    /// more. A run that has begun comes to its end.
    pub fn mask(&self) {
        self.inner.state.mask();
    }

    /// Lets a masked task run again.
    pub fn unmask(&self) {
        if self.inner.state.unmask() {
            self.queues.put_back(&self.inner);
        }
    }

    /// Whether the task is to run, or runs.
    #[inline]
    pub fn is_pending(&self) -> bool {
        self.inner.state.is_pending()
    }

    /// Whether the task does not run again: it was cancelled, or has panicked.
    pub fn is_over(&self) -> bool {
        self.inner.state.is_cancelled()
    }

    /// Whether a run has panicked. The task is over then.
    pub fn has_panicked(&self) -> bool {
        self.inner.has_panicked()
    }

    /// The CPUs on which the task may run.
    pub fn cpus(&self) -> &CpuSet {
        &self.inner.cpus
    }

    /// The object in whose queue the task waits.
    pub fn home(&self) -> ObjectId {
        self.inner.home
    }
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}
