//! Kinds of cores, for machines whose cores differ.

use super::{
    cpus::{CPUS, Cpus},
    root::Root,
};
use crate::{CoreKind, CpuId, CpuSet};
use std::collections::BTreeMap;

/// The kinds, the slowest first; none if all cores are alike, or nothing distinguishes them.
///
/// The first source that covers all CPUs decides: Intel's performance counters, of which each kind
/// has its own; the kernel's capacities; frequencies.
pub(super) fn core_kinds(root: &Root, cpus: &Cpus) -> Vec<CoreKind> {
    let figures = Figures { root, cpus: &cpus.described };
    let named = by_counters(root, &cpus.online);
    let sets = match named.len() {
        1 => Vec::new(),
        2.. => named,
        _ => unnamed(by_capacity(&figures)).or_else(|| unnamed(by_frequency(&figures))).unwrap_or_default(),
    };
    let kind = |(rank, (cpus, name)): (u32, (CpuSet, Option<&str>))| {
        let figures = Figures { root, cpus: &cpus };
        CoreKind {
            efficiency: Some(rank),
            name: name.map(str::to_owned),
            capacity: figures.lowest(CAPACITY),
            max_frequency: figures.lowest(MAX_FREQUENCY),
            base_frequency: figures.lowest(BASE_FREQUENCY),
            cpus,
        }
    };
    (0..).zip(sets).map(kind).collect()
}

/// A kind's CPUs, and the kernel's name of it.
type Named = (CpuSet, Option<&'static str>);

/// The sets, where there are several.
fn unnamed(sets: Vec<CpuSet>) -> Option<Vec<Named>> {
    (sets.len() > 1).then(|| sets.into_iter().map(|cpus| (cpus, None)).collect())
}

/// Kinds by performance counters (PMUs), if each online CPU has exactly one; one set if all are
/// alike.
fn by_counters(root: &Root, online: &CpuSet) -> Vec<Named> {
    let unit = |name: &'static str| {
        let cpus: CpuSet = root.value(&format!("sys/devices/{name}/cpus"))?;
        Some((cpus.intersection(online), Some(name))).filter(|(cpus, _)| !cpus.is_empty())
    };
    let units: Vec<Named> = COUNTERS.into_iter().filter_map(unit).collect();
    let counted: usize = units.iter().map(|(cpus, _)| cpus.len()).sum();
    let all = units.iter().fold(CpuSet::new(), |all, (cpus, _)| all.union(cpus));
    if all == *online && counted == online.len() { units } else { Vec::new() }
}

/// Kinds by `cpu_capacity`, where every CPU has one.
fn by_capacity(figures: &Figures<'_>) -> Vec<CpuSet> {
    figures.of_each::<u32>(CAPACITY).map(|of_each| by_figure(of_each).into_values().collect()).unwrap_or_default()
}

/// Kinds by the frequencies of cpufreq, where every CPU has them: first the one without boost, then
/// the highest.
///
/// The highest frequency alone is different among cores that are alike, for some of them are better
/// made ("favoured" or "preferred" cores). hwloc allows 10 % for that, and so does this function.
fn by_frequency(figures: &Figures<'_>) -> Vec<CpuSet> {
    let Some(highest) = figures.of_each::<u64>(MAX_FREQUENCY) else { return Vec::new() };
    let base: BTreeMap<CpuId, u64> = figures.of_each(BASE_FREQUENCY).unwrap_or_default().into_iter().collect();
    let mut by_base: BTreeMap<Option<&u64>, Vec<(CpuId, u64)>> = BTreeMap::new();
    for (cpu, highest) in highest {
        by_base.entry(base.get(&cpu)).or_default().push((cpu, highest));
    }
    let mut kinds: Vec<(u64, CpuSet)> = by_base.into_values().flat_map(within_a_tenth).collect();
    // Kinds of one highest frequency stay in the order of their frequency without boost.
    kinds.sort_by_key(|(highest, _)| *highest);
    kinds.into_iter().map(|(_, cpus)| cpus).collect()
}

/// Groups of CPUs whose figures are less than 10 % above the lowest of the group, each with that
/// lowest.
fn within_a_tenth(figures: Vec<(CpuId, u64)>) -> Vec<(u64, CpuSet)> {
    let mut sets: Vec<(u64, CpuSet)> = Vec::new();
    for (figure, cpus) in by_figure(figures) {
        match sets.last_mut() {
            Some((lowest, set)) if figure - *lowest < *lowest / 10 => *set = set.union(&cpus),
            _ => sets.push((figure, cpus)),
        }
    }
    sets
}

/// The CPUs of each figure.
fn by_figure<T: Ord>(figures: Vec<(CpuId, T)>) -> BTreeMap<T, CpuSet> {
    let mut sets: BTreeMap<T, CpuSet> = BTreeMap::new();
    for (cpu, figure) in figures {
        sets.entry(figure).or_default().insert(cpu);
    }
    sets
}

/// The numbers in the folders of some CPUs; 0 counts as missing.
struct Figures<'a> {
    root: &'a Root,
    cpus: &'a CpuSet,
}

impl Figures<'_> {
    /// The figure of each CPU; `None` if one has none. The function stops at the first file that is
    /// missing.
    fn of_each<T: std::str::FromStr + PartialEq + From<u8>>(&self, file: &str) -> Option<Vec<(CpuId, T)>> {
        let figure = |cpu| Some((cpu, self.root.value::<T>(&format!("{CPUS}/cpu{cpu}/{file}"))?));
        self.cpus.iter().map(|cpu| figure(cpu).filter(|(_, figure)| *figure != T::from(0))).collect()
    }

    /// The lowest figure; `None` if a CPU has none.
    fn lowest<T: std::str::FromStr + PartialEq + From<u8> + Ord>(&self, file: &str) -> Option<T> {
        self.of_each(file)?.into_iter().map(|(_, figure)| figure).min()
    }
}

/// The PMUs of Intel's hybrid processors, those of the slowest cores first
/// (Documentation/admin-guide/perf/intel-hybrid.rst in the kernel's sources).
const COUNTERS: [&str; 3] = ["cpu_lowpower", "cpu_atom", "cpu_core"];

const CAPACITY: &str = "cpu_capacity";
const MAX_FREQUENCY: &str = "cpufreq/cpuinfo_max_freq";
const BASE_FREQUENCY: &str = "cpufreq/base_frequency";

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn frequencies_of_one_kind_may_be_a_tenth_apart() {
        let figures = [3_000, 3_299, 3_300, 5_000].into_iter().enumerate();
        let sets = within_a_tenth(figures.map(|(cpu, figure)| (CpuId(cpu as u32), figure)).collect());
        let text: Vec<String> = sets.iter().map(|(_, cpus)| cpus.to_string()).collect();
        assert_eq!(text, ["0-1", "2", "3"]);
    }

    proptest! {
        #[test]
        fn each_cpu_is_of_one_kind(figures in proptest::collection::vec(any::<u64>(), 0..40)) {
            let sets = within_a_tenth((0..).map(CpuId).zip(figures.iter().copied()).collect());
            prop_assert_eq!(sets.iter().map(|(_, cpus)| cpus.len()).sum::<usize>(), figures.len());
            prop_assert!(sets.windows(2).all(|pair| pair[0].0 < pair[1].0));
        }
    }
}
