//! Programs that run in a room, and programs that this system has.

use anyhow::{Context, Result, bail, ensure};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::{
    env,
    fs::{self, File},
    io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

/// A program that runs. On drop it is asked to end, so that it ends and reaps its own children, and
/// killed if it takes too long.
#[derive(Debug)]
pub struct Running {
    shown: String,
    child: Child,
    output: PathBuf,
}

/// A program that has ended well.
#[derive(Debug)]
pub struct Finished {
    /// Its standard output.
    pub output: String,
    /// The time from its start to its end, up to a few milliseconds more.
    pub elapsed: Duration,
}

impl Running {
    /// Starts it without input, and with its outputs in two files of that name.
    pub(crate) fn start(mut command: Command, output: &Path) -> Result<Self> {
        let shown = shown(&command);
        let file = |name: &str| File::create(output.with_extension(name)).context("no file for a program's output");
        command.stdin(Stdio::null()).stdout(file("out")?).stderr(file("err")?);
        let child = command.spawn().with_context(|| format!("cannot run `{shown}`"))?;
        Ok(Self { shown, child, output: output.to_owned() })
    }

    /// The id of the process, which is the program's own.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Its standard output up to now.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub fn output(&self) -> Result<String> {
        Ok(String::from_utf8_lossy(&fs::read(self.output.with_extension("out"))?).into_owned())
    }

    /// Its standard error up to now.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub fn errors(&self) -> Result<String> {
        Ok(String::from_utf8_lossy(&fs::read(self.output.with_extension("err"))?).into_owned())
    }

    /// Waits until it is ready.
    ///
    /// # Errors
    ///
    /// It ends, or is not ready in half a minute.
    pub fn wait_until(&mut self, what: &str, mut ready: impl FnMut() -> Result<bool>) -> Result<()> {
        let start = Instant::now();
        while !ready()? {
            if let Some(status) = self.child.try_wait()? {
                bail!("{}", self.failure(&format!("it ended before {what} ({status})")));
            }
            ensure!(start.elapsed() < PATIENCE, "{}", self.failure(&format!("it did not get so far that {what}")));
            thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Waits for a line on standard error that begins so, and returns the rest of it.
    ///
    /// # Errors
    ///
    /// Those of [`Running::wait_until`].
    pub fn wait_for(&mut self, start: &str) -> Result<String> {
        let errors = self.output.with_extension("err");
        let found = || {
            let text = fs::read_to_string(&errors).unwrap_or_default();
            let whole = text.rsplit_once('\n').map_or("", |(lines, _)| lines);
            whole.lines().find_map(|line| line.strip_prefix(start)).map(str::to_owned)
        };
        self.wait_until(&format!("it says `{start}`"), || Ok(found().is_some()))?;
        found().context("a line is gone")
    }

    /// Waits for its end.
    ///
    /// # Errors
    ///
    /// It fails, or does not end in that time; the message has the end of its outputs.
    pub fn finish(mut self, patience: Duration) -> Result<Finished> {
        let start = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            ensure!(start.elapsed() < patience, "{}", self.failure(&format!("it did not end in {patience:?}")));
            thread::sleep(SHORT_PAUSE);
        };
        ensure!(status.success(), "{}", self.failure(&status.to_string()));
        Ok(Finished { output: self.output()?, elapsed: start.elapsed() })
    }

    /// Asks it to end by a signal, and waits; it is killed if it takes too long.
    ///
    /// # Errors
    ///
    /// It cannot be waited for.
    pub fn end(mut self, signal: Signal) -> Result<ExitStatus> {
        Ok(self.end_by(signal)?)
    }

    fn end_by(&mut self, signal: Signal) -> io::Result<ExitStatus> {
        let start = Instant::now();
        if let Some(status) = self.child.try_wait()? {
            return Ok(status);
        }
        // Nobody else waits for the child, so the id is still its own.
        let _ = kill(Pid::from_raw(self.child.id().cast_signed()), signal);
        while start.elapsed() < ENDING {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            thread::sleep(SHORT_PAUSE);
        }
        self.child.kill()?;
        self.child.wait()
    }

    fn failure(&self, why: &str) -> String {
        let tail = |text: Result<String>| {
            let text = text.unwrap_or_default();
            let lines: Vec<_> = text.lines().collect();
            lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
        };
        format!("`{}` failed: {why}\n{}\n{}", self.shown, tail(self.output()), tail(self.errors()))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // A drop cannot report errors. What is left is killed with the room.
        let _ = self.end_by(Signal::SIGTERM);
    }
}

/// Kills every process in a namespace of a room, which are all children of its programs.
pub(crate) fn kill_inside(namespace: &str) {
    for _ in 0..ROUNDS {
        let listed = Command::new("ip").args(["netns", "pids", namespace]).output();
        let text = listed.map(|listed| String::from_utf8_lossy(&listed.stdout).into_owned()).unwrap_or_default();
        let processes: Vec<i32> = text.lines().filter_map(|line| line.trim().parse().ok()).collect();
        if processes.is_empty() {
            return;
        }
        for process in processes {
            // It fails if the process has ended.
            let _ = kill(Pid::from_raw(process), Signal::SIGKILL);
        }
        thread::sleep(PAUSE);
    }
}

/// The first executable of this name along `PATH`, or in the folders of the system's services.
pub fn find(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders =
        env::split_paths(&path).chain(["/usr/sbin", "/usr/lib/git-core", "/usr/libexec/git-core"].map(PathBuf::from));
    let is_executable =
        |file: &PathBuf| file.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0);
    folders.map(|folder| folder.join(name)).find(is_executable)
}

/// A program of this workspace, which cargo puts beside this one or, for a test, a folder above.
///
/// # Errors
///
/// It has not been built; the message says how to.
pub fn sibling(name: &str) -> Result<PathBuf> {
    let own = env::current_exe().context("this program does not know where it is")?;
    let folders = own.ancestors().skip(1).take(2);
    let found = folders.map(|folder| folder.join(name)).find(|file| file.is_file());
    found.with_context(|| format!("{name} is not beside this program: build it by `cargo build --package {name}`"))
}

/// The command as typed in a shell, without the words that enter the room.
fn shown(command: &Command) -> String {
    let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
    let inside = words.iter().position(|word| word.starts_with("rails-")).map_or(0, |index| index + 1);
    words[inside..].join(" ")
}

/// The time that a program has to get ready.
const PATIENCE: Duration = Duration::from_secs(30);
/// The interval of checks until then.
const PAUSE: Duration = Duration::from_millis(10);
/// The interval of checks for the end, by which a measured time is too long.
const SHORT_PAUSE: Duration = Duration::from_millis(1);
/// The time that a program has to end by itself.
const ENDING: Duration = Duration::from_secs(5);
/// A program that starts another just before it is killed takes a further round.
const ROUNDS: usize = 50;
const TAIL_LINES: usize = 12;
