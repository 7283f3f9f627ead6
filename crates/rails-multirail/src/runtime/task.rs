//! A task on a rail, and its end.

use std::{
    any::Any,
    convert::Infallible,
    fmt,
    future::Future,
    pin::Pin,
    sync::{Mutex, PoisonError},
    task::{Context, Poll, ready},
};
use tokio::{
    sync::oneshot,
    task::{JoinError, JoinHandle},
};

/// The handle of a task on a rail, which resolves to the task's result, once its future has been dropped. Dropping the
/// handle does not stop the task.
#[derive(Debug)]
pub struct RailTask<T> {
    /// `None` if the rail did not take the task.
    task: Option<JoinHandle<T>>,
    /// Closed as soon as an [`Inner`] task of it has dropped its future.
    inner: Option<oneshot::Sender<Infallible>>,
    /// Whether the task was cancelled, and its inner task is waited for.
    is_cancelled: bool,
}

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
    pub(super) fn new(task: JoinHandle<T>) -> Self {
        Self { task: Some(task), inner: None, is_cancelled: false }
    }

    /// A task that a rail which stops did not take.
    pub(super) fn refused() -> Self {
        Self { task: None, inner: None, is_cancelled: true }
    }

    /// A task that waits for an [`Inner`] one. The inner one's future holds the other end of the channel.
    pub(super) fn with_inner(task: JoinHandle<T>, inner: oneshot::Sender<Infallible>) -> Self {
        Self { inner: Some(inner), ..Self::new(task) }
    }

    /// Stops the task at its next await, which drops its future. A task that has ended keeps its result.
    pub fn abort(&self) {
        self.task.iter().for_each(JoinHandle::abort);
    }

    /// Whether the task has ended.
    pub fn is_finished(&self) -> bool {
        self.task.as_ref().is_none_or(JoinHandle::is_finished)
            && self.inner.as_ref().is_none_or(oneshot::Sender::is_closed)
    }
}

impl<T> Future for RailTask<T> {
    type Output = Result<T, TaskError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if !self.is_cancelled
            && let Some(task) = &mut self.task
        {
            let result = ready!(Pin::new(task).poll(context)).map_err(TaskError::from);
            if !matches!(result, Err(TaskError::Cancelled)) {
                return Poll::Ready(result);
            }
            self.is_cancelled = true;
        }
        // An inner task is cancelled after the one that waits for it.
        if let Some(inner) = &mut self.inner {
            ready!(inner.poll_closed(context));
        }
        Poll::Ready(Err(TaskError::Cancelled))
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
