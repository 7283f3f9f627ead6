//! The nodes of a site, and how much each of them takes.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The largest sum of the weights of a placement, after their common divisor is taken out, and the
/// largest number of nodes.
///
/// Nodes that weigh by the GiB stay far below it. It bounds the time that the choice of a vector
/// takes.
pub const MAX_CYCLE: u64 = 4096;

/// The number of a node in the list of a placement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeIndex(pub u32);

/// The time during which a placement holds: a later one has a larger number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Epoch(pub u64);

/// The nodes of an epoch in order, each with its weight.
///
/// A node that weighs twice as much as another is the home of twice as many partitions. A node of
/// weight 0 is the home of none.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "UncheckedPlacement")]
pub struct Placement {
    epoch: Epoch,
    weights: Vec<u32>,
}

/// Nodes, or homes of partitions, that make no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlacementError {
    /// No node has a weight.
    #[error("no node has a weight, so no partition has a home")]
    NoNode,
    /// There are too many nodes.
    #[error("{nodes} nodes are more than {MAX_CYCLE}")]
    Nodes {
        /// The number of nodes.
        nodes: usize,
    },
    /// The weights are too large.
    #[error("the weights add up to {sum} without their common divisor, which is more than {MAX_CYCLE}")]
    Weights {
        /// The sum of the weights, divided by their greatest common divisor.
        sum: u64,
    },
    /// The ranks differ.
    #[error("{given} axes were given for partitions of {rank} axes")]
    Rank {
        /// The number of axes that a typical box or a vector has.
        given: usize,
        /// The number of axes of the partitions.
        rank: usize,
    },
    /// A partition has no home.
    #[error("partition {partition} has no node")]
    Homeless {
        /// The number of the partition.
        partition: usize,
    },
    /// A partition is given to a node that does not exist.
    #[error("partition {partition} is given to node {node}, and there are {nodes} nodes")]
    UnknownNode {
        /// The number of the partition.
        partition: usize,
        /// The number of the node.
        node: u32,
        /// The number of nodes.
        nodes: usize,
    },
    /// A partition is given to a node twice.
    #[error("partition {partition} is given to node {node} twice")]
    Twice {
        /// The number of the partition.
        partition: usize,
        /// The number of the node.
        node: u32,
    },
}

impl Placement {
    /// Nodes with these weights. Units of the weights do not matter, their ratios do.
    ///
    /// # Errors
    /// [`PlacementError::NoNode`] if all weights are 0, [`PlacementError::Nodes`] and
    /// [`PlacementError::Weights`] for more than [`MAX_CYCLE`].
    pub fn new(epoch: Epoch, weights: Vec<u32>) -> Result<Self, PlacementError> {
        if weights.len() as u64 > MAX_CYCLE {
            return Err(PlacementError::Nodes { nodes: weights.len() });
        }
        let divisor = weights.iter().copied().fold(0, greatest_common_divisor);
        if divisor == 0 {
            return Err(PlacementError::NoNode);
        }
        let sum = weights.iter().map(|weight| u64::from(weight / divisor)).sum();
        if sum > MAX_CYCLE { Err(PlacementError::Weights { sum }) } else { Ok(Self { epoch, weights }) }
    }

    /// Nodes that all take as much.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn equal(epoch: Epoch, nodes: u32) -> Result<Self, PlacementError> {
        if u64::from(nodes) > MAX_CYCLE {
            return Err(PlacementError::Nodes { nodes: nodes as usize });
        }
        Self::new(epoch, vec![1; nodes as usize])
    }

    /// The time during which the placement holds.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The weight of each node.
    pub fn weights(&self) -> &[u32] {
        &self.weights
    }

    /// The number of nodes.
    pub fn node_count(&self) -> usize {
        self.weights.len()
    }

    /// The weights without their greatest common divisor.
    pub(super) fn reduced(&self) -> impl Iterator<Item = u64> {
        let divisor = self.weights.iter().copied().fold(0, greatest_common_divisor);
        self.weights.iter().map(move |weight| u64::from(weight / divisor))
    }
}

/// A placement as it is written, before its weights are checked.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UncheckedPlacement {
    epoch: Epoch,
    weights: Vec<u32>,
}

impl TryFrom<UncheckedPlacement> for Placement {
    type Error = PlacementError;

    fn try_from(unchecked: UncheckedPlacement) -> Result<Self, PlacementError> {
        Self::new(unchecked.epoch, unchecked.weights)
    }
}

impl fmt::Display for NodeIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

fn greatest_common_divisor(one: u32, other: u32) -> u32 {
    if other == 0 { one } else { greatest_common_divisor(other, one % other) }
}
