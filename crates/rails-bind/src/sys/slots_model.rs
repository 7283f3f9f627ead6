//! Pools under the interleavings of their threads, by loom, which also finds a reference that no
//! thread drops.
#![allow(unsafe_code)]

/// loom's atomics and locks in place of the standard library's.
mod sync {
    pub(super) use loom::sync::{
        Arc, Mutex, MutexGuard,
        atomic::{
            AtomicU32, AtomicU64,
            Ordering::{AcqRel, Acquire, Relaxed},
        },
    };
}

/// A few bytes in place of a mapping.
mod mapping {
    use std::{cell::UnsafeCell, ptr::NonNull};

    #[derive(Debug)]
    pub(super) struct Mapping(UnsafeCell<[u8; 2]>);

    // SAFETY: as the real one, it has no accessor to its bytes.
    unsafe impl Sync for Mapping {}

    impl Mapping {
        pub(super) fn new() -> Self {
            Self(UnsafeCell::new([0; 2]))
        }

        pub(super) fn start(&self) -> NonNull<u8> {
            NonNull::new(self.0.get()).expect("it is not null").cast()
        }

        pub(super) fn bytes(&self) -> usize {
            2
        }
    }
}

#[path = "free_list.rs"]
#[expect(clippy::duplicate_mod, reason = "the same source over other atomics")]
mod free_list;
#[path = "slots.rs"]
#[expect(clippy::duplicate_mod, dead_code, reason = "the same source over other atomics")]
mod slots;

use loom::{cell::UnsafeCell, future::block_on, sync::Arc, thread};
use mapping::Mapping;
use slots::{Slot, SlotPool};
use std::{
    future::poll_fn,
    task::{Poll, Waker},
};

/// Every interleaving with at most that many preemptions: all of them take hours.
fn model(preemptions: usize, run: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(run);
}

fn pool(count: usize) -> SlotPool {
    SlotPool::new(Mapping::new(), count, 1, 1)
}

async fn take(pool: &SlotPool) -> Slot {
    poll_fn(|context| pool.poll_take(context.waker()).map_or(Poll::Pending, Poll::Ready)).await
}

/// A byte for each slot of a pool that loom knows, so that it sees two owners at a time.
struct Marks {
    start: usize,
    marks: [UnsafeCell<u8>; 2],
}

impl Marks {
    fn of(pool: &SlotPool) -> Arc<Self> {
        let start = pool.mapping().start().addr().get();
        Arc::new(Self { start, marks: [(); 2].map(|()| UnsafeCell::new(0)) })
    }

    fn add(&self, slot: &Slot) -> u8 {
        // SAFETY: the caller has the slot, and loom checks that no other thread has.
        self.marks[slot.as_ptr().addr() - self.start].with_mut(|mark| unsafe {
            *mark += 1;
            *mark
        })
    }
}

/// A task that waits is woken, whichever of two slots comes back: loom fails where all threads
/// sleep.
#[test]
fn a_returned_slot_wakes_the_taker() {
    model(2, || {
        let pool = pool(2);
        let marks = Marks::of(&pool);
        let threads = [(); 2].map(|()| {
            let (slot, marks) = (pool.take().expect("none is out"), marks.clone());
            thread::spawn(move || {
                marks.add(&slot);
            })
        });
        block_on(async {
            // Both at a time.
            let both = [take(&pool).await, take(&pool).await];
            assert!(both.iter().all(|slot| marks.add(slot) == 2));
        });
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(pool.available(), 2);
    });
}

/// A slot comes back, and is taken, while its pool's last owner leaves: all references are dropped.
#[test]
fn a_slot_may_outlive_its_pool() {
    model(3, || {
        let pool = pool(2);
        let slots = [(); 2].map(|()| pool.take().expect("none is out"));
        let threads = slots.map(|slot| thread::spawn(move || drop(slot)));
        drop(pool.take());
        drop(pool);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

/// The last slot comes back while its pool, for which a task has waited, is dropped.
#[test]
fn a_pool_may_end_while_it_is_awaited() {
    model(3, || {
        let pool = pool(1);
        let slot = pool.take().expect("none is out");
        assert!(pool.poll_take(Waker::noop()).is_none());
        let giving = thread::spawn(move || drop(slot));
        drop(pool);
        giving.join().unwrap();
    });
}

/// A task that has given up its wait leaves nothing behind that another task's waits for.
#[test]
fn a_wait_that_was_given_up_is_no_one_elses() {
    model(3, || {
        let pool = pool(1);
        let marks = Marks::of(&pool);
        let (slot, other) = (pool.take().expect("none is out"), marks.clone());
        let giving = thread::spawn(move || {
            other.add(&slot);
        });
        drop(pool.poll_take(Waker::noop()));
        block_on(async { marks.add(&take(&pool).await) });
        giving.join().unwrap();
    });
}

/// A slot that is given back in the moment in which a task begins to wait, whose pool is dropped
/// after that.
#[test]
fn a_pool_ends_after_its_taker() {
    model(3, || {
        let pool = pool(1);
        let slot = pool.take().expect("none is out");
        let giving = thread::spawn(move || drop(slot));
        block_on(async move { drop(take(&pool).await) });
        giving.join().unwrap();
    });
}

/// Two threads take and give back: neither gets the slot of the other.
#[test]
fn a_slot_has_one_owner() {
    model(3, || {
        let pool = Arc::new(pool(2));
        let marks = Marks::of(&pool);
        let mark = |pool: &SlotPool, marks: &Marks| {
            marks.add(&pool.take().expect("there is one for each thread"));
        };
        let other = {
            let (pool, marks) = (pool.clone(), marks.clone());
            thread::spawn(move || mark(&pool, &marks))
        };
        mark(&pool, &marks);
        other.join().unwrap();
        assert_eq!(pool.available(), 2);
    });
}
