//! A process at one end of a run.

use anyhow::{Context, Result, bail};
use std::{
    io::{BufRead, BufReader, Read},
    process::{Child, Command, Stdio},
    sync::mpsc::{self, Receiver},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// A process, which is killed on drop.
#[derive(Debug)]
pub(crate) struct Process {
    shown: String,
    child: Child,
    output: JoinHandle<std::io::Result<String>>,
    said: Receiver<String>,
    heard: Vec<String>,
}

impl Process {
    /// Starts the command. Threads read both of its outputs, so that it never waits.
    pub(crate) fn start(mut command: Command) -> Result<Self> {
        let shown = format!("{command:?}");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("start {shown}"))?;
        let mut stdout = child.stdout.take().expect("it was asked for");
        let output = thread::spawn(move || {
            let mut text = String::new();
            stdout.read_to_string(&mut text).map(|_| text)
        });
        let stderr = child.stderr.take().expect("it was asked for");
        let (sender, said) = mpsc::channel();
        thread::spawn(move || {
            BufReader::new(stderr).lines().map_while(std::io::Result::ok).try_for_each(|line| sender.send(line))
        });
        Ok(Self { shown, child, output, said, heard: Vec::new() })
    }

    /// Waits for a line of standard error that begins with `start`, and returns it.
    pub(crate) fn wait_for(&mut self, start: &str) -> Result<String> {
        while let Ok(line) = self.said.recv_timeout(READY) {
            self.heard.push(line.clone());
            if line.starts_with(start) {
                return Ok(line);
            }
        }
        bail!("{} did not get ready:\n{}", self.shown, self.heard.join("\n"))
    }

    /// Waits until `ready` holds, while the process lives.
    pub(crate) fn wait_until(&mut self, ready: impl Fn() -> bool) -> Result<()> {
        let deadline = Instant::now() + READY;
        while !ready() {
            let has_ended = self.child.try_wait().with_context(|| format!("wait for {}", self.shown))?.is_some();
            if has_ended || Instant::now() > deadline {
                self.heard.extend(self.said.try_iter());
                bail!("{} did not get ready:\n{}", self.shown, self.heard.join("\n"));
            }
            thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Waits for the end, and returns the standard output.
    pub(crate) fn finish(&mut self, patience: Duration) -> Result<String> {
        let deadline = Instant::now() + patience;
        let status = loop {
            match self.child.try_wait().with_context(|| format!("wait for {}", self.shown))? {
                Some(status) => break status,
                None if Instant::now() > deadline => bail!("{} took longer than {patience:?}", self.shown),
                None => thread::sleep(PAUSE),
            }
        };
        let output = std::mem::replace(&mut self.output, thread::spawn(|| Ok(String::new())));
        let output =
            output.join().expect("reading does not panic").with_context(|| format!("read from {}", self.shown))?;
        self.heard.extend(self.said.iter());
        if !status.success() {
            bail!("{} failed: {status}\n{}", self.shown, self.heard.join("\n"));
        }
        Ok(output)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Killing fails if the process has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The time that a process has to get ready.
const READY: Duration = Duration::from_secs(30);
/// The interval of checks.
const PAUSE: Duration = Duration::from_millis(10);
