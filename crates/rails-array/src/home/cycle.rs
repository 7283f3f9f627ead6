//! Nodes in turn, as often as they weigh, and as evenly as can be.

use super::placement::{NodeIndex, Placement};

/// The nodes of a cycle, in which each has as many slots as it weighs.
///
/// In any number of slots that follow each other, a node has less than 2 more or fewer than its
/// share. For each node a slot is due by a deadline, and not before a release, so that from the
/// beginning it is never a whole slot ahead or behind (Baruah, Cohen, Plaxton and Varvel,
/// "Proportionate progress", Algorithmica 15, 1996). On one resource the earliest deadline first
/// meets all of them.
pub(super) fn cycle(placement: &Placement) -> Vec<NodeIndex> {
    let weights: Vec<u64> = placement.reduced().collect();
    let length: u64 = weights.iter().sum();
    let mut given = vec![0_u64; weights.len()];
    let mut slots = Vec::new();
    for slot in 0..length {
        let due = (0..weights.len()).filter(|node| {
            let (given, weight) = (given[*node], weights[*node]);
            given < weight && given * length / weight <= slot
        });
        // The first of those that are due at one time: equal nodes are in order.
        let next = due.min_by_key(|node| ((given[*node] + 1) * length).div_ceil(weights[*node]));
        let next = next.expect("the slots of the cycle are as many as the weights");
        given[next] += 1;
        slots.push(NodeIndex(next as u32));
    }
    slots
}
