//! Chunk buffers that are used again.

use bytes::Bytes;
use std::{
    ops::{Deref, DerefMut},
    sync::{Arc, Mutex, PoisonError},
};

/// Buffers of one size, kept for the next chunk once the application has let go of the last.
///
/// A lane makes its pool on its own rail: the first touch of a buffer, by the lane's first receive into it, puts it on
/// the rail's node. The pool keeps no more buffers than fill a window.
#[derive(Debug)]
pub(crate) struct Pool {
    size: usize,
    most: usize,
    free: Mutex<Vec<Box<[u8]>>>,
}

/// A buffer for one chunk. It goes back to its pool when it, or the last [`Bytes`] made of it, is dropped.
pub(crate) struct ChunkBuffer {
    bytes: Box<[u8]>,
    length: usize,
    pool: Option<Arc<Pool>>,
}

impl Pool {
    /// A pool of buffers of `size` bytes that keeps enough of them for `window` bytes.
    pub(crate) fn new(size: usize, window: u64) -> Arc<Self> {
        let most = (window / size.max(1) as u64) as usize + 1;
        Arc::new(Self { size, most, free: Mutex::default() })
    }

    /// A buffer of `length` bytes, whose content is whatever was there before.
    pub(crate) fn take(self: &Arc<Self>, length: usize) -> ChunkBuffer {
        // A tiny chunk must not hold a large buffer for as long as it waits to be read.
        if length > self.size || length < self.size / 2 {
            return ChunkBuffer { bytes: vec![0; length].into(), length, pool: None };
        }
        let kept = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let bytes = kept.unwrap_or_else(|| vec![0; self.size].into());
        ChunkBuffer { bytes, length, pool: Some(self.clone()) }
    }
}

impl ChunkBuffer {
    /// The bytes, to be shared.
    pub(crate) fn freeze(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl Deref for ChunkBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl DerefMut for ChunkBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.length]
    }
}

impl AsRef<[u8]> for ChunkBuffer {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Drop for ChunkBuffer {
    fn drop(&mut self) {
        if let Some(pool) = self.pool.take() {
            let mut free = pool.free.lock().unwrap_or_else(PoisonError::into_inner);
            if free.len() < pool.most {
                free.push(std::mem::take(&mut self.bytes));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_back_when_its_last_bytes_are_dropped() {
        let pool = Pool::new(100, 200);
        let mut buffer = pool.take(80);
        buffer.fill(7);
        let bytes = buffer.freeze();
        let part = bytes.slice(10..20);
        drop(bytes);
        assert_eq!(pool.free.lock().unwrap().len(), 0);
        assert_eq!(part[..], [7; 10]);
        drop(part);
        assert_eq!(pool.free.lock().unwrap().len(), 1);
        assert_eq!(pool.take(100).len(), 100);
    }

    #[test]
    fn small_chunks_do_not_hold_large_buffers_and_the_pool_is_bounded() {
        let pool = Pool::new(100, 200);
        drop(pool.take(10));
        assert_eq!(pool.free.lock().unwrap().len(), 0);
        let many: Vec<_> = (0..10).map(|_| pool.take(100)).collect();
        drop(many);
        assert_eq!(pool.free.lock().unwrap().len(), 3);
    }
}
