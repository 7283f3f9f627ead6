//! A program of other people: its service, and how one use of it is measured and verified.

use crate::{
    file,
    passage::{Means, Passage},
    process::{Finished, Running, find as find_executable},
    room::Room,
};
use anyhow::{Result, ensure};
use serde::Serialize;
use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

/// A program of other people, unmodified, with its service.
pub trait Program {
    /// The name on the command line and in reports.
    fn name(&self) -> &'static str;

    /// The executables that it takes.
    fn executables(&self) -> &'static [&'static str];

    /// Why it cannot run on this system; `None` if it can.
    fn missing(&self) -> Option<String> {
        let missing = self.executables().iter().find(|name| find_executable(name).is_none());
        missing.map(|name| format!("{name} is not installed")).or_else(|| self.lacks())
    }

    /// Whatever else it needs and this system has not.
    fn lacks(&self) -> Option<String> {
        None
    }

    /// The parts of it that a door may take hold of.
    fn means(&self) -> &'static [Means] {
        &[Means::Command, Means::Destination]
    }

    /// The measurement of rails' own that it cannot exceed.
    fn ceiling(&self) -> Option<Ceiling> {
        None
    }

    /// Whether it writes what it receives to files of [`Use::into`] as it comes.
    fn writes_files(&self) -> bool {
        false
    }

    /// Starts its service, and gives it something to serve. It listens on every address of its
    /// host: subflows of MPTCP arrive at those of the other links.
    ///
    /// # Errors
    ///
    /// A program fails or is not ready in time.
    fn serve(&self, room: &Room, passage: &Passage, size: Size) -> Result<Service>;

    /// Uses the service once, and verifies what arrived.
    ///
    /// # Errors
    ///
    /// A program fails or does not end in time, or the bytes are wrong.
    fn run(&self, this: &Use<'_>) -> Result<Sample>;
}

/// How much one use does.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Size {
    /// Bytes of a file.
    pub bytes: u64,
    /// Seconds of a flow.
    pub seconds: f64,
    /// Requests.
    pub requests: u64,
}

/// A service that is ready; it ends when this is dropped.
#[derive(Debug)]
pub struct Service {
    /// Its address.
    pub address: SocketAddr,
    /// Its folder, in which `file` is what it serves, if that is a file.
    pub folder: PathBuf,
    /// Its processes.
    pub running: Vec<Running>,
}

/// One use of a service.
#[derive(Debug, Clone, Copy)]
pub struct Use<'a> {
    /// The room.
    pub room: &'a Room,
    /// The way in.
    pub passage: &'a Passage,
    /// The service.
    pub service: &'a Service,
    /// How much.
    pub size: Size,
    /// An empty folder for what arrives.
    pub into: &'a Path,
    /// The time that it may take.
    pub patience: Duration,
}

/// What one use came to.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Sample {
    /// Seconds, of a file from the start of the program to its end.
    pub seconds: f64,
    /// Bytes that arrived.
    pub bytes: Option<u64>,
    /// Payload that arrived a second.
    pub goodput_bits_per_second: Option<f64>,
    /// The median time of a request.
    pub p50_microseconds: Option<f64>,
    /// Requests a second.
    pub requests_per_second: Option<f64>,
}

/// A transfer of rails' own over the same links, with a lane over each, in plain text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ceiling {
    /// `rails-bench stream`: from memory to memory.
    Stream,
    /// `rails-bench send`: a file.
    Send,
}

impl Use<'_> {
    /// The address that the client is told.
    pub(crate) fn destination(&self) -> SocketAddr {
        self.passage.destination(self.service.address)
    }

    /// Runs a client to its end.
    pub(crate) fn finish(&self, command: Command) -> Result<Finished> {
        self.room.start(command)?.finish(self.patience)
    }

    /// Runs a client that fetches the service's file, and verifies it.
    pub(crate) fn fetch(&self, command: Command, file: &Path) -> Result<Sample> {
        let elapsed = self.finish(command)?.elapsed;
        ensure!(file::are_equal(&self.service.file(), file)?, "other bytes arrived than were sent");
        Ok(Sample::of(self.size.bytes, elapsed))
    }
}

impl Service {
    /// The file that it serves.
    pub(crate) fn file(&self) -> PathBuf {
        self.folder.join(FILE)
    }
}

impl Sample {
    /// Bytes that arrived in a time.
    pub(crate) fn of(bytes: u64, elapsed: Duration) -> Self {
        let seconds = elapsed.as_secs_f64();
        let goodput_bits_per_second = Some(bytes as f64 * 8.0 / seconds);
        Self { seconds, bytes: Some(bytes), goodput_bits_per_second, ..Self::default() }
    }
}

/// The name of the file that a service serves.
pub(crate) const FILE: &str = "file";
