//! The node of each page under a policy, so that present pages can be moved there: a pure function.

use super::{MemoryPolicy, Residency};
use rails_topo::NodeId;
use std::collections::BTreeMap;

/// The nodes of pages under a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Targets {
    /// Each page where it is.
    Anywhere,
    /// Each page on any of these nodes.
    AnyOf(Vec<NodeId>),
    /// Each unit on the next node of this sequence.
    InTurn(Vec<NodeId>),
}

/// A page and its target node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Move {
    pub(super) page: usize,
    pub(super) node: NodeId,
}

/// The pages of a buffer, as interleaving counts them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Grid {
    /// The number of the first unit: the kernel counts from address 0, so that it agrees with us
    /// about later faults (`interleave_nid` in mm/mempolicy.c, with `vm_pgoff` being the
    /// address of private anonymous memory).
    pub(super) first_unit: usize,
    /// The pages of a unit: those of a transparent huge page, else one.
    pub(super) pages_per_unit: usize,
}

impl Targets {
    /// `here` is the calling thread's node; `weights` are asked for by weighted interleaving alone.
    pub(super) fn of(policy: &MemoryPolicy, here: NodeId, weights: &BTreeMap<NodeId, u32>) -> Self {
        match policy {
            MemoryPolicy::Default => Self::Anywhere,
            MemoryPolicy::Local => Self::AnyOf(vec![here]),
            MemoryPolicy::Preferred(node) => Self::AnyOf(vec![*node]),
            MemoryPolicy::Bind(nodes) | MemoryPolicy::PreferredMany(nodes) => Self::AnyOf(nodes.iter().collect()),
            MemoryPolicy::Interleave(nodes) => Self::InTurn(nodes.iter().collect()),
            MemoryPolicy::WeightedInterleave(nodes) => {
                let times = |node| weights.get(&node).map_or(1, |weight| *weight as usize);
                Self::InTurn(nodes.iter().flat_map(|node| std::iter::repeat_n(node, times(node))).collect())
            }
        }
    }

    /// Whether a page may be on `node`.
    fn accepts(&self, grid: Grid, page: usize, node: NodeId) -> bool {
        match self {
            Self::Anywhere => true,
            Self::AnyOf(nodes) => nodes.contains(&node),
            Self::InTurn(nodes) => in_turn(nodes, grid, page) == Some(node),
        }
    }

    /// The number of attempts after which each node of the policy has been tried.
    pub(super) fn turns(&self) -> usize {
        match self {
            Self::AnyOf(nodes) => nodes.len(),
            Self::Anywhere | Self::InTurn(_) => 1,
        }
    }

    /// The pages that are on a wrong node. Each `attempt` tries another node of the policy.
    pub(super) fn moves(&self, residency: &Residency, grid: Grid, attempt: usize) -> Vec<Move> {
        (0..residency.pages() as usize)
            .filter_map(|page| {
                let node = residency.node_of(page)?;
                if self.accepts(grid, page, node) {
                    return None;
                }
                let target = match self {
                    Self::Anywhere => None,
                    Self::AnyOf(nodes) => attempt.checked_rem(nodes.len()).and_then(|turn| nodes.get(turn)).copied(),
                    Self::InTurn(nodes) => in_turn(nodes, grid, page),
                };
                target.map(|node| Move { page, node })
            })
            .collect()
    }
}

fn in_turn(nodes: &[NodeId], grid: Grid, page: usize) -> Option<NodeId> {
    let unit = grid.first_unit.wrapping_add(page / grid.pages_per_unit);
    nodes.get(unit.checked_rem(nodes.len())?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SMALL: Grid = Grid { first_unit: 0, pages_per_unit: 1 };

    fn targets(policy: &MemoryPolicy) -> Targets {
        Targets::of(policy, NodeId(0), &BTreeMap::from([(NodeId(0), 2), (NodeId(1), 1)]))
    }

    fn moves(policy: &MemoryPolicy, grid: Grid, states: &[i32]) -> Vec<(usize, u32)> {
        let residency = Residency::example(4096, states.to_vec());
        targets(policy).moves(&residency, grid, 0).iter().map(|Move { page, node }| (*page, node.0)).collect()
    }

    #[test]
    fn only_pages_on_a_wrong_node_are_moved() {
        let absent = -libc::ENOENT;
        let states = [0, 1, absent, 0];
        assert_eq!(moves(&MemoryPolicy::Preferred(NodeId(1)), SMALL, &states), [(0, 1), (3, 1)]);
        assert_eq!(moves(&MemoryPolicy::Local, SMALL, &states), [(1, 0)]);
        assert_eq!(moves(&MemoryPolicy::Bind("0-1".parse().expect("a list")), SMALL, &states), []);
        assert_eq!(moves(&MemoryPolicy::Default, SMALL, &states), []);
    }

    #[test]
    fn interleaving_counts_units_and_weights() {
        let both = || "0-1".parse().expect("a list");
        assert_eq!(moves(&MemoryPolicy::Interleave(both()), SMALL, &[0; 4]), [(1, 1), (3, 1)]);
        let from_one = Grid { first_unit: 1, pages_per_unit: 1 };
        assert_eq!(moves(&MemoryPolicy::Interleave(both()), from_one, &[0; 4]), [(0, 1), (2, 1)]);
        let pairs = Grid { first_unit: 0, pages_per_unit: 2 };
        assert_eq!(moves(&MemoryPolicy::Interleave(both()), pairs, &[0; 4]), [(2, 1), (3, 1)]);
        assert_eq!(moves(&MemoryPolicy::WeightedInterleave(both()), SMALL, &[0; 6]), [(2, 1), (5, 1)]);
    }

    proptest! {
        #[test]
        fn after_its_moves_a_policy_wants_no_more(
            kind in 0..7,
            numbers in proptest::collection::vec(0_u32..6, 1..5),
            mut states in proptest::collection::vec(-3_i32..6, 0..200),
            attempt in 0..4_usize,
            first_unit in 0..1000_usize,
        ) {
            let set: rails_topo::NodeSet = numbers.iter().copied().map(NodeId).collect();
            let policy = match kind {
                0 => MemoryPolicy::Default,
                1 => MemoryPolicy::Local,
                2 => MemoryPolicy::Preferred(NodeId(numbers[0])),
                3 => MemoryPolicy::Bind(set),
                4 => MemoryPolicy::Interleave(set),
                5 => MemoryPolicy::PreferredMany(set),
                _ => MemoryPolicy::WeightedInterleave(set),
            };
            let grid = Grid { first_unit, pages_per_unit: 1 };
            for Move { page, node } in targets(&policy).moves(&Residency::example(4096, states.clone()), grid, attempt) {
                states[page] = i32::try_from(node.0).expect("a small number");
            }
            prop_assert_eq!(targets(&policy).moves(&Residency::example(4096, states), grid, attempt), []);
        }
    }
}
