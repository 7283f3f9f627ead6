//! Threads that block for the events of tasks that have polled in vain.

use super::{
    queues::Shared,
    sync::{Condvar, Mutex, MutexGuard, thread},
    task::Inner,
};
use std::{
    collections::VecDeque,
    io,
    sync::{Arc, PoisonError},
    time::Duration,
};

/// The threads that block, one for each task that waits for its event, and one that waits for the next such task. That
/// one starts its successor, so that all are of the class and on the CPUs of the thread that started the first.
#[derive(Debug, Default)]
pub(crate) struct Blockers {
    pool: Mutex<Pool>,
    news: Condvar,
}

#[derive(Debug, Default)]
struct Pool {
    handed_over: VecDeque<(Arc<Shared>, Arc<Inner>)>,
    /// The tasks for which a thread blocks.
    blocked: Vec<Arc<Inner>>,
    idle_threads: usize,
    is_closed: bool,
}

/// The time limit of one wait, after which a thread sees that its task was cancelled or the queues closed.
const TIME_LIMIT: Duration = Duration::from_millis(100);

impl Blockers {
    /// Starts a thread unless one waits for tasks.
    pub(crate) fn ensure_thread(self: &Arc<Self>) -> io::Result<()> {
        let mut pool = self.pool();
        match pool.idle_threads == 0 && !pool.is_closed {
            true => self.start_thread(&mut pool),
            false => Ok(()),
        }
    }

    /// Has a thread block for a task whose state says so.
    pub(crate) fn hand_over(&self, shared: &Arc<Shared>, inner: &Arc<Inner>) {
        let mut pool = self.pool();
        if pool.is_closed {
            drop(pool);
            inner.state.cancel();
            inner.tell_end();
            return;
        }
        pool.handed_over.push_back((Arc::clone(shared), Arc::clone(inner)));
        self.news.notify_one();
    }

    /// Ends the tasks that wait for their events, and then the threads.
    pub(crate) fn close(&self) {
        let mut pool = self.pool();
        pool.is_closed = true;
        let handed_over = std::mem::take(&mut pool.handed_over);
        let tasks: Vec<_> =
            pool.blocked.iter().cloned().chain(handed_over.into_iter().map(|(_, inner)| inner)).collect();
        drop(pool);
        self.news.notify_all();
        for inner in tasks {
            inner.state.cancel();
            inner.tell_end();
        }
    }

    fn start_thread(self: &Arc<Self>, pool: &mut Pool) -> io::Result<()> {
        let blockers = Arc::clone(self);
        thread::Builder::new().name("task-block".into()).spawn(move || blockers.serve())?;
        pool.idle_threads += 1;
        Ok(())
    }

    fn serve(self: Arc<Self>) {
        while let Some((shared, inner)) = self.next() {
            while inner.state.is_blocked() && !inner.block(TIME_LIMIT) {}
            if inner.state.resume() {
                shared.put_back(&inner);
            }
            let mut pool = self.pool();
            let place = pool.blocked.iter().position(|other| Arc::ptr_eq(other, &inner));
            place.map(|place| pool.blocked.swap_remove(place));
            if pool.idle_threads > 0 {
                return;
            }
            pool.idle_threads += 1;
        }
    }

    /// Waits for a task; `None` once the queues are closed.
    fn next(self: &Arc<Self>) -> Option<(Arc<Shared>, Arc<Inner>)> {
        let mut pool = self.pool();
        loop {
            if let Some((shared, inner)) = pool.handed_over.pop_front() {
                let successor = if pool.idle_threads > 1 { Ok(()) } else { self.start_thread(&mut pool) };
                let Err(error) = successor else {
                    pool.idle_threads -= 1;
                    pool.blocked.push(Arc::clone(&inner));
                    return Some((shared, inner));
                };
                tracing::warn!(%error, "no thread to block for another task: a task polls on");
                // There is no thread for the next task: this one stays, and the task polls on.
                drop(pool);
                if inner.state.resume() {
                    shared.put_back(&inner);
                }
                pool = self.pool();
            } else if pool.is_closed {
                pool.idle_threads -= 1;
                return None;
            } else {
                pool = self.news.wait(pool).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    fn pool(&self) -> MutexGuard<'_, Pool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
