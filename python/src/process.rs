//! The runtime of this process, on which links are driven, and values that no fork takes along.
//!
//! A fork copies memory and one thread. The child has neither the runtime's threads nor those of
//! the rails, and shares the sockets of its parent. So a value that needs them is of one process:
//! the child cannot use it, and leaves it alone when it ends.

use crate::error::Class;
use pyo3::prelude::*;
use std::{
    mem,
    pin::pin,
    process,
    sync::{Mutex, PoisonError},
    time::Duration,
};
use tokio::{
    runtime::{Builder, Handle, Runtime},
    time::sleep,
};

/// Waits for a future without Python's lock, until it is ready or a signal's handler raises an
/// exception: then the future is dropped.
pub(crate) fn wait<F>(py: Python<'_>, future: F) -> PyResult<F::Output>
where
    F: Future + Send,
    F::Output: Send,
{
    let runtime = runtime(py)?;
    py.detach(|| {
        runtime.block_on(async {
            let mut future = pin!(future);
            loop {
                tokio::select! {
                    biased;
                    output = &mut future => return Ok(output),
                    () = sleep(SIGNALS_EVERY) => heed_signals()?,
                }
            }
        })
    })
}

/// The runtime of this process, which is started at its first use and runs until the process ends.
pub(crate) fn runtime(py: Python<'_>) -> PyResult<Handle> {
    // Python's lock is held as long as this one is, and forks hold Python's: no child inherits it
    // locked.
    let mut started = RUNTIME.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((process, runtime)) = &*started
        && *process == process::id()
    {
        return Ok(runtime.handle().clone());
    }
    let runtime = Builder::new_multi_thread().worker_threads(WORKERS).thread_name("lambdaram").enable_all().build();
    let runtime = runtime.map_err(|error| Class::Error.exception(py, &format!("cannot start the runtime: {error}")))?;
    let handle = runtime.handle().clone();
    // The threads of a parent's runtime are not here to be waited for.
    mem::forget(started.replace((process::id(), runtime)));
    Ok(handle)
}

/// A value whose threads and sockets are of the process that made it.
#[derive(Debug)]
pub(crate) struct Owned<T> {
    process: u32,
    /// `None` while it is dropped.
    value: Option<T>,
}

impl<T> Owned<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { process: process::id(), value: Some(value) }
    }

    /// The value, to be asked for facts that it holds, which a fork takes along.
    pub(crate) fn facts(&self) -> &T {
        self.value.as_ref().expect("a value is there until it is dropped")
    }

    /// The value.
    ///
    /// # Errors
    /// `Forked` in another process than the one that made it.
    pub(crate) fn get(&self, py: Python<'_>) -> PyResult<&T> {
        self.check(py)?;
        Ok(self.facts())
    }

    /// The value, taken out.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub(crate) fn into_inner(mut self, py: Python<'_>) -> PyResult<T> {
        self.check(py)?;
        Ok(self.value.take().expect("a value is there until it is dropped"))
    }

    fn check(&self, py: Python<'_>) -> PyResult<()> {
        if self.process == process::id() {
            return Ok(());
        }
        let text = format!(
            "process {} opened this, and a fork of it has neither its threads nor its links: open it again here",
            self.process
        );
        Err(Class::Forked.exception(py, &text))
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        let value = self.value.take();
        if self.process != process::id() {
            // To drop it would wait for threads that are not here.
            mem::forget(value);
        }
    }
}

/// Runs the handlers of signals that have come, on Python's main thread.
fn heed_signals() -> PyResult<()> {
    // Without an interpreter, the process is about to end.
    Python::try_attach(|py| py.check_signals()).unwrap_or(Ok(()))
}

static RUNTIME: Mutex<Option<(u32, Runtime)>> = Mutex::new(None);
/// Rails have threads of their own; these look up names, read files' facts and serve small tasks.
const WORKERS: usize = 2;
/// A person does not notice it, and ten looks a second cost nothing.
const SIGNALS_EVERY: Duration = Duration::from_millis(100);
