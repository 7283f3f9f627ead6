//! Threads of the program, which say so where they cannot be had.

use crate::farewell;
use anyhow::{Context, Result};
use rails_bind::limits::{name_thread_limits, try_runtime_descriptors};
use std::{
    convert::Infallible,
    sync::{Arc, Barrier},
    thread::{Builder, JoinHandle, available_parallelism},
};
use tokio::sync::oneshot;

/// Runs a command to its end on the calling thread. A second thread has the signals, so that the
/// program can be ended while the first is busy. A third that the runtime has begun something long
/// on, such as a name to resolve, keeps the process alive no longer than `farewell::LONGEST`.
///
/// The second thread is not a worker of a multi-thread runtime, which panics where no thread can be
/// had.
pub(crate) fn block_on<T>(command: impl Future<Output = Result<T>>) -> Result<T> {
    try_runtime_descriptors().context("no tokio runtime")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("no tokio runtime")?;
    let handle = runtime.handle().clone();
    let (over, is_over) = oneshot::channel::<Infallible>();
    let signals = start("signals", move || {
        let _ = runtime.block_on(is_over);
        runtime.shutdown_timeout(farewell::LONGEST);
    })?;
    let ended = handle.block_on(command);
    drop(over);
    let _ = signals.join();
    ended
}

/// Starts a thread for this work.
///
/// # Errors
/// The system's, with the limits that it may have met.
pub(crate) fn start<T: Send + 'static>(work: &str, run: impl FnOnce() -> T + Send + 'static) -> Result<JoinHandle<T>> {
    let thread = Builder::new().name(work.to_owned()).spawn(run).map_err(name_thread_limits);
    thread.with_context(|| format!("no thread for `{work}`"))
}

/// The result of this work on a thread of its own. A runtime's pool for such work panics where no
/// thread can be had.
///
/// # Errors
/// As [`start`].
pub(crate) async fn aside<T: Send + 'static>(work: &str, run: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    let (done, result) = oneshot::channel();
    // The task that awaits the result may have been dropped.
    start(work, move || drop(done.send(run())))?;
    result.await.with_context(|| format!("the thread for `{work}` has panicked"))
}

/// Tries whether a thread for each CPU can be had, besides those that run. A multi-thread runtime
/// panics where none can.
///
/// # Errors
/// As [`start`].
pub(crate) fn try_one_for_each_cpu() -> Result<()> {
    let cpus = available_parallelism().map_or(1, usize::from);
    let all_run = Arc::new(Barrier::new(cpus + 1));
    let mut threads = Vec::new();
    for _ in 0..cpus {
        let all_run = Arc::clone(&all_run);
        let run = move || {
            all_run.wait();
        };
        threads.push(start("try", run)?);
    }
    all_run.wait();
    threads.into_iter().for_each(|thread| drop(thread.join()));
    Ok(())
}
