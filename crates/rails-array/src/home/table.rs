//! Homes one by one.

use super::{
    distribution::{Distribution, RankList},
    placement::{NodeIndex, Placement, PlacementError},
};
use crate::partition::PartitionIndex;

/// Homes that are written down: for each partition the nodes that may hold it, the first one first.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Table {
    placement: Placement,
    ranks: Vec<RankList>,
}

impl Table {
    /// The homes of partition 0, of partition 1, and so on. The weights of the nodes have no
    /// meaning here.
    ///
    /// # Errors
    /// [`PlacementError::Homeless`] for a partition without nodes, [`PlacementError::UnknownNode`]
    /// and [`PlacementError::Twice`] for nodes that do not exist, or that come twice.
    pub fn new(placement: Placement, ranks: Vec<RankList>) -> Result<Self, PlacementError> {
        let nodes = placement.node_count();
        for (partition, list) in ranks.iter().enumerate() {
            if list.is_empty() {
                return Err(PlacementError::Homeless { partition });
            }
            let mut is_listed = vec![false; nodes];
            for NodeIndex(node) in list.iter().copied() {
                match is_listed.get_mut(node as usize) {
                    None => return Err(PlacementError::UnknownNode { partition, node, nodes }),
                    Some(true) => return Err(PlacementError::Twice { partition, node }),
                    Some(is_listed) => *is_listed = true,
                }
            }
        }
        Ok(Self { placement, ranks })
    }

    fn list(&self, partition: PartitionIndex) -> &RankList {
        let list = usize::try_from(partition.0).ok().and_then(|partition| self.ranks.get(partition));
        list.unwrap_or_else(|| panic!("there is no partition {partition} among {}", self.ranks.len()))
    }
}

impl Distribution for Table {
    fn placement(&self) -> &Placement {
        &self.placement
    }

    fn partition_count(&self) -> u64 {
        self.ranks.len() as u64
    }

    fn home(&self, partition: PartitionIndex) -> NodeIndex {
        self.list(partition)[0]
    }

    fn ranks(&self, partition: PartitionIndex) -> RankList {
        self.list(partition).clone()
    }
}
