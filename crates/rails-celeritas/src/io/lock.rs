//! The lock of a connection, under which no foreign code runs: no destructor of the application's
//! bytes, and no waker.

use bytes::Bytes;
use std::{
    cell::{Cell, RefCell},
    mem::ManuallyDrop,
    ops::{Deref, DerefMut},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Mutex, MutexGuard, PoisonError},
    task::Waker,
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
    /// If this thread holds a lock: it would wait for itself. Only a rate controller of the
    /// application can come here, which is called under the lock and must not use connections.
    pub(super) fn lock(&self) -> Locked<'_, T> {
        let is_held = IS_HELD.get();
        assert!(!is_held, "a connection is used under the lock of one: a rate controller must not use connections");
        let value = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        IS_HELD.set(true);
        Locked { value, _held: Held }
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
        // A destructor may take a lock, and give up bytes under it: those are dropped first.
        GIVEN_UP.with_borrow_mut(|given_up| std::mem::take(&mut **given_up)).into_iter().for_each(drop_caught);
    }
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

/// The application's bytes in a form that may be dropped under a lock.
pub(super) fn keep(bytes: Bytes) -> Bytes {
    Bytes::from_owner(Foreign(bytes))
}

/// Asserts that foreign code may run here.
///
/// # Panics
/// In builds with debug assertions, if this thread holds a lock.
fn leave_to_others() {
    debug_assert!(!IS_HELD.get(), "foreign code begins under the lock of a connection");
}

/// Drops bytes of the application. A panic of their owner's destructor ends no connection.
pub(super) fn drop_caught<T>(bytes: T) {
    call_caught("the owner of sent bytes, as it was dropped", || drop(bytes));
}

/// Wakes a caller. A panic of its waker ends no connection, and leaves no other caller unwoken.
pub(super) fn wake_caught(waker: Waker) {
    call_caught("the waker of a caller", || waker.wake());
}

/// Calls foreign code, and catches its panic, which is an error in the log.
pub(super) fn call_caught(who: &str, call: impl FnOnce()) {
    leave_to_others();
    if let Err(panic) = catch_unwind(AssertUnwindSafe(call)) {
        // The panic's own destructor may panic too.
        std::mem::forget(panic);
        tracing::error!(who, "foreign code has panicked");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    struct Owner(Arc<Lock<u32>>);

    impl AsRef<[u8]> for Owner {
        fn as_ref(&self) -> &[u8] {
            b"owned"
        }
    }

    impl Drop for Owner {
        fn drop(&mut self) {
            *self.0.lock() += 1;
        }
    }

    #[test]
    fn owner_is_dropped_behind_the_lock() {
        let lock = Arc::new(Lock::new(0));
        let bytes = keep(Bytes::from_owner(Owner(Arc::clone(&lock))));
        let locked = lock.lock();
        drop(bytes);
        assert_eq!(*locked, 0);
        drop(locked);
        assert_eq!(*lock.lock(), 1);
        drop(keep(Bytes::from_owner(Owner(Arc::clone(&lock)))));
        assert_eq!(*lock.lock(), 2);
    }

    #[test]
    #[should_panic(expected = "under the lock of one")]
    fn lock_within_a_lock_panics() {
        let lock = Lock::new(0);
        let _locked = lock.lock();
        lock.lock();
    }
}
