//! A buffer that several threads fill at a time.

use super::{MemoryBinding, NumaBuffer, buffer::BufferState};
use crate::sys::parts::Part;
use std::{
    ops::{Deref, DerefMut},
    sync::Arc,
};

/// A part of a [`NumaBuffer`], which can be split, and joined with the neighbouring part.
///
/// Parts do not overlap, so that each can belong to another thread: a message's buffer is split
/// among the receiving threads, and is one again when they are done. The memory is given back when
/// all parts are gone.
///
/// # Examples
/// ```
/// use rails_bind::memory::{BufferOptions, NumaBuffer};
///
/// let mut front = NumaBuffer::new(8192, &BufferOptions::new())?.into_part();
/// let mut back = front.split_off(4096);
/// std::thread::scope(|scope| {
///     scope.spawn(|| front.fill(1));
///     scope.spawn(|| back.fill(2));
/// });
/// front.join(back).expect("it lies behind");
/// let whole = front.into_whole().expect("it is all of it");
/// assert_eq!((whole[4095], whole[4096], whole.len()), (1, 2, 8192));
/// # Ok::<(), rails_bind::memory::MemoryError>(())
/// ```
#[derive(Debug)]
pub struct BufferPart {
    part: Part,
    state: Arc<BufferState>,
}

impl NumaBuffer {
    /// The whole buffer as one part, which can be split: as many bytes as the capacity.
    pub fn into_part(self) -> BufferPart {
        let (whole, state) = self.into_memory();
        BufferPart { part: Part::new(whole), state }
    }
}

impl BufferPart {
    /// A handle that reads the nodes of the whole buffer and moves it, also while threads use its
    /// parts.
    pub fn binding(&self) -> MemoryBinding {
        self.state.binding.clone()
    }

    /// Keeps the first `at` bytes, and gives the rest as a part of its own.
    ///
    /// # Panics
    /// If the part has fewer.
    #[must_use = "the rest is gone for good if it is dropped"]
    pub fn split_off(&mut self, at: usize) -> Self {
        Self { part: self.part.split_off(at), state: self.state.clone() }
    }

    /// Appends a part that begins where this one ends.
    ///
    /// # Errors
    /// The other part, if it begins elsewhere.
    pub fn join(&mut self, behind: Self) -> Result<(), Self> {
        let Self { part, state } = behind;
        self.part.join(part).map_err(|part| Self { part, state })
    }

    /// The buffer, if this part is all of it; it is then as long as its
    /// [capacity](NumaBuffer::capacity).
    ///
    /// # Errors
    /// This part, if it is not all of the buffer.
    pub fn into_whole(self) -> Result<NumaBuffer, Self> {
        let Self { part, state } = self;
        match part.into_whole() {
            Ok(whole) => Ok(NumaBuffer::of(whole, state)),
            Err(part) => Err(Self { part, state }),
        }
    }
}

impl Deref for BufferPart {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.part
    }
}

impl DerefMut for BufferPart {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.part
    }
}

impl AsRef<[u8]> for BufferPart {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl AsMut<[u8]> for BufferPart {
    fn as_mut(&mut self) -> &mut [u8] {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::BufferOptions;
    use proptest::prelude::*;

    const LENGTH: usize = 3 * 4096;

    fn buffer() -> BufferPart {
        NumaBuffer::new(LENGTH, &BufferOptions::new()).expect("there are three pages").into_part()
    }

    #[test]
    fn parts_that_do_not_meet_are_not_joined() {
        let mut front = buffer();
        let mut middle = front.split_off(100);
        let back = middle.split_off(100);
        let back = front.join(back).expect_err("there is a gap");
        let front = middle.join(front).expect_err("it lies before");
        assert!(middle.join(buffer()).is_err());
        assert_eq!((front.len(), middle.len(), back.len()), (100, 100, LENGTH - 200));
        assert!(front.into_whole().is_err());
        let mut all = buffer();
        let none = all.split_off(LENGTH);
        assert!(none.is_empty() && none.into_whole().is_err());
        assert_eq!(all.into_whole().expect("the other has nothing").len(), LENGTH);
    }

    proptest! {
        /// However a buffer is cut, each part is written without a trace in the others, and in order they are the whole
        /// again.
        #[test]
        fn parts_are_disjoint_and_make_up_the_whole(cuts in prop::collection::btree_set(1..LENGTH, 0..20)) {
            let mut parts = vec![buffer()];
            for cut in cuts.iter().rev() {
                let rest = parts[0].split_off(*cut);
                parts.insert(1, rest);
            }
            for (number, part) in parts.iter_mut().enumerate() {
                part.fill(number as u8 + 1);
            }
            prop_assert!(parts.iter().enumerate().all(|(number, part)| part.iter().all(|byte| *byte == number as u8 + 1)));
            let whole = parts.into_iter().reduce(|mut one, next| {
                one.join(next).expect("they meet");
                one
            });
            let whole = whole.expect("there is one").into_whole().expect("nothing is missing");
            let expected = |at: usize| cuts.range(..=at).count() as u8 + 1;
            prop_assert!(whole.iter().enumerate().all(|(at, byte)| *byte == expected(at)));
        }
    }
}
