//! One boot, from its files to its outcome.

use super::{
    Guest, GuestError,
    error::Console,
    initrd::{self, Job},
    inside::{INSIDE, MODULES},
    kernel::Kernel,
    machine::{self, Files},
    process::GuardedProcess,
    status::Progress,
    tools::Tool,
};
use crate::system::{SystemError, file_error};
use nix::sys::signal::Signal;
use std::{
    ffi::OsString,
    fs::{self, File},
    io::{BufRead, BufReader, BufWriter, Read},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    process::{self, ChildStdout, ExitStatus},
    sync::{
        atomic::{AtomicU32, Ordering},
        mpsc::{Receiver, RecvTimeoutError, sync_channel},
    },
    thread,
    time::{Duration, Instant},
};

/// The exit status of a command in a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct GuestStatus {
    code: u8,
    crashed_boots: u8,
}

impl GuestStatus {
    /// Whether the status is zero.
    pub fn is_success(self) -> bool {
        self.code == 0
    }

    /// The command's own exit status; a signal becomes 128 and its number, as in a shell, and a
    /// command that is not there 127.
    pub fn code(self) -> u8 {
        self.code
    }

    /// The number of boots in which the emulator crashed, before the one that ran the command.
    pub fn crashed_boots(self) -> u8 {
        self.crashed_boots
    }
}

pub(crate) fn run(
    guest: &Guest,
    kernel: &Kernel,
    words: Vec<OsString>,
    mut sink: impl FnMut(&[u8]),
) -> Result<GuestStatus, GuestError> {
    let deadline = Instant::now() + guest.time_limit;
    let job = job(guest, kernel, words)?;
    again_after_crashes(|| boot(guest, kernel, &job, deadline, &mut sink))
}

/// Boots until the emulator does not crash, [`MAX_BOOTS`] times at most. It crashes before the
/// command starts, so the command runs once.
fn again_after_crashes(mut boot: impl FnMut() -> Result<u8, GuestError>) -> Result<GuestStatus, GuestError> {
    let mut crashed_boots = 0;
    loop {
        match boot() {
            Err(GuestError::EmulatorCrashed { .. }) if crashed_boots + 1 < MAX_BOOTS => crashed_boots += 1,
            outcome => return outcome.map(|code| GuestStatus { code, crashed_boots }),
        }
    }
}

/// Boots once. Returns the command's exit status.
fn boot(
    guest: &Guest,
    kernel: &Kernel,
    job: &Job,
    deadline: Instant,
    sink: &mut impl FnMut(&[u8]),
) -> Result<u8, GuestError> {
    let missing = |tool| GuestError::Missing { missing: vec![tool] };
    let qemu = Tool::Qemu.find().ok_or(missing(Tool::Qemu))?;
    let busybox = Tool::StaticBusybox.find().ok_or(missing(Tool::StaticBusybox))?;

    let scratch =
        tempfile::Builder::new().prefix("rails-guest-").tempdir().map_err(file_error("mkdtemp", Path::new("")))?;
    let at = |name: &str| scratch.path().join(name);
    let files = Files {
        kernel: &kernel.image,
        initrd: at("initrd"),
        console: at("console"),
        status: at("status"),
        disk: at("disk"),
    };
    let disk = File::create(&files.disk).and_then(|disk| disk.set_len(DISK_BYTES));
    disk.map_err(file_error("create", &files.disk))?;
    let initrd = File::create(&files.initrd).map_err(file_error("create", &files.initrd))?;
    initrd::write(BufWriter::new(initrd), &busybox, kernel, job)?;
    let stderr = File::create(at("stderr")).map_err(file_error("create", &at("stderr")))?;

    let number = BOOTS.fetch_add(1, Ordering::Relaxed);
    let arguments = machine::arguments(&format!("rails-guest-{}-{number}", process::id()), guest.size, &files);
    let mut kept = GuardedProcess::start(&qemu, &arguments, scratch.path(), stderr)
        .map_err(|source| SystemError::Spawn { command: qemu.display().to_string(), source })?;
    let lines = read_lines(kept.output())?;
    let in_time = pass_on(&lines, deadline, sink);
    // Dropping the receiver discards further lines; the reader ends with the emulator.
    drop(lines);
    let ended = kept.end().map_err(file_error("wait", &qemu))?;

    let read = |path: &Path| fs::read(path).unwrap_or_default();
    let limit = (!in_time).then_some(guest.time_limit);
    verdict(Progress::read(&read(&files.status)), limit, ended, &read(&files.console), &read(&at("stderr")))
}

fn job(guest: &Guest, kernel: &Kernel, words: Vec<OsString>) -> Result<Job, GuestError> {
    let has_zero = |word: &OsString| word.as_bytes().contains(&0);
    let values = guest.environment.iter().map(|(_, value)| value);
    if words.is_empty() || words.iter().chain(values).any(has_zero) {
        return Err(GuestError::BadCommand { words });
    }
    let base = kernel.base().map(|base| base.as_os_str().to_owned()).unwrap_or_default();
    let borrowed = guest.borrowed_programs()?;
    let own = [
        (INSIDE, "1".into()),
        ("PATH", path(&borrowed)),
        ("HOME", HOME.into()),
        ("TMPDIR", "/run".into()),
        (MODULES, base),
    ];
    let own = own.map(|(name, value)| (name.to_owned(), value));
    Ok(Job {
        environment: own.into_iter().chain(guest.environment.iter().cloned()).collect(),
        folder: guest.folder.clone(),
        shown: guest.shown(Path::new(&words[0]), kernel, &borrowed),
        words,
    })
}

/// The guest's `PATH`: the owner's folders of programs, and those of fetched packages.
fn path(borrowed: &[PathBuf]) -> OsString {
    let mut path = OsString::from(PATH);
    for folder in borrowed.iter().flat_map(|package| ["usr/sbin", "usr/bin"].map(|folder| package.join(folder))) {
        path.push(":");
        path.push(folder);
    }
    path
}

/// Reads the output on a thread of its own, so that the owner can stop waiting.
fn read_lines(output: ChildStdout) -> Result<Receiver<Vec<u8>>, GuestError> {
    let (sender, receiver) = sync_channel(LINES_AHEAD);
    let mut output = BufReader::new(output);
    let read = move || {
        loop {
            let mut line = Vec::new();
            match output.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line) {
                Ok(read) if read > 0 && sender.send(line).is_ok() => {}
                _ => return,
            }
        }
    };
    let thread = thread::Builder::new().name("guest-output".into()).spawn(read);
    thread.map_err(|source| SystemError::Spawn { command: "a thread".into(), source })?;
    Ok(receiver)
}

/// Passes lines to the sink until there are no more. Returns `false` if the deadline passed first.
fn pass_on(lines: &Receiver<Vec<u8>>, deadline: Instant, sink: &mut impl FnMut(&[u8])) -> bool {
    loop {
        match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(line) => sink(&line),
            Err(RecvTimeoutError::Disconnected) => return true,
            Err(RecvTimeoutError::Timeout) => return false,
        }
    }
}

/// The outcome of the boot. A reported exit status counts, also if the machine failed afterwards.
fn verdict(
    progress: Progress,
    limit: Option<Duration>,
    ended: ExitStatus,
    console: &[u8],
    stderr: &[u8],
) -> Result<u8, GuestError> {
    let panicked = console.windows(PANIC.len()).any(|window| window == PANIC.as_bytes());
    let console = if panicked { Console::around(console, PANIC) } else { Console::tail(console) };
    match (progress, limit) {
        (Progress::Exited(code), _) => Ok(code),
        _ if panicked => Err(GuestError::Panicked { console }),
        (Progress::Failed(what), _) => Err(GuestError::NotUp { reason: format!("{what} failed"), console }),
        (progress, Some(limit)) => Err(GuestError::TimedOut { limit, up: progress == Progress::Up, console }),
        (Progress::Up, None) => Err(GuestError::Lost { console }),
        (Progress::Silent, None) => {
            let stderr = String::from_utf8_lossy(stderr).trim_end().to_owned();
            if let Some(signal) = crash(ended) {
                return Err(GuestError::EmulatorCrashed { signal, boots: MAX_BOOTS, stderr });
            }
            Err(GuestError::NotUp { reason: format!("QEMU ended ({ended}) and said {stderr:?}"), console })
        }
    }
}

/// The signal by which the emulator ended itself. Its keeper, a shell, reports it as 128 and its
/// number. Signals that others send are no crashes.
fn crash(ended: ExitStatus) -> Option<i32> {
    let signal = ended.code()?.checked_sub(128)?;
    CRASHES.iter().map(|crash| *crash as i32).find(|crash| *crash == signal)
}

/// Numbers the boots of one owner, for the emulator's name.
static BOOTS: AtomicU32 = AtomicU32::new(0);
/// QEMU crashes now and then while it emulates a booting kernel on several threads; one such boot
/// in some hundreds was seen.
const MAX_BOOTS: u8 = 4;
const CRASHES: [Signal; 5] = [Signal::SIGSEGV, Signal::SIGABRT, Signal::SIGBUS, Signal::SIGILL, Signal::SIGFPE];
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
const HOME: &str = "/run/rails-guest/home";
/// The length of the disk.
const DISK_BYTES: u64 = 16 << 20;
/// The line that the kernel's panic() prints (kernel/panic.c).
const PANIC: &str = "Kernel panic - not syncing";
const LONGEST_LINE: u64 = 65_536;
/// The lines that are buffered before the guest waits for its owner.
const LINES_AHEAD: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    fn judge(progress: Progress, limit: Option<Duration>, console: &str) -> Result<u8, GuestError> {
        verdict(progress, limit, ExitStatus::from_raw(1 << 8), console.as_bytes(), b"qemu: no such option\n")
    }

    #[test]
    fn a_reported_status_counts_whatever_came_after() {
        let judged = judge(Progress::Exited(3), Some(Duration::from_secs(1)), "Kernel panic - not syncing: x");
        let status = again_after_crashes(|| Ok(judged.as_ref().copied().unwrap())).unwrap();
        assert_eq!((status.code(), status.is_success(), status.crashed_boots()), (3, false, 0));
    }

    #[test]
    fn only_a_crashed_emulator_is_started_again() {
        let ended = |code: i32| verdict(Progress::Silent, None, ExitStatus::from_raw(code << 8), b"", b"x\n");
        let segmentation_fault = 128 + Signal::SIGSEGV as i32;

        let mut boots = vec![Ok(3), ended(segmentation_fault), ended(segmentation_fault)];
        let status = again_after_crashes(|| boots.pop().unwrap()).unwrap();
        assert_eq!((status.code(), status.crashed_boots()), (3, 2));

        let mut count = 0;
        let mut counted = |code| {
            count += 1;
            ended(code)
        };
        let error = again_after_crashes(|| counted(segmentation_fault)).unwrap_err().to_string();
        assert_eq!(error, "QEMU crashed in each of 4 boots, the last time by signal 11, and said \"x\"");
        let killed = again_after_crashes(|| counted(128 + Signal::SIGKILL as i32)).unwrap_err();
        assert!(matches!(killed, GuestError::NotUp { .. }), "{killed}");
        assert_eq!(count, 5);
    }

    #[test]
    fn every_failure_with_its_name_and_the_console() {
        let second = Some(Duration::from_secs(1));
        let message = |progress, limit, console| judge(progress, limit, console).unwrap_err().to_string();
        let panicked = message(Progress::Up, None, "a\nKernel panic - not syncing: b\nc");
        let expected = "the guest's kernel panicked; the last lines of its console:\n    a\n    Kernel panic - not syncing: b\n    c";
        assert_eq!(panicked, expected);
        let late = message(Progress::Silent, second, "a");
        assert!(late.starts_with("the guest was ended at its time limit of 1s, before it came up"), "{late}");
        assert!(message(Progress::Up, second, "a").contains("its command running"));
        assert!(message(Progress::Up, None, "a").starts_with("the guest ended before its command did"));
        let unset = message(Progress::Failed("mounting /run".into()), None, "a");
        assert!(unset.starts_with("the guest did not come up: mounting /run failed"), "{unset}");
        let dead = message(Progress::Silent, None, "");
        assert!(dead.contains("qemu: no such option") && dead.ends_with("its console is empty"), "{dead}");
    }
}
