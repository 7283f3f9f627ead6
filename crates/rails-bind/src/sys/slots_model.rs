//! Pools under the interleavings of their threads, by loom, which also finds a reference that nobody drops.
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

use loom::{future::block_on, thread};
use mapping::Mapping;
use slots::{Slot, SlotPool};
use std::{future::poll_fn, task::Poll};

/// Every interleaving with at most three preemptions: all of them take hours.
fn model(run: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(run);
}

fn pool(count: usize) -> SlotPool {
    SlotPool::new(Mapping::new(), count, 1, 1)
}

async fn take(pool: &SlotPool) -> Slot {
    poll_fn(|context| pool.poll_take(context.waker()).map_or(Poll::Pending, Poll::Ready)).await
}

/// A task that waits is woken, whichever of two slots comes back: loom fails where all threads sleep.
#[test]
fn a_returned_slot_wakes_the_taker() {
    model(|| {
        let pool = pool(2);
        let threads = [(); 2].map(|()| {
            let mut slot = pool.take().expect("none is out");
            slot[0] = 1;
            thread::spawn(move || drop(slot))
        });
        block_on(async {
            // Both at a time.
            let both = [take(&pool).await, take(&pool).await];
            assert!(both.iter().all(|slot| slot[..] == [1]));
            assert_ne!(both[0].as_ptr(), both[1].as_ptr());
        });
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(pool.available(), 2);
    });
}

/// A slot comes back, and is taken, while its pool's last owner leaves: all references are dropped.
#[test]
fn a_slot_may_outlive_its_pool() {
    model(|| {
        let pool = pool(2);
        let slots = [(); 2].map(|()| pool.take().expect("none is out"));
        let threads = slots.map(|slot| thread::spawn(move || drop(slot)));
        drop(pool.take());
        drop(pool);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

/// A slot that is given back in the moment in which a task begins to wait, whose pool is dropped after that.
#[test]
fn a_pool_ends_after_its_taker() {
    model(|| {
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
    model(|| {
        let pool = loom::sync::Arc::new(pool(2));
        let mark = |pool: &SlotPool, mark: u8| {
            let mut slot = pool.take().expect("there is one for each thread");
            slot[0] = mark;
            assert_eq!(slot[0], mark);
        };
        let other = {
            let pool = pool.clone();
            thread::spawn(move || mark(&pool, 1))
        };
        mark(&pool, 2);
        other.join().unwrap();
        assert_eq!(pool.available(), 2);
    });
}
