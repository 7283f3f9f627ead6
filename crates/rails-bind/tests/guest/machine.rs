//! The machine that the tests share.

use rails_lab::guest;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The machine, for one test at a time: they take CPUs away, load all of them, fill a node, and
/// confine the process.
///
/// # Panics
/// Outside the guest, where none of these tests may run.
pub(crate) fn machine() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    guest::require();
    // A test that failed has undone its changes, as guards do.
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}
