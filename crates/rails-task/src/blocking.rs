//! Threads that block for the events of tasks that have polled in vain.

use super::{
    inner::Inner,
    queues::Queues,
    sync::{Condvar, Mutex, MutexGuard, thread},
};
use std::{
    collections::VecDeque,
    io,
    sync::{Arc, PoisonError},
    time::Duration,
};

/// The threads that block: one for each task that waits for its event, and an idle one that waits
/// for the next such task. The idle thread starts its successor, so that all have the scheduling
/// class and the CPUs of the thread that started the first. Dropping them ends the tasks that wait,
/// and then the threads.
#[derive(Debug)]
pub(crate) struct Blockers(Arc<Pool>);

/// The part that the threads share, which the last of them drops.
#[derive(Debug)]
struct Pool {
    /// The queues of the tasks.
    queues: Arc<Queues>,
    state: Mutex<PoolState>,
    news: Condvar,
}

#[derive(Debug, Default)]
struct PoolState {
    handed_over: VecDeque<Arc<Inner>>,
    /// The tasks for which a thread blocks.
    blocked: Vec<Arc<Inner>>,
    idle_threads: usize,
    is_closed: bool,
}

/// The time limit of one wait, after which a thread sees that its task was cancelled or the queues
/// closed.
const TIME_LIMIT: Duration = Duration::from_millis(100);

impl Blockers {
    /// The threads that will block for tasks of these queues: none yet.
    pub(crate) fn new(queues: Arc<Queues>) -> Self {
        let (state, news) = Default::default();
        Self(Arc::new(Pool { queues, state, news }))
    }

    /// Starts a thread unless one waits for tasks.
    pub(crate) fn ensure_thread(&self) -> io::Result<()> {
        let mut state = self.0.state();
        match state.idle_threads == 0 && !state.is_closed {
            true => self.0.start_thread(&mut state),
            false => Ok(()),
        }
    }

    /// Has a thread block for a task whose state says so.
    pub(crate) fn hand_over(&self, inner: &Arc<Inner>) {
        let mut state = self.0.state();
        if state.is_closed {
            drop(state);
            inner.state.cancel();
            inner.wake_waiters();
            return;
        }
        state.handed_over.push_back(Arc::clone(inner));
        self.0.news.notify_one();
    }

    /// Ends the tasks that wait for their events, and then the threads.
    pub(crate) fn close(&self) {
        let mut state = self.0.state();
        state.is_closed = true;
        let handed_over = std::mem::take(&mut state.handed_over);
        let tasks: Vec<_> = state.blocked.iter().cloned().chain(handed_over).collect();
        drop(state);
        self.0.news.notify_all();
        for inner in tasks {
            inner.state.cancel();
            inner.wake_waiters();
        }
    }
}

impl Drop for Blockers {
    fn drop(&mut self) {
        self.close();
    }
}

impl Pool {
    fn start_thread(self: &Arc<Self>, state: &mut PoolState) -> io::Result<()> {
        let pool = Arc::clone(self);
        thread::Builder::new().name("task-block".into()).spawn(move || pool.serve())?;
        state.idle_threads += 1;
        Ok(())
    }

    fn serve(self: Arc<Self>) {
        while let Some(inner) = self.next() {
            while inner.state.is_blocked() && !inner.block(TIME_LIMIT) {}
            if inner.state.resume() {
                self.queues.put_back(&inner);
            }
            let mut state = self.state();
            let place = state.blocked.iter().position(|other| Arc::ptr_eq(other, &inner));
            place.map(|place| state.blocked.swap_remove(place));
            if state.idle_threads > 0 {
                return;
            }
            state.idle_threads += 1;
        }
    }

    /// Waits for a task; `None` once the queues are closed.
    fn next(self: &Arc<Self>) -> Option<Arc<Inner>> {
        let mut state = self.state();
        loop {
            if let Some(inner) = state.handed_over.pop_front() {
                let successor = if state.idle_threads > 1 { Ok(()) } else { self.start_thread(&mut state) };
                let Err(error) = successor else {
                    state.idle_threads -= 1;
                    state.blocked.push(Arc::clone(&inner));
                    return Some(inner);
                };
                tracing::warn!(%error, "no thread to block for another task: a task polls on");
                // There is no thread for the next task: this one stays, and the task polls on.
                drop(state);
                if inner.state.resume() {
                    self.queues.put_back(&inner);
                }
                // The last handle of a cancelled task may have gone: its work is dropped without the lock.
                drop(inner);
                state = self.state();
            } else if state.is_closed {
                state.idle_threads -= 1;
                return None;
            } else {
                state = self.news.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
