//! What the threads and the callers share.

use super::{
    beside::Binding,
    error::StorageError,
    figures::{SourceFigures, StorageFigures},
    gap::GapMeter,
    open_files::OpenFiles,
    queue::{Deed, ReadQueue},
    rate::RateMeter,
};
use crate::{catalogue::PublishedDataset, wire::Urgency};
use rails_array::Region;
use std::{
    collections::BTreeMap,
    fmt, mem,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// A read that was asked for. Dropping it cancels the read, if it has not ended.
#[must_use = "dropping the ticket cancels the read"]
pub struct ReadTicket {
    number: u64,
    shared: Arc<Shared>,
}

/// The receiver of a region's elements.
pub(super) type Done = Box<dyn FnOnce(Result<Vec<u8>, StorageError>) + Send>;

/// A read that waits.
pub(super) struct Request {
    pub(super) dataset: Arc<PublishedDataset>,
    pub(super) array: usize,
    pub(super) region: Region,
    pub(super) done: Done,
}

/// What the threads and the callers share.
pub(super) struct Shared {
    pub(super) files: OpenFiles,
    binding: Arc<Binding>,
    state: Mutex<State>,
    /// A deed may have come.
    changed: Condvar,
}

struct State {
    queue: ReadQueue<Request>,
    /// Reads that have ended, and whose handles are to be dropped.
    ended: Vec<u64>,
    rate: RateMeter,
    gaps: BTreeMap<u64, GapMeter>,
    is_closed: bool,
}

/// The next deed of the thread that begins reads.
pub(super) enum Next {
    /// A deed of the queue.
    Deed(Deed<Request>),
    /// These reads have ended.
    Ended(Vec<u64>),
    /// All reads were dropped, and no more come.
    Closed,
}

impl Shared {
    /// The state in front of so many threads.
    pub(super) fn new(files: OpenFiles, binding: Arc<Binding>, threads: usize) -> Self {
        let state = State {
            queue: ReadQueue::new(threads),
            ended: Vec::new(),
            rate: RateMeter::default(),
            gaps: BTreeMap::new(),
            is_closed: false,
        };
        Self { files, binding, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Adds a read.
    pub(super) fn push(self: &Arc<Self>, urgency: Urgency, request: Request) -> ReadTicket {
        let number = self.state().queue.push(urgency, request);
        self.changed.notify_one();
        ReadTicket { number, shared: Arc::clone(self) }
    }

    /// Drops all reads, those that run as far as they can be.
    pub(super) fn close(&self) {
        let mut state = self.state();
        state.is_closed = true;
        state.queue.cancel_all();
        drop(state);
        self.changed.notify_one();
    }

    /// The next deed. It waits for one.
    pub(super) fn next(&self) -> Next {
        let mut state = self.state();
        loop {
            if !state.ended.is_empty() {
                return Next::Ended(mem::take(&mut state.ended));
            }
            if let Some(deed) = state.queue.next() {
                if matches!(deed, Deed::Begin(..)) {
                    state.rate.began(Instant::now());
                }
                return Next::Deed(deed);
            }
            if state.is_closed {
                return Next::Closed;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Takes the end of a read that brought so many bytes; `None`, if it failed.
    pub(super) fn ended(&self, number: u64, began: Instant, bytes: Option<u64>) {
        let mut state = self.state();
        state.queue.ended(number);
        state.ended.push(number);
        state.rate.ended(Instant::now(), began, bytes);
        drop(state);
        self.changed.notify_one();
    }

    /// Takes one request to a device.
    pub(super) fn requested(&self, device: u64, bytes: u64, took: Duration) {
        self.state().gaps.entry(device).or_default().record(bytes, took);
    }

    /// The largest gap to read over.
    pub(super) fn gap_bytes(&self, device: Option<u64>) -> u64 {
        let state = self.state();
        device.and_then(|device| state.gaps.get(&device)).map_or(GapMeter::START_BYTES, GapMeter::gap_bytes)
    }

    pub(super) fn figures(&self) -> StorageFigures {
        let open_files = self.files.len();
        let state = self.state();
        let (reads, bytes) = state.rate.totals();
        StorageFigures {
            threads: 0,
            refused_threads: None,
            cpus: self.binding.cpus.clone(),
            unheld: self.binding.unheld().cloned(),
            waiting: state.queue.waiting(),
            running: state.queue.running(),
            open_files,
            reads,
            bytes,
            latency: state.rate.latency(),
            bytes_per_second: state.rate.bytes_per_second(),
            sources: state.gaps.iter().map(|(device, meter)| SourceFigures::of(*device, meter)).collect(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A broken invariant has panicked under the lock, and panics again where it is met.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReadTicket {
    /// Makes a read one of demand, if it has not begun.
    pub(super) fn raise(&self) {
        self.shared.state().queue.raise(self.number);
        self.shared.changed.notify_one();
    }
}

impl Drop for ReadTicket {
    fn drop(&mut self) {
        self.shared.state().queue.cancel(self.number);
        self.shared.changed.notify_one();
    }
}

impl fmt::Debug for ReadTicket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadTicket").field("number", &self.number).finish_non_exhaustive()
    }
}
