//! A task on a rail, and its end.

use std::{
    any::Any,
    fmt,
    future::Future,
    pin::Pin,
    sync::{Mutex, PoisonError},
    task::{Context, Poll},
};
use tokio::task::{JoinError, JoinHandle};

/// The handle of a task on a rail, which resolves to the task's result. Dropping it does not stop the task.
#[derive(Debug)]
pub struct RailTask<T>(pub(super) JoinHandle<T>);

/// Why a task on a rail gave no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TaskError {
    /// The rail's runtime has stopped, or [`RailTask::abort`] stopped the task.
    #[error("the task was aborted, or its rail's runtime has stopped")]
    Cancelled,
    /// The task panicked.
    #[error("the task panicked: {0}")]
    Panicked(Panic),
}

/// The payload of a panic.
pub struct Panic(Mutex<Payload>);

type Payload = Box<dyn Any + Send>;

impl<T> RailTask<T> {
    /// Stops the task at its next await, which drops its future. A task that has ended keeps its result.
    pub fn abort(&self) {
        self.0.abort();
    }

    /// Whether the task has ended.
    pub fn is_finished(&self) -> bool {
        self.0.is_finished()
    }
}

impl<T> Future for RailTask<T> {
    type Output = Result<T, TaskError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context).map_err(TaskError::from)
    }
}

impl From<JoinError> for TaskError {
    fn from(error: JoinError) -> Self {
        match error.try_into_panic() {
            Ok(payload) => Self::Panicked(Panic(Mutex::new(payload))),
            Err(_) => Self::Cancelled,
        }
    }
}

/// A task that ends with the task that waits for it: aborting the one aborts the other.
pub(super) struct Inner<T>(pub(super) JoinHandle<T>);

impl<T> Inner<T> {
    /// The result. A panic goes on in the waiting task, without a second message.
    pub(super) async fn join(mut self) -> T {
        match (&mut self.0).await.map_err(JoinError::try_into_panic) {
            Ok(output) => output,
            Err(Ok(payload)) => std::panic::resume_unwind(payload),
            // Only the runtime's end cancels it, and that cancels the waiting task too.
            Err(Err(_)) => std::future::pending().await,
        }
    }
}

impl<T> Drop for Inner<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Panic {
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
