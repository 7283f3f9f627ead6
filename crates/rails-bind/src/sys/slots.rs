//! A mapping cut into slots, each of which is in one place at a time.
//!
//! # Safety
//! The slots are numbered, and slot `i` is the bytes from `i * stride` on, at most `stride` of them: two slots with
//! different numbers share no byte. **A number is, at any time, either in the queue or in exactly one [`Slot`]**:
//! * [`Slots::new`] puts every number into the queue once, and nobody else has the queue;
//! * [`Slots::take`] takes a number out, and the queue gives it to one caller; it goes into a `Slot`, which cannot be
//!   cloned and whose fields nobody outside this file can reach;
//! * dropping the `Slot` puts its number back, once, when no borrow of its bytes can be left. A slot that is forgotten
//!   keeps its number for ever, which loses memory and nothing else.
//!
//! The queue hands numbers from thread to thread with release and acquire, so what one owner of a slot wrote has been
//! written when the next one gets it.
#![allow(unsafe_code)]

use super::mapping::Mapping;
use crossbeam_queue::ArrayQueue;
use std::{
    ops::{Deref, DerefMut},
    slice,
    sync::Arc,
};

/// The slots of one mapping.
#[derive(Debug)]
pub(crate) struct Slots {
    mapping: Arc<Mapping>,
    stride: usize,
    slot_bytes: usize,
    free: ArrayQueue<usize>,
}

/// One slot, until this is dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    slots: Arc<Slots>,
    number: usize,
}

impl Slots {
    /// Takes the mapping by value, so that nobody else can reach its bytes, and cuts it into `count` slots.
    ///
    /// # Panics
    /// If that is more than the mapping holds, or none.
    pub(crate) fn new(mapping: Mapping, count: usize, stride: usize, slot_bytes: usize) -> Self {
        assert!(slot_bytes <= stride, "a slot is not longer than the way to the next one");
        let needed = count.checked_mul(stride).expect("the caller has checked the product");
        assert!(needed <= mapping.bytes(), "the mapping holds all slots");
        let free = ArrayQueue::new(count);
        for number in 0..count {
            free.push(number).expect("there is room for every number");
        }
        Self { mapping: Arc::new(mapping), stride, slot_bytes, free }
    }

    /// A free slot.
    pub(crate) fn take(self: &Arc<Self>) -> Option<Slot> {
        let number = self.free.pop()?;
        Some(Slot { slots: Arc::clone(self), number })
    }

    /// How many slots can be taken at this moment.
    pub(crate) fn available(&self) -> usize {
        self.free.len()
    }

    pub(crate) fn count(&self) -> usize {
        self.free.capacity()
    }

    pub(crate) fn slot_bytes(&self) -> usize {
        self.slot_bytes
    }

    /// For system calls about the pages.
    pub(crate) fn mapping(&self) -> &Arc<Mapping> {
        &self.mapping
    }
}

impl Slot {
    fn start(&self) -> *mut u8 {
        // SAFETY: `number < count`, since the queue holds no other, and `count * stride` bytes are within the mapping.
        unsafe { self.slots.mapping.start().add(self.number * self.slots.stride) }.as_ptr()
    }
}

impl Deref for Slot {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: within the mapping, which `self` keeps alive, readable and zeroed by the kernel where nobody wrote.
        // No other slot has these bytes (see above), and `self` is borrowed shared, so nobody writes.
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
        let returned = self.slots.free.push(self.number);
        debug_assert!(returned.is_ok(), "a queue with room for every number has room for this one");
    }
}
