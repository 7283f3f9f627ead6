//! A task on a rail.

use super::TaskError;
use crate::blocking::{BlockingTask, Canceller};
use std::{
    convert::Infallible,
    future::Future,
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};
use tokio::{
    sync::oneshot,
    task::{self, JoinError, JoinHandle},
};

/// The handle of a task on a rail, which resolves to the task's result, once its future has been
/// dropped. Dropping the handle does not stop the task.
#[derive(Debug)]
pub struct RailTask<T> {
    kind: Kind<T>,
    /// Closed as soon as a [`LinkedTask`] of it has dropped its future.
    inner: Option<oneshot::Sender<Infallible>>,
    /// Whether the task was cancelled, and its inner task is waited for.
    is_cancelled: bool,
}

#[derive(Debug)]
enum Kind<T> {
    /// A future on the rail's runtime.
    Future(JoinHandle<T>),
    /// Work on a thread beside the rail's.
    Work(BlockingTask<T>),
    /// The rail did not take the task, as it stops or for want of a thread.
    Refused(Option<io::Error>),
}

/// Aborts a task on a rail, from any thread. Dropping the handle does nothing.
#[derive(Debug, Clone)]
pub struct RailAbortHandle(Option<Abort>);

#[derive(Debug, Clone)]
enum Abort {
    Future(task::AbortHandle),
    Work(Canceller),
}

impl<T> RailTask<T> {
    pub(super) fn new(task: JoinHandle<T>) -> Self {
        Self::of(Kind::Future(task))
    }

    /// Work as [`BlockingPool::run`](crate::blocking::BlockingPool::run) gives it.
    pub(super) fn blocking(begun: io::Result<Option<BlockingTask<T>>>) -> Self {
        Self::of(match begun {
            Ok(Some(work)) => Kind::Work(work),
            Ok(None) => Kind::Refused(None),
            Err(error) => Kind::Refused(Some(error)),
        })
    }

    /// A task that a stopping rail did not take.
    pub(super) fn refused() -> Self {
        Self::of(Kind::Refused(None))
    }

    fn of(kind: Kind<T>) -> Self {
        Self { kind, inner: None, is_cancelled: false }
    }

    /// A task that waits for a [`LinkedTask`], whose future holds the receiver of `inner`.
    pub(super) fn with_linked(task: JoinHandle<T>, inner: oneshot::Sender<Infallible>) -> Self {
        Self { inner: Some(inner), ..Self::new(task) }
    }

    /// Stops the task at its next await, which drops its future. A task that has ended keeps its
    /// result.
    pub fn abort(&self) {
        self.abort_handle().abort();
    }

    /// A handle that [aborts](Self::abort) the task, for others than the caller who waits for it.
    pub fn abort_handle(&self) -> RailAbortHandle {
        RailAbortHandle(match &self.kind {
            Kind::Future(task) => Some(Abort::Future(task.abort_handle())),
            Kind::Work(work) => Some(Abort::Work(work.canceller())),
            Kind::Refused(_) => None,
        })
    }

    /// Whether the task has ended.
    pub fn is_finished(&self) -> bool {
        let is_over = match &self.kind {
            Kind::Future(task) => task.is_finished(),
            Kind::Work(work) => work.is_over(),
            Kind::Refused(_) => true,
        };
        is_over && self.inner.as_ref().is_none_or(oneshot::Sender::is_closed)
    }
}

impl<T> Future for RailTask<T> {
    type Output = Result<T, TaskError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if !self.is_cancelled {
            let result = match &mut self.kind {
                Kind::Future(task) => ready!(Pin::new(task).poll(context)).map_err(TaskError::from),
                Kind::Work(work) => ready!(Pin::new(work).poll(context)),
                Kind::Refused(error) => Err(error.take().map_or(TaskError::Cancelled, TaskError::NoThread)),
            };
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

impl RailAbortHandle {
    /// As [`RailTask::abort`].
    pub fn abort(&self) {
        match &self.0 {
            Some(Abort::Future(task)) => task.abort(),
            Some(Abort::Work(work)) => work.cancel(),
            None => {}
        }
    }
}

/// A task that is aborted when the task that waits for it is.
pub(super) struct LinkedTask<T>(pub(super) JoinHandle<T>);

impl<T> LinkedTask<T> {
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

impl<T> Drop for LinkedTask<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
