//! Threads of the program, with errors that name the limits of a refused one.

use anyhow::{Context, Result};
use rails_bind::limits::{name_thread_limits, try_runtime_descriptors};
use std::{
    convert::Infallible,
    sync::{Arc, Barrier},
    thread::{Builder, JoinHandle, available_parallelism},
    time::Duration,
};
use tokio::sync::oneshot;

/// Runs a command to its end on the calling thread. A second thread has the signals, so that the
/// program can be ended while the first is busy. A third, on which the runtime runs a blocking call
/// such as resolving a name, keeps the process alive for [`MAX_WAIT`] at most.
///
/// The second thread is not a worker of a multi-thread runtime, which panics if the system refuses
/// a thread.
pub fn block_on<T>(command: impl Future<Output = Result<T>>) -> Result<T> {
    try_runtime_descriptors().context("no tokio runtime")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("no tokio runtime")?;
    let handle = runtime.handle().clone();
    let (over, is_over) = oneshot::channel::<Infallible>();
    let signals = start("signals", move || {
        let _ = runtime.block_on(is_over);
        runtime.shutdown_timeout(MAX_WAIT);
    })?;
    let ended = handle.block_on(command);
    drop(over);
    let _ = signals.join();
    ended
}

/// Starts a thread for this work.
///
/// # Errors
/// The system's, with the limits that may be the cause.
pub fn start<T: Send + 'static>(work: &str, run: impl FnOnce() -> T + Send + 'static) -> Result<JoinHandle<T>> {
    let thread = Builder::new().name(work.to_owned()).spawn(run).map_err(name_thread_limits);
    thread.with_context(|| format!("no thread for `{work}`"))
}

/// The result of this work on a thread of its own. A runtime's pool of blocking threads panics if
/// the system refuses one.
///
/// # Errors
/// As [`start`].
pub async fn aside<T: Send + 'static>(work: &str, run: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    let (done, result) = oneshot::channel();
    // The task that awaits the result may have been dropped.
    start(work, move || drop(done.send(run())))?;
    result.await.with_context(|| format!("the thread for `{work}` has panicked"))
}

/// Tries whether the system gives one more thread per CPU. A multi-thread runtime panics if it does
/// not.
///
/// # Errors
/// As [`start`].
pub fn try_one_for_each_cpu() -> Result<()> {
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

/// The time to end work in order: milliseconds on an idle machine, more on a busy one.
pub const MAX_WAIT: Duration = Duration::from_secs(3);
