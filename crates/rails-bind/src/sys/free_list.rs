//! The free numbers of a pool, on two stacks: takers empty one under a lock of their own, and
//! numbers return to the other one by a single atomic word. Once the takers' stack is empty, it
//! takes over all returned numbers. So a thread that takes and a thread that gives back seldom
//! change the same word.
#![allow(unsafe_code)]

use super::sync::{AcqRel, Acquire, AtomicU32, AtomicU64, Mutex, MutexGuard, Relaxed};
use std::{ops::Deref, sync::PoisonError, task::Waker};

#[derive(Debug)]
pub(super) struct FreeList {
    /// For each number, the number below it on its stack.
    under: Box<[AtomicU32]>,
    takers: Padded<Takers>,
    /// A [`Stack`] as a word, or [`AWAITED`], or [`CLOSED`].
    returned: Padded<AtomicU64>,
    /// The task that waits for a number, if the word is [`AWAITED`].
    waker: Mutex<Option<Waker>>,
}

/// The result of returning a number.
#[derive(Debug)]
pub(super) enum Put<H> {
    /// The number can be taken.
    Free,
    /// The number can be taken, and a task waits for one: the caller must [wake](FreeList::wake)
    /// it.
    Awaited(H),
    /// The list is closed, and accepts no number.
    Closed,
}

#[derive(Debug)]
struct Takers {
    stack: Mutex<Stack>,
    /// The stack's height, for others to read.
    height: AtomicU32,
}

/// A stack's top and its height; the top of an empty one means nothing.
#[derive(Debug, Clone, Copy)]
struct Stack {
    top: u32,
    height: u32,
}

/// A value on cache lines of its own, of which x86 fetches two at a time.
#[derive(Debug)]
#[repr(align(128))]
struct Padded<T>(T);

impl FreeList {
    /// The numbers from 0 to below `count`.
    ///
    /// # Panics
    /// If `count` is beyond [`MAX`].
    pub(super) fn new(count: u32) -> Self {
        assert!(count <= MAX, "the caller has checked the number");
        let stack = Mutex::new(Stack { top: 0, height: count });
        let takers = Padded(Takers { stack, height: AtomicU32::new(count) });
        let under = (1..=count).map(AtomicU32::new).collect();
        Self { under, takers, returned: Padded(AtomicU64::new(EMPTY)), waker: Mutex::new(None) }
    }

    pub(super) fn take(&self) -> Option<u32> {
        self.pop(&mut self.lock())
    }

    /// A number; without one, the waker is woken when one is returned. Only the waker of the last
    /// call is kept.
    pub(super) fn poll_take(&self, waker: &Waker) -> Option<u32> {
        if let Some(number) = self.take() {
            return Some(number);
        }
        // Wakers are cloned, woken and dropped without the lock, because that may run any code.
        let own = waker.clone();
        let (number, former, _unused) = {
            let mut takers = self.lock();
            match self.pop(&mut takers) {
                Some(number) => (Some(number), None, Some(own)),
                None => {
                    let former = self.set_waker(Some(own));
                    // The waker is set first: the thread that returns the awaited number looks for
                    // it afterwards.
                    match self.returned.compare_exchange(EMPTY, AWAITED, AcqRel, Acquire) {
                        Ok(_) | Err(AWAITED) => (None, former, None),
                        Err(_) => (self.pop(&mut takers), former, self.set_waker(None)),
                    }
                }
            }
        };
        // That number ended another task's wait, which begins anew.
        if let Some(former) = former
            && number.is_some()
            && !former.will_wake(waker)
        {
            former.wake();
        }
        number
    }

    /// Returns a number. If a task waits for it, `hold` is called before the number can be taken,
    /// and its result is passed on.
    ///
    /// # Safety
    /// The number is out, and the caller has it. The list lives until the number can be taken; it
    /// may be gone after that, but for `hold`'s doing.
    pub(super) unsafe fn put<H>(list: *const Self, number: u32, hold: impl Fn() -> H) -> Put<H> {
        // SAFETY: the list lives until the exchange below succeeds, and no reference to it is used after
        // that: the one that the exchange itself has is to an atomic, as in `Arc`.
        let (returned, under) = unsafe { (&raw const (*list).returned.0, &(*list).under[number as usize]) };
        // SAFETY: as above.
        let mut word = unsafe { (*returned).load(Acquire) };
        loop {
            if word == CLOSED {
                return Put::Closed;
            }
            let held = (word == AWAITED).then(&hold);
            let stack = Stack::of(word);
            under.store(stack.top, Relaxed);
            let with_it = Stack { top: number, height: stack.height + 1 }.word();
            // SAFETY: as above.
            match unsafe { (*returned).compare_exchange_weak(word, with_it, AcqRel, Acquire) } {
                Ok(_) => return held.map_or(Put::Free, Put::Awaited),
                Err(now) => word = now,
            }
        }
    }

    /// Wakes the task that waits.
    pub(super) fn wake(&self) {
        if let Some(waker) = self.set_waker(None) {
            waker.wake();
        }
    }

    /// The count of free numbers, if no thread takes or gives back meanwhile.
    pub(super) fn height(&self) -> u32 {
        let returned = Stack::of(self.returned.load(Acquire)).height;
        // A number that is counted twice was returned before, and taken over since.
        self.takers.height.load(Relaxed).saturating_add(returned).min(self.under.len() as u32)
    }

    pub(super) fn count(&self) -> usize {
        self.under.len()
    }

    /// Closes the list to returned numbers. Returns the count of free ones, which stay free.
    pub(super) fn close(&self) -> u32 {
        let returned = Stack::of(self.returned.swap(CLOSED, AcqRel)).height;
        drop(self.set_waker(None));
        returned + self.lock().height
    }

    fn pop(&self, takers: &mut Stack) -> Option<u32> {
        if takers.height == 0 {
            // Only takers lower that stack, and this one has the lock.
            if Stack::of(self.returned.load(Relaxed)).height == 0 {
                return None;
            }
            *takers = Stack::of(self.returned.swap(EMPTY, AcqRel));
        }
        let number = takers.top;
        *takers = Stack { top: self.under[number as usize].load(Relaxed), height: takers.height - 1 };
        self.takers.height.store(takers.height, Relaxed);
        Some(number)
    }

    fn lock(&self) -> MutexGuard<'_, Stack> {
        self.takers.stack.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the waker. Returns the former one.
    fn set_waker(&self, waker: Option<Waker>) -> Option<Waker> {
        std::mem::replace(&mut *self.waker.lock().unwrap_or_else(PoisonError::into_inner), waker)
    }
}

impl Stack {
    fn of(word: u64) -> Self {
        match word {
            AWAITED | CLOSED => Self { top: 0, height: 0 },
            _ => Self { top: word as u32, height: (word >> u32::BITS) as u32 },
        }
    }

    fn word(self) -> u64 {
        u64::from(self.height) << u32::BITS | u64::from(self.top)
    }
}

impl<T> Deref for Padded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// The maximum count: no height equals that of the words below.
pub(crate) const MAX: u32 = u32::MAX - 2;
const EMPTY: u64 = 0;
const AWAITED: u64 = u64::MAX;
const CLOSED: u64 = u64::MAX - 1;
