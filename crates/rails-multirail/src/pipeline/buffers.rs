//! Buffers that come back to the stage that fills them.

use super::{signal::Signal, stats::BufferStats};
use rails_bind::memory::{BufferOptions, BufferPool, MemoryError, MemoryPolicy, PooledBuffer, Residency};
use rails_topo::{NodeId, NodeSet};
use std::{
    fmt,
    ops::{Deref, DerefMut},
    sync::Arc,
    task::Waker,
};

/// The buffers of one channel.
pub(super) struct Buffers {
    pool: BufferPool,
    node: Option<NodeId>,
    /// Wakes the one stage that takes buffers when one comes back.
    returns: Arc<Signal>,
}

/// A buffer of a channel's pool, and the only way to its bytes. Dropping it, on any thread, gives it back, and wakes
/// the stage that waits for it.
///
/// It has the bytes of its last owner. `Bytes::from_owner` makes it a `Bytes` without a copy.
pub struct Buffer {
    // In this order: the buffer is in the pool before the news of it.
    slot: PooledBuffer,
    _news: News,
}

struct News(Arc<Signal>);

impl Buffers {
    /// A pool on that node; where the kernel chooses if it is unknown.
    pub(super) fn new(
        bytes: usize,
        count: usize,
        options: &BufferOptions,
        node: Option<NodeId>,
    ) -> Result<Self, MemoryError> {
        let options = match node {
            Some(node) => options.clone().policy(MemoryPolicy::Bind(NodeSet::single(node))),
            None => options.clone(),
        };
        Ok(Self { pool: BufferPool::new(bytes, count, &options)?, node, returns: Arc::new(Signal::new()) })
    }

    pub(super) fn try_take(&self) -> Option<Buffer> {
        Some(Buffer { slot: self.pool.take()?, _news: News(self.returns.clone()) })
    }

    /// Has the next buffer that comes back wake this task. One task waits at a time.
    pub(super) fn wait(&self, waker: &Waker) {
        self.returns.wait(waker);
    }

    pub(super) fn handle(&self) -> BufferPool {
        self.pool.clone()
    }

    pub(super) fn node(&self) -> Option<NodeId> {
        self.node
    }

    pub(super) fn residency(&self) -> Result<Residency, MemoryError> {
        self.pool.residency()
    }
}

/// The figures of a pool.
pub(super) fn stats(pool: &BufferPool, wished_node: Option<NodeId>) -> BufferStats {
    BufferStats { wished_node, bytes: pool.buffer_bytes(), count: pool.capacity(), free: pool.available() }
}

impl Drop for News {
    fn drop(&mut self) {
        self.0.tell();
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.slot
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.slot
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl AsMut<[u8]> for Buffer {
    fn as_mut(&mut self) -> &mut [u8] {
        self
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer").field("start", &self.as_ptr()).field("length", &self.len()).finish()
    }
}
