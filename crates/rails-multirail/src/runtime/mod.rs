//! One OS thread per rail: bound to its CPUs, with a memory policy, and with a tokio runtime built
//! on it after that.

mod builder;
mod error;
mod parking;
mod placement;
mod shutdown;
mod task;
mod task_error;

use crate::blocking::BlockingPool;
pub use builder::{LONGEST_SPIN, RailRuntimeBuilder};
pub use error::{MoveError, RuntimeError};
use parking::Parking;
pub use placement::Placement;
use placement::{ComputePlacement, CurrentPlacement, Wanted};
use rails_bind::{
    BindError,
    memory::MemoryPolicy,
    thread,
    usage::{ThreadUsage, UsageError},
};
use rails_topo::{CpuSet, NodeId};
pub use shutdown::ShutdownError;
use shutdown::{Life, Stage, outcome};
pub(crate) use shutdown::{Stopping, end_dropped};
use std::{
    future::Future,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};
pub use task::{RailAbortHandle, RailTask};
pub use task_error::{Panic, TaskError};
use tokio::{runtime::Handle, sync::oneshot, time::timeout};

/// A pinned thread with a tokio `current_thread` runtime. Clones are one runtime.
///
/// Dropping the last clone stops the runtime as [`blocking_shutdown`](Self::blocking_shutdown) does
/// with a limit of [`DROP_LIMIT`], and logs a rail that goes on. In a task, and on a thread for
/// blocking work of a runtime, dropping it does not wait: a thread of its own does, and the process
/// does not end before that thread has waited. A task of the runtime that holds a clone keeps it
/// running. The runtimes of [`Rails`](crate::Rails) stop with these, also while clones are left.
#[derive(Debug, Clone)]
pub struct RailRuntime {
    shared: Arc<Running>,
}

/// A rail's thread and runtime, which all clones of a [`RailRuntime`] share.
#[derive(Debug)]
struct Running {
    name: String,
    handle: Handle,
    /// Whether a property that the system refuses is an error, also of a move.
    is_required: bool,
    placement: Arc<CurrentPlacement>,
    parking: Arc<Parking>,
    /// The threads for work that computes.
    blocking_pool: Arc<BlockingPool>,
    life: Arc<Life>,
    thread_id: std::thread::ThreadId,
    /// The sender whose drop stops the runtime, until the first call to stop.
    stop: Mutex<Option<oneshot::Sender<()>>>,
    /// Whether a caller has stopped the runtime. Its thread may go on for a while.
    is_stopping: AtomicBool,
    /// The thread, until a caller has waited for its end, in vain or not.
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// The time that the drop of a [`RailRuntime`], or of the last clone of [`Rails`](crate::Rails),
/// waits at most.
pub const DROP_LIMIT: Duration = Duration::from_secs(10);

#[cfg(feature = "hyper")]
impl<F> hyper::rt::Executor<F> for RailRuntime
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    /// Runs a task of hyper's, such as a stream of HTTP/2, on the rail.
    fn execute(&self, future: F) {
        drop(self.spawn(future));
    }
}

impl RailRuntime {
    /// The placement of the thread, as it was read back when it was built, or moved last.
    pub fn placement(&self) -> Arc<Placement> {
        self.shared.placement.get()
    }

    /// The node from which the thread gets its pages, if it is known.
    pub(crate) fn memory_node(&self) -> Option<NodeId> {
        self.shared.placement.memory_node()
    }

    /// Moves the thread to other CPUs and another memory policy while it runs, and reads both back.
    /// Memory that it has already stays where it is.
    ///
    /// The thread itself sets its memory policy, so a task that occupies it holds that up. After
    /// `limit` this returns without it: [`Placement::memory`] then says so, and the policy
    /// follows once the thread is free. The same holds if the future is dropped.
    ///
    /// # Errors
    /// [`MoveError`]. After an error of the first step, which binds the thread, it is where it was.
    /// A call that the system refuses is an error only if the placement is
    /// [required](RailRuntimeBuilder::required): the thread stays where it was otherwise, and
    /// [`Placement::unheld`] says so.
    ///
    /// # Privileges
    /// None, for CPUs and nodes inside the process's cpuset.
    pub async fn move_to(
        &self,
        cpus: &CpuSet,
        memory: Option<MemoryPolicy>,
        limit: Duration,
    ) -> Result<Arc<Placement>, MoveError> {
        let placing = self.begin_move(cpus, memory)?;
        match timeout(limit, placing).await {
            Ok(Ok(placed)) => placed.map_err(|source| MoveError::Bind { name: self.shared.name.clone(), source })?,
            Ok(Err(_)) => return Err(MoveError::Stopped { name: self.shared.name.clone() }),
            Err(_) => {}
        }
        Ok(self.placement())
    }

    /// Binds the thread to other CPUs, and has it do the rest once it is free.
    pub(crate) fn begin_move(
        &self,
        cpus: &CpuSet,
        memory: Option<MemoryPolicy>,
    ) -> Result<RailTask<Result<(), BindError>>, MoveError> {
        let name = || self.shared.name.clone();
        if self.shared.life.stage() != Stage::Running {
            return Err(MoveError::Stopped { name: name() });
        }
        let wanted = Wanted { cpus: Some(cpus.clone()), memory, is_required: self.shared.is_required };
        let bound = self.shared.placement.bind(cpus, &wanted, &self.shared.parking);
        let turn = bound.map_err(|source| MoveError::Bind { name: name(), source })?;
        let (current, parking, name) = (self.shared.placement.clone(), self.shared.parking.clone(), name());
        let attach = move || {
            let attached = parking.attach();
            attached
                .unwrap_or_else(|error| tracing::warn!(%error, "a rail was moved, and runs no tasks of its queues"));
        };
        Ok(self.spawn(async move {
            // A caller whose time was up does not hear of it any more.
            let placed = current.place_this_thread(turn, &wanted, attach);
            placed.inspect_err(|error| tracing::warn!(rail = name, %error, "a rail was moved, and could not be placed"))
        }))
    }

    /// Gives the thread helpers on these CPUs, once it is free.
    pub(crate) fn set_helpers(&self, cpus: CpuSet) {
        if self.shared.parking.runs_tasks() {
            let parking = self.shared.parking.clone();
            drop(self.spawn(async move { parking.set_helpers(&cpus) }));
        }
    }

    /// The runtime's handle, for `Handle::enter` and for libraries that take one.
    pub fn handle(&self) -> &Handle {
        &self.shared.handle
    }

    /// Runs a task on the rail, from any thread. A panic ends the task alone:
    /// [`TaskError::Panicked`] has its payload. On the rail itself this is `tokio::spawn`; from
    /// elsewhere it wakes the rail's thread.
    ///
    /// A rail that [stops](Self::shutdown) takes no task: the future is dropped, and the task is
    /// [`TaskError::Cancelled`]. So are the tasks of the other calls. `tokio::spawn` in a task of
    /// the rail takes them for as long as that task runs.
    pub fn spawn<F>(&self, future: F) -> RailTask<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        if self.is_stopping() { RailTask::refused() } else { RailTask::new(self.shared.handle.spawn(future)) }
    }

    /// Runs a task that need not be `Send`, from any thread: the rail's thread calls `make` and
    /// keeps the future. On the rail itself this is `tokio::task::spawn_local`; from elsewhere
    /// it costs two tasks.
    pub fn spawn_local<F, Fut>(&self, make: F) -> RailTask<Fut::Output>
    where
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future + 'static,
        Fut::Output: Send + 'static,
    {
        if self.is_stopping() {
            return RailTask::refused();
        }
        // A destructor at the thread's end, and a caller that has entered another runtime, are on the
        // thread and yet outside the runtime.
        if self.is_current() && Handle::try_current().is_ok_and(|current| current.id() == self.shared.handle.id()) {
            // `make` runs inside the task, so that its panic ends the task and not its caller.
            return RailTask::new(tokio::task::spawn_local(async { make().await }));
        }
        let (within, held) = oneshot::channel();
        let local = || {
            tokio::task::spawn_local(async {
                // Dropped after the future.
                let _held = held;
                make().await
            })
        };
        let outer = self.shared.handle.spawn(async { task::LinkedTask(local()).join().await });
        RailTask::with_linked(outer, within)
    }

    /// Runs a task on the rail, as [`spawn_local`](Self::spawn_local) does, and blocks the calling
    /// thread until it ends.
    ///
    /// # Errors
    /// [`TaskError`] if the task gave no result.
    ///
    /// # Panics
    /// In a task, of this runtime or of another one, as [`Handle::block_on`] does: a task awaits
    /// instead.
    pub fn block_on<F, Fut>(&self, make: F) -> Result<Fut::Output, TaskError>
    where
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future + 'static,
        Fut::Output: Send + 'static,
    {
        // The future is made inside, so that a panic of tokio's comes before the task has started.
        self.shared.handle.block_on(async { self.spawn_local(make).await })
    }

    /// Runs work that computes on the rail's CPUs, from any thread, and lets the rail's own thread
    /// go on: the work has a thread of its own, inside the rail's runtime, with the CPUs of the
    /// rail as the work begins, and the memory policy if it was set with them. The scheduler
    /// shares the CPU between that thread and the rail's, and prefers the rail's when that
    /// wakes and has used less than its share. So streams make progress while the program computes
    /// beside them. With several computations at a time, each has as much of the CPU as the rail. A
    /// future that computes holds all lanes of the rail up instead.
    ///
    /// The work stays where it is if the rail moves, also on the core of an exclusive rail, whose
    /// claim moves on. A thread that cannot be placed, for want of a CPU that is online,
    /// computes where the scheduler puts it, and logs a warning. [`RailTask::abort`] stops the
    /// work only before it has begun. [`shutdown`](Self::shutdown) waits for it, and starts
    /// none. Work that finds 512 threads busy, or no further one, waits for one of them; if there
    /// is none at all, the task is [`TaskError::NoThread`].
    pub fn compute<F, T>(&self, work: F) -> RailTask<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        if self.is_stopping() {
            return RailTask::refused();
        }
        let (placement, rail) = (self.shared.placement.clone(), self.shared.thread_id);
        let [runtime, after] = [(); 2].map(|()| self.shared.handle.clone());
        let work = move || {
            let _inside = runtime.enter();
            let _placed = ComputePlacement::of(&placement.get(), rail);
            work()
        };
        // A result may be the last clone of this runtime, which waits for the thread: its drop must not
        // wait for the runtime.
        let unclaimed = move |result| {
            let _inside = after.enter();
            drop(result);
        };
        RailTask::blocking(self.shared.blocking_pool.run_or(work, unclaimed))
    }

    /// Whether the calling thread is the rail's own.
    pub fn is_current(&self) -> bool {
        std::thread::current().id() == self.shared.thread_id
    }

    /// Stops the runtime, and waits until it has ended, for `limit` at most. The runtime drops its
    /// tasks at their next await, and takes no further ones: a task that is spawned after this
    /// call is [`TaskError::Cancelled`], also if the rail does not end in time. A rail that has
    /// stopped already is not an error.
    ///
    /// The rail stops also if the future is dropped before it is ready.
    ///
    /// # Errors
    /// [`ShutdownError`] if the rail has not ended within `limit`. Its thread then ends by itself,
    /// once it can.
    ///
    /// # Panics
    /// Outside a tokio runtime with time enabled.
    pub async fn shutdown(&self, limit: Duration) -> Result<(), ShutdownError> {
        // An instant beyond the clock's range is no limit.
        self.shutdown_by(limit, Instant::now().checked_add(limit)).await
    }

    pub(crate) async fn shutdown_by(&self, limit: Duration, deadline: Option<Instant>) -> Result<(), ShutdownError> {
        self.stop();
        self.refuse_own_threads()?;
        drop(self.shared.take_thread());
        outcome(self.shared.life.ended(deadline).await, self.shared.name.clone(), limit)
    }

    /// As [`shutdown`](Self::shutdown), and blocks the calling thread, which should run no tasks.
    ///
    /// # Errors
    /// As there.
    pub fn blocking_shutdown(&self, limit: Duration) -> Result<(), ShutdownError> {
        self.blocking_shutdown_by(limit, Instant::now().checked_add(limit))
    }

    pub(crate) fn blocking_shutdown_by(&self, limit: Duration, deadline: Option<Instant>) -> Result<(), ShutdownError> {
        self.stop();
        self.refuse_own_threads()?;
        let thread = self.shared.take_thread();
        outcome(self.shared.life.wait_for_end(deadline), self.shared.name.clone(), limit)?;
        // `Alive` has told of a panic.
        drop(thread.map(JoinHandle::join));
        Ok(())
    }

    /// Fails on threads that the rail's end waits for.
    fn refuse_own_threads(&self) -> Result<(), ShutdownError> {
        if self.is_current() || ComputePlacement::is_of(self.shared.thread_id) {
            return Err(ShutdownError::OnTheRail { rail: self.shared.name.clone() });
        }
        Ok(())
    }

    /// Stops a rail whose owner is dropped. `None` if a caller has waited for its end already: it
    /// is not waited for again.
    pub(crate) fn stop_dropped(&self) -> Option<Stopping> {
        self.shared.stop_dropped()
    }

    fn is_stopping(&self) -> bool {
        self.shared.is_stopping.load(SeqCst)
    }

    /// Stops the runtime without waiting.
    pub(crate) fn stop(&self) {
        self.shared.stop();
    }

    /// CPU time and context switches of the thread up to now.
    ///
    /// # Errors
    /// [`UsageError`] if the thread has ended, or `/proc` cannot be read.
    pub fn usage(&self) -> Result<ThreadUsage, UsageError> {
        let tid = self.placement().tid;
        let usage = ThreadUsage::of(tid);
        // The number of a thread that has ended may be another thread's.
        if self.shared.life.stage() == Stage::Ended {
            Err(UsageError::NoSuchThread { tid, process: None })
        } else {
            usage
        }
    }

    /// The CPUs that the thread may run on now, read anew.
    ///
    /// # Errors
    /// [`BindError`] if the kernel does not report them.
    pub fn cpus_now(&self) -> Result<CpuSet, BindError> {
        thread::affinity_of(self.placement().tid)
    }
}

impl Running {
    fn stop(&self) {
        self.is_stopping.store(true, SeqCst);
        drop(self.stop.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    fn take_thread(&self) -> Option<JoinHandle<()>> {
        self.thread.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn stop_dropped(&self) -> Option<Stopping> {
        self.stop();
        let thread = self.take_thread()?;
        Some(Stopping { rail: self.name.clone(), life: self.life.clone(), thread })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        end_dropped(self.stop_dropped().into_iter().collect());
    }
}
