//! How evenly partitions are spread, and which of them move.

use super::{
    Cyclic, Distribution, Epoch, MAX_CYCLE, NodeIndex, Placement, PlacementError, RankList, Table, cycle::cycle,
};
use crate::{PartitionIndex, Region, Shape};
use proptest::{collection::vec, prelude::*};
use smallvec::smallvec;

fn shape<const N: usize>(extents: [u64; N]) -> Shape {
    Shape::new(extents).unwrap()
}

fn equal(nodes: u32) -> Placement {
    Placement::equal(Epoch(1), nodes).unwrap()
}

fn weighted(weights: &[u32]) -> Placement {
    Placement::new(Epoch(1), weights.to_vec()).unwrap()
}

/// How many partitions of a box each node is the home of.
fn homes(distribution: &dyn Distribution, partitions: &Shape, boxed: &Region) -> Vec<u64> {
    let mut counts = vec![0; distribution.placement().node_count()];
    let strides = partitions.strides();
    for number in 0..boxed.elements() {
        let place = boxed.shape().coordinates_of(number);
        let axes = place.iter().zip(boxed.start()).zip(&strides);
        let partition = PartitionIndex(axes.map(|((at, start), stride)| (at + start) * stride).sum());
        counts[distribution.home(partition).0 as usize] += 1;
    }
    counts
}

#[test]
fn placements_are_limited() {
    let new = |weights: Vec<u32>| Placement::new(Epoch(7), weights);
    assert_eq!(new(vec![]), Err(PlacementError::NoNode));
    assert_eq!(new(vec![0, 0]), Err(PlacementError::NoNode));
    assert!(new(vec![1; MAX_CYCLE as usize]).is_ok());
    assert_eq!(new(vec![0; MAX_CYCLE as usize + 1]), Err(PlacementError::Nodes { nodes: 4097 }));
    assert!(Placement::equal(Epoch(7), u32::MAX).is_err());
    assert!(new(vec![1, MAX_CYCLE as u32 - 1]).is_ok());
    assert_eq!(new(vec![1, MAX_CYCLE as u32]), Err(PlacementError::Weights { sum: 4097 }));
    assert!(new(vec![u32::MAX, u32::MAX]).is_ok());
    assert!(new(vec![u32::MAX, u32::MAX - 1]).is_err());
}

#[test]
fn serde_checks() {
    let placement = weighted(&[3, 0, 6]);
    let text = serde_json::to_string(&placement).unwrap();
    assert_eq!(text, r#"{"epoch":1,"weights":[3,0,6]}"#);
    assert_eq!(serde_json::from_str::<Placement>(&text).unwrap(), placement);
    assert!(serde_json::from_str::<Placement>(r#"{"epoch":1,"weights":[0]}"#).is_err());
}

#[test]
fn equal_nodes_are_in_turn() {
    let nodes: Vec<u32> = cycle(&equal(4)).into_iter().map(|node| node.0).collect();
    assert_eq!(nodes, [0, 1, 2, 3]);
    let nodes: Vec<u32> = cycle(&weighted(&[2, 0, 2, 4])).into_iter().map(|node| node.0).collect();
    assert_eq!(nodes, [3, 0, 2, 3]);
}

#[test]
fn several_boxes_are_spread_at_once() {
    let partitions = shape([16, 9, 23, 34]);
    let typical = [shape([1, 1, 4, 4]), shape([16, 1, 1, 1])];
    let distribution = Cyclic::new(equal(16), &partitions, &typical).unwrap();
    for boxed in typical {
        let boxed = Region::new([0, 3, 5, 7], boxed).unwrap();
        assert_eq!(homes(&distribution, &partitions, &boxed), [1; 16], "{boxed}");
    }
}

#[test]
fn a_dead_nodes_partitions_go_to_all_others() {
    let partitions = shape([64, 9, 6]);
    let distribution = Cyclic::new(weighted(&[1, 1, 1, 1, 1, 1, 2]), &partitions, &[shape([4, 1, 2])]).unwrap();
    let mut taken = [0; 7];
    for partition in (0..distribution.partition_count()).map(PartitionIndex) {
        if distribution.home(partition) == NodeIndex(3) {
            taken[distribution.first_alive(partition, &|node| node != NodeIndex(3)).unwrap().0 as usize] += 1;
        }
    }
    // 432 partitions over 7 slots of others: 62 for each node, and 123 for the one of weight 2. The mix
    // is as uneven as chance: three standard deviations are 22 and 28.
    assert!(taken[..6].iter().enumerate().all(|(node, count)| node == 3 || (40..=84).contains(count)), "{taken:?}");
    assert!((95..=151).contains(&taken[6]), "{taken:?}");
}

#[test]
fn a_known_vector_gives_the_same_homes() {
    let partitions = shape([8, 8]);
    let chosen = Cyclic::new(equal(5), &partitions, &[shape([2, 3])]).unwrap();
    assert_eq!(Cyclic::with_vector(equal(5), &partitions, chosen.vector()), Ok(chosen));
    assert!(Cyclic::with_vector(equal(5), &partitions, &[1]).is_err());
    assert_eq!(Cyclic::new(equal(5), &partitions, &[shape([2])]), Err(PlacementError::Rank { given: 1, rank: 2 }));
    let large = Cyclic::with_vector(equal(5), &partitions, &[u64::MAX, 1]).unwrap();
    assert_eq!(large.vector(), [0, 1]);
}

#[test]
fn one_node_has_all() {
    let distribution = Cyclic::new(equal(1), &shape([3, 3]), &[]).unwrap();
    assert_eq!(distribution.ranks(PartitionIndex(8)), RankList::from_elem(NodeIndex(0), 1));
    assert_eq!(distribution.first_alive(PartitionIndex(8), &|_| false), None);
}

#[test]
fn many_nodes_are_spread_in_time() {
    let partitions = shape([1 << 20, 64, 64, 64]);
    let typical = [shape([1, 1, 64, 64]), shape([1 << 20, 1, 1, 1])];
    let distribution = Cyclic::new(equal(MAX_CYCLE as u32), &partitions, &typical).unwrap();
    assert_eq!(distribution.ranks(PartitionIndex(77)).len() as u64, MAX_CYCLE);
}

#[test]
fn tables_are_checked() {
    let table = |ranks: Vec<RankList>| Table::new(equal(2), ranks);
    let list: RankList = smallvec![NodeIndex(1), NodeIndex(0)];
    let homes = table(vec![list.clone(), smallvec![NodeIndex(0)]]).unwrap();
    assert_eq!((homes.partition_count(), homes.home(PartitionIndex(0))), (2, NodeIndex(1)));
    assert_eq!(homes.ranks(PartitionIndex(0)), list);
    assert_eq!(homes.first_alive(PartitionIndex(0), &|node| node.0 == 0), Some(NodeIndex(0)));
    assert_eq!(table(vec![smallvec![]]), Err(PlacementError::Homeless { partition: 0 }));
    let unknown = PlacementError::UnknownNode { partition: 1, node: 2, nodes: 2 };
    assert_eq!(table(vec![list.clone(), smallvec![NodeIndex(2)]]), Err(unknown));
    assert_eq!(table(vec![smallvec![NodeIndex(1); 2]]), Err(PlacementError::Twice { partition: 0, node: 1 }));
}

/// Partitions, a typical box that is no larger, and a place for it.
fn boxes() -> impl Strategy<Value = (Shape, Region)> {
    vec((1_u64..7, 0_u64..9, 0_u64..100), 1..5).prop_map(|axes| {
        let partitions = Shape::new(axes.iter().map(|(extent, more, _)| extent + more)).unwrap();
        let typical = Shape::new(axes.iter().map(|axis| axis.0)).unwrap();
        (partitions, Region::new(axes.iter().map(|(_, more, at)| at % (more + 1)), typical).unwrap())
    })
}

proptest! {
    #[test]
    fn a_cycle_is_even_everywhere(weights in vec(0_u32..9, 1..8), start in 0_usize..40, length in 0_usize..60) {
        prop_assume!(weights.iter().any(|weight| *weight > 0));
        let slots = cycle(&weighted(&weights));
        let total: u32 = weights.iter().sum();
        for (node, weight) in weights.iter().enumerate() {
            let nodes = slots.iter().cycle().skip(start).take(length);
            let count = nodes.filter(|slot| slot.0 as usize == node).count();
            let share = length as f64 * f64::from(*weight) / f64::from(total);
            prop_assert!((count as f64 - share).abs() < 2.0, "{} of {}", count, share);
        }
    }

    /// The slots of a typical box follow each other, or are as even, so a node has its share rounded
    /// down or up.
    #[test]
    fn equal_nodes_share_a_typical_box((partitions, boxed) in boxes(), nodes in 1_u32..20) {
        let distribution = Cyclic::new(equal(nodes), &partitions, &[boxed.shape().clone()]).unwrap();
        let counts = homes(&distribution, &partitions, &boxed);
        let share = boxed.elements() / u64::from(nodes)..=boxed.elements().div_ceil(u64::from(nodes));
        prop_assert!(counts.iter().all(|count| share.contains(count)), "{:?}", counts);
    }

    /// The slots of a typical box follow each other, and in slots that do, no node is off by 2.
    #[test]
    fn weights_share_a_typical_box((partitions, boxed) in boxes(), weights in vec(0_u32..9, 1..8)) {
        prop_assume!(weights.iter().any(|weight| *weight > 0));
        let total: u32 = weights.iter().sum();
        let distribution = Cyclic::new(weighted(&weights), &partitions, &[boxed.shape().clone()]).unwrap();
        let counts = homes(&distribution, &partitions, &boxed);
        for (count, weight) in counts.iter().zip(&weights) {
            let share = boxed.elements() as f64 * f64::from(*weight) / f64::from(total);
            prop_assert!((*count as f64 - share).abs() < 2.0, "{:?} of {:?}", counts, weights);
        }
    }

    #[test]
    fn a_death_moves_only_the_dead_nodes_partitions(
        (partitions, boxed) in boxes(), weights in vec(0_u32..4, 1..8), dead in any::<u8>(), next in 0_u32..8,
    ) {
        prop_assume!(weights.iter().any(|weight| *weight > 0));
        let distribution = Cyclic::new(weighted(&weights), &partitions, &[boxed.shape().clone()]).unwrap();
        for partition in (0..distribution.partition_count()).map(PartitionIndex).step_by(17) {
            let ranks = distribution.ranks(partition);
            let mut nodes: Vec<u32> = ranks.iter().map(|node| node.0).collect();
            nodes.sort_unstable();
            let all = (0..weights.len() as u32).filter(|node| weights[*node as usize] > 0);
            prop_assert!(nodes.into_iter().eq(all));
            prop_assert_eq!(ranks[0], distribution.home(partition));
            let is_alive = |node: NodeIndex| dead & (1 << node.0) == 0;
            let before = distribution.first_alive(partition, &is_alive);
            let after = distribution.first_alive(partition, &|node| is_alive(node) && node.0 != next);
            prop_assert!(after == before || before == Some(NodeIndex(next)));
        }
    }
}
