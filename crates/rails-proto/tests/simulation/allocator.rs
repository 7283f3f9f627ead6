//! An allocator that counts the memory of each thread.
//!
//! A test runs on a thread of its own, so others that run beside it change nothing.
// The trait of allocators is unsafe. This one passes each call on as it is, and counts.
#![allow(unsafe_code)]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

#[global_allocator]
static COUNTING: Counting = Counting;

struct Counting;

thread_local! {
    /// The bytes that this thread has allocated, minus those that it has freed; and the most so far.
    static HELD: Cell<(i64, i64)> = const { Cell::new((0, 0)) };
}

/// The memory that `act` leaves behind, and the most that it held, in bytes.
pub(crate) fn grown<T>(act: impl FnOnce() -> T) -> (Growth, T) {
    let (before, _) = HELD.get();
    HELD.set((before, before));
    let result = act();
    let (after, most) = HELD.get();
    (Growth { left: after - before, most: most - before }, result)
}

/// How memory has grown, in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Growth {
    pub(crate) left: i64,
    pub(crate) most: i64,
}

fn count(bytes: i64) {
    // A thread that ends frees memory after its variables are gone.
    let _ = HELD.try_with(|held| {
        let (now, most) = held.get();
        held.set((now + bytes, most.max(now + bytes)));
    });
}

// SAFETY: every call goes to the system's allocator with the arguments that it came with, so the
// promises of that allocator hold. The counter is a thread's own, and to use it allocates nothing:
// it is initialized by a constant, and has nothing to drop.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: the caller keeps the promises of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(-(layout.size() as i64));
        // SAFETY: the memory came from `System`, with that layout, as the caller promises.
        unsafe { System.dealloc(memory, layout) }
    }
}
