//! Changes of this machine, as they happen (cargo feature `monitor`).
//!
//! ```no_run
//! use rails_topo::monitor::{Monitor, MonitorOptions, Update};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let monitor = Monitor::start(MonitorOptions::new()).await?;
//! let mut changes = monitor.subscribe();
//! println!("CPUs {} may be used", changes.start().topology.allowed_cpus());
//! while let Some(update) = changes.next().await {
//!     match update? {
//!         Update::Change(stamped) => println!("{}", stamped.change),
//!         Update::Lagged { missed, snapshot } => println!("{missed} missed; online now: {}", snapshot.topology.online_cpus()),
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Sources
//!
//! | change | source | reported within |
//! |---|---|---|
//! | CPU, memory block | the kernel's uevents | milliseconds |
//! | NUMA node, its memory | read after such a uevent | milliseconds |
//! | link, MTU, address, NIC added, removed, renamed | rtnetlink | milliseconds; of carriers the kernel reports once a second |
//! | speed | read after a message about its link | milliseconds |
//! | allowed CPUs and nodes | inotify on the files of this process's cgroup and those above it, CPUs' uevents | milliseconds |
//! | allowed sets by `taskset`, or by a move into another cgroup; interrupts | the poll: the kernel has no event | 5 s, unless set otherwise |
//! | everything else (packages, caches, PCI) | the machine is read again half a second after the last CPU or node | a second or so |
//!
//! Changes of one source keep their order. Between sources only the order of arrival holds: a CPU
//! that goes offline and a link that goes down within one millisecond may be reported the other way
//! round.
//!
//! In containers without the host's user namespace no uevents arrive: there the poll finds CPUs and
//! nodes, and memory blocks stay unknown. The poll also replaces a source that the system refuses
//! ([`Monitor::refused`]). Interfaces are those of the calling thread's network namespace, as for
//! [`Topology::detect`].
//!
//! # Files of facts
//!
//! The monitor reports the kernel's facts. An application applies the user's files
//! ([`config`](crate::config)) to a snapshot by [`config::apply`](crate::config::apply()): a file
//! may name a device that has just been removed, which is an error of the file and does not end the
//! monitor.
//!
//! # Cost
//!
//! Between events only the poll runs: it reads four files, one for each node, and two for each
//! interrupt of a NIC. If it takes longer than a two-thousandth of its interval, the interval
//! grows, so that it stays below 0.05 % of one core with any number of interrupts. Measured: 18 ms
//! of CPU time in 60 s, or 0.03 % of one core, on a machine of 2 CPUs with one NIC, not optimised
//! (the example `watch`).
//!
//! # Losses
//!
//! A reading that fails for lack of descriptors or memory says nothing about the machine: the known
//! facts stay, and the monitor logs the cause and reads again with the next poll.
//!
//! If the kernel drops messages (`ENOBUFS`), the monitor reads the machine again and compares;
//! objects that came and went in between are not reported. A subscriber who does not read in time
//! gets [`Update::Lagged`] with a fresh snapshot.

mod apply;
mod change;
mod cpuset;
mod differ;
mod event;
mod facts;
mod feed;
mod rtnetlink;
mod snapshot;
mod sources;
mod task;
mod tracker;
mod uevent;

#[cfg(doc)]
use crate::Topology;
use crate::{CpuSet, DetectError, linux::Root};
pub use change::{Change, MemoryBlockId, MemoryBlockSet};
pub use differ::differ;
use event::Event;
use facts::Facts;
use feed::Feed;
pub use feed::{Changes, Stamped, Update};
pub use snapshot::Snapshot;
use sources::Sources;
use std::{io, sync::Arc, time::Duration};
use task::Task;
use tokio::sync::mpsc;
use tracker::Tracker;

/// The options of a monitor.
#[derive(Debug, Clone)]
pub struct MonitorOptions {
    poll_interval: Duration,
    kept_changes: usize,
}

/// Follows this machine until it is dropped.
#[derive(Debug)]
pub struct Monitor {
    feed: Arc<Feed>,
    refused: Vec<MonitorError>,
    expectations: mpsc::UnboundedSender<(u32, CpuSet)>,
    task: tokio::task::JoinHandle<()>,
}

/// The machine cannot be followed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MonitorError {
    /// A source of events failed, or could not be opened ([`Monitor::refused`]).
    #[error("{source_name} failed")]
    Source {
        /// The source: `uevents`, `rtnetlink` or `inotify`.
        source_name: &'static str,
        /// The answer of the operating system.
        source: io::Error,
    },
    /// The machine could not be read.
    #[error("this machine cannot be read")]
    Detect(#[from] DetectError),
    /// Reading the machine panicked.
    #[error("the machine was not read to the end")]
    Stopped,
}

impl MonitorOptions {
    /// A poll every 5 s, and 1,024 changes kept.
    pub fn new() -> Self {
        Self { poll_interval: Duration::from_secs(5), kept_changes: 1024 }
    }

    /// The interval of the poll, which finds changes without an event of the kernel (default 5 s,
    /// at least 100 ms). The interval grows by itself if the poll takes long.
    #[must_use]
    pub fn poll_interval(mut self, interval: Duration) -> Self {
        self.poll_interval = interval.max(Duration::from_millis(100));
        self
    }

    /// The number of changes that are kept for subscribers that do not read at once (default 1,024;
    /// from 1 to 1,048,576, rounded up to a power of two). A change takes about 100 bytes, and
    /// one that holds an interface about a thousand.
    #[must_use]
    pub fn kept_changes(mut self, changes: usize) -> Self {
        self.kept_changes = changes;
        self
    }
}

impl Default for MonitorOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl Monitor {
    /// Opens the sources, then reads the machine, so that no change is missed. A source that the
    /// system refuses is left out ([`Monitor::refused`]).
    ///
    /// # Errors
    /// [`MonitorError::Detect`] if the machine cannot be read.
    ///
    /// # Panics
    /// Outside a tokio runtime with I/O and time enabled.
    ///
    /// # Privileges
    /// None.
    pub async fn start(options: MonitorOptions) -> Result<Self, MonitorError> {
        let root = Arc::new(Root::this_machine().map_err(DetectError::from)?);
        let (sources, refused) = Sources::open(&root);
        let reading = Arc::clone(&root);
        let snapshot = task::aside(move || Facts::of_the_machine(&reading)).await.ok_or(MonitorError::Stopped)??;
        let feed = Arc::new(Feed::new(snapshot.clone(), options.kept_changes));
        let now = std::time::Instant::now();
        let mut tracker = Tracker::new(now, snapshot, options.poll_interval);
        if !sources.reports_links() {
            tracker.poll_nics();
        }
        let (expectations, expected) = mpsc::unbounded_channel();
        let task = Task::new(root, sources, tracker, Arc::clone(&feed), expected);
        Ok(Self { feed, refused, expectations, task: tokio::spawn(task.run()) })
    }

    /// The sources of events that the system refuses, each a [`MonitorError::Source`]. The poll
    /// finds the changes that they would have reported, but for those of memory blocks.
    pub fn refused(&self) -> &[MonitorError] {
        &self.refused
    }

    /// The changes from now on; any number of subscribers may read, each at its own pace.
    pub fn subscribe(&self) -> Changes {
        self.feed.subscribe()
    }

    /// The machine as the monitor knows it at the moment.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.feed.snapshot()
    }

    /// Announces that this process is about to move that interrupt to these CPUs, so that the
    /// change counts as expected ([`Change::InterruptMoved`]). It holds until the interrupt is
    /// allowed on other CPUs.
    pub fn expect_interrupt(&self, number: u32, cpus: CpuSet) {
        // A task that has ended tells its subscribers so.
        let _ = self.expectations.send((number, cpus));
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        self.task.abort();
        self.feed.end(None);
    }
}

/// The parsers, for the fuzz targets.
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing {
    /// Parses a datagram of the kernel's uevents. Returns whether it is an event.
    pub fn uevent(datagram: &[u8]) -> bool {
        super::uevent::Uevent::parse(datagram).and_then(|uevent| uevent.event()).is_some()
    }

    /// Parses a datagram of rtnetlink. Returns the number of its events.
    pub fn rtnetlink(datagram: &[u8]) -> usize {
        super::rtnetlink::events(datagram).len()
    }
}
