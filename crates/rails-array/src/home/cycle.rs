//! Nodes in turn, as often as they weigh, and as evenly as can be.

use super::placement::{NodeIndex, Placement};
use std::{cmp::Reverse, collections::BinaryHeap};

/// The nodes of a cycle, in which each has as many slots as it weighs.
///
/// In any number of slots that follow each other, a node has less than 2 more or fewer than its
/// share. For each node a slot is due by a deadline, and not before a release, so that from the
/// beginning it is never a whole slot ahead or behind (Baruah, Cohen, Plaxton and Varvel,
/// "Proportionate progress", Algorithmica 15, 1996). On one resource the earliest deadline first
/// meets all of them.
pub(super) fn cycle(placement: &Placement) -> Vec<NodeIndex> {
    let length: u64 = placement.reduced().sum();
    let jobs = (0..).zip(placement.reduced()).flat_map(|(node, weight)| {
        (0..weight)
            .map(move |given| (given * length / weight, ((given + 1) * length).div_ceil(weight), NodeIndex(node)))
    });
    let mut jobs: Vec<(u64, u64, NodeIndex)> = jobs.collect();
    jobs.sort_unstable();
    let mut jobs = jobs.into_iter().peekable();
    // Those that are due, the earliest deadline first, and at one deadline in the order of the nodes.
    let mut due = BinaryHeap::new();
    (0..length)
        .map(|slot| {
            while let Some((_, deadline, node)) = jobs.next_if(|(release, _, _)| *release <= slot) {
                due.push(Reverse((deadline, node)));
            }
            let Reverse((_, node)) = due.pop().expect("at each slot as many are released as slots went by");
            node
        })
        .collect()
}
