//! Errors, one for each family of calls.

use rails_bind::BindError;
use rails_topo::CpuSet;
use std::io;

/// Why a task cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NewTaskError {
    /// The task's CPU set is empty.
    #[error("a task has to be allowed on one CPU at least")]
    NoCpu,
    /// The task's CPU set has CPUs that are not online, or not of this machine.
    #[error("a task is to run on CPUs {cpus}, and this machine has {online} online")]
    Outside {
        /// The task's CPUs.
        cpus: CpuSet,
        /// The machine's online CPUs.
        online: CpuSet,
    },
    /// The task's deadline is no time after the submission.
    #[error("a task is to run before its submission: the time of its deadline has to be above zero")]
    ZeroDeadline,
    /// The operating system gave no thread that could block for the task's event.
    #[error("no thread to block for the task's event: {0}")]
    Thread(io::ErrorKind),
}

/// Why a task is not queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SubmitError {
    /// The queue of the task's object is full, and so are those of the objects around it.
    #[error("the task queues are full")]
    Full,
    /// The task was cancelled, or has panicked.
    #[error("the task is over: it was cancelled, or has panicked")]
    Over,
    /// The queues were closed.
    #[error("the task queues are closed")]
    Closed,
}

/// Why a thread cannot run tasks.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttachError {
    /// The thread's CPUs could not be read, or not be set.
    #[error("the thread that is to run tasks could not be placed")]
    Bind(#[from] BindError),
    /// The thread's CPUs are not of the machine that the queues were made for.
    #[error("the thread may run on CPUs {cpus}, and the queues are those of {online}")]
    Outside {
        /// The thread's CPUs.
        cpus: CpuSet,
        /// The machine's online CPUs.
        online: CpuSet,
    },
    /// The operating system gave no thread.
    #[error("no thread for tasks")]
    Spawn(#[source] io::Error),
    /// A timer's period is zero.
    #[error("the period of a timer that runs tasks has to be above zero")]
    ZeroPeriod,
}

/// Why a thread does not get this share of a CPU's time.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("a share of a CPU's time is 0.001 to 1, and not {share}")]
pub struct BudgetError {
    /// The share.
    pub share: f64,
}
