//! The machine that the tests share.

use std::{
    env,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// The machine, for one test at a time: they take CPUs away, load all of them, and confine the process.
///
/// # Panics
/// Outside the guest, where none of these tests may run.
pub(crate) fn machine() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    assert_eq!(
        env::var("RAILS_GUEST").as_deref(),
        Ok("1"),
        "this test disturbs the machine and runs in the NUMA guest only (cargo xtask lab)"
    );
    // A test that failed has undone what it did, as guards do.
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}
