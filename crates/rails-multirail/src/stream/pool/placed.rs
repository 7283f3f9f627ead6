//! Mapped memory under a large message.

use super::{Home, Memory};
use rails_bind::memory::BufferPart;
use rails_proto::messages::MessageMemory;
use std::{any::Any, sync::Arc};

/// A message's memory, or a part of it. The whole returns to its pool when it is dropped.
#[derive(Debug)]
pub(super) struct Placed {
    /// `None` after the part was joined to another, and for a part behind the end of the memory.
    part: Option<BufferPart>,
    /// The used bytes, from the beginning.
    length: usize,
    home: Arc<Home>,
}

impl Placed {
    /// Uses the first `length` bytes of `part` with their present content. The memory returns to
    /// `home`.
    ///
    /// # Panics
    /// If `part` is shorter than `length`.
    pub(super) fn new(part: BufferPart, length: usize, home: Home) -> Self {
        assert!(length <= part.len(), "the memory is as long as its message");
        Self { part: Some(part), length, home: Arc::new(home) }
    }
}

impl MessageMemory for Placed {
    fn split_off(&mut self, at: usize) -> Box<dyn MessageMemory> {
        // The memory beyond the message stays with its last part, or the parts could not be joined to the
        // whole again.
        let part = self.part.as_mut().filter(|_| at < self.length).map(|part| part.split_off(at));
        let length = std::mem::replace(&mut self.length, at) - at;
        Box::new(Self { part, length, home: self.home.clone() })
    }

    fn unsplit(&mut self, behind: Box<dyn MessageMemory>) {
        let mut behind = behind.into_any().downcast::<Self>().expect("parts of one message are of one kind");
        self.length += behind.length;
        // A part behind the end has no memory.
        let Some(behind) = behind.part.take() else { return };
        let joined = self.part.as_mut().map(|part| part.join(behind));
        assert!(matches!(joined, Some(Ok(()))), "parts of one message are parts of one buffer");
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

impl AsRef<[u8]> for Placed {
    fn as_ref(&self) -> &[u8] {
        self.part.as_ref().map_or(&[], |part| &part[..self.length])
    }
}

impl AsMut<[u8]> for Placed {
    fn as_mut(&mut self) -> &mut [u8] {
        self.part.as_mut().map_or(&mut [], |part| &mut part[..self.length])
    }
}

impl Drop for Placed {
    fn drop(&mut self) {
        // A part that is not the whole belongs to a message that was given up, and is freed.
        if let Some(Ok(buffer)) = self.part.take().map(BufferPart::into_whole)
            && let Some(pool) = self.home.pool.upgrade()
        {
            pool.put(&self.home, Memory::Mapped(buffer));
        }
    }
}
