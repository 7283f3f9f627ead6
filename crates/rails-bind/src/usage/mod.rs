//! What threads and the process have used, so that one thread can read what another costs.

use crate::{kernel_files::status_field, thread::Tid};
use rails_topo::CpuId;
use serde::{Serialize, Serializer};
use std::{fs, io, time::Duration};

/// What one thread of this process has used since it began.
///
/// The figures come from three files that are read one after another, so they are not of one instant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ThreadUsage {
    /// The thread.
    pub tid: Tid,
    /// Time on a CPU, as of the last scheduler tick or switch; `None` where the kernel does not account for it, and for
    /// a thread that has never run.
    #[serde(rename = "cpu_time_ns", serialize_with = "optional_nanoseconds")]
    pub cpu_time: Option<Duration>,
    /// Time that it was ready to run and waited for a CPU; `None` as with the time on a CPU.
    #[serde(rename = "run_queue_wait_ns", serialize_with = "optional_nanoseconds")]
    pub run_queue_wait: Option<Duration>,
    /// How often it gave its CPU up by waiting for something.
    pub voluntary_switches: u64,
    /// How often its CPU was taken from it.
    pub involuntary_switches: u64,
    /// The CPU that it last ran on, or runs on.
    pub last_cpu: CpuId,
}

/// The CPU time that this process has used, all of its threads together, the ended ones too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ProcessUsage {
    /// In its own code.
    #[serde(rename = "user_us", serialize_with = "microseconds")]
    pub user: Duration,
    /// In the kernel on its behalf; work of interrupts is not in it.
    #[serde(rename = "system_us", serialize_with = "microseconds")]
    pub system: Duration,
}

/// Usage that could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UsageError {
    /// This process has no such thread, or it has ended.
    #[error("thread {tid} is not a thread of this process, or has ended")]
    NoSuchThread {
        /// The thread.
        tid: Tid,
    },

    /// The kernel does not have the file (`schedstat` needs `CONFIG_SCHED_INFO`), or does not let it be read.
    #[error("cannot read {path}")]
    Read {
        /// The file.
        path: String,
        /// What the operating system said.
        source: io::Error,
    },

    /// The file does not say what it should.
    #[error("{path} has no {field}")]
    Malformed {
        /// The file.
        path: String,
        /// What could not be found in it.
        field: &'static str,
    },

    /// `getrusage` failed.
    #[error("getrusage failed for this process")]
    Call(#[source] io::Error),
}

impl ThreadUsage {
    /// Reads what thread `tid` of this process has used.
    ///
    /// # Privileges
    /// None.
    ///
    /// # Errors
    /// [`UsageError::NoSuchThread`] for a thread that has ended, or is another process's.
    ///
    /// # References
    /// [Scheduler statistics](https://docs.kernel.org/scheduler/sched-stats.html#proc-pid-schedstat),
    /// [proc_pid_stat(5)](https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html)
    pub fn of(tid: Tid) -> Result<Self, UsageError> {
        let times = parse(tid, "schedstat", "times", parse_schedstat)?;
        let (voluntary_switches, involuntary_switches) = parse(tid, "status", "context switches", parse_switches)?;
        let last_cpu = parse(tid, "stat", "processor", parse_last_cpu)?;
        Ok(Self {
            tid,
            cpu_time: times.map(|times| times.on_cpu),
            run_queue_wait: times.map(|times| times.waiting),
            voluntary_switches,
            involuntary_switches,
            last_cpu,
        })
    }
}

impl ProcessUsage {
    /// Reads what this process has used.
    ///
    /// # Errors
    /// [`UsageError::Call`] if the call is forbidden, which only a seccomp filter does.
    ///
    /// # References
    /// [getrusage(2)](https://man7.org/linux/man-pages/man2/getrusage.2.html)
    #[doc(alias = "getrusage")]
    pub fn current() -> Result<Self, UsageError> {
        let usage = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_SELF)
            .map_err(|errno| UsageError::Call(errno.into()))?;
        Ok(Self { user: duration(usage.user_time()), system: duration(usage.system_time()) })
    }

    /// User and system time together.
    pub fn total(&self) -> Duration {
        self.user + self.system
    }
}

/// The times of a `schedstat` file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Times {
    on_cpu: Duration,
    waiting: Duration,
}

/// Reads a file of the thread and what `parse` finds in it.
fn parse<R>(tid: Tid, file: &str, field: &'static str, parse: impl Fn(&str) -> Option<R>) -> Result<R, UsageError> {
    let path = format!("/proc/self/task/{tid}/{file}");
    let bytes = fs::read(&path).map_err(|source| unreadable(tid, path.clone(), source))?;
    // The name of a thread (`comm`) may hold any bytes; nothing that is looked for is in it.
    parse(&String::from_utf8_lossy(&bytes)).ok_or(UsageError::Malformed { path, field })
}

/// A thread that has ended takes its directory along (`ENOENT`); one that ends while its file is open fails with
/// `ESRCH`.
fn unreadable(tid: Tid, path: String, source: io::Error) -> UsageError {
    let has_ended = || !fs::exists(format!("/proc/self/task/{tid}")).unwrap_or(true);
    match source.raw_os_error() {
        Some(libc::ESRCH) => UsageError::NoSuchThread { tid },
        Some(libc::ENOENT) if has_ended() => UsageError::NoSuchThread { tid },
        _ => UsageError::Read { path, source },
    }
}

/// `schedstat`: nanoseconds on a CPU, nanoseconds ready and waiting, number of time slices. All three are zero where
/// the kernel does not account (`proc_pid_schedstat` in fs/proc/base.c), so no time slice means that the times are
/// unknown.
fn parse_schedstat(text: &str) -> Option<Option<Times>> {
    let mut numbers = text.split_ascii_whitespace().map(str::parse::<u64>);
    let mut next = || numbers.next()?.ok();
    let (on_cpu, waiting, slices) = (next()?, next()?, next()?);
    let times = Times { on_cpu: Duration::from_nanos(on_cpu), waiting: Duration::from_nanos(waiting) };
    Some((slices > 0).then_some(times))
}

fn parse_switches(status: &str) -> Option<(u64, u64)> {
    let switches = |name| status_field(status, name)?.parse().ok();
    Some((switches("voluntary_ctxt_switches")?, switches("nonvoluntary_ctxt_switches")?))
}

/// Field 39 of `stat`. Field 2 is the thread's name in parentheses, which may itself hold blanks and parentheses, so
/// the fields are counted from the last closing one.
fn parse_last_cpu(stat: &str) -> Option<CpuId> {
    const AFTER_NAME: usize = 3;
    const PROCESSOR: usize = 39;
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_ascii_whitespace().nth(PROCESSOR - AFTER_NAME)?.parse().ok().map(CpuId)
}

fn duration(time: nix::sys::time::TimeVal) -> Duration {
    // Times used are never negative, and their microseconds are below a million.
    Duration::new(time.tv_sec().unsigned_abs(), time.tv_usec().unsigned_abs() as u32 * 1000)
}

fn optional_nanoseconds<S: Serializer>(time: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    time.map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)).serialize(serializer)
}

fn microseconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX).serialize(serializer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_kernel_that_does_not_account_leaves_times_unknown() {
        assert_eq!(parse_schedstat("0 0 0\n"), Some(None));
        let times = Times { on_cpu: Duration::from_nanos(5), waiting: Duration::from_nanos(7) };
        assert_eq!(parse_schedstat("5 7 1\n"), Some(Some(times)));
        assert_eq!(parse_schedstat("5 7"), None);
        assert_eq!(parse_schedstat("5 x 1"), None);
    }

    #[test]
    fn usage_serializes_with_its_units() {
        let usage = ThreadUsage {
            tid: Tid::from_raw(7).expect("above zero"),
            cpu_time: Some(Duration::from_micros(3)),
            run_queue_wait: None,
            voluntary_switches: 1,
            involuntary_switches: 2,
            last_cpu: CpuId(4),
        };
        assert_eq!(
            serde_json::to_value(usage).expect("it serializes"),
            serde_json::json!({
                "tid": 7, "cpu_time_ns": 3000, "run_queue_wait_ns": null,
                "voluntary_switches": 1, "involuntary_switches": 2, "last_cpu": 4,
            })
        );
    }

    proptest! {
        #[test]
        fn a_threads_name_cannot_disturb_its_fields(name in "\\PC{0,15}", cpu in 0_u32..8192) {
            let fields: Vec<String> = (4..=52).map(|field| (if field == 39 { cpu } else { field }).to_string()).collect();
            let stat = format!("4711 ({name}) S {}\n", fields.join(" "));
            prop_assert_eq!(parse_last_cpu(&stat), Some(CpuId(cpu)));
        }

        #[test]
        fn no_text_makes_a_parser_panic(text in "\\PC*") {
            let _ = (parse_schedstat(&text), parse_switches(&text), parse_last_cpu(&text));
        }
    }
}
