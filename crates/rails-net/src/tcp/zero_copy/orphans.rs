//! Memory of closed lanes that the kernel still reads.

use super::{Ledger, SendBuffers, settle};
use crate::sys;
use std::{
    io, mem,
    os::fd::{AsFd, OwnedFd},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

/// The socket of a closed lane, and the memory that the kernel may still send from. Memory
/// that is freed too early is reused, and the kernel sends the new bytes.
#[derive(Debug)]
pub(super) struct Orphan {
    pub(super) socket: Arc<OwnedFd>,
    pub(super) ledger: Ledger<SendBuffers>,
    /// Whether the connection may be cut, because no other owner uses it.
    pub(super) may_be_cut: bool,
}

/// The right of a lane to leave an orphan. A thread waits for orphans while one is left or a lane
/// may leave one: at the end of a lane it is too late to find that the system refuses a thread, and
/// a task would end with its runtime.
#[derive(Debug)]
pub(super) struct OrphanPermit(());

/// All orphans of the process, and the state of the thread that waits for them.
#[derive(Debug)]
struct Orphans {
    /// The orphans, each with the time at which its connection is cut.
    waiting: Vec<(Orphan, Instant)>,
    /// The number of lanes that may leave an orphan.
    lanes: usize,
    /// Whether the thread runs.
    is_running: bool,
}

static ORPHANS: Mutex<Orphans> = Mutex::new(Orphans { waiting: Vec::new(), lanes: 0, is_running: false });
/// Notified when an orphan is added, and when a lane has ended.
static CHANGED: Condvar = Condvar::new();

impl OrphanPermit {
    /// Starts the thread, unless it runs.
    ///
    /// # Errors
    /// The operating system's, if it gives no thread.
    pub(super) fn begin() -> io::Result<Self> {
        let mut orphans = lock();
        if !orphans.is_running {
            thread::Builder::new().name("rails-zerocopy".to_owned()).spawn(run)?;
            orphans.is_running = true;
        }
        orphans.lanes += 1;
        Ok(Self(()))
    }

    /// Keeps an orphan until the kernel is done.
    pub(super) fn adopt(&self, orphan: Orphan) {
        lock().waiting.push((orphan, Instant::now() + GRACE));
        CHANGED.notify_one();
    }
}

impl Drop for OrphanPermit {
    fn drop(&mut self) {
        lock().lanes -= 1;
        CHANGED.notify_one();
    }
}

fn run() {
    let mut pause = SHORTEST_PAUSE;
    loop {
        let mut orphans = lock();
        while orphans.waiting.is_empty() {
            if orphans.lanes == 0 {
                orphans.is_running = false;
                return;
            }
            orphans = CHANGED.wait(orphans).unwrap_or_else(PoisonError::into_inner);
            pause = SHORTEST_PAUSE;
        }
        drop(orphans);
        thread::sleep(pause);
        pause = (2 * pause).min(LONGEST_PAUSE);
        // Dropping memory may run foreign code, so the lock is released first.
        let mut waiting = mem::take(&mut lock().waiting);
        let now = Instant::now();
        waiting.retain_mut(|(orphan, deadline)| {
            settle(&mut orphan.ledger, orphan.socket.as_fd()).into_iter().for_each(|kept| drop(kept.emptied()));
            if now >= *deadline && mem::take(&mut orphan.may_be_cut) {
                // Disconnecting discards the unsent bytes. Their notices come as usual.
                if let Err(error) = sys::disconnect::disconnect(orphan.socket.as_fd()) {
                    tracing::warn!(%error, "the connection of a closed lane cannot be cut");
                }
            }
            !orphan.ledger.is_settled()
        });
        lock().waiting.append(&mut waiting);
    }
}

fn lock() -> MutexGuard<'static, Orphans> {
    ORPHANS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The time that the kernel has to send the memory of a closed lane.
const GRACE: Duration = Duration::from_secs(20);
const SHORTEST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(200);
