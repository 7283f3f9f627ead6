//! Buffers that come back to the stage that fills them. A buffer still has the bytes of the last
//! item.

use super::stats::BufferStats;
pub use rails_bind::memory::PooledBuffer as Buffer;
use rails_bind::memory::{BufferOptions, BufferPool, MemoryError, MemoryPolicy};
use rails_topo::{NodeId, NodeSet};

/// The buffers of one channel.
#[derive(Debug, Clone)]
pub(super) struct Buffers {
    pub(super) pool: BufferPool,
    /// The node that was requested for the buffers.
    node: Option<NodeId>,
}

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
        Ok(Self { pool: BufferPool::new(bytes, count, &options)?, node })
    }

    /// The figures of the pool.
    pub(super) fn stats(&self) -> BufferStats {
        let pool = &self.pool;
        BufferStats {
            wished_node: self.node,
            bytes: pool.buffer_bytes(),
            count: pool.capacity(),
            free: pool.available(),
        }
    }
}
