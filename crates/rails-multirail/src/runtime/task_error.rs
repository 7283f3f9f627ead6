//! Why a task on a rail gave no result.

use std::{
    any::Any,
    fmt, io,
    sync::{Mutex, PoisonError},
};
use tokio::task::JoinError;

/// Why a task on a rail gave no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TaskError {
    /// The rail's runtime has stopped, or [`RailTask::abort`](super::RailTask::abort) stopped the
    /// task.
    #[error("the task was aborted, or its rail's runtime has stopped")]
    Cancelled,
    /// The operating system gave no thread for work beside the rail's. The cause names the limits
    /// that it may have met.
    #[error("no thread beside the rail's for the work")]
    NoThread(#[source] io::Error),
    /// The task panicked.
    #[error("the task panicked: {0}")]
    Panicked(Panic),
}

/// The payload of a panic.
pub struct Panic(Mutex<Payload>);

type Payload = Box<dyn Any + Send>;

impl TaskError {
    /// Whether the task was aborted, or its rail's runtime has stopped.
    pub fn is_cancelled(&self) -> bool {
        matches!(self, Self::Cancelled)
    }

    /// Whether the task panicked.
    pub fn is_panic(&self) -> bool {
        matches!(self, Self::Panicked(_))
    }
}

impl From<JoinError> for TaskError {
    fn from(error: JoinError) -> Self {
        match error.try_into_panic() {
            Ok(payload) => Self::Panicked(Panic::new(payload)),
            Err(_) => Self::Cancelled,
        }
    }
}

impl Panic {
    pub(crate) fn new(payload: Payload) -> Self {
        Self(Mutex::new(payload))
    }

    /// The payload, for [`resume_unwind`](std::panic::resume_unwind) or a downcast.
    pub fn into_payload(self) -> Box<dyn Any + Send> {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The message of a panic by `panic!`.
impl fmt::Display for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let payload = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let text = payload.downcast_ref::<&str>().copied();
        f.write_str(text.or(payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("its payload is no text"))
    }
}

impl fmt::Debug for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Panic({self})")
    }
}
