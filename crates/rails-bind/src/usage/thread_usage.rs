//! The usage of one thread.

use super::{
    NumaFaults, UsageError, files,
    files::{Sched, Stat},
};
use crate::thread::{SchedulingClass, Tid};
use rails_topo::CpuId;
use serde::Serialize;
use serde_with::{As, DurationMicroSeconds, DurationMilliSeconds, DurationNanoSeconds};
use std::{
    fs::{self, File},
    io::{self, Read},
    sync::OnceLock,
    time::Duration,
};

/// The usage of one thread: since it began, or over an interval ([`ThreadUsage::since`]).
///
/// The figures come from files that are read one after another, so they are not of one instant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ThreadUsage {
    /// The thread.
    pub tid: Tid,
    /// The thread's beginning, from the machine's start, to a clock tick; with the number it names
    /// a thread for good.
    #[serde(rename = "started_after_boot_ms", serialize_with = "As::<DurationMilliSeconds>::serialize")]
    pub started: Duration,

    /// Time in the thread's own code, to a clock tick (usually 10 ms).
    #[serde(rename = "user_us", serialize_with = "As::<DurationMicroSeconds>::serialize")]
    pub user: Duration,
    /// Time in the kernel on the thread's behalf, to a clock tick.
    #[serde(rename = "system_us", serialize_with = "As::<DurationMicroSeconds>::serialize")]
    pub system: Duration,
    /// Time on a CPU, to a nanosecond, as of the last scheduler tick or switch; `None` where the
    /// kernel does not account for it, and for a thread that has never run.
    #[serde(rename = "cpu_time_ns", serialize_with = "As::<Option<DurationNanoSeconds>>::serialize")]
    pub cpu_time: Option<Duration>,
    /// Time that the thread was ready to run and waited for a CPU; `None` as with the time on a
    /// CPU.
    #[serde(rename = "run_queue_wait_ns", serialize_with = "As::<Option<DurationNanoSeconds>>::serialize")]
    pub run_queue_wait: Option<Duration>,

    /// The number of times that the thread gave its CPU up by waiting for something.
    pub voluntary_switches: u64,
    /// The number of times that the kernel took the CPU from the thread.
    pub involuntary_switches: u64,
    /// The number of the thread's moves to another CPU; `None` if the kernel does not count them
    /// (before Linux 6.15 that takes `CONFIG_SCHED_DEBUG`).
    pub migrations: Option<u64>,
    /// The CPU that the thread last ran on, or runs on.
    pub last_cpu: CpuId,

    /// The thread's scheduling class.
    pub class: SchedulingClass,
    /// The thread's nice value.
    pub nice: i32,
    /// The kernel's own measure of precedence, lower first: 0 to 39 with a nice value, below 0 in
    /// real-time classes.
    pub priority: i32,

    /// Page faults that took no reading from a disk.
    pub minor_faults: u64,
    /// Page faults that took a reading from a disk.
    pub major_faults: u64,
    /// The nodes of the memory that the thread uses; `None` without NUMA balancing.
    pub numa: Option<NumaFaults>,
}

impl ThreadUsage {
    /// Reads the usage of thread `tid` of this process.
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
        Task { tid, process: None }.usage()
    }

    /// Reads the usage of thread `tid` of process `process`. A process has the number of its first
    /// thread.
    ///
    /// # Privileges
    /// None (measured on Linux 6.18 and 6.1: any user reads these files of any process), unless
    /// `/proc` is mounted with `hidepid`.
    ///
    /// # Errors
    /// [`UsageError::NoSuchThread`] for a thread that has ended, or is of a third process.
    pub fn of_process_thread(process: Tid, tid: Tid) -> Result<Self, UsageError> {
        Task { tid, process: Some(process) }.usage()
    }
}

/// The threads of a process, in ascending order; they may end at any time.
///
/// # Errors
/// [`UsageError::NoSuchProcess`] if the process has ended or is hidden.
pub fn threads_of(process: Tid) -> Result<Vec<Tid>, UsageError> {
    let path = format!("/proc/{process}/task");
    let failed = |source: io::Error| match source.raw_os_error() {
        Some(libc::ENOENT | libc::ESRCH) => UsageError::NoSuchProcess { process },
        _ => UsageError::Read { path: path.clone(), source },
    };
    let mut tids = Vec::new();
    for entry in fs::read_dir(&path).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        tids.extend(name.to_str().and_then(|name| name.parse().ok()).and_then(Tid::from_raw));
    }
    // A process that ended after its folder was opened has no threads to list.
    if tids.is_empty() {
        return Err(UsageError::NoSuchProcess { process });
    }
    tids.sort_unstable();
    Ok(tids)
}

/// The beginning of a thread of any process, from the machine's start.
pub(crate) fn started(tid: Tid) -> Result<Duration, UsageError> {
    Task { tid, process: Some(tid) }.stat().map(|stat| of_ticks(stat.started_ticks))
}

/// The parent of a process; `None` for one whose parent is in another PID namespace.
pub(crate) fn parent(process: Tid) -> Result<Option<Tid>, UsageError> {
    Task { tid: process, process: Some(process) }.stat().map(|stat| Tid::from_raw(stat.parent))
}

/// The CPU time of thread `tid` of process `process`, as [`ThreadUsage::cpu_time`]; to a clock tick
/// where the kernel does not account for it. The call reads one small file, a tenth of what
/// [`ThreadUsage`] takes, so that many threads can be looked at for long. An ended process that
/// nobody has waited for still has the time of its first thread.
///
/// # Privileges
/// As [`ThreadUsage::of_process_thread`].
///
/// # Errors
/// [`UsageError::NoSuchThread`] for a thread that has ended, or is of a third process.
pub fn cpu_time_of(process: Tid, tid: Tid) -> Result<Duration, UsageError> {
    let task = Task { tid, process: Some(process) };
    match task.parse("schedstat", "times", files::parse_schedstat) {
        Ok(Some(times)) => Ok(times.on_cpu),
        Err(error @ UsageError::NoSuchThread { .. }) => Err(error),
        // A kernel without the file, or without figures in it.
        Ok(None) | Err(_) => task.stat().map(|stat| of_ticks(stat.user_ticks) + of_ticks(stat.system_ticks)),
    }
}

/// A thread below `/proc`. The folder of a thread that is not its process's first can be opened by
/// number, though it is not listed.
#[derive(Debug, Clone, Copy)]
struct Task {
    tid: Tid,
    process: Option<Tid>,
}

impl Task {
    fn usage(self) -> Result<ThreadUsage, UsageError> {
        let stat = self.stat()?;
        let times = self.parse("schedstat", "times", files::parse_schedstat)?;
        let sched = self.sched()?;
        let (voluntary_switches, involuntary_switches) = match sched.switches {
            Some(switches) => switches,
            None => self.parse("status", "context switches", files::parse_switches)?,
        };
        Ok(ThreadUsage {
            tid: self.tid,
            started: of_ticks(stat.started_ticks),
            user: of_ticks(stat.user_ticks),
            system: of_ticks(stat.system_ticks),
            cpu_time: times.map(|times| times.on_cpu),
            run_queue_wait: times.map(|times| times.waiting),
            voluntary_switches,
            involuntary_switches,
            migrations: sched.migrations,
            last_cpu: stat.last_cpu,
            class: SchedulingClass::from_raw(stat.policy, stat.real_time_priority),
            nice: stat.nice,
            priority: stat.priority,
            minor_faults: stat.minor_faults,
            major_faults: stat.major_faults,
            numa: sched.numa,
        })
    }

    fn stat(self) -> Result<Stat, UsageError> {
        self.parse("stat", "fields", files::parse_stat)
    }

    /// A kernel without the file has none of its figures.
    fn sched(self) -> Result<Sched, UsageError> {
        match self.parse("sched", "lines", |text| Some(files::parse_sched(text))) {
            Err(UsageError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Ok(Sched { switches: None, migrations: None, numa: None })
            }
            other => other,
        }
    }

    fn folder(self) -> String {
        match self.process {
            None => format!("/proc/self/task/{}", self.tid),
            Some(process) => format!("/proc/{process}/task/{}", self.tid),
        }
    }

    /// Reads a file of the thread, and parses it.
    fn parse<R>(self, file: &str, field: &'static str, parse: impl Fn(&str) -> Option<R>) -> Result<R, UsageError> {
        let path = format!("{}/{file}", self.folder());
        let bytes = read(&path).map_err(|source| self.unreadable(path.clone(), source))?;
        // The name of a thread (`comm`) may have any bytes; none of the figures is in it.
        parse(&String::from_utf8_lossy(&bytes)).ok_or(UsageError::Malformed { path, field })
    }

    /// A thread that has ended takes its directory along (`ENOENT`); one that ends while its file
    /// is open fails with `ESRCH`.
    fn unreadable(self, path: String, source: io::Error) -> UsageError {
        let has_ended = || !fs::exists(self.folder()).unwrap_or(true);
        match source.raw_os_error() {
            Some(libc::ESRCH) => UsageError::NoSuchThread { tid: self.tid, process: self.process },
            Some(libc::ENOENT) if has_ended() => UsageError::NoSuchThread { tid: self.tid, process: self.process },
            _ => UsageError::Read { path, source },
        }
    }
}

/// Reads a file of `/proc`, whose size is unknown: `fs::read` would ask for it, and read in small
/// pieces.
fn read(path: &str) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let mut bytes = vec![0; 4096];
    let mut length = 0;
    loop {
        if length == bytes.len() {
            bytes.resize(2 * length, 0);
        }
        match file.read(&mut bytes[length..]) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(length);
    Ok(bytes)
}

/// The kernel counts in ticks of `sysconf(_SC_CLK_TCK)`, which is 100 a second wherever Linux runs
/// today.
fn of_ticks(ticks: u64) -> Duration {
    static PER_SECOND: OnceLock<u64> = OnceLock::new();
    let per_second = *PER_SECOND.get_or_init(|| {
        let said = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK).ok().flatten();
        said.and_then(|said| u64::try_from(said).ok()).filter(|said| *said > 0).unwrap_or(100)
    });
    let rest = ticks % per_second;
    Duration::from_secs(ticks / per_second) + Duration::from_nanos(rest * 1_000_000_000 / per_second)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A thread's usage with little in it.
    pub(in crate::usage) fn usage(tid: i32, cpu: u32, migrations: Option<u64>) -> ThreadUsage {
        ThreadUsage {
            tid: Tid::from_raw(tid).expect("above zero"),
            started: Duration::from_millis(70),
            user: Duration::from_millis(20),
            system: Duration::ZERO,
            cpu_time: Some(Duration::from_micros(3)),
            run_queue_wait: None,
            voluntary_switches: 1,
            involuntary_switches: 2,
            migrations,
            last_cpu: CpuId(cpu),
            class: SchedulingClass::Fifo(5),
            nice: 0,
            priority: -6,
            minor_faults: 8,
            major_faults: 0,
            numa: None,
        }
    }

    #[test]
    fn usage_serializes_with_its_units() {
        assert_eq!(
            serde_json::to_value(usage(7, 4, None)).expect("it serializes"),
            serde_json::json!({
                "tid": 7, "started_after_boot_ms": 70, "user_us": 20000, "system_us": 0,
                "cpu_time_ns": 3000, "run_queue_wait_ns": null,
                "voluntary_switches": 1, "involuntary_switches": 2, "migrations": null, "last_cpu": 4,
                "class": { "fifo": 5 }, "nice": 0, "priority": -6,
                "minor_faults": 8, "major_faults": 0, "numa": null,
            })
        );
    }

    #[test]
    fn file_longer_than_the_first_buffer_is_read_whole() {
        let text = vec![b'x'; 10_000];
        let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
        std::io::Write::write_all(&mut file, &text).expect("room for it");
        assert_eq!(read(file.path().to_str().expect("a plain path")).expect("readable"), text);
    }
}
