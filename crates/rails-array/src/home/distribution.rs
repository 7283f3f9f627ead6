//! The trait of the rules that give partitions to nodes.

use super::placement::{NodeIndex, Placement};
use crate::partition::PartitionIndex;
use smallvec::SmallVec;
use std::fmt;

/// Nodes in the order in which they hold a partition: the home first, then the one that holds it if
/// the home is dead, and so on.
pub type RankList = SmallVec<[NodeIndex; 8]>;

/// A rule that gives each partition to nodes.
///
/// The list of a partition does not depend on which nodes live. So if a node dies, its partitions
/// go to the next nodes of their lists, and no other partition moves.
pub trait Distribution: fmt::Debug + Send + Sync {
    /// The nodes, and the epoch of the rule.
    fn placement(&self) -> &Placement;

    /// The number of partitions.
    fn partition_count(&self) -> u64;

    /// The first node of the partition's list.
    ///
    /// # Panics
    /// If there is no such partition.
    fn home(&self, partition: PartitionIndex) -> NodeIndex;

    /// The nodes that may hold the partition, none of them twice.
    ///
    /// # Panics
    /// If there is no such partition.
    fn ranks(&self, partition: PartitionIndex) -> RankList;

    /// The first node of the partition's list that lives; `None` if none does.
    ///
    /// # Panics
    /// If there is no such partition.
    fn first_alive(&self, partition: PartitionIndex, is_alive: &dyn Fn(NodeIndex) -> bool) -> Option<NodeIndex> {
        let home = self.home(partition);
        // Mostly it lives, and then no list is made.
        if is_alive(home) { Some(home) } else { self.ranks(partition).into_iter().find(|node| is_alive(*node)) }
    }
}
