//! The threads of a transfer, for the disk, the hash, and the streams of files.

use crate::error::ThreadError;
use std::{
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{
            AtomicBool,
            Ordering::{Acquire, Release},
        },
    },
    task::{Context, Poll, Wake, Waker},
    thread::{self, Builder, Thread},
};
use tokio::{
    runtime::Handle,
    sync::{oneshot, watch},
};

/// A job on a thread of its own.
pub(crate) struct Running<T>(oneshot::Receiver<T>);

/// Starts a job on a thread of its own, in the context of the caller's runtime, if there is one. A
/// runtime's pool of blocking threads panics if the system refuses one.
pub(crate) fn run<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<Running<T>, ThreadError> {
    let (result, running) = oneshot::channel();
    let runtime = Handle::try_current().ok();
    let work = move || {
        let _context = runtime.as_ref().map(Handle::enter);
        // The task that awaits the result may have been dropped.
        let _ = result.send(work());
    };
    Builder::new().name("rails-transfer".to_owned()).spawn(work).map_err(ThreadError::Spawn)?;
    Ok(Running(running))
}

/// Waits for the result.
impl<T> Future for Running<T> {
    type Output = Result<T, ThreadError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context).map_err(|_| ThreadError::Panicked)
    }
}

/// Stops the threads of a transfer that wait for a stream, when it is dropped.
#[derive(Debug)]
pub(crate) struct Stop(watch::Sender<()>);

/// The end of a thread.
#[derive(Debug, Clone)]
pub(crate) struct Stopped(watch::Receiver<()>);

impl Stop {
    pub(crate) fn new() -> Self {
        Self(watch::channel(()).0)
    }

    pub(crate) fn stopped(&self) -> Stopped {
        Stopped(self.0.subscribe())
    }
}

impl Stopped {
    /// Whether the thread is to end.
    pub(crate) fn is_stopped(&self) -> bool {
        self.0.has_changed().is_err()
    }

    /// Blocks the thread until the future is ready; `None` if it is not and the thread is to end.
    pub(crate) fn wait<T>(&mut self, future: impl Future<Output = T>) -> Option<T> {
        block_on(async {
            tokio::select! {
                biased;
                done = future => Some(done),
                _ = self.0.changed() => None,
            }
        })
    }
}

/// Blocks the thread until the future is ready. The caller's runtime drives what it waits for.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    let unpark = Arc::new(Unpark { thread: thread::current(), is_woken: AtomicBool::new(false) });
    let (waker, mut future) = (Waker::from(unpark.clone()), pin!(future));
    loop {
        if let Poll::Ready(done) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return done;
        }
        // A thread may be unparked for no reason, or for that of others.
        while !unpark.is_woken.swap(false, Acquire) {
            thread::park();
        }
    }
}

/// Wakes a thread that waits for a future.
struct Unpark {
    thread: Thread,
    is_woken: AtomicBool,
}

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.is_woken.store(true, Release);
        self.thread.unpark();
    }
}
