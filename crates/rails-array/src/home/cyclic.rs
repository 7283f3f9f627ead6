//! Homes by arithmetic: cyclic declustering.

use super::{
    cycle::cycle,
    distribution::{Distribution, RankList},
    placement::{NodeIndex, Placement, PlacementError},
    vector,
};
use crate::{
    partition::PartitionIndex,
    shape::{PerAxis, Shape},
};

/// Homes by cyclic declustering: the home of the partition at `p` is the node in slot
/// `(a . p) mod n` of a cycle, in which every node has slots by its weight.
///
/// The vector `a` is chosen so that boxes of typical shape touch all nodes equally. With one
/// typical box and nodes of equal weight, no node is the home of more of the box's partitions than
/// another one by more than 1, wherever the box lies; with weights, each has its share to within 2.
///
/// If the home is dead, a fixed mix of the partition's number chooses where in the cycle the list
/// goes on. So a dead node's partitions go to all others.
///
/// All who compute a home have to have the same vector. The choice is a function of the arguments
/// alone; a site that keeps it over changes of this library hands [`vector`](Self::vector) out.
///
/// ```
/// use rails_array::{Cyclic, Distribution, Epoch, PartitionIndex, Placement, Shape};
///
/// // 16x4x4 partitions on 8 nodes; the typical box has two partitions along each axis.
/// let nodes = Placement::equal(Epoch(1), 8)?;
/// let homes = Cyclic::new(nodes, &Shape::new([16, 4, 4])?, &[Shape::new([2, 2, 2])?])?;
/// let mut first_box: Vec<u32> = [0, 1, 4, 5, 16, 17, 20, 21].map(|p| homes.home(PartitionIndex(p)).0).into();
/// first_box.sort();
/// assert_eq!(first_box, [0, 1, 2, 3, 4, 5, 6, 7]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Cyclic {
    placement: Placement,
    slots: Vec<NodeIndex>,
    partitions: Shape,
    vector: PerAxis,
}

impl Cyclic {
    /// Homes for partitions of which there are so many along each axis, with a vector for boxes of
    /// typical shape. A box is counted in partitions. Without one, lines along each axis are
    /// spread.
    ///
    /// # Errors
    /// [`PlacementError::Rank`] if a box has not as many axes as the partitions.
    pub fn new(placement: Placement, partitions: &Shape, typical: &[Shape]) -> Result<Self, PlacementError> {
        if let Some(other) = typical.iter().find(|other| other.rank() != partitions.rank()) {
            return Err(PlacementError::Rank { given: other.rank(), rank: partitions.rank() });
        }
        let slots = cycle(&placement);
        let is_uniform = placement.reduced().all(|weight| weight == 1);
        let vector = vector::choose(slots.len() as u64, is_uniform, partitions, typical);
        Ok(Self { placement, slots, partitions: partitions.clone(), vector })
    }

    /// Homes by a vector that was chosen before.
    ///
    /// # Errors
    /// [`PlacementError::Rank`] if the vector has not one number for each axis of the partitions.
    pub fn with_vector(placement: Placement, partitions: &Shape, vector: &[u64]) -> Result<Self, PlacementError> {
        if vector.len() != partitions.rank() {
            return Err(PlacementError::Rank { given: vector.len(), rank: partitions.rank() });
        }
        let slots = cycle(&placement);
        let vector = vector.iter().map(|step| step % slots.len() as u64).collect();
        Ok(Self { placement, slots, partitions: partitions.clone(), vector })
    }

    /// The vector: a number below that of the slots for each axis of the partitions.
    pub fn vector(&self) -> &[u64] {
        &self.vector
    }

    fn slot(&self, partition: PartitionIndex) -> u64 {
        let slots = self.slots.len() as u64;
        let place = self.partitions.coordinates_of(partition.0);
        // No slot has a number of more than 12 bits, so that neither products nor their sum overflow.
        place.iter().zip(&self.vector).map(|(at, step)| at % slots * step).sum::<u64>() % slots
    }
}

impl Distribution for Cyclic {
    fn placement(&self) -> &Placement {
        &self.placement
    }

    fn partition_count(&self) -> u64 {
        self.partitions.elements()
    }

    fn home(&self, partition: PartitionIndex) -> NodeIndex {
        self.slots[self.slot(partition) as usize]
    }

    fn ranks(&self, partition: PartitionIndex) -> RankList {
        let slots = self.slots.len() as u64;
        let home = self.slot(partition);
        let mut ranks = RankList::from_elem(self.slots[home as usize], 1);
        let others = slots - 1;
        let mut is_listed = vec![false; self.placement.node_count()];
        is_listed[ranks[0].0 as usize] = true;
        for number in 0..others {
            let slot = (home + 1 + (mixed(partition.0) % others + number) % others) % slots;
            let node = self.slots[slot as usize];
            if !std::mem::replace(&mut is_listed[node.0 as usize], true) {
                ranks.push(node);
            }
        }
        ranks
    }
}

/// A number that has nothing to do with its neighbours' (the finalizer of SplitMix64: Steele, Lea
/// and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014).
fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}
