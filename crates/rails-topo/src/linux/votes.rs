//! Which of several sets that CPUs name as their own to believe.

use crate::{CpuId, CpuSet};

/// The sets that most of their own members name, each with the first CPU that named it.
///
/// Firmware does contradict itself: on one machine CPU 2 shared its L3 with CPUs 0-3 of other packages, while these,
/// and the nine other CPUs of its own package, said otherwise. Such a set is dropped; the CPU that named it stays in
/// the set that the others put it in.
pub(super) fn believed(told: Vec<(CpuId, CpuSet)>) -> Vec<(CpuSet, CpuId)> {
    let mut counted: Vec<(CpuSet, CpuId, usize)> = Vec::new();
    for (teller, set) in told.into_iter().filter(|(teller, set)| set.contains(*teller)) {
        match counted.iter_mut().find(|(known, ..)| *known == set) {
            Some((.., votes)) => *votes += 1,
            None => counted.push((set, teller, 1)),
        }
    }
    counted.into_iter().filter(|(set, _, votes)| votes * 2 > set.len()).map(|(set, teller, _)| (set, teller)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(sets: &[&str]) -> Vec<(CpuId, CpuSet)> {
        sets.iter().enumerate().map(|(cpu, set)| (CpuId(cpu as u32), set.parse().unwrap())).collect()
    }

    #[test]
    fn a_set_that_its_members_deny_is_dropped() {
        let sets = believed(told(&["0,2,4", "1,3,5", "0-3", "1,3,5", "0,2,4", "1,3,5"]));
        assert_eq!(sets, [("0,2,4".parse().unwrap(), CpuId(0)), ("1,3,5".parse().unwrap(), CpuId(1))]);
    }

    #[test]
    fn a_set_without_its_teller_is_dropped() {
        assert_eq!(believed(told(&["1", "", "2"])), [("2".parse().unwrap(), CpuId(2))]);
    }
}
