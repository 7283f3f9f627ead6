//! What a node asks its driver to do.

use crate::{
    block::{BlockId, BudgetId, DownstreamId, RequestId, UpstreamId},
    error::Refusal,
};

/// Something that the driver has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[must_use]
pub enum Action {
    /// Ask the upstream for a block, and have it written into the block's
    /// [slots](crate::Node::slots). The driver answers with [`Node::arrived`](crate::Node::arrived)
    /// or [`Node::failed`](crate::Node::failed).
    Fetch {
        /// The block.
        block: BlockId,
        /// The urgency.
        purpose: Purpose,
    },
    /// A block that was asked for ahead of time is now waited for.
    Raise {
        /// The block.
        block: BlockId,
    },
    /// Ask an upstream for the credit that it has not used, all of it, behind the credit that it
    /// was told of before. The driver answers with
    /// [`Node::return_credit`](crate::Node::return_credit), or with
    /// [`Node::lose_upstream`](crate::Node::lose_upstream) if the upstream does not; blocks that
    /// the upstream has pushed before may still come. Readers may wait for these slots.
    Recall {
        /// The upstream.
        upstream: UpstreamId,
        /// The budget that gave the credit.
        budget: BudgetId,
    },
    /// Copy a block to a reader. The block's slots stay until the driver says
    /// [`Node::copied`](crate::Node::copied).
    Copy {
        /// The reader's request.
        request: RequestId,
        /// The block.
        block: BlockId,
    },
    /// Send a block to a node that has not asked for it, into its credit. The block's slots stay
    /// until the driver says [`Node::presented`](crate::Node::presented).
    Present {
        /// The node.
        downstream: DownstreamId,
        /// The budget that its blocks count against here.
        budget: BudgetId,
        /// The block.
        block: BlockId,
    },
    /// Every block of a request has been copied.
    Done {
        /// The request.
        request: RequestId,
    },
    /// A request is not served further. Copies that have begun may end.
    Refuse {
        /// The request.
        request: RequestId,
        /// The reason.
        refusal: Refusal,
    },
}

/// Why a block is fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Purpose {
    /// A reader waits for it.
    Demand,
    /// A reader is expected to want it.
    Ahead,
}
