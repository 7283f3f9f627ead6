//! A mapping in parts, each of which is in one place at a time.
//!
//! # Safety
//! A part is a range of a mapping that no other part and nothing else reaches: the first takes a
//! [`Whole`] by value, which alone had the bytes; [`Part::split_off`] makes two ranges of one that
//! meet in one point; [`Part::join`] and [`Part::into_whole`] use up their arguments. Parts cannot
//! be cloned, and no code outside this file reaches their fields.
#![allow(unsafe_code)]

use super::mapping::{Mapping, Whole};
use std::{
    ops::{Deref, DerefMut},
    slice,
    sync::Arc,
};

/// The bytes from `start` on.
#[derive(Debug)]
pub(crate) struct Part {
    mapping: Arc<Mapping>,
    start: usize,
    bytes: usize,
}

impl Part {
    /// The part that is all of a mapping.
    pub(crate) fn new(whole: Whole) -> Self {
        let mapping = whole.into_mapping();
        let bytes = mapping.bytes();
        Self { mapping, start: 0, bytes }
    }

    /// Keeps the first `at` bytes, and gives the rest.
    ///
    /// # Panics
    /// If the part has fewer.
    pub(crate) fn split_off(&mut self, at: usize) -> Self {
        assert!(at <= self.bytes, "a part is split within itself");
        let rest = Self { mapping: Arc::clone(&self.mapping), start: self.start + at, bytes: self.bytes - at };
        self.bytes = at;
        rest
    }

    /// Appends a part that begins where this one ends; gives it back where it does not.
    pub(crate) fn join(&mut self, behind: Self) -> Result<(), Self> {
        if !Arc::ptr_eq(&self.mapping, &behind.mapping) || self.start + self.bytes != behind.start {
            return Err(behind);
        }
        self.bytes += behind.bytes;
        Ok(())
    }

    /// The mapping, if this part is all of it.
    pub(crate) fn into_whole(self) -> Result<Whole, Self> {
        // A part that is as long as the mapping is the only one that is not empty.
        if self.bytes == self.mapping.bytes() { Ok(Whole::of(self.mapping)) } else { Err(self) }
    }
}

impl Deref for Part {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: within the mapping, which `self` keeps alive, readable and zeroed by the kernel where no
        // thread wrote. No other part has these bytes (see above), and `self` is borrowed shared,
        // so no thread writes.
        unsafe { slice::from_raw_parts(self.mapping.start().add(self.start).as_ptr(), self.bytes) }
    }
}

impl DerefMut for Part {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `self`, the only owner of these bytes, is borrowed exclusively.
        unsafe { slice::from_raw_parts_mut(self.mapping.start().add(self.start).as_ptr(), self.bytes) }
    }
}
