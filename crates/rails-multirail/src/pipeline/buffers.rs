//! Buffers that come back to the stage that fills them.

use super::{signal::Signal, stats::BufferStats};
use rails_bind::memory::{BufferOptions, BufferPool, MemoryError, MemoryPolicy, PooledBuffer, Residency};
use rails_topo::{NodeId, NodeSet};
use std::{
    fmt,
    future::poll_fn,
    ops::{Deref, DerefMut},
    sync::Arc,
    task::Poll,
};

/// The buffers of one channel.
pub(super) struct Buffers {
    pool: BufferPool,
    node: Option<NodeId>,
    /// Of buffers that came back, for the one stage that takes them.
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

    /// A buffer, once one is free. One task waits at a time.
    pub(super) async fn take(&self) -> Buffer {
        poll_fn(|context| {
            if let Some(buffer) = self.try_take() {
                return Poll::Ready(buffer);
            }
            self.returns.wait(context.waker());
            self.try_take().map_or(Poll::Pending, Poll::Ready)
        })
        .await
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

/// What is told of a pool.
pub(super) fn stats(pool: &BufferPool, node: Option<NodeId>) -> BufferStats {
    BufferStats { node, bytes: pool.buffer_bytes(), count: pool.capacity(), free: pool.available() }
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
