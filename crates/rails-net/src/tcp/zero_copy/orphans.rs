//! What the kernel still reads of lanes that are gone.

use super::{Kept, Ledger, settle};
use crate::sys;
use std::{
    mem,
    os::fd::{AsFd, OwnedFd},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

/// A socket whose lane is gone, and what the kernel may still send from. Memory that is let go before the kernel is done with it would be filled with
/// something else, and that would be what is sent.
#[derive(Debug)]
pub(super) struct Orphan {
    pub(super) socket: Arc<OwnedFd>,
    pub(super) ledger: Ledger<Kept>,
    /// Whether the connection may be cut: nobody uses it any more.
    pub(super) may_be_cut: bool,
}

/// All of the process, and whether a thread looks after them.
#[derive(Debug)]
struct Orphans {
    /// Each with the time when it is cut.
    waiting: Vec<(Orphan, Instant)>,
    tended: bool,
}

static ORPHANS: Mutex<Orphans> = Mutex::new(Orphans { waiting: Vec::new(), tended: false });

/// Keeps it until the kernel is done. There is a thread for that while there are any: a task would end with its runtime.
pub(super) fn adopt(orphan: Orphan) {
    let mut orphans = lock();
    orphans.waiting.push((orphan, Instant::now() + GRACE));
    if !orphans.tended {
        match thread::Builder::new().name("rails-zerocopy".to_owned()).spawn(tend) {
            Ok(_) => orphans.tended = true,
            // They are kept all the same; the next one brings another attempt.
            Err(error) => tracing::warn!(%error, "no thread to wait until the kernel has sent what a lane left behind"),
        }
    }
}

fn tend() {
    let mut pause = SHORTEST_PAUSE;
    loop {
        thread::sleep(pause);
        pause = (2 * pause).min(LONGEST_PAUSE);
        // What is let go may run anyone's code, which must find the lock free.
        let mut waiting = mem::take(&mut lock().waiting);
        let now = Instant::now();
        waiting.retain_mut(|(orphan, deadline)| {
            settle(&mut orphan.ledger, orphan.socket.as_fd());
            if now >= *deadline && mem::take(&mut orphan.may_be_cut) {
                // The connection is cut, which throws away what waits in it; the notices for that come like others.
                if let Err(error) = sys::disconnect::disconnect(orphan.socket.as_fd()) {
                    tracing::warn!(%error, "a connection that is gone cannot be cut");
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

/// How long the kernel may take to send what a lane left behind.
const GRACE: Duration = Duration::from_secs(20);
const SHORTEST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(200);
