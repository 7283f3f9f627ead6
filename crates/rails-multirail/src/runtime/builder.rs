//! How a rail's thread is placed, and its runtime built on it.

use super::{
    RailRuntime, Running, RuntimeError,
    parking::Parking,
    placement::{CurrentPlacement, Placement, Unbound, Wanted},
    shutdown::{Alive, Life, Stage},
};
use crate::{blocking::BlockingPool, last_work};
use rails_bind::{
    claims::Claim,
    limits::{name_thread_limits, try_runtime_descriptors},
    memory::MemoryPolicy,
};
use rails_task::TaskQueues;
use rails_topo::CpuSet;
use std::{
    io,
    sync::{Arc, Mutex, atomic::AtomicBool, mpsc},
    time::Duration,
};
use tokio::{
    runtime::{Builder, Handle, LocalOptions, LocalRuntime},
    sync::oneshot,
};

/// A builder of a rail's runtime.
///
/// The order matters: [`RailRuntimeBuilder::build`] starts the thread, binds it, sets its memory
/// policy and reads both back. Only then it builds the runtime on the thread, so that the runtime's
/// memory is local to the CPU. It returns the error of a step that fails. A call that the system
/// refuses, as the filters of containers do, is none, unless the placement is
/// [required](Self::required): the thread runs without that property, and [`Placement::unheld`]
/// says so. (A tokio start hook could not do that: it cannot fail, and it does not run for the
/// thread that drives a `current_thread` runtime.)
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing until `build` is called"]
pub struct RailRuntimeBuilder {
    name: String,
    wanted: Wanted,
    spin: Duration,
    tasks: Option<TaskQueues>,
    helpers: CpuSet,
    /// The claims that the thread holds until it ends.
    claims: Option<Arc<[Mutex<Vec<Claim>>]>>,
}

/// The placement of a runtime's thread, its handle, and its threads for work that computes.
type Built = (Placement, Handle, Arc<BlockingPool>);

/// The longest time that [`RailRuntimeBuilder::spin`] sets.
pub const LONGEST_SPIN: Duration = Duration::from_millis(10);

impl RailRuntimeBuilder {
    /// A runtime whose thread may run on `cpus` and nowhere else. On Linux the thread's name is cut
    /// to 15 bytes.
    pub fn new(name: impl Into<String>, cpus: CpuSet) -> Self {
        Self::wanting(name.into(), Some(cpus))
    }

    /// A runtime whose thread runs where the scheduler puts it.
    pub(crate) fn unbound(name: String) -> Self {
        Self::wanting(name, None)
    }

    fn wanting(name: String, cpus: Option<CpuSet>) -> Self {
        let (tasks, helpers, claims) = Default::default();
        let wanted = Wanted { cpus, memory: None, is_required: false };
        Self { name, wanted, spin: Duration::ZERO, tasks, helpers, claims }
    }

    /// Sets the thread's memory policy. Default: the policy that the thread inherits from the
    /// calling thread.
    ///
    /// A system that refuses the policy, or has none, is not an error: [`Placement::memory`]
    /// reports it.
    pub fn memory(self, policy: MemoryPolicy) -> Self {
        Self { wanted: Wanted { memory: Some(policy), ..self.wanted }, ..self }
    }

    /// Has the runtime not be built if the system refuses the CPUs or the memory policy, and
    /// refuses moves likewise. Default: the thread runs without them.
    pub fn required(self) -> Self {
        Self { wanted: Wanted { is_required: true, ..self.wanted }, ..self }
    }

    /// Sets how long the thread stays awake when it has nothing left to do, before it sleeps: at
    /// most [`LONGEST_SPIN`]. Default: zero. An event in this time is seen in about a microsecond,
    /// where waking a sleeping thread takes tens of them. The time is counted from the moment at
    /// which the work that woke the thread was done, and is not extended by events: a rail with
    /// steady traffic sleeps once in each such time.
    ///
    /// Spinning costs the CPU all the while, also where other threads need it. A lane's `busy_poll`
    /// is another thing: there the kernel polls the NIC's queue during a system call.
    pub fn spin(self, time: Duration) -> Self {
        Self { spin: time.min(LONGEST_SPIN), ..self }
    }

    /// Has the thread run tasks of these queues when it has nothing else to do: it looks for them
    /// before it sleeps, and a task wakes it that may run on its CPUs. Default: none.
    ///
    /// In a [rail of several cores](crate::planner::RailWish) the lanes have their task runtimes
    /// seal, open and check bytes when their own core is behind.
    pub fn tasks(self, queues: &TaskQueues) -> Self {
        Self { tasks: Some(queues.clone()), ..self }
    }

    /// The CPUs that help the thread, if it has [tasks](Self::tasks).
    pub(crate) fn helpers(self, cpus: &CpuSet) -> Self {
        Self { helpers: cpus.clone(), ..self }
    }

    /// Has the thread hold these claims until it ends, and its runtime with it.
    pub(crate) fn claims(self, claims: Arc<[Mutex<Vec<Claim>>]>) -> Self {
        Self { claims: Some(claims), ..self }
    }

    /// Starts the thread, places it, and builds its runtime.
    ///
    /// # Errors
    /// [`RuntimeError`]. In this case the thread has ended.
    ///
    /// # Privileges
    /// None, for CPUs and nodes inside the process's cpuset.
    pub fn build(self) -> Result<RailRuntime, RuntimeError> {
        let (report, built) = mpsc::sync_channel(1);
        let (stop, stopped) = oneshot::channel();
        let (name, life) = (self.name.clone(), Arc::new(Life::new()));
        let is_required = self.wanted.is_required;
        let parking = Arc::new(Parking::new(self.spin, self.tasks.clone()));
        let alive = Alive { life: life.clone(), rail: name.clone() };
        if name.contains('\0') {
            let source = io::Error::new(io::ErrorKind::InvalidInput, "a thread's name has no null bytes");
            return Err(RuntimeError::Spawn { name, source });
        }
        let spawned = std::thread::Builder::new().name(self.name.clone());
        let own = Arc::clone(&parking);
        let thread = spawned
            .spawn(move || self.run(&report, stopped, own, &alive))
            .map_err(|refused| RuntimeError::Spawn { name: name.clone(), source: name_thread_limits(refused) })?;
        match built.recv() {
            Ok(Ok((placement, handle, blocking_pool))) => {
                let thread_id = thread.thread().id();
                let placement = Arc::new(CurrentPlacement::new(placement));
                let (stop, thread) = (Mutex::new(Some(stop)), Mutex::new(Some(thread)));
                let is_stopping = AtomicBool::new(false);
                let shared = Running {
                    name,
                    handle,
                    is_required,
                    placement,
                    parking,
                    blocking_pool,
                    life,
                    thread_id,
                    stop,
                    is_stopping,
                    thread,
                };
                Ok(RailRuntime { shared: Arc::new(shared) })
            }
            Ok(Err(error)) => {
                // The thread ends after it has reported its error.
                let _ = thread.join();
                Err(error)
            }
            Err(_) => {
                let cause = io::Error::other("its thread panicked while it was set up");
                Err(RuntimeError::Runtime { name, source: cause })
            }
        }
    }

    /// The main function of the rail's thread.
    fn run(
        self,
        report: &mpsc::SyncSender<Result<Built, RuntimeError>>,
        stopped: oneshot::Receiver<()>,
        parking: Arc<Parking>,
        alive: &Alive,
    ) {
        last_work::done_on_this_thread();
        // This thread has inherited the affinity and policy of the thread that started it. The bindings
        // below are the rail's alone.
        let unbound = Unbound::of_this_thread();
        let freed = unbound.clone();
        let placement = Placement::of_this_thread(&self.wanted)
            .map_err(|source| RuntimeError::Bind { name: self.name.clone(), source });
        let name = || self.name.clone();
        let runtime = placement.and_then(|placement| {
            parking.attach().map_err(|source| RuntimeError::Tasks { name: name(), source })?;
            parking.set_helpers(&self.helpers);
            Ok((placement, self.runtime(unbound, &parking)?))
        });
        match runtime {
            Ok((placement, runtime)) => {
                let blocking_pool = Arc::new(BlockingPool::new(format!("{}-io", self.name), move || freed.apply()));
                let _ = report.send(Ok((placement, runtime.handle().clone(), Arc::clone(&blocking_pool))));
                runtime.block_on(parking.until(stopped));
                parking.detach();
                alive.life.enter(Stage::Stopping);
                blocking_pool.end();
                // Dropping the runtime drops the tasks, and then waits for blocking work, without a limit: the
                // limits are the waiting callers'.
                drop(runtime);
                blocking_pool.wait();
            }
            Err(error) => {
                let _ = report.send(Err(error));
            }
        }
        // The thread runs nothing more.
        drop(self.claims);
    }

    fn runtime(&self, unbound: Unbound, parking: &Arc<Parking>) -> Result<LocalRuntime, RuntimeError> {
        let not_built = |source| RuntimeError::Runtime { name: self.name.clone(), source };
        try_runtime_descriptors().map_err(not_built)?;
        let mut builder = Builder::new_current_thread();
        if parking.is_needed() {
            let (before, after) = (Arc::clone(parking), Arc::clone(parking));
            builder.on_thread_park(move || before.before_sleep()).on_thread_unpark(move || after.after_sleep());
        }
        // Threads of the blocking pool inherit the rail's one-core mask, and file access must not compete
        // with the lane.
        builder
            .enable_all()
            .thread_name(format!("{}-io", self.name))
            .on_thread_start(move || unbound.apply())
            .build_local(LocalOptions::default())
            .map_err(not_built)
    }
}
