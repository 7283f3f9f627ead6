//! The tasks that wait for a stream.

use super::{
    sync::{AtomicBool, AtomicWaker, Ordering::Relaxed},
    wakers::wake,
};
use rails_proto::stream_number::StreamNumber;
use std::{
    collections::BTreeMap,
    sync::Arc,
    task::{Context, Poll, Waker, ready},
};
use tokio::task::coop;

/// The task that waits to read a stream, and the one that waits to write, or for the end of the
/// sending side.
#[derive(Debug)]
pub(crate) struct StreamTasks {
    number: StreamNumber,
    reader: AtomicWaker,
    writer: AtomicWaker,
    /// Whether the tasks wait. Threads change these under the lock of the session only.
    is_reader_waiting: AtomicBool,
    is_writer_waiting: AtomicBool,
}

/// The tasks of all streams that have a handle, under the lock of the session.
#[derive(Debug, Default)]
pub(crate) struct TaskTable {
    streams: BTreeMap<StreamNumber, Entry>,
    /// How many readers wait, and the exclusive or of their streams' numbers: the number of the
    /// only one.
    readers: usize,
    numbers: u64,
    /// The task that began to wait last. It may wait no more.
    latest: Option<Taker>,
}

/// A task of the application that takes arrivals in while it waits.
#[derive(Debug, Clone)]
pub(super) enum Taker {
    /// The reader of a stream.
    Reader(Arc<StreamTasks>),
    /// One that waits for a stream of the peer.
    Acceptor,
}

#[derive(Debug)]
struct Entry {
    tasks: Arc<StreamTasks>,
    /// The handles of the stream: one for each direction, or one for both.
    handles: usize,
}

/// The tasks of a stream to wake, once the lock is free.
#[must_use = "the tasks wait for a wake"]
pub(super) struct Woken {
    tasks: Arc<StreamTasks>,
    reader: bool,
    writer: bool,
}

impl StreamTasks {
    fn new(number: StreamNumber) -> Arc<Self> {
        let [reader, writer] = [(); 2].map(|()| AtomicWaker::new());
        let [is_reader_waiting, is_writer_waiting] = [(); 2].map(|()| AtomicBool::new(false));
        Arc::new(Self { number, reader, writer, is_reader_waiting, is_writer_waiting })
    }

    /// The stream's number.
    pub(crate) fn number(&self) -> StreamNumber {
        self.number
    }

    /// Registers the task that waits to read, after it was [noted](TaskTable::add_reader) as
    /// waiting. Returns whether it still is: otherwise it was woken before it was registered, and
    /// looks again.
    pub(super) fn register_reader(&self, waker: &Waker) -> bool {
        self.reader.register(waker);
        // A wake clears this before it takes the waker. It either finds the waker registered, or the
        // registration acquires what it has released.
        self.is_reader_waiting.load(Relaxed)
    }

    /// The writer has found no room, or not the end. It waits once its waker is registered. The
    /// caller holds the lock.
    pub(crate) fn note_writer(&self) {
        self.is_writer_waiting.store(true, Relaxed);
    }

    /// Calls `poll` for the task that writes or finishes.
    pub(crate) fn poll_as_writer<T>(&self, context: &mut Context<'_>, mut poll: impl FnMut() -> Poll<T>) -> Poll<T> {
        // A stream that always has room must not starve the other tasks of the caller's thread.
        let budget = ready!(coop::poll_proceed(context));
        let mut result = poll();
        if result.is_pending() {
            self.writer.register(context.waker());
            result = poll();
        }
        if result.is_ready() {
            budget.made_progress();
        }
        result
    }

    /// Wakes the task that waits to read.
    pub(super) fn wake_reader(&self) {
        wake(&self.reader);
    }
}

impl TaskTable {
    /// Adds a stream with that many handles.
    pub(crate) fn add(&mut self, number: StreamNumber, handles: usize) -> Arc<StreamTasks> {
        let tasks = StreamTasks::new(number);
        self.streams.insert(number, Entry { tasks: tasks.clone(), handles });
        tasks
    }

    /// The application drops a handle of the stream; `reads` says whether it was that of the
    /// reader.
    pub(crate) fn release(&mut self, tasks: &StreamTasks, reads: bool) {
        if reads {
            self.take_reader(tasks);
        }
        if let Some(entry) = self.streams.get_mut(&tasks.number) {
            entry.handles -= 1;
            if entry.handles == 0 {
                self.latest.take_if(|latest| matches!(latest, Taker::Reader(latest) if latest.number == tasks.number));
                self.streams.remove(&tasks.number);
            }
        }
    }

    /// A task that waits for a stream of the peer has found none.
    pub(crate) fn note_acceptor(&mut self) {
        self.latest = Some(Taker::Acceptor);
    }

    /// The reader of the stream waits.
    pub(super) fn add_reader(&mut self, tasks: &Arc<StreamTasks>) {
        match &self.latest {
            Some(Taker::Reader(latest)) if Arc::ptr_eq(latest, tasks) => {}
            _ => self.latest = Some(Taker::Reader(tasks.clone())),
        }
        if !tasks.is_reader_waiting.swap(true, Relaxed) {
            self.readers += 1;
            self.numbers ^= tasks.number.0;
        }
    }

    /// Whether the reader of the stream waits. From here on it does not.
    pub(super) fn take_reader(&mut self, tasks: &StreamTasks) -> bool {
        let is_waiting = tasks.is_reader_waiting.swap(false, Relaxed);
        if is_waiting {
            self.readers -= 1;
            self.numbers ^= tasks.number.0;
        }
        is_waiting
    }

    /// The task that began to wait last, or the only one that is known to wait. A reader waits no
    /// more from here on. `is_any_accepting` says whether a task waits for a stream of the peer.
    pub(super) fn take_latest(&mut self, is_any_accepting: bool) -> Option<Taker> {
        let latest = self.latest.take().filter(|latest| match latest {
            Taker::Reader(reader) => reader.is_reader_waiting.load(Relaxed),
            Taker::Acceptor => is_any_accepting,
        });
        let taker = match latest {
            Some(taker) => taker,
            None if self.readers == 1 => Taker::Reader(self.streams.get(&StreamNumber(self.numbers))?.tasks.clone()),
            None if is_any_accepting => Taker::Acceptor,
            None => return None,
        };
        if let Taker::Reader(reader) = &taker {
            self.take_reader(reader);
        }
        Some(taker)
    }

    /// Those of the tasks that wait, which the caller wakes.
    pub(super) fn take(&mut self, number: StreamNumber, reader: bool, writer: bool) -> Option<Woken> {
        if !(reader || writer) {
            return None;
        }
        let tasks = self.streams.get(&number)?.tasks.clone();
        let reader = reader && self.take_reader(&tasks);
        let writer = writer && tasks.is_writer_waiting.swap(false, Relaxed);
        (reader || writer).then_some(Woken { tasks, reader, writer })
    }
}

impl Woken {
    /// Wakes the tasks. The caller does not hold the lock.
    pub(super) fn wake(self) {
        if self.reader {
            wake(&self.tasks.reader);
        }
        if self.writer {
            wake(&self.tasks.writer);
        }
    }
}
