//! The end of the process, which waits for the work that the application has left to the rails'
//! threads.

use crate::StreamId;
use rails_bind::process::at_exit;
use rails_proto::countdown::Countdown;
use std::{
    cell::Cell,
    collections::BTreeMap,
    process,
    sync::{
        Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering::SeqCst},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

/// Work that the end of the process waits for, within a limit: a stream that delivers its bytes
/// after it was dropped, or rails that stop. The work ends when this value is dropped.
#[derive(Debug)]
pub(crate) struct LastWork(u64);

/// The work of the process.
#[derive(Debug)]
struct All {
    work: BTreeMap<u64, Entry>,
    next: u64,
}

#[derive(Debug)]
struct Entry {
    limit: Countdown,
    /// The stream that delivers its bytes; `None` for rails that stop.
    stream: Option<StreamId>,
}

impl LastWork {
    /// Has the end of the process wait for this work, for `limit` from here on at most.
    pub(crate) fn new(limit: Duration, stream: Option<StreamId>) -> Self {
        let mut all = lock();
        let before = PROCESS.swap(process::id(), SeqCst);
        if before != process::id() {
            // The work of the process that this one was forked from, whose threads are not here.
            all.work.clear();
        }
        let number = all.next;
        all.next += 1;
        all.work.insert(number, Entry { limit: Countdown::new(Instant::now(), limit), stream });
        drop(all);
        if before == 0
            && let Err(error) = at_exit(wait)
        {
            tracing::warn!(%error, "the end of the process does not wait for dropped streams");
        }
        Self(number)
    }
}

impl Drop for LastWork {
    fn drop(&mut self) {
        lock().work.remove(&self.0);
        CHANGED.notify_all();
    }
}

/// Marks the calling thread as one that does such work: it cannot wait for its own work when it
/// ends the process.
pub(crate) fn done_on_this_thread() {
    DOES_WORK.set(true);
}

/// Whether [`done_on_this_thread`] was called on the calling thread.
pub(crate) fn is_done_on_this_thread() -> bool {
    DOES_WORK.get()
}

/// Waits for all work when the process ends.
extern "C" fn wait() {
    // A process that was forked from this one has none of its threads, and perhaps a lock that one of
    // them held.
    if PROCESS.load(SeqCst) != process::id() {
        return;
    }
    let mut all = lock();
    while !is_done_on_this_thread() {
        let now = Instant::now();
        let goes_on = |entry: &mut Entry| !entry.limit.count(now);
        let next = all.work.values_mut().filter_map(|entry| goes_on(entry).then(|| entry.limit.check_at())).min();
        let Some(next) = next else { break };
        let pause = next.saturating_duration_since(now);
        all = CHANGED.wait_timeout(all, pause).unwrap_or_else(PoisonError::into_inner).0;
    }
    let streams: Vec<String> = all.work.values().filter_map(|entry| Some(entry.stream?.to_string())).collect();
    drop(all);
    if !streams.is_empty() {
        // The thread-local values that subscribers use are gone on the calling thread, which may hold a
        // lock that they wait for, as that of the standard output.
        let (done, told) = mpsc::sync_channel(1);
        let tell = move || {
            tracing::warn!(
                streams = streams.join(", "),
                "the process ends before dropped streams have delivered their bytes"
            );
            let _ = done.send(());
        };
        if thread::Builder::new().spawn(tell).is_ok() {
            let _ = told.recv_timeout(MAX_TELLING);
        }
    }
}

fn lock() -> MutexGuard<'static, All> {
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How long the end of the process waits for the log.
const MAX_TELLING: Duration = Duration::from_secs(1);

static ALL: Mutex<All> = Mutex::new(All { work: BTreeMap::new(), next: 0 });
static CHANGED: Condvar = Condvar::new();
/// The process whose work it is; 0 before the first.
static PROCESS: AtomicU32 = AtomicU32::new(0);

thread_local! {
    // Without a destructor, so that it is there when the process ends.
    static DOES_WORK: Cell<bool> = const { Cell::new(false) };
}
