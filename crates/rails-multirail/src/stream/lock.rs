//! The lock of a stream, under which no foreign code runs: no destructor of the application's
//! bytes, no waker, no subscriber to events or to the log.

use bytes::Bytes;
use std::{
    cell::{Cell, RefCell},
    mem::ManuallyDrop,
    ops::{Deref, DerefMut},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// A mutex under which no foreign code runs. One thread holds one such lock at a time.
#[derive(Debug)]
pub(super) struct Lock<T>(Mutex<T>);

/// The value of a [`Lock`], until the guard is dropped.
pub(super) struct Locked<'a, T> {
    // Fields are dropped in this order: the lock is free when foreign code runs.
    value: MutexGuard<'a, T>,
    _held: Held,
}

/// Drops the bytes that were given up under the lock.
struct Held;

/// Bytes that were given up under a lock which is free. Their owners' destructors run when this is
/// dropped.
#[must_use = "their destructors run when this is dropped"]
pub(super) struct GivenUp(Vec<Bytes>);

/// Bytes of the application. If they are given up under a lock, their owner's destructor runs after
/// it.
struct Foreign(Bytes);

thread_local! {
    /// Whether this thread holds a lock.
    static IS_HELD: Cell<bool> = const { Cell::new(false) };
    /// The bytes that this thread gave up under the lock.
    // Without a destructor of its own it can be used to the thread's end. It is empty unless the lock is held.
    static GIVEN_UP: RefCell<ManuallyDrop<Vec<Bytes>>> = const { RefCell::new(ManuallyDrop::new(Vec::new())) };
}

impl<T> Lock<T> {
    pub(super) fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    /// Waits for the lock.
    ///
    /// # Panics
    /// If this thread holds a lock: it would wait for itself. Only a policy of the application can
    /// come here, which is called under the lock and must not use streams.
    pub(super) fn lock(&self) -> Locked<'_, T> {
        assert!(!IS_HELD.get(), "a stream is used under the lock of a stream: a policy must not use streams");
        // A panic under the lock is a broken invariant of the state machines, and the panic has reported
        // it. Lanes that find it broken again report it again.
        let value = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        IS_HELD.set(true);
        Locked { value, _held: Held }
    }
}

impl<T> Locked<'_, T> {
    /// Frees the lock. The caller drops the bytes that were given up under it, after it has woken
    /// others: a destructor may take its time, or wait for one of them.
    pub(super) fn release(self) -> GivenUp {
        GivenUp(given_up())
    }
}

impl<T> Deref for Locked<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for Locked<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        IS_HELD.set(false);
        drop(GivenUp(given_up()));
    }
}

impl Drop for GivenUp {
    fn drop(&mut self) {
        if !self.0.is_empty() {
            // A destructor may take a lock, and give up bytes under it: those are dropped first.
            self.0.drain(..).for_each(drop_caught);
        }
    }
}

fn given_up() -> Vec<Bytes> {
    GIVEN_UP.with_borrow_mut(|given_up| std::mem::take(&mut **given_up))
}

impl AsRef<[u8]> for Foreign {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.0);
        if IS_HELD.get() {
            GIVEN_UP.with_borrow_mut(|given_up| given_up.push(bytes));
        } else {
            drop_caught(bytes);
        }
    }
}

/// The application's bytes in the form in which a stream keeps them: the last of their clones may
/// be dropped under a lock.
pub(crate) fn keep(bytes: Bytes) -> Bytes {
    Bytes::from_owner(Foreign(bytes))
}

/// Asserts that foreign code may run here.
///
/// # Panics
/// In builds with debug assertions, if this thread holds a lock.
pub(super) fn leave_to_others() {
    debug_assert!(!IS_HELD.get(), "foreign code begins under the lock of a stream");
}

/// Drops the bytes. A panic of their owner's destructor ends no lane.
fn drop_caught(bytes: Bytes) {
    run_caught("the owner of written bytes has panicked as it was dropped", move || drop(bytes));
}

/// Runs foreign code, and catches its panic, which is an error in the log.
pub(super) fn run_caught(panicked: &str, foreign: impl FnOnce()) {
    leave_to_others();
    if let Err(panic) = catch_unwind(AssertUnwindSafe(foreign)) {
        // The panic's own destructor may panic too.
        std::mem::forget(panic);
        tracing::error!("{panicked}");
    }
}
