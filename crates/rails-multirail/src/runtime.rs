//! One OS thread per rail: bound to its CPUs, with a memory policy, and with a tokio runtime built on it after that.

use futures_util::FutureExt;
use rails_bind::{
    BindError, Outcome,
    memory::{self, BufferOptions, MemoryPolicy, NumaBuffer},
    thread::{self, Tid},
    usage::{ThreadUsage, UsageError},
};
use rails_topo::{CpuId, CpuSet, NodeId};
use std::{
    any::Any,
    fmt,
    future::Future,
    io,
    panic::AssertUnwindSafe,
    pin::Pin,
    sync::{Mutex, PoisonError, mpsc as std_mpsc},
    task::{Context, Poll},
    thread::JoinHandle,
};
use tokio::{
    runtime::{Builder, Handle},
    sync::{mpsc, oneshot},
};

/// A builder of a rail's runtime.
///
/// The order matters: [`RailRuntimeBuilder::build`] starts the thread, binds it, sets its memory policy and reads both
/// back. Only then it builds the runtime on the thread, so that the runtime's memory is local to the CPU. It returns
/// the error of a step that fails. (A tokio start hook could not do that: it cannot fail, and it does not run for the
/// thread that drives a `current_thread` runtime.)
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing until `build` is called"]
pub struct RailRuntimeBuilder {
    name: String,
    cpus: CpuSet,
    memory: Option<MemoryPolicy>,
}

/// A pinned thread with a tokio `current_thread` runtime. Dropping it stops the runtime, which drops tasks at their
/// next await, and joins the thread.
#[derive(Debug)]
pub struct RailRuntime {
    jobs: mpsc::UnboundedSender<Job>,
    handle: Handle,
    placement: Placement,
    thread: Option<JoinHandle<()>>,
}

/// The placement of a rail's thread, as read back.
#[derive(Debug, Clone)]
pub struct Placement {
    /// The thread.
    pub tid: Tid,
    /// The outcome of the binding, as `sched_getaffinity` read it back.
    pub cpus: Outcome<CpuSet>,
    /// The CPU that the thread ran on at that moment (`getcpu`).
    pub cpu: CpuId,
    /// The outcome of the memory policy, as `get_mempolicy` read it back; `None` if no policy was requested, and an
    /// error's text if the kernel has no memory policies.
    pub memory: Option<Result<Outcome<MemoryPolicy>, String>>,
    /// The node of a page that this thread was the first to touch, or why it is unknown.
    pub memory_node: Result<NodeId, String>,
}

/// Why a rail's runtime could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RuntimeError {
    /// The operating system gave no thread.
    #[error("no thread for rail `{name}`")]
    Spawn {
        /// The rail's name.
        name: String,
        /// The cause.
        source: io::Error,
    },
    /// The thread could not be placed.
    #[error("rail `{name}` could not be placed")]
    Bind {
        /// The rail's name.
        name: String,
        /// The cause.
        source: BindError,
    },
    /// tokio gave no runtime.
    #[error("no tokio runtime for rail `{name}`")]
    Runtime {
        /// The rail's name.
        name: String,
        /// The cause.
        source: io::Error,
    },
}

/// Why a task on a rail gave no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TaskError {
    /// The rail's runtime has stopped.
    #[error("the rail's runtime has stopped")]
    Stopped,
    /// The task panicked.
    #[error("the task panicked: {0}")]
    Panicked(Panic),
}

/// The payload of a panic.
pub struct Panic(Mutex<Payload>);

type Payload = Box<dyn Any + Send>;

/// The handle of a task on a rail, which resolves to the task's result. Dropping it does not stop the task.
#[derive(Debug)]
pub struct RailTask<T>(oneshot::Receiver<Result<T, Payload>>);

type Job = Box<dyn FnOnce() + Send>;

impl RailRuntimeBuilder {
    /// A runtime whose thread may run on `cpus` and nowhere else. On Linux the thread's name is cut to 15 bytes.
    pub fn new(name: impl Into<String>, cpus: CpuSet) -> Self {
        Self { name: name.into(), cpus, memory: None }
    }

    /// Sets the thread's memory policy. Default: the policy that the thread inherits from the calling thread.
    ///
    /// A kernel without memory policies is not an error: [`Placement::memory`] reports it.
    pub fn memory(self, policy: MemoryPolicy) -> Self {
        Self { memory: Some(policy), ..self }
    }

    /// Starts the thread, places it, and builds its runtime.
    ///
    /// # Errors
    /// [`RuntimeError`]. In this case the thread has ended.
    ///
    /// # Privileges
    /// None, for CPUs and nodes inside the process's cpuset.
    pub fn build(self) -> Result<RailRuntime, RuntimeError> {
        let (report, built) = std_mpsc::sync_channel(1);
        let (jobs, inbox) = mpsc::unbounded_channel();
        let name = self.name.clone();
        let spawned = std::thread::Builder::new().name(self.name.clone());
        let thread = spawned
            .spawn(move || self.run(&report, inbox))
            .map_err(|source| RuntimeError::Spawn { name: name.clone(), source })?;
        match built.recv() {
            Ok(Ok((placement, handle))) => Ok(RailRuntime { jobs, handle, placement, thread: Some(thread) }),
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
        report: &std_mpsc::SyncSender<Result<(Placement, Handle), RuntimeError>>,
        mut inbox: mpsc::UnboundedReceiver<Job>,
    ) {
        // This thread has inherited the affinity and policy of the thread that started it. The bindings below are the
        // rail's alone.
        let unbound = Unbound::of_this_thread();
        let runtime = self.place().and_then(|placement| Ok((placement, self.runtime(&unbound)?)));
        let runtime = match runtime {
            Ok((placement, runtime)) => {
                let _ = report.send(Ok((placement, runtime.handle().clone())));
                runtime
            }
            Err(error) => {
                let _ = report.send(Err(error));
                return;
            }
        };
        // tokio wakes a spawned task faster than the future of `block_on`, so a task takes the jobs.
        let intake = runtime.spawn_local(async move {
            while let Some(job) = inbox.recv().await {
                job();
            }
        });
        let _ = runtime.block_on(intake);
    }

    /// Places the calling thread until it ends, and reads the placement back.
    fn place(&self) -> Result<Placement, RuntimeError> {
        let failed = |source| RuntimeError::Bind { name: self.name.clone(), source };
        let cpus = thread::bind_current(&self.cpus).map_err(failed)?.keep();
        let memory = match &self.memory {
            None => None,
            Some(policy) => match memory::set_thread_policy(policy) {
                Ok(guard) => Some(Ok(guard.keep())),
                Err(error @ BindError::Unsupported { .. }) => Some(Err(error.to_string())),
                Err(error) => return Err(failed(error)),
            },
        };
        // The first touch decides the node of a page, and no other thread has touched this one. A page of the heap may
        // come from a thread that has ended.
        let page = NumaBuffer::new(PROBE, &BufferOptions::new().policy(MemoryPolicy::Default));
        let memory_node = page.map_err(|error| error.to_string()).and_then(|mut page| {
            page.fill(1);
            memory::node_of_page(&page).map_err(|error| error.to_string())
        });
        let cpu = thread::current_cpu().map_err(failed)?;
        Ok(Placement { tid: thread::current_tid(), cpus, cpu, memory, memory_node })
    }

    fn runtime(&self, unbound: &Unbound) -> Result<tokio::runtime::LocalRuntime, RuntimeError> {
        // Threads of the blocking pool inherit the rail's one-core mask, and file access must not compete with the
        // lane.
        let unbound = unbound.clone();
        Builder::new_current_thread()
            .enable_all()
            .thread_name(format!("{}-io", self.name))
            .on_thread_start(move || unbound.apply())
            .build_local(tokio::runtime::LocalOptions::default())
            .map_err(|source| RuntimeError::Runtime { name: self.name.clone(), source })
    }
}

impl RailRuntime {
    /// The placement of the thread.
    pub fn placement(&self) -> &Placement {
        &self.placement
    }

    /// The runtime's handle, for `Handle::spawn` and `Handle::enter`. [`RailRuntime::spawn`] also takes futures that
    /// are not `Send`.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Runs a task on the rail. The rail's thread calls `make` and keeps the future, which need not be `Send`. A panic
    /// ends the task alone: [`TaskError::Panicked`] has its payload.
    pub fn spawn<F, Fut>(&self, make: F) -> RailTask<Fut::Output>
    where
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future + 'static,
        Fut::Output: Send + 'static,
    {
        let (done, outcome) = oneshot::channel();
        let job = Box::new(move || {
            // `make` runs inside the task, so that its panic ends the task and not the rail.
            tokio::task::spawn_local(async move {
                // The future is dropped after a panic, so no code sees its broken state.
                let outcome = AssertUnwindSafe(async { make().await }).catch_unwind().await;
                // This fails if the caller has dropped the `RailTask`, which is fine.
                let _ = done.send(outcome);
            });
        });
        // If the rail has stopped, the job is dropped, and the caller gets `TaskError::Stopped`.
        let _ = self.jobs.send(job);
        RailTask(outcome)
    }

    /// CPU time and context switches of the thread up to now.
    ///
    /// # Errors
    /// [`UsageError`] if `/proc` cannot be read.
    pub fn usage(&self) -> Result<ThreadUsage, UsageError> {
        ThreadUsage::of(self.placement.tid)
    }

    /// The CPUs that the thread may run on now, read anew.
    ///
    /// # Errors
    /// [`BindError`] if the kernel does not report them.
    pub fn cpus_now(&self) -> Result<CpuSet, BindError> {
        thread::affinity_of(self.placement.tid)
    }
}

impl Drop for RailRuntime {
    fn drop(&mut self) {
        // The intake task ends after the last sender is dropped, and `block_on` with it.
        let (closed, _) = mpsc::unbounded_channel();
        drop(std::mem::replace(&mut self.jobs, closed));
        let on_itself = self.thread.as_ref().is_some_and(|thread| thread.thread().id() == std::thread::current().id());
        if let Some(thread) = self.thread.take().filter(|_| !on_itself)
            && thread.join().is_err()
        {
            tracing::error!("a rail's thread panicked");
        }
    }
}

impl<T> Future for RailTask<T> {
    type Output = Result<T, TaskError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context).map(|outcome| match outcome {
            Ok(outcome) => outcome.map_err(|payload| TaskError::Panicked(Panic(Mutex::new(payload)))),
            Err(_) => Err(TaskError::Stopped),
        })
    }
}

impl Panic {
    /// The payload, for [`resume_unwind`](std::panic::resume_unwind) or a downcast.
    pub fn into_payload(self) -> Box<dyn Any + Send> {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The message of a panic by `panic!`.
impl fmt::Display for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let payload = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let text = payload.downcast_ref::<&str>().copied();
        f.write_str(text.or(payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("its payload is no text"))
    }
}

impl fmt::Debug for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Panic({self})")
    }
}

/// The affinity and policy for threads of the blocking pool: those of the rail's thread before it was placed.
#[derive(Debug, Clone)]
struct Unbound {
    cpus: Option<CpuSet>,
    memory: Option<MemoryPolicy>,
}

impl Unbound {
    fn of_this_thread() -> Self {
        Self { cpus: thread::current_affinity().ok(), memory: memory::thread_policy().ok() }
    }

    /// Frees the calling thread from its rail's binding. A hook cannot fail, so this logs errors.
    fn apply(&self) {
        let freed = self.cpus.as_ref().map(|cpus| thread::bind_current(cpus).map(|guard| guard.keep()));
        if let Some(Err(error)) = freed {
            tracing::warn!(%error, "a blocking thread stays on its rail's CPUs");
        }
        let freed = self.memory.as_ref().map(|policy| memory::set_thread_policy(policy).map(|guard| guard.keep()));
        if let Some(Err(error)) = freed {
            tracing::warn!(%error, "a blocking thread keeps its rail's memory policy");
        }
    }
}

/// The size of the buffer whose node is read: one page is enough.
const PROBE: usize = 4 << 10;
