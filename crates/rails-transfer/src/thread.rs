//! The threads of a transfer, for the disk and the hash.

use crate::error::ThreadError;
use std::thread::Builder;
use tokio::sync::oneshot;

/// A job on a thread of its own.
pub(crate) struct Running<T>(oneshot::Receiver<T>);

/// Starts a job on a thread of its own. A runtime's pool of blocking threads panics if the system
/// refuses one.
pub(crate) fn run<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<Running<T>, ThreadError> {
    let (result, running) = oneshot::channel();
    let work = move || {
        // The task that awaits the result may have been dropped.
        let _ = result.send(work());
    };
    Builder::new().name("rails-transfer".to_owned()).spawn(work).map_err(ThreadError::Spawn)?;
    Ok(Running(running))
}

impl<T> Running<T> {
    /// Waits for the result. Cancel safe.
    pub(crate) async fn result(&mut self) -> Result<T, ThreadError> {
        (&mut self.0).await.map_err(|_| ThreadError::Panicked)
    }
}
