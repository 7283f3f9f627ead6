//! A pool of threads that carry out plans.

use super::task::{PlanFiles, ReadEvent, ReadFailure, Reading, Task};
use crate::plan::RegionPlan;
use std::{
    collections::VecDeque,
    io,
    num::NonZeroUsize,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc},
    thread::{self, JoinHandle},
};

/// Threads that carry out [plans](RegionPlan): several parts of a plan at a time, and the parts of
/// several plans in turn.
///
/// Each thread holds one part in memory while it reads. Dropping the pool cancels the parts that
/// have not begun, and waits for those that have.
#[derive(Debug)]
pub struct ReadPool {
    queue: Arc<Queue>,
    threads: Vec<JoinHandle<()>>,
    refusal: Option<io::Error>,
}

/// The number of threads of a [`ReadPool`], and the length of its queue.
#[derive(Clone)]
pub struct PoolOptions {
    threads: NonZeroUsize,
    max_plans: NonZeroUsize,
    on_start: Arc<dyn Fn(usize) + Send + Sync>,
}

/// The system has not started a single thread.
#[derive(Debug, thiserror::Error)]
#[error("no reading thread can be started")]
#[non_exhaustive]
pub struct NoThread {
    /// The cause.
    #[from]
    pub error: io::Error,
}

/// The queue of a pool has as many plans as it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{max_plans} plans are being read, and no more are taken")]
#[non_exhaustive]
pub struct QueueFull {
    /// The largest number of plans.
    pub max_plans: usize,
}

/// Plans with parts that have not begun.
#[derive(Debug)]
struct Queue {
    max_plans: usize,
    state: Mutex<State>,
    /// Plans came, or the pool is dropped.
    has_work: Condvar,
    /// A plan went.
    has_room: Condvar,
}

#[derive(Debug, Default)]
struct State {
    tasks: VecDeque<Arc<Task>>,
    is_closed: bool,
}

impl ReadPool {
    /// Starts the threads.
    ///
    /// A thread that the system refuses is no error: the pool has those before it, and
    /// [`refusal`](Self::refusal) says why.
    ///
    /// # Errors
    /// [`NoThread`].
    #[expect(clippy::disallowed_methods, reason = "a thread for each read that blocks is the purpose of the pool")]
    pub fn new(options: &PoolOptions) -> Result<Self, NoThread> {
        Self::start(options, |number, run| thread::Builder::new().name(format!("read-{number}")).spawn(run))
    }

    fn start(
        options: &PoolOptions,
        spawn: impl Fn(usize, Box<dyn FnOnce() + Send>) -> io::Result<JoinHandle<()>>,
    ) -> Result<Self, NoThread> {
        let queue = Arc::new(Queue {
            max_plans: options.max_plans.get(),
            state: Mutex::default(),
            has_work: Condvar::new(),
            has_room: Condvar::new(),
        });
        let mut pool = Self { queue, threads: Vec::new(), refusal: None };
        for number in 0..options.threads.get() {
            let (queue, on_start) = (Arc::clone(&pool.queue), Arc::clone(&options.on_start));
            let run = Box::new(move || {
                // The hook of panics prints it, and a thread that is missing would keep plans waiting.
                let _ = catch_unwind(AssertUnwindSafe(|| on_start(number)));
                queue.work();
            });
            match spawn(number, run) {
                Ok(thread) => pool.threads.push(thread),
                Err(error) if number == 0 => return Err(NoThread { error }),
                Err(error) => {
                    pool.refusal = Some(error);
                    break;
                }
            }
        }
        Ok(pool)
    }

    /// The number of threads.
    pub fn threads(&self) -> usize {
        self.threads.len()
    }

    /// The cause for which there are fewer threads than the options say.
    pub fn refusal(&self) -> Option<&io::Error> {
        self.refusal.as_ref()
    }

    /// Begins to carry out a plan, without blocking. `on_event` gets each part from the thread that
    /// has read it, in any order, and the end at last. A thread reads nothing while its `on_event`
    /// runs. The first error cancels the parts that have not begun.
    ///
    /// The end may also come on the thread that cancels or drops the [`Reading`], or that begins a
    /// plan without parts, so `on_event` takes no lock that such a thread holds.
    ///
    /// The parts are all of the region but its constants, which
    /// [`write_constants`](RegionPlan::write_constants) writes.
    ///
    /// # Errors
    /// [`QueueFull`]; `on_event` is not called then.
    pub fn begin(
        &self,
        plan: &Arc<RegionPlan>,
        files: &Arc<dyn PlanFiles>,
        on_event: impl Fn(ReadEvent) + Send + Sync + 'static,
    ) -> Result<Reading, QueueFull> {
        let mut state = self.queue.state();
        if state.tasks.len() >= self.queue.max_plans {
            state = self.queue.drop_cancelled(state);
        }
        if state.tasks.len() >= self.queue.max_plans {
            return Err(QueueFull { max_plans: self.queue.max_plans });
        }
        Ok(self.queue.push(state, Task::new(Arc::clone(plan), Arc::clone(files), Box::new(on_event))))
    }

    /// Carries out a plan, and fills `goal` with the region. It blocks, also until there is room in
    /// the queue. One part more than there are threads is in memory beside those that are being
    /// read. An `on_event` of the pool's own must not call this: it would wait for its own thread.
    ///
    /// # Errors
    /// [`ReadFailure`]; the goal is partly filled then, and its bytes mean nothing.
    ///
    /// # Panics
    /// If `goal` has not the size of the region.
    pub fn read(&self, plan: &Arc<RegionPlan>, files: &Arc<dyn PlanFiles>, goal: &mut [u8]) -> Result<(), ReadFailure> {
        plan.write_constants(goal);
        let (sender, receiver) = mpsc::sync_channel(self.threads.len() + 1);
        let task = Task::new(
            Arc::clone(plan),
            Arc::clone(files),
            Box::new(move |event| {
                // A reader that is gone wants no more news.
                let _ = sender.send(event);
            }),
        );
        let mut state = self.queue.state();
        while state.tasks.len() >= self.queue.max_plans {
            state = self.queue.has_room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let _reading = self.queue.push(state, task);
        // Where this panics, the receiver is dropped first, so that no thread waits for it.
        let receiver = receiver;
        loop {
            match receiver.recv().expect("a plan ends with an event") {
                ReadEvent::Part(part) => part.scatter(plan, goal),
                ReadEvent::Ended(result) => return result,
            }
        }
    }
}

impl Drop for ReadPool {
    fn drop(&mut self) {
        let mut state = self.queue.state();
        state.is_closed = true;
        let tasks = std::mem::take(&mut state.tasks);
        drop(state);
        self.queue.has_work.notify_all();
        tasks.iter().for_each(|task| task.cancel());
        for thread in self.threads.drain(..) {
            // The last owner of the pool may be a receiver of news, on a thread of the pool.
            if thread.thread().id() != thread::current().id() {
                thread.join().expect("a reading thread catches the panics of its parts");
            }
        }
    }
}

impl PoolOptions {
    /// The number of threads. Default: 8, which is folklore: enough to keep a disk's queue filled,
    /// and to be measured on the disk at hand.
    pub fn threads(mut self, threads: NonZeroUsize) -> Self {
        self.threads = threads;
        self
    }

    /// The largest number of plans with parts that have not begun. Default: 64. Each costs its
    /// plan's memory.
    pub fn max_plans(mut self, plans: NonZeroUsize) -> Self {
        self.max_plans = plans;
        self
    }

    /// A function that each thread calls first, with its number: to bind itself, for example.
    /// Default: nothing. A thread reads also if the function panics.
    pub fn on_start(mut self, on_start: impl Fn(usize) + Send + Sync + 'static) -> Self {
        self.on_start = Arc::new(on_start);
        self
    }
}

impl Default for PoolOptions {
    fn default() -> Self {
        let [threads, max_plans] = [8, 64].map(|count| NonZeroUsize::new(count).expect("the number is not 0"));
        Self { threads, max_plans, on_start: Arc::new(|_| ()) }
    }
}

impl std::fmt::Debug for PoolOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { threads, max_plans, .. } = self;
        f.debug_struct("PoolOptions").field("threads", threads).field("max_plans", max_plans).finish_non_exhaustive()
    }
}

impl Queue {
    fn push(&self, mut state: MutexGuard<'_, State>, task: Task) -> Reading {
        let task = Arc::new(task);
        let reading = Reading::new(Arc::clone(&task));
        if task.is_empty() {
            // The receiver may use the pool.
            drop(state);
            task.end();
        } else {
            state.tasks.push_back(task);
            self.has_work.notify_all();
        }
        reading
    }

    /// Takes the cancelled plans out of the queue.
    fn drop_cancelled<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let tasks = std::mem::take(&mut state.tasks).into_iter();
        let (kept, cancelled): (Vec<_>, Vec<_>) = tasks.partition(|task| task.has_more());
        state.tasks = kept.into();
        drop(state);
        self.has_room.notify_all();
        cancelled.into_iter().for_each(drop_task);
        self.state()
    }

    /// Carries out parts until the pool is dropped.
    fn work(&self) {
        while let Some((task, part)) = self.next() {
            task.run(part);
            drop_task(task);
        }
    }

    /// The next part, of the plan that has waited longest; `None`, if the pool is dropped.
    fn next(&self) -> Option<(Arc<Task>, usize)> {
        let mut state = self.state();
        loop {
            if let Some(task) = state.tasks.pop_front() {
                let part = task.take();
                if task.has_more() {
                    state.tasks.push_back(Arc::clone(&task));
                } else {
                    self.has_room.notify_one();
                }
                if let Some(part) = part {
                    return Some((task, part));
                }
                drop(state);
                drop_task(task);
                state = self.state();
            } else if state.is_closed {
                return None;
            } else {
                state = self.has_work.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it holds the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Drops a plan, without the lock of a queue: the receiver of its news, which may go with it, may
/// use the pool, and may panic.
fn drop_task(task: Arc<Task>) {
    let _ = catch_unwind(AssertUnwindSafe(|| drop(task)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn options(threads: usize) -> PoolOptions {
        PoolOptions::default().threads(NonZeroUsize::new(threads).unwrap())
    }

    /// Starts a pool on a system that refuses the threads from that number on.
    fn with_refusal(threads: usize, refused: usize) -> Result<ReadPool, NoThread> {
        let refusal = || io::Error::from(io::ErrorKind::WouldBlock);
        #[expect(clippy::disallowed_methods, reason = "the threads of a pool")]
        let spawn = |number, run| if number < refused { thread::Builder::new().spawn(run) } else { Err(refusal()) };
        ReadPool::start(&options(threads), spawn)
    }

    #[test]
    fn a_refused_thread_leaves_those_before_it() {
        let pool = with_refusal(4, 2).unwrap();
        assert_eq!(pool.threads(), 2);
        assert_eq!(pool.refusal().map(io::Error::kind), Some(io::ErrorKind::WouldBlock));
        let pool = with_refusal(4, 4).unwrap();
        assert_eq!((pool.threads(), pool.refusal().is_none()), (4, true));
        assert_eq!(with_refusal(4, 0).unwrap_err().to_string(), "no reading thread can be started");
    }

    #[test]
    fn each_thread_starts_with_its_number() {
        let started = Arc::new(AtomicUsize::new(0));
        let sum = Arc::clone(&started);
        let options = options(3).on_start(move |number| {
            sum.fetch_add(1 << (8 * number), Ordering::Relaxed);
        });
        drop(ReadPool::new(&options).unwrap());
        assert_eq!(started.load(Ordering::Relaxed), 0x01_01_01);
    }
}
