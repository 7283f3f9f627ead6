//! Blocks that are being copied to readers.

use super::{BlockBytes, Failure, Node};
use rails_cache::{BlockId, BudgetId, DownstreamId, RequestId};
use std::sync::Arc;

/// A block that a request waits for. Its slots are kept until this is dropped.
#[derive(Debug)]
pub(crate) struct Pinned {
    pub(crate) block: BlockId,
    pub(crate) bytes: BlockBytes,
    /// The node that gets the slots back; `None`, once it has them.
    owner: Option<(Arc<Node>, Purpose)>,
}

/// Whom a block is copied for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Purpose {
    Request(RequestId),
    /// A node that has not asked for it.
    Downstream(DownstreamId, BudgetId),
}

/// A node downstream, which gets blocks that it has not asked for. The call comes without the
/// node's lock.
pub(crate) trait Outlet: Send + Sync {
    /// A block is to be sent into the node's credit.
    fn present(&self, budget: BudgetId, pinned: Pinned);
}

/// Somebody who gets the blocks of a request. The calls come without the node's lock.
pub(crate) trait Receiver: Send + Sync {
    /// A block is there.
    fn block(&self, request: RequestId, pinned: Pinned);

    /// The request has ended. Blocks that come after this are not wanted.
    fn ended(&self, request: RequestId, end: Result<(), Failure>);
}

impl Pinned {
    pub(super) fn new(node: &Arc<Node>, purpose: Purpose, block: BlockId, bytes: BlockBytes) -> Self {
        Self { block, bytes, owner: Some((Arc::clone(node), purpose)) }
    }

    /// Gives the slots of several blocks back at once.
    pub(crate) fn release(pinned: impl IntoIterator<Item = Self>) {
        let mut owner = None;
        let mut copied = Vec::new();
        for mut pinned in pinned {
            if let Some((node, purpose)) = pinned.owner.take() {
                copied.push((purpose, pinned.block));
                owner = Some(node);
            }
        }
        if let Some(node) = owner {
            node.copied(&copied);
        }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if let Some((node, purpose)) = self.owner.take() {
            // The slots' buffers must not be in use when the node gives the slots away.
            self.bytes.slots.clear();
            node.copied(&[(purpose, self.block)]);
        }
    }
}
