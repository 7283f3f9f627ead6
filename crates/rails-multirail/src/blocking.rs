//! A pool of threads for blocking work, beside a runtime. Tokio's blocking pool panics where the
//! system gives no thread; here that is an error.

use crate::runtime::{Panic, TaskError};
use rails_bind::limits::name_thread_limits;
use std::{
    any::Any,
    collections::VecDeque,
    fmt,
    future::Future,
    io, mem,
    net::{SocketAddr, ToSocketAddrs},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    task::{Context, Poll},
    thread::Builder,
    time::Duration,
};
use tokio::sync::oneshot;

/// Threads for work that blocks or computes: as many as there is work at a time, up to
/// [`MAX_THREADS`]. A thread without work ends after [`KEEP_ALIVE`], and when this is dropped,
/// which waits for none.
#[derive(Debug)]
pub(crate) struct BlockingPool(Arc<PoolShared>);

struct PoolShared {
    name: String,
    /// Called on each thread before its work.
    on_start: Box<dyn Fn() + Send + Sync>,
    pool: Mutex<PoolState>,
    work_arrived: Condvar,
}

#[derive(Default)]
struct PoolState {
    queued: VecDeque<Arc<Work>>,
    threads: usize,
    /// The number of threads that wait for work.
    idle: usize,
    is_closed: bool,
}

/// The result of work, which goes on if this is dropped.
#[derive(Debug)]
pub(crate) struct BlockingTask<T> {
    result: oneshot::Receiver<Result<T, Payload>>,
    work: Arc<Work>,
}

/// Cancels work. Any thread may do so, not only the caller that waits for the result.
#[derive(Debug, Clone)]
pub(crate) struct Canceller(Arc<Work>);

/// Work that may be cancelled until it begins.
struct Work {
    job: Mutex<Option<Job>>,
    is_over: AtomicBool,
}

type Job = Box<dyn FnOnce() + Send>;
type Payload = Box<dyn Any + Send>;

impl BlockingPool {
    pub(crate) fn new(name: String, on_start: impl Fn() + Send + Sync + 'static) -> Self {
        let on_start = Box::new(on_start);
        Self(Arc::new(PoolShared { name, on_start, pool: Mutex::default(), work_arrived: Condvar::new() }))
    }

    /// Begins work on a thread, or queues it if all threads that the system gives are busy. `None`
    /// after the [end](Self::end).
    ///
    /// # Errors
    /// The system's error if it gives no thread. The work has been dropped.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<Option<BlockingTask<T>>> {
        self.run_or(work, drop)
    }

    /// As [`run`](Self::run). `unclaimed` drops a result for which no task waits.
    pub(crate) fn run_or<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
        unclaimed: impl FnOnce(T) + Send + 'static,
    ) -> io::Result<Option<BlockingTask<T>>> {
        let (done, result) = oneshot::channel();
        let job: Job = Box::new(move || {
            if let Err(Ok(result)) = done.send(catch_unwind(AssertUnwindSafe(work))) {
                unclaimed(result);
            }
        });
        let work = Arc::new(Work { job: Mutex::new(Some(job)), is_over: AtomicBool::new(false) });
        match self.0.take(&work) {
            Ok(true) => Ok(Some(BlockingTask { result, work })),
            Ok(false) => Ok(None),
            Err(refused) => Err(name_thread_limits(refused)),
        }
    }

    /// Takes no more work, and cancels queued work.
    pub(crate) fn end(&self) {
        let queued = {
            let mut pool = self.0.pool();
            pool.is_closed = true;
            mem::take(&mut pool.queued)
        };
        self.0.work_arrived.notify_all();
        queued.iter().for_each(|work| work.cancel());
    }

    /// Waits until all threads have ended, after the [end](Self::end).
    pub(crate) fn wait(&self) {
        let pool = self.0.work_arrived.wait_while(self.0.pool(), |pool| pool.threads > 0);
        drop(pool.unwrap_or_else(PoisonError::into_inner));
    }
}

impl Drop for BlockingPool {
    fn drop(&mut self) {
        self.end();
    }
}

impl PoolShared {
    /// Whether the work was taken.
    fn take(self: &Arc<Self>, work: &Arc<Work>) -> io::Result<bool> {
        let mut pool = self.pool();
        if pool.is_closed {
            return Ok(false);
        }
        if pool.idle <= pool.queued.len() && pool.threads < MAX_THREADS {
            let shared = Arc::clone(self);
            match Builder::new().name(self.name.clone()).spawn(move || shared.serve()) {
                Ok(_) => pool.threads += 1,
                // A busy thread takes the work.
                Err(_) if pool.threads > 0 => {}
                Err(refused) => return Err(refused),
            }
        }
        pool.queued.push_back(Arc::clone(work));
        self.work_arrived.notify_one();
        Ok(true)
    }

    fn serve(&self) {
        (self.on_start)();
        let mut pool = self.pool();
        loop {
            while let Some(work) = pool.queued.pop_front() {
                drop(pool);
                work.run();
                drop(work);
                pool = self.pool();
            }
            if pool.is_closed {
                break;
            }
            pool.idle += 1;
            let is_idle = |pool: &mut PoolState| pool.queued.is_empty() && !pool.is_closed;
            let waited = self.work_arrived.wait_timeout_while(pool, KEEP_ALIVE, is_idle);
            let (woken, outcome) = waited.unwrap_or_else(PoisonError::into_inner);
            pool = woken;
            pool.idle -= 1;
            if outcome.timed_out() && pool.queued.is_empty() {
                break;
            }
        }
        pool.threads -= 1;
        drop(pool);
        self.work_arrived.notify_all();
    }

    fn pool(&self) -> MutexGuard<'_, PoolState> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Work {
    fn run(&self) {
        let job = self.take();
        // A result that no caller waits for is dropped here, and may panic.
        let _ = catch_unwind(AssertUnwindSafe(|| job.into_iter().for_each(|job| job())));
        self.is_over.store(true, SeqCst);
    }

    /// Drops the work, unless it has begun.
    fn cancel(&self) {
        if let Some(job) = self.take() {
            self.is_over.store(true, SeqCst);
            drop(job);
        }
    }

    fn take(&self) -> Option<Job> {
        self.job.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Canceller {
    /// Drops the work, unless it has begun.
    pub(crate) fn cancel(&self) {
        self.0.cancel();
    }
}

impl<T> BlockingTask<T> {
    pub(crate) fn canceller(&self) -> Canceller {
        Canceller(self.work.clone())
    }

    /// Whether the work has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.work.is_over.load(SeqCst)
    }
}

/// The addresses of a host, as [`tokio::net::lookup_host`] gives them.
///
/// # Errors
/// The resolver's, or the system's error if it gives no thread.
pub(crate) async fn lookup_host((host, port): (&str, u16)) -> io::Result<impl Iterator<Item = SocketAddr> + use<>> {
    let host = host.to_owned();
    let threads = BlockingPool::new("rails-resolve".to_owned(), || ());
    let resolving = threads.run(move || (host.as_str(), port).to_socket_addrs())?;
    let resolved = resolving.expect("the threads end last").await;
    resolved.map_err(io::Error::other)?
}

impl<T> Future for BlockingTask<T> {
    type Output = Result<T, TaskError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.result).poll(context).map(|ended| match ended {
            Ok(result) => result.map_err(|payload| TaskError::Panicked(Panic::new(payload))),
            Err(_) => Err(TaskError::Cancelled),
        })
    }
}

impl fmt::Debug for PoolShared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolShared").field("name", &self.name).finish_non_exhaustive()
    }
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Work").field("is_over", &self.is_over).finish_non_exhaustive()
    }
}

/// The limits of tokio's pool: its threads, and the time that it keeps one.
const MAX_THREADS: usize = 512;
const KEEP_ALIVE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;
    use std::{sync::mpsc, task::Waker};

    fn block_on<T>(task: BlockingTask<T>) -> Result<T, TaskError> {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(task)
    }

    #[test]
    fn work_gives_its_result_or_its_panic() {
        let threads = BlockingPool::new("blocking".to_owned(), || ());
        assert_eq!(block_on(threads.run(|| 7).unwrap().unwrap()).unwrap(), 7);
        // The result comes before its thread is idle again.
        while threads.0.pool().idle == 0 {
            std::thread::yield_now();
        }
        let failed = block_on(threads.run(|| panic!("work")).unwrap().unwrap());
        assert!(matches!(failed, Err(TaskError::Panicked(panic)) if panic.to_string() == "work"));
        assert_eq!(threads.0.pool().threads, 1, "one thread does it all");
    }

    #[test]
    fn work_at_a_time_has_threads_at_a_time() {
        let threads = BlockingPool::new("blocking".to_owned(), || ());
        let (near, far) = (mpsc::channel(), mpsc::channel());
        let first = threads.run(move || (near.0.send(()).unwrap(), far.1.recv().unwrap())).unwrap().unwrap();
        let second = threads.run(move || (far.0.send(()).unwrap(), near.1.recv().unwrap())).unwrap().unwrap();
        block_on(first).unwrap();
        block_on(second).unwrap();
    }

    #[test]
    fn end_cancels_work_that_waits_and_waits_for_the_rest() {
        let threads = BlockingPool::new("blocking".to_owned(), || ());
        let (go_on, gone_on) = mpsc::channel::<()>();
        let (begun, begins) = mpsc::channel();
        let busy = threads.run(move || (begun.send(()).unwrap(), gone_on.recv().unwrap_err())).unwrap().unwrap();
        begins.recv().unwrap();
        let held = Arc::new(());
        let kept = Arc::clone(&held);
        // As if no second thread could be had.
        let work = Arc::new(Work { job: Mutex::new(Some(Box::new(|| drop(kept)))), is_over: AtomicBool::new(false) });
        threads.0.pool().queued.push_back(Arc::clone(&work));
        threads.end();
        assert!(work.is_over.load(SeqCst) && Arc::strong_count(&held) == 1);
        assert!(!busy.is_over());
        assert!(matches!(threads.run(|| ()), Ok(None)));
        drop(go_on);
        threads.wait();
        assert!(busy.is_over());
        block_on(busy).unwrap();
    }

    #[test]
    fn cancelled_work_wakes_its_waiter() {
        let (result, work) = {
            let (done, result) = oneshot::channel::<Result<(), Payload>>();
            let job: Job = Box::new(move || drop(done.send(Ok(()))));
            (result, Arc::new(Work { job: Mutex::new(Some(job)), is_over: AtomicBool::new(false) }))
        };
        let mut task = BlockingTask { result, work };
        assert!(Pin::new(&mut task).poll(&mut Context::from_waker(Waker::noop())).is_pending());
        task.canceller().cancel();
        assert!(task.is_over());
        assert!(matches!(block_on(task), Err(TaskError::Cancelled)));
    }
}
