//! The one buffer of a large message, in parts.

use bytes::{Bytes, BytesMut};
use std::{
    any::Any,
    fmt,
    ops::{Deref, DerefMut},
};

/// A message's buffer, or a part of it that a lane fills: from the heap, or from the driver.
#[derive(Debug)]
pub struct MessageBuffer(Inner);

#[derive(Debug)]
enum Inner {
    Heap(BytesMut),
    Driver(Box<dyn MessageMemory>),
}

/// Memory that the driver has placed for a message, and takes back when it is dropped. The lanes
/// that fill the message split it.
pub trait MessageMemory: AsRef<[u8]> + AsMut<[u8]> + fmt::Debug + Send {
    /// Keeps the first `at` bytes, and returns the rest.
    fn split_off(&mut self, at: usize) -> Box<dyn MessageMemory>;

    /// Joins two parts of a split buffer.
    ///
    /// # Panics
    /// If `behind` does not lie directly behind this part.
    fn unsplit(&mut self, behind: Box<dyn MessageMemory>);

    /// The memory as its own type.
    fn into_any(self: Box<Self>) -> Box<dyn Any>;
}

impl MessageBuffer {
    /// Creates a buffer of `length` zeros on the heap.
    pub fn zeroed(length: usize) -> Self {
        Self(Inner::Heap(BytesMut::zeroed(length)))
    }

    /// Creates a buffer from `memory`, with any content.
    pub fn placed(memory: impl MessageMemory + 'static) -> Self {
        Self(Inner::Driver(Box::new(memory)))
    }

    /// Keeps the first `at` bytes, and returns the rest.
    pub(super) fn split_off(&mut self, at: usize) -> Self {
        Self(match &mut self.0 {
            Inner::Heap(bytes) => Inner::Heap(bytes.split_off(at)),
            Inner::Driver(memory) => Inner::Driver(memory.split_off(at)),
        })
    }

    /// Joins two parts of a split buffer.
    ///
    /// # Panics
    /// If `behind` does not lie directly behind this part.
    pub(super) fn unsplit(&mut self, behind: Self) {
        match (&mut self.0, behind.0) {
            (Inner::Heap(bytes), Inner::Heap(behind)) => bytes.unsplit(behind),
            (Inner::Driver(memory), Inner::Driver(behind)) => memory.unsplit(behind),
            _ => unreachable!("parts of one message are of one kind"),
        }
    }

    /// Turns the buffer into bytes that can be shared.
    pub(super) fn freeze(self) -> Bytes {
        match self.0 {
            Inner::Heap(bytes) => bytes.freeze(),
            Inner::Driver(memory) => Bytes::from_owner(Owned(memory)),
        }
    }
}

impl Default for MessageBuffer {
    fn default() -> Self {
        Self(Inner::Heap(BytesMut::new()))
    }
}

impl Deref for MessageBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Inner::Heap(bytes) => bytes,
            Inner::Driver(memory) => (**memory).as_ref(),
        }
    }
}

impl DerefMut for MessageBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.0 {
            Inner::Heap(bytes) => bytes,
            Inner::Driver(memory) => (**memory).as_mut(),
        }
    }
}

/// An owner for [`Bytes`], whose owner must have a size.
struct Owned(Box<dyn MessageMemory>);

impl AsRef<[u8]> for Owned {
    fn as_ref(&self) -> &[u8] {
        (*self.0).as_ref()
    }
}
