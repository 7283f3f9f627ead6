//! Votes among CPUs on the sets that they state.

use crate::{CpuId, CpuSet};
use std::collections::HashMap;

/// The sets that most of their own members name, each with the first CPU that named it, in the
/// order of these CPUs.
///
/// Firmware does contradict itself: on one machine CPU 2 shared its L3 with CPUs 0-3 of other
/// packages, while these, and the nine other CPUs of its own package, stated otherwise. Such a set
/// is dropped; the CPU that named it stays in the set of the others. Two sets that both have a
/// majority and still overlap cannot both be true: the first one stays.
pub(super) fn majority_sets(stated: Vec<(CpuId, CpuSet)>) -> Vec<(CpuSet, CpuId)> {
    let mut counted: HashMap<CpuSet, (CpuId, usize)> = HashMap::new();
    for (teller, set) in stated.into_iter().filter(|(teller, set)| set.contains(*teller)) {
        counted.entry(set).and_modify(|(_, votes)| *votes += 1).or_insert((teller, 1));
    }
    let majority = |set: &CpuSet, votes: usize| votes * 2 > set.len();
    let elected = counted.into_iter().filter(|(set, (_, votes))| majority(set, *votes));
    let mut elected: Vec<(CpuSet, CpuId)> = elected.map(|(set, (teller, _))| (set, teller)).collect();
    elected.sort_by_key(|(_, teller)| *teller);
    let mut taken = CpuSet::new();
    elected.retain(|(set, _)| {
        let apart = !set.intersects(&taken);
        if apart {
            taken = taken.union(set);
        }
        apart
    });
    elected
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stated(sets: &[&str]) -> Vec<(CpuId, CpuSet)> {
        sets.iter().enumerate().map(|(cpu, set)| (CpuId(cpu as u32), set.parse().unwrap())).collect()
    }

    #[test]
    fn set_that_its_members_deny_is_dropped() {
        let sets = majority_sets(stated(&["0,2,4", "1,3,5", "0-3", "1,3,5", "0,2,4", "1,3,5"]));
        assert_eq!(sets, [("0,2,4".parse().unwrap(), CpuId(0)), ("1,3,5".parse().unwrap(), CpuId(1))]);
    }

    #[test]
    fn set_without_its_teller_is_dropped() {
        assert_eq!(majority_sets(stated(&["1", "", "2"])), [("2".parse().unwrap(), CpuId(2))]);
    }

    #[test]
    fn first_of_two_overlapping_majorities() {
        let sets = majority_sets(stated(&["0-2", "0-2", "2-4", "2-4", "3"]));
        assert_eq!(sets, [("0-2".parse().unwrap(), CpuId(0))]);
    }

    proptest! {
        #[test]
        fn majority_sets_never_overlap(sets in proptest::collection::vec(proptest::collection::btree_set(0..6u32, 0..4), 0..6)) {
            let set = |members: &std::collections::BTreeSet<u32>| members.iter().copied().map(CpuId).collect::<CpuSet>();
            let majority = majority_sets((0..).map(CpuId).zip(sets.iter().map(set)).collect());
            let members: usize = majority.iter().map(|(set, _)| set.len()).sum();
            let union = majority.iter().fold(CpuSet::new(), |union, (set, _)| union.union(set));
            prop_assert_eq!(members, union.len());
        }
    }
}
