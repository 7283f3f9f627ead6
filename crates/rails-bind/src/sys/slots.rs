//! A mapping cut into slots, each of which is in one place at a time.
//!
//! # Safety
//! The slots are numbered, and slot `i` is the bytes from `i * stride` on, at most `stride` of
//! them: two slots with different numbers share no byte. **A number is, at any time, either in the
//! list or in exactly one [`Slot`]**:
//! * [`SlotPool::new`] makes a list of all numbers, and no other code has the list;
//! * [`SlotPool::take`] takes a number out, and the list gives it to one caller; it goes into a
//!   `Slot`, which cannot be cloned and whose fields no code outside this file can reach;
//! * dropping the `Slot` puts its number back, once, when no borrow of its bytes can be left. A
//!   slot that is forgotten keeps its number for ever, which loses only memory.
//!
//! The list hands numbers from thread to thread with release and acquire, so what one owner of a
//! slot wrote has been written when the next one gets it.
//!
//! **Each number has a reference to [`Slots`]** from the beginning on, and keeps it wherever it
//! goes, so that taking a number and giving it back count nothing, on a cache line that all threads
//! would share. [`SlotPool`], of which there is one, drops the references of the numbers in the
//! list, and closes the list to others; a slot that comes back later drops its own.
#![allow(unsafe_code)]

use super::{
    free_list::{FreeList, MAX, Put},
    mapping::Mapping,
    sync::Arc,
};
use std::{
    mem::{self, ManuallyDrop},
    ops::{Deref, DerefMut},
    slice,
    task::Waker,
};

/// The slots of one mapping, for their taker.
#[derive(Debug)]
pub(crate) struct SlotPool(Arc<Slots>);

#[derive(Debug)]
struct Slots {
    mapping: std::sync::Arc<Mapping>,
    stride: usize,
    slot_bytes: usize,
    free: FreeList,
}

/// One slot that is taken, until it is dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    /// The reference of the number.
    slots: ManuallyDrop<Arc<Slots>>,
    number: u32,
}

/// The maximum number of slots of a mapping.
pub(crate) const MAX_SLOTS: usize = MAX as usize;

impl SlotPool {
    /// Takes the mapping by value, so that no other code can reach its bytes, and cuts it into
    /// `count` slots.
    ///
    /// # Panics
    /// If the slots are more than the mapping holds, or than [`MAX_SLOTS`].
    pub(crate) fn new(mapping: Mapping, count: usize, stride: usize, slot_bytes: usize) -> Self {
        assert!(slot_bytes <= stride, "a slot is not longer than the way to the next one");
        let needed = count.checked_mul(stride).expect("the caller has checked the product");
        assert!(needed <= mapping.bytes(), "the mapping holds all slots");
        let numbers = u32::try_from(count).expect("the caller has checked the number");
        let free = FreeList::new(numbers);
        let slots = Arc::new(Slots { mapping: std::sync::Arc::new(mapping), stride, slot_bytes, free });
        (0..count).for_each(|_| mem::forget(Arc::clone(&slots)));
        Self(slots)
    }

    /// A free slot.
    pub(crate) fn take(&self) -> Option<Slot> {
        self.0.free.take().map(|number| self.slot(number))
    }

    /// A free slot; without one, the waker is woken when one is returned. Only the waker of the
    /// last call is kept.
    pub(crate) fn poll_take(&self, waker: &Waker) -> Option<Slot> {
        self.0.free.poll_take(waker).map(|number| self.slot(number))
    }

    /// The slot of a number that was taken.
    fn slot(&self, number: u32) -> Slot {
        // SAFETY: the reference that the number has had in the list, which no code has dropped: the numbers
        // in the list lose theirs when `self` is dropped.
        let slots = unsafe { Arc::from_raw(Arc::as_ptr(&self.0)) };
        Slot { slots: ManuallyDrop::new(slots), number }
    }

    /// The number of free slots, if no thread takes or gives back meanwhile.
    pub(crate) fn available(&self) -> usize {
        self.0.free.height() as usize
    }

    pub(crate) fn count(&self) -> usize {
        self.0.free.count()
    }

    pub(crate) fn slot_bytes(&self) -> usize {
        self.0.slot_bytes
    }

    /// The mapping, for system calls about its pages.
    pub(crate) fn mapping(&self) -> &std::sync::Arc<Mapping> {
        &self.0.mapping
    }
}

impl Drop for SlotPool {
    fn drop(&mut self) {
        for _ in 0..self.0.free.close() {
            // SAFETY: the reference of a number in the list, which no thread takes out after the closing.
            unsafe { Arc::decrement_strong_count(Arc::as_ptr(&self.0)) };
        }
    }
}

impl Slot {
    fn start(&self) -> *mut u8 {
        // SAFETY: `number < count`, since the list holds no other, and `count * stride` bytes are within
        // the mapping.
        unsafe { self.slots.mapping.start().add(self.number as usize * self.slots.stride) }.as_ptr()
    }
}

impl Deref for Slot {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: within the mapping, which `self` keeps alive, readable and zeroed by the kernel where no
        // thread wrote. No other slot has these bytes (see above), and `self` is borrowed shared,
        // so no thread writes.
        unsafe { slice::from_raw_parts(self.start(), self.slots.slot_bytes) }
    }
}

impl DerefMut for Slot {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `self`, the only owner of these bytes, is borrowed exclusively.
        unsafe { slice::from_raw_parts_mut(self.start(), self.slots.slot_bytes) }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let slots: *const Slots = &**self.slots;
        // SAFETY: this slot has the number, and its reference keeps the list alive until another owner has
        // both. The closure runs before that.
        let put = unsafe { FreeList::put(&raw const (*slots).free, self.number, || Arc::clone(&self.slots)) };
        match put {
            // The reference is the number's, and `slots` may be gone.
            Put::Free => {}
            Put::Awaited(slots) => slots.free.wake(),
            // SAFETY: once, and the reference is not used after that.
            Put::Closed => unsafe { ManuallyDrop::drop(&mut self.slots) },
        }
    }
}
