//! The usage of threads and of the process, so that one thread can read the cost of another.
//!
//! A thread is read from three small files (`stat`, `schedstat`, `sched`; `status` if there is no
//! `sched`). They are parsed here and not by the crate `procfs`, because that knows no `sched` file
//! (migrations, NUMA faults), and parses all 52 fields of `stat` and the whole of `status` for a
//! few figures.

mod files;
mod history;
mod interval;
mod numa_faults;
mod thread_usage;

use crate::thread::Tid;
pub use history::{CpuHistory, Whereabouts};
use nix::sys::resource::{UsageWho, getrusage};
pub use numa_faults::{NodeFaults, NumaFaults};
use serde::Serialize;
use serde_with::{As, DurationMicroSeconds};
use std::{fmt, io, time::Duration};
pub use thread_usage::{ThreadUsage, cpu_time_of, threads_of};
pub(crate) use thread_usage::{parent, started};

/// The CPU time that this process has used, all of its threads together, the ended ones too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ProcessUsage {
    /// Time in the process's own code.
    #[serde(rename = "user_us", serialize_with = "As::<DurationMicroSeconds>::serialize")]
    pub user: Duration,
    /// Time in the kernel on the process's behalf, without the work of interrupts.
    #[serde(rename = "system_us", serialize_with = "As::<DurationMicroSeconds>::serialize")]
    pub system: Duration,
}

/// Usage that could not be read or compared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UsageError {
    /// The process has no such thread, or the thread has ended.
    #[error("thread {tid} is not a thread of {}, or has ended", Process(process))]
    NoSuchThread {
        /// The thread.
        tid: Tid,
        /// The process that was asked for; `None` for this one.
        process: Option<Tid>,
    },

    /// There is no such process, or `/proc` is mounted with `hidepid` and the process is another
    /// user's.
    #[error("process {process} does not exist, or is hidden")]
    NoSuchProcess {
        /// The process.
        process: Tid,
    },

    /// The kernel does not have the file (`schedstat` needs `CONFIG_SCHED_INFO`), or does not let
    /// it be read.
    #[error("cannot read {path}")]
    Read {
        /// The file.
        path: String,
        /// The answer of the operating system.
        source: io::Error,
    },

    /// The file is malformed.
    #[error("{path} has no {field}")]
    Malformed {
        /// The file.
        path: String,
        /// The missing figure.
        field: &'static str,
    },

    /// Usages of two threads cannot be subtracted.
    #[error("the usage of thread {earlier} cannot be taken from that of thread {later}")]
    DifferentThreads {
        /// The thread of the earlier reading.
        earlier: Tid,
        /// The thread of the later reading.
        later: Tid,
    },

    /// The number was another thread's at the earlier reading.
    #[error("thread {tid} has ended, and another one has its number by now")]
    Replaced {
        /// The number of both.
        tid: Tid,
    },

    /// `getrusage` failed.
    #[error("getrusage failed")]
    Call(#[source] io::Error),
}

/// A process in a message.
struct Process<'a>(&'a Option<Tid>);

impl ProcessUsage {
    /// Reads the usage of this process.
    ///
    /// # Errors
    /// [`UsageError::Call`] if the call is forbidden, which only a seccomp filter does.
    ///
    /// # References
    /// [getrusage(2)](https://man7.org/linux/man-pages/man2/getrusage.2.html)
    #[doc(alias = "getrusage")]
    pub fn current() -> Result<Self, UsageError> {
        Self::read(UsageWho::RUSAGE_SELF)
    }

    /// Reads the usage of the processes that this one started and has waited for, with those that
    /// they have waited for.
    ///
    /// # Errors
    /// As [`current`](Self::current).
    pub fn of_ended_children() -> Result<Self, UsageError> {
        Self::read(UsageWho::RUSAGE_CHILDREN)
    }

    fn read(of: UsageWho) -> Result<Self, UsageError> {
        let usage = getrusage(of).map_err(|errno| UsageError::Call(errno.into()))?;
        Ok(Self { user: duration(usage.user_time()), system: duration(usage.system_time()) })
    }

    /// User and system time together.
    pub fn total(&self) -> Duration {
        self.user + self.system
    }
}

impl fmt::Display for Process<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(process) => write!(f, "process {process}"),
            None => f.write_str("this process"),
        }
    }
}

fn duration(time: nix::sys::time::TimeVal) -> Duration {
    // Times used are never negative, and their microseconds are below a million.
    Duration::new(time.tv_sec().unsigned_abs(), time.tv_usec().unsigned_abs() as u32 * 1000)
}

/// For [`crate::fuzzing`].
#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz(text: &str) {
    let _ =
        (files::parse_stat(text), files::parse_schedstat(text), files::parse_switches(text), files::parse_sched(text));
}
