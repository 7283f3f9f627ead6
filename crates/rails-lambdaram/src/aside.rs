//! Work that blocks, beside the runtime. Tokio's own pool panics where the system gives no thread.

use std::{
    sync::{Arc, Mutex, PoisonError},
    thread,
};
use tokio::sync::oneshot;

/// Does work on a thread of its own, or on this one if the system gives none.
///
/// # Panics
/// If the work does.
pub(crate) async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, result) = oneshot::channel();
    begin_aside(move || {
        // The caller may have lost interest.
        let _ = sender.send(work());
    });
    result.await.expect("the work does not panic")
}

/// Begins work on a thread of its own, or does it on this one if the system gives none.
pub(crate) fn begin_aside(work: impl FnOnce() + Send + 'static) {
    let work = Arc::new(Mutex::new(Some(work)));
    let take = |work: &Mutex<Option<_>>| work.lock().unwrap_or_else(PoisonError::into_inner).take();
    let theirs = Arc::clone(&work);
    let spawned = thread::Builder::new().name("aside".into()).spawn(move || {
        if let Some(work) = theirs.lock().unwrap_or_else(PoisonError::into_inner).take() {
            work();
        }
    });
    if spawned.is_err()
        && let Some(work) = take(&work)
    {
        work();
    }
}
