//! Traces are written, by a thread of their own.

use super::{
    MAX_ARRAYS, MAX_READS, MAX_REGIONS, ReadOutcome, TRACE_VARIABLE, TRACE_VERSION, TraceEnd, TraceHeader,
    line::{ArrayLine, Line, PathLine, ReadLine, TellLine, nanoseconds},
};
use crate::{
    SiteAddress, SiteOptions,
    description::{ArraySummary, DatasetDescription},
    library::Library,
    wire::NodeStatus,
};
use rails_array::{Region, Selection};
use rails_cache::pattern::Path as BlockPath;
use std::{
    collections::HashMap,
    env, fmt,
    fs::{File, OpenOptions},
    io::{self, Write},
    mem,
    path::{Path, PathBuf},
    process,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering},
        mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel},
    },
    thread,
    time::Duration,
};
use tokio::time::Instant;

/// The recording of one site.
///
/// A read passes its facts to a bounded queue, and does not wait: what has no room there is counted
/// and dropped. The thread empties the queue into the file every few milliseconds, so that a
/// process that ends at once has nearly all of its reads in it.
pub(crate) struct Recorder {
    notes: SyncSender<Note>,
    shared: Arc<Shared>,
    begun: Instant,
    next_handle: AtomicU32,
    /// The thread has ended.
    ended: Mutex<Receiver<()>>,
}

#[derive(Default)]
struct Shared {
    dropped: AtomicU64,
    /// The regions of announcements in the queue.
    regions: AtomicUsize,
    /// The file cannot be written any more.
    is_broken: AtomicBool,
    /// The site has ended.
    end: Mutex<Option<(NodeStatus, BlockPath)>>,
}

/// A handle of an array, as the trace numbers it.
#[derive(Debug)]
pub(crate) struct TracedHandle {
    number: u32,
    description: Arc<DatasetDescription>,
    array: u32,
}

/// A read that has begun. If it is dropped, it was cancelled.
pub(crate) struct TracedReading<'a> {
    recorder: &'a Recorder,
    handle: &'a Arc<TracedHandle>,
    selection: &'a Selection,
    at: Duration,
    outcome: ReadOutcome,
}

enum Note {
    Read { handle: Arc<TracedHandle>, selection: Selection, at: Duration, waited: Duration, outcome: ReadOutcome },
    Tell { handle: Arc<TracedHandle>, regions: Vec<Region>, at: Duration },
}

impl Recorder {
    /// A recorder if the options or the environment ask for one. Without a thread for it there is
    /// none, and the log says so.
    pub(crate) fn of(options: &SiteOptions, address: &SiteAddress, library: &Arc<Library>) -> Option<Self> {
        let by_environment = || env::var_os(TRACE_VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from);
        let is_stated = options.trace.is_some();
        let path = options.trace.clone().or_else(by_environment)?;
        let header = TraceHeader {
            version: TRACE_VERSION,
            address: address.to_string(),
            process: process::id(),
            application: options.application.clone(),
            memory_bytes: options.memory.as_bytes(),
            slot_bytes: options.slot_bytes,
            max_block_bytes: library.node().max_block_bytes(),
            policy: library.node().policy_of(&options.application, address.dataset().unwrap_or_default()),
            prefetch: options.prefetch,
            views: options.views,
            presend: options.presend,
        };
        let (notes, received) = sync_channel(MAX_NOTES);
        let (has_ended, ended) = sync_channel(1);
        let shared = Arc::new(Shared::default());
        let mut writer = Writer {
            path,
            is_stated,
            header: Some(header),
            file: None,
            arrays: HashMap::new(),
            reads: 0,
            regions: 0,
            told_path: None,
            library: Arc::downgrade(library),
            shared: Arc::clone(&shared),
        };
        let path = writer.path.clone();
        let spawned = thread::Builder::new().name("trace".into()).spawn(move || {
            writer.run(&received);
            // The site may not wait for it any more.
            let _ = has_ended.send(());
        });
        if let Err(error) = spawned {
            say(&path, is_stated, &error);
            return None;
        }
        Some(Self { notes, shared, begun: Instant::now(), next_handle: AtomicU32::new(0), ended: Mutex::new(ended) })
    }

    /// A handle of an array that begins now.
    pub(crate) fn handle(&self, description: &Arc<DatasetDescription>, array: u32) -> Arc<TracedHandle> {
        let number = self.next_handle.fetch_add(1, Ordering::Relaxed);
        Arc::new(TracedHandle { number, description: Arc::clone(description), array })
    }

    /// A read begins.
    pub(crate) fn begin<'a>(&'a self, handle: &'a Arc<TracedHandle>, selection: &'a Selection) -> TracedReading<'a> {
        TracedReading { recorder: self, handle, selection, at: self.begun.elapsed(), outcome: ReadOutcome::Cancelled }
    }

    /// A handle announces regions.
    pub(crate) fn tell(&self, handle: &Arc<TracedHandle>, regions: Vec<Region>) {
        let queued = self.shared.regions.fetch_add(regions.len(), Ordering::Relaxed);
        if queued + regions.len() > MAX_QUEUED_REGIONS {
            self.shared.regions.fetch_sub(regions.len(), Ordering::Relaxed);
            self.shared.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.note(Note::Tell { handle: Arc::clone(handle), regions, at: self.begun.elapsed() });
    }

    /// The site ends. Waits a moment for the file.
    pub(crate) fn end(self, status: NodeStatus, path: BlockPath) {
        let Self { notes, shared, ended, .. } = self;
        *shared.end.lock().unwrap_or_else(PoisonError::into_inner) = Some((status, path));
        drop(notes);
        let ended = ended.into_inner().unwrap_or_else(PoisonError::into_inner);
        if ended.recv_timeout(MAX_WAIT) == Err(RecvTimeoutError::Timeout) {
            tracing::warn!("the file of a trace takes long, and is not waited for");
        }
    }

    fn note(&self, note: Note) {
        if self.shared.is_broken.load(Ordering::Relaxed) || self.notes.try_send(note).is_err() {
            self.shared.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl TracedReading<'_> {
    /// The read has ended.
    pub(crate) fn end<T, E>(mut self, result: &Result<T, E>) {
        self.outcome = if result.is_ok() { ReadOutcome::Done } else { ReadOutcome::Failed };
    }
}

impl Drop for TracedReading<'_> {
    fn drop(&mut self) {
        let waited = self.recorder.begun.elapsed().saturating_sub(self.at);
        let (handle, selection) = (Arc::clone(self.handle), self.selection.clone());
        self.recorder.note(Note::Read { handle, selection, at: self.at, waited, outcome: self.outcome });
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").field("begun", &self.begun).finish_non_exhaustive()
    }
}

/// The thread's part: the file, and its lines so far.
struct Writer {
    path: PathBuf,
    /// The options name the file, not the environment.
    is_stated: bool,
    /// The first line, until it is written.
    header: Option<TraceHeader>,
    file: Option<File>,
    /// The numbers of arrays, by dataset, generation and place in it.
    arrays: HashMap<(String, u64, u32), u32>,
    reads: usize,
    regions: usize,
    told_path: Option<BlockPath>,
    library: Weak<Library>,
    shared: Arc<Shared>,
}

impl Writer {
    fn run(&mut self, notes: &Receiver<Note>) {
        if let Err(error) = self.try_run(notes) {
            self.shared.is_broken.store(true, Ordering::Relaxed);
            say(&self.path, self.is_stated, &error);
        }
    }

    /// Writes lines until the site has ended.
    fn try_run(&mut self, notes: &Receiver<Note>) -> io::Result<()> {
        let mut text = Vec::new();
        while let Ok(first) = notes.recv() {
            self.begin(&mut text);
            self.add(&mut text, first);
            let mut is_over = false;
            while text.len() < BATCH_BYTES && !is_over {
                match notes.try_recv() {
                    Ok(note) => self.add(&mut text, note),
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => is_over = true,
                }
            }
            if let Some(library) = self.library.upgrade() {
                self.path(&mut text, library.path());
            }
            self.write(&mut text)?;
            if !is_over {
                // Nobody has to wake this thread for each read.
                thread::sleep(BATCH_TIME);
            }
        }
        let end = self.shared.end.lock().unwrap_or_else(PoisonError::into_inner).take();
        // A site whose arrays were not read leaves no file.
        if let Some((status, path)) = end.filter(|_| self.file.is_some()) {
            self.path(&mut text, path);
            self.end(&status).write_to(&mut text);
            self.write(&mut text)?;
        }
        Ok(())
    }

    /// Adds the first lines, if they are not written.
    fn begin(&mut self, text: &mut Vec<u8>) {
        if let Some(header) = self.header.take() {
            Line::Trace(header).write_to(text);
        }
    }

    fn add(&mut self, text: &mut Vec<u8>, note: Note) {
        match note {
            Note::Read { handle, selection, at, waited, outcome } => {
                let Some(array) = self.array(text, &handle).filter(|_| self.reads < MAX_READS) else {
                    self.shared.dropped.fetch_add(1, Ordering::Relaxed);
                    return;
                };
                self.reads += 1;
                Line::Read(ReadLine {
                    at_ns: nanoseconds(at),
                    handle: handle.number,
                    array,
                    selection: selection.to_string(),
                    waited_ns: nanoseconds(waited),
                    outcome,
                })
                .write_to(text);
            }
            Note::Tell { handle, regions, at } => {
                self.shared.regions.fetch_sub(regions.len(), Ordering::Relaxed);
                let count = regions.len().max(1);
                let fits = self.regions + count <= MAX_REGIONS;
                let Some(array) = self.array(text, &handle).filter(|_| fits) else {
                    self.shared.dropped.fetch_add(1, Ordering::Relaxed);
                    return;
                };
                self.regions += count;
                let parts: Vec<&[Region]> = regions.chunks(REGIONS_OF_LINE).collect();
                // An empty list takes back what was announced.
                let parts = if parts.is_empty() { vec![&[][..]] } else { parts };
                for (number, part) in parts.iter().enumerate() {
                    Line::Tell(TellLine {
                        at_ns: nanoseconds(at),
                        handle: handle.number,
                        array,
                        regions: part.iter().map(ToString::to_string).collect(),
                        goes_on: number + 1 < parts.len(),
                    })
                    .write_to(text);
                }
            }
        }
    }

    /// The number of a handle's array. `None` if there are too many.
    fn array(&mut self, text: &mut Vec<u8>, handle: &TracedHandle) -> Option<u32> {
        let description = &handle.description;
        let key = (description.name.clone(), description.generation, handle.array);
        if let Some(number) = self.arrays.get(&key) {
            return Some(*number);
        }
        let number = u32::try_from(self.arrays.len()).ok().filter(|number| (*number as usize) < MAX_ARRAYS)?;
        let ArraySummary { description: array, block_shape, .. } = &description.arrays[handle.array as usize];
        Line::Array(ArrayLine {
            number,
            dataset: description.name.clone(),
            name: array.name.clone(),
            shape: array.shape.clone(),
            element_bytes: array.dtype.bytes() as u32,
            block_shape: block_shape.clone(),
        })
        .write_to(text);
        self.arrays.insert(key, number);
        Some(number)
    }

    /// Adds the path, if it is another one.
    fn path(&mut self, text: &mut Vec<u8>, path: BlockPath) {
        let differs = |one: u64, other: u64| one.abs_diff(other) > one.max(other) / 10;
        let is_told = self.told_path.is_some_and(|told| {
            !differs(nanoseconds(told.round_trip), nanoseconds(path.round_trip))
                && !differs(nanoseconds(told.storage_latency), nanoseconds(path.storage_latency))
                && !differs(told.bytes_per_second, path.bytes_per_second)
        });
        if !is_told && path.bytes_per_second > 0 {
            Line::Path(PathLine::of(&path)).write_to(text);
            self.told_path = Some(path);
        }
    }

    fn end(&self, status: &NodeStatus) -> Line {
        Line::End(TraceEnd {
            reads: self.reads as u64,
            dropped: self.shared.dropped.load(Ordering::Relaxed),
            hits: status.sum(|budget| budget.hits),
            ahead_hits: status.sum(|budget| budget.ahead_hits),
            late_ahead: status.sum(|budget| budget.late_ahead),
            misses: status.sum(|budget| budget.misses),
            ahead_fetched: status.sum(|budget| budget.ahead_fetched),
            pushed: status.sum(|budget| budget.pushed),
            used: status.sum(|budget| budget.used),
        })
    }

    fn write(&mut self, text: &mut Vec<u8>) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            None => {
                let (path, file) = create(&self.path)?;
                self.path = path;
                self.file.insert(file)
            }
        };
        file.write_all(&mem::take(text))
    }
}

/// A new file of that name, or of that name and the first number from 2 on that is free: several
/// sites, and several processes, never write into one file.
fn create(path: &Path) -> io::Result<(PathBuf, File)> {
    let numbered = |number: u32| {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{number}"));
        PathBuf::from(name)
    };
    let names = [path.to_owned()].into_iter().chain((2..MAX_FILES).map(numbered));
    for name in names {
        match OpenOptions::new().write(true).create_new(true).open(&name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            created => return created.map(|file| (name, file)),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Says that there is no recording any more. A program that the environment has recorded knows
/// nothing of it, and need not have a log.
fn say(path: &Path, is_stated: bool, error: &io::Error) {
    let path = path.display();
    tracing::warn!(%path, %error, "the trace cannot be written, and reads go on without it");
    if !is_stated {
        let line = format!("{TRACE_VARIABLE}: {path} cannot be written, and reads go on without it: {error}\n");
        // There is no other place to report it.
        let _ = io::stderr().write_all(line.as_bytes());
    }
}

/// The notes in the queue: 3 MiB. A program that reads 100,000 times a second fills half of it
/// between two batches.
const MAX_NOTES: usize = 8192;
/// The announced regions in the queue, of 200 bytes or so: as many as one call announces.
const MAX_QUEUED_REGIONS: usize = rails_cache::pattern::MAX_TOLD;
/// A region has less than a kilobyte of text, even of 32 axes.
const REGIONS_OF_LINE: usize = 512;
const BATCH_BYTES: usize = 1 << 16;
const BATCH_TIME: Duration = Duration::from_millis(10);
/// A disk that is busy answers within it.
const MAX_WAIT: Duration = Duration::from_secs(2);
const MAX_FILES: u32 = 10_000;
