//! The one buffer of a large message, in parts.

use bytes::{Bytes, BytesMut};
use rails_bind::memory::BufferPart;
use std::{
    fmt,
    ops::{Deref, DerefMut},
    sync::Arc,
};

/// A message's buffer, or a part of it that a lane fills: from the heap, or memory that was laid for it.
#[derive(Debug)]
pub struct MessageBuffer(Inner);

#[derive(Debug)]
enum Inner {
    Heap(BytesMut),
    Laid(Laid),
}

/// Where memory that was laid goes when nobody needs it any more.
pub trait Recycle: fmt::Debug + Send + Sync {
    /// Takes a part of it, mostly all of it.
    fn take_back(&self, part: BufferPart);
}

/// Memory that goes back where it came from.
#[derive(Debug)]
struct Laid {
    /// Nothing once it has gone.
    part: Option<BufferPart>,
    /// How much of it is used, from the beginning.
    length: usize,
    home: Arc<dyn Recycle>,
}

impl MessageBuffer {
    /// One of so many zeros, from the heap.
    pub fn zeroed(length: usize) -> Self {
        Self(Inner::Heap(BytesMut::zeroed(length)))
    }

    /// The first `length` bytes of `part`, whatever they are; it goes back to `home`.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn laid(part: BufferPart, length: usize, home: Arc<dyn Recycle>) -> Self {
        assert!(length <= part.len(), "the memory is as long as what it is for");
        Self(Inner::Laid(Laid { part: Some(part), length, home }))
    }

    /// Keeps the first `at` bytes, and gives the rest.
    pub(super) fn split_off(&mut self, at: usize) -> Self {
        Self(match &mut self.0 {
            Inner::Heap(bytes) => Inner::Heap(bytes.split_off(at)),
            Inner::Laid(laid) => {
                let part = laid.part.as_mut().map(|part| part.split_off(at));
                let length = std::mem::replace(&mut laid.length, at) - at;
                Inner::Laid(Laid { part, length, home: laid.home.clone() })
            }
        })
    }

    /// Joins what was split.
    ///
    /// # Panics
    /// Where `behind` does not lie behind this.
    pub(super) fn unsplit(&mut self, behind: Self) {
        match (&mut self.0, behind.0) {
            (Inner::Heap(bytes), Inner::Heap(behind)) => bytes.unsplit(behind),
            (Inner::Laid(laid), Inner::Laid(mut behind)) => {
                laid.length += behind.length;
                let joined = laid.part.as_mut().zip(behind.part.take()).map(|(part, behind)| part.join(behind));
                assert!(matches!(joined, Some(Ok(()))), "parts of one message are parts of one buffer");
            }
            _ => unreachable!("parts of one message are of one kind"),
        }
    }

    /// The bytes, to be shared.
    pub(super) fn freeze(self) -> Bytes {
        match self.0 {
            Inner::Heap(bytes) => bytes.freeze(),
            Inner::Laid(laid) => Bytes::from_owner(laid),
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
            Inner::Laid(laid) => laid.as_ref(),
        }
    }
}

impl DerefMut for MessageBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.0 {
            Inner::Heap(bytes) => bytes,
            Inner::Laid(laid) => laid.part.as_mut().map_or(&mut [], |part| &mut part[..laid.length]),
        }
    }
}

impl AsRef<[u8]> for Laid {
    fn as_ref(&self) -> &[u8] {
        self.part.as_ref().map_or(&[], |part| &part[..self.length])
    }
}

impl Drop for Laid {
    fn drop(&mut self) {
        if let Some(part) = self.part.take() {
            self.home.take_back(part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rails_bind::memory::{BufferOptions, NumaBuffer};
    use std::sync::Mutex;

    /// How long the parts were that came back.
    #[derive(Debug, Default)]
    struct Home(Mutex<Vec<usize>>);

    impl Recycle for Home {
        fn take_back(&self, part: BufferPart) {
            self.0.lock().unwrap().push(part.len());
        }
    }

    #[test]
    fn memory_goes_home_whole_when_the_last_bytes_are_dropped() {
        let home = Arc::new(Home::default());
        let part = NumaBuffer::new(8192, &BufferOptions::new()).unwrap().into_part();
        let mut front = MessageBuffer::laid(part, 5_000, home.clone());
        let mut back = front.split_off(3_000);
        assert_eq!((front.len(), back.len()), (3_000, 2_000));
        front.fill(1);
        back.fill(2);
        front.unsplit(back);
        let bytes = front.freeze();
        let slice = bytes.slice(2_999..3_001);
        assert_eq!(bytes.len(), 5_000);
        drop(bytes);
        assert_eq!((&slice[..], home.0.lock().unwrap().len()), (&[1, 2][..], 0));
        drop(slice);
        assert_eq!(home.0.lock().unwrap()[..], [8192]);
    }

    #[test]
    fn what_is_left_behind_goes_home_in_parts() {
        let home = Arc::new(Home::default());
        let part = NumaBuffer::new(8192, &BufferOptions::new()).unwrap().into_part();
        let mut front = MessageBuffer::laid(part, 8192, home.clone());
        drop(front.split_off(4_000));
        drop(front);
        assert_eq!(home.0.lock().unwrap()[..], [4_192, 4_000]);
    }
}
