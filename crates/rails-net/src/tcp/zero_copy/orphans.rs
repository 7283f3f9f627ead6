//! Memory of closed lanes that the kernel still reads.

use super::{Kept, Ledger, settle};
use crate::sys;
use std::{
    mem,
    os::fd::{AsFd, OwnedFd},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

/// The socket of a closed lane, and the memory that the kernel may still send from. If the memory were freed before the
/// kernel is done with it, the kernel would send its next content.
#[derive(Debug)]
pub(super) struct Orphan {
    pub(super) socket: Arc<OwnedFd>,
    pub(super) ledger: Ledger<Kept>,
    /// Whether the connection may be cut: no other owner uses it.
    pub(super) may_be_cut: bool,
}

/// All orphans of the process, and whether a thread waits for them.
#[derive(Debug)]
struct Orphans {
    /// Each orphan with the time when its connection is cut.
    waiting: Vec<(Orphan, Instant)>,
    tended: bool,
}

static ORPHANS: Mutex<Orphans> = Mutex::new(Orphans { waiting: Vec::new(), tended: false });

/// Keeps an orphan until the kernel is done. A thread waits while there are any: a task would end with its runtime.
pub(super) fn adopt(orphan: Orphan) {
    let mut orphans = lock();
    orphans.waiting.push((orphan, Instant::now() + GRACE));
    if mem::replace(&mut orphans.tended, true) {
        return;
    }
    drop(orphans);
    if let Err(error) = thread::Builder::new().name("rails-zerocopy".to_owned()).spawn(tend) {
        // The orphans stay, and the next one starts another attempt.
        lock().tended = false;
        tracing::warn!(%error, "no thread waits until the kernel has sent the memory of closed lanes");
    }
}

fn tend() {
    let mut pause = SHORTEST_PAUSE;
    loop {
        thread::sleep(pause);
        pause = (2 * pause).min(LONGEST_PAUSE);
        // Dropping memory may run foreign code, which must find the lock free.
        let mut waiting = mem::take(&mut lock().waiting);
        let now = Instant::now();
        waiting.retain_mut(|(orphan, deadline)| {
            settle(&mut orphan.ledger, orphan.socket.as_fd()).into_iter().for_each(|kept| drop(kept.emptied()));
            if now >= *deadline && mem::take(&mut orphan.may_be_cut) {
                // This cuts the connection and throws away its unsent bytes. The notices for them come as usual.
                if let Err(error) = sys::disconnect::disconnect(orphan.socket.as_fd()) {
                    tracing::warn!(%error, "the connection of a closed lane cannot be cut");
                }
            }
            !orphan.ledger.is_settled()
        });
        let mut orphans = lock();
        orphans.waiting.append(&mut waiting);
        if orphans.waiting.is_empty() {
            orphans.tended = false;
            return;
        }
    }
}

fn lock() -> MutexGuard<'static, Orphans> {
    ORPHANS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The longest time for the kernel to send the memory of a closed lane.
const GRACE: Duration = Duration::from_secs(20);
const SHORTEST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(200);
