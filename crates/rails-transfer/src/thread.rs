//! The threads of a transfer, for the disk and the hash.

use crate::error::ThreadError;
use std::thread::Builder;
use tokio::sync::oneshot;

/// Work on a thread of its own.
pub(crate) struct Running<T>(oneshot::Receiver<T>);

/// Begins work on a thread of its own. A runtime's pool for such work panics where no thread can be
/// had.
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
    /// Waits for the result. May be dropped and called again.
    pub(crate) async fn result(&mut self) -> Result<T, ThreadError> {
        (&mut self.0).await.map_err(|_| ThreadError::Panicked)
    }
}
