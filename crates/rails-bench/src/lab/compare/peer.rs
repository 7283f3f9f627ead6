//! A process at one end of a measurement.

use super::ContestError;
use rails_bind::thread;
use rails_topo::CpuSet;
use std::{
    io::{BufRead, BufReader, Read},
    process::{Child, ChildStderr, Command, Stdio},
    sync::mpsc,
    time::{Duration, Instant},
};

/// A process at one end, which is killed on drop.
pub(crate) struct Peer {
    command: String,
    child: Child,
    /// The process's standard output, read by a thread so that the process never waits.
    output: Option<std::thread::JoinHandle<std::io::Result<Vec<u8>>>>,
    /// The process's standard error, line by line.
    said: mpsc::Receiver<String>,
    heard: Vec<String>,
}

impl Peer {
    /// Starts the command on these CPUs: a child inherits those of the thread that starts it.
    pub(crate) fn start(mut command: Command, cpus: &CpuSet) -> Result<Self, ContestError> {
        let shown = format!("{command:?}");
        // A secret in the environment would contradict the `--insecure` of this program's peers.
        command.env_remove("RAILS_SECRET");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let bound = thread::bind_current(cpus)?;
        let child = command.spawn();
        bound.restore()?;
        let mut child = child.map_err(|source| ContestError::Run { command: shown.clone(), source })?;
        let mut stdout = child.stdout.take().expect("it was asked for");
        let output = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            stdout.read_to_end(&mut bytes).map(|_| bytes)
        });
        let said = lines(child.stderr.take().expect("it was asked for"));
        Ok(Self { command: shown, child, output: Some(output), said, heard: Vec::new() })
    }

    /// Waits for a line on the process's standard error that begins with `start`, and returns it.
    pub(crate) fn wait_for(&mut self, start: &str) -> Result<String, ContestError> {
        while let Ok(line) = self.said.recv_timeout(PATIENCE) {
            let found = line.starts_with(start);
            self.heard.push(line.clone());
            if found {
                return Ok(line);
            }
        }
        Err(self.failed("it did not get ready".to_owned()))
    }

    /// Waits until a condition holds, while the process lives.
    pub(crate) fn wait_until(
        &mut self,
        mut ready: impl FnMut() -> Result<bool, ContestError>,
    ) -> Result<(), ContestError> {
        for _ in 0..PATIENCE.as_millis() / PAUSE.as_millis() {
            if ready()? {
                return Ok(());
            }
            if self.has_ended()? {
                self.heard.extend(self.said.iter());
                return Err(self.failed("it ended before it was ready".to_owned()));
            }
            std::thread::sleep(PAUSE);
        }
        Err(self.failed("it did not get ready".to_owned()))
    }

    /// Waits for the process's end, for `patience` at most, and returns its standard output, at any
    /// exit status. An error if it did not end, or wrote no output.
    pub(crate) fn finish_within(mut self, patience: Duration) -> Result<Vec<u8>, ContestError> {
        let deadline = Instant::now() + patience;
        while !self.has_ended()? {
            if Instant::now() > deadline {
                return Err(self.failed("it did not end".to_owned()));
            }
            std::thread::sleep(PAUSE);
        }
        let output = self.output.take().expect("it finishes once").join().expect("reading does not panic");
        let output = output.map_err(|source| ContestError::Run { command: self.command.clone(), source })?;
        if output.is_empty() {
            self.heard.extend(self.said.iter());
            return Err(self.failed("it gave no figures".to_owned()));
        }
        Ok(output)
    }

    /// Waits for the process's end, and returns its standard output. An error if the process
    /// failed.
    pub(crate) fn finish(mut self) -> Result<Vec<u8>, ContestError> {
        let run = |command: &String, source| ContestError::Run { command: command.clone(), source };
        let output = self.output.take().expect("it finishes once").join().expect("reading does not panic");
        let output = output.map_err(|source| run(&self.command, source))?;
        let status = self.child.wait().map_err(|source| run(&self.command, source))?;
        self.heard.extend(self.said.iter());
        if !status.success() {
            // Some programs print their errors to standard output.
            self.heard.extend(String::from_utf8_lossy(&output).lines().map(str::to_owned));
            return Err(self.failed(status.to_string()));
        }
        Ok(output)
    }

    fn has_ended(&mut self) -> Result<bool, ContestError> {
        let ended = self.child.try_wait();
        Ok(ended.map_err(|source| ContestError::Run { command: self.command.clone(), source })?.is_some())
    }

    fn failed(&self, status: String) -> ContestError {
        ContestError::Failed { command: self.command.clone(), status, said: self.heard.join("\n") }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // Killing fails if the process has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lines(stderr: ChildStderr) -> mpsc::Receiver<String> {
    let (sender, said) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    said
}

/// The time that a process has to get ready.
const PATIENCE: Duration = Duration::from_secs(20);
/// The interval of checks until then.
const PAUSE: Duration = Duration::from_millis(10);
