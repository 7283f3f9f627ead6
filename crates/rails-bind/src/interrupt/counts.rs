//! The counts of interrupts by CPU.

use super::{InterruptError, unreadable};
use rails_topo::{CpuId, CpuSet, InterruptLines};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// The number of times that each CPU served each interrupt.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InterruptCounts {
    /// The CPUs that the counts are of, in their order.
    cpus: Vec<CpuId>,
    /// The counts of each interrupt, one for each of these.
    counts: BTreeMap<u32, Vec<u64>>,
    unknown_cpus: CpuSet,
}

impl InterruptCounts {
    /// The counts of this machine since its boot. Only online CPUs have counts.
    ///
    /// # Privileges
    /// None.
    ///
    /// # Errors
    /// [`InterruptError::PermissionDenied`], [`InterruptError::Read`].
    ///
    /// # References
    /// [proc_interrupts(5)](https://man7.org/linux/man-pages/man5/proc_interrupts.5.html)
    pub fn read() -> Result<Self, InterruptError> {
        Self::read_under(Path::new("/"))
    }

    /// The counts of the machine whose file system begins at `root` (it has
    /// `root/proc/interrupts`).
    ///
    /// # Errors
    /// As [`InterruptCounts::read`].
    pub fn read_under(root: &Path) -> Result<Self, InterruptError> {
        let path: PathBuf = root.join("proc/interrupts");
        let text = fs::read(&path).map_err(|source| unreadable(path, source))?;
        // The name of a handler may have any bytes; the counts stand before it.
        Ok(Self::parse(&String::from_utf8_lossy(&text)))
    }

    /// The counts of the interrupts since `earlier`.
    ///
    /// - A CPU that was offline at one of the two readings is left out, and
    ///   [`InterruptCounts::unknown_cpus`] lists it: an offline CPU keeps its counts, but they
    ///   cannot be read.
    /// - An interrupt that `earlier` does not have counts from zero. So does one whose count is
    ///   lower than before, because it was made anew; unless the count was near 2^32, where the
    ///   kernel begins again.
    pub fn since(&self, earlier: &Self) -> Self {
        let now: CpuSet = self.cpus.iter().copied().collect();
        let then: CpuSet = earlier.cpus.iter().copied().collect();
        let unknown = now.difference(&then).union(&then.difference(&now)).union(&self.unknown_cpus);
        // The places of the CPUs that are in both, now and then.
        let position = |counts: &Self, cpu| counts.cpus.iter().position(|known| *known == cpu);
        let both = self.cpus.iter().enumerate();
        let places: Vec<(usize, usize)> =
            both.filter_map(|(place, cpu)| Some((place, position(earlier, *cpu)?))).collect();
        let since = |(number, counts): (&u32, &Vec<u64>)| {
            let before = earlier.counts.get(number);
            let before = |place: usize| before.and_then(|before| before.get(place)).copied().unwrap_or(0);
            let pairs = || places.iter().map(|(now, then)| (counts.get(*now).copied().unwrap_or(0), before(*then)));
            let made_anew = pairs().any(|(now, before)| now < before && !has_wrapped(now, before));
            let of_cpu = |(now, before): (u64, u64)| match now.checked_sub(before) {
                _ if made_anew => now,
                Some(more) => more,
                None => (now + COUNTER_END).saturating_sub(before),
            };
            (*number, pairs().map(of_cpu).collect())
        };
        Self {
            cpus: places.iter().map(|(now, _)| self.cpus[*now]).collect(),
            counts: self.counts.iter().map(since).collect(),
            unknown_cpus: unknown,
        }
    }

    /// The counts of interrupt `number`, on the CPUs that served it; empty for an unknown one.
    pub fn of(&self, number: u32) -> BTreeMap<CpuId, u64> {
        self.by_cpu(number).collect()
    }

    /// The CPUs that served interrupt `number`; empty for an unknown one.
    pub fn served_on(&self, number: u32) -> CpuSet {
        self.by_cpu(number).map(|(cpu, _)| cpu).collect()
    }

    /// CPUs with unknown counts between two readings ([`InterruptCounts::since`]); empty where
    /// nothing was compared.
    pub fn unknown_cpus(&self) -> &CpuSet {
        &self.unknown_cpus
    }

    /// The interrupts, by number.
    pub fn numbers(&self) -> impl Iterator<Item = u32> + '_ {
        self.counts.keys().copied()
    }

    fn by_cpu(&self, number: u32) -> impl Iterator<Item = (CpuId, u64)> + '_ {
        let counts = self.counts.get(&number).into_iter().flatten();
        self.cpus.iter().copied().zip(counts.copied()).filter(|(_, count)| *count > 0)
    }

    fn parse(text: &str) -> Self {
        let lines = InterruptLines::parse(text);
        let cpus = lines.cpus().to_vec();
        let counts = lines.map(|line| (line.number, line.counts().collect())).collect();
        Self { cpus, counts, unknown_cpus: CpuSet::new() }
    }
}

/// Whether a count that decreased has wrapped: at most half its range lies between the two.
fn has_wrapped(now: u64, before: u64) -> bool {
    before < COUNTER_END && (now + COUNTER_END - before) < COUNTER_END / 2
}

/// `kstat_irqs` are `unsigned int`s (include/linux/irqdesc.h, Linux 6.12).
const COUNTER_END: u64 = 1 << 32;

/// For [`crate::fuzzing`]: the two halves of a text as the file at two times.
#[cfg(feature = "fuzzing")]
pub(super) fn fuzz(text: &str) {
    let (before, now) = text.split_once("\n\n").unwrap_or((text, text));
    let _ = InterruptCounts::parse(now).since(&InterruptCounts::parse(before));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn counts(text: &str) -> InterruptCounts {
        InterruptCounts::parse(text)
    }

    #[test]
    fn counts_by_cpu_over_an_interval() {
        let before =
            counts("  CPU0 CPU2\n 24: 5 7  PCI-MSI 1-edge   eth0-rx-0\n 25: 9 9  PCI-MSI 2-edge   eth0-tx-0\n");
        let after = counts(
            "  CPU0 CPU2\n 24: 5 8  PCI-MSI 1-edge   eth0-rx-0\n 25: 0 12  PCI-MSI 2-edge   eth0-tx-0\n \
             26: 1 0  PCI-MSI 3-edge   eth0-rx-1\n",
        );
        let during = after.since(&before);
        assert_eq!(during.of(24), BTreeMap::from([(CpuId(2), 1)]));
        assert_eq!(during.served_on(24), CpuSet::single(CpuId(2)));
        assert_eq!(during.of(25), BTreeMap::from([(CpuId(2), 12)]), "it was made anew");
        assert_eq!(during.of(26), BTreeMap::from([(CpuId(0), 1)]));
        assert_eq!(during.of(27), BTreeMap::new());
        assert_eq!(during.numbers().collect::<Vec<_>>(), [24, 25, 26]);
        assert!(after.since(&after).of(24).is_empty());
        assert!(during.unknown_cpus().is_empty());
    }

    #[test]
    fn cpus_that_came_or_went_in_the_interval() {
        let before = counts("  CPU0 CPU1\n 24: 5 7  PCI-MSI 1-edge   eth0-rx-0\n");
        let after = counts("  CPU0 CPU2\n 24: 6 900  PCI-MSI 1-edge   eth0-rx-0\n");
        let during = after.since(&before);
        assert_eq!(during.of(24), BTreeMap::from([(CpuId(0), 1)]), "the 900 are from before CPU 2 was offline");
        assert_eq!(during.unknown_cpus().to_string(), "1-2");
    }

    #[test]
    fn count_that_ran_over_its_end_goes_on() {
        let before = counts("  CPU0\n 24: 4294967290  PCI-MSI 1-edge   eth0-rx-0\n");
        let after = counts("  CPU0\n 24: 4  PCI-MSI 1-edge   eth0-rx-0\n");
        assert_eq!(after.since(&before).of(24), BTreeMap::from([(CpuId(0), 10)]));
    }

    #[test]
    fn this_machine_counts_its_interrupts() {
        let counts = InterruptCounts::read().expect("the kernel counts");
        assert!(counts.numbers().any(|number| !counts.of(number).is_empty()), "the timer at least was served");
    }

    /// Counts of a few interrupts on a few CPUs.
    fn any_counts() -> impl Strategy<Value = InterruptCounts> {
        let cpus = proptest::collection::btree_set(0..6_u32, 0..5);
        let counts = proptest::collection::btree_map(20..26_u32, proptest::collection::vec(0..COUNTER_END, 5), 0..5);
        (cpus, counts).prop_map(|(cpus, counts)| {
            let cpus: Vec<CpuId> = cpus.into_iter().map(CpuId).collect();
            let counts = counts.into_iter().map(|(number, counts)| (number, counts[..cpus.len()].to_vec())).collect();
            InterruptCounts { cpus, counts, unknown_cpus: CpuSet::new() }
        })
    }

    proptest! {
        #[test]
        fn any_counts_over_an_interval(before in any_counts(), more in proptest::collection::vec(0..1000_u64, 5)) {
            let mut after = before.clone();
            for counts in after.counts.values_mut() {
                counts.iter_mut().zip(&more).for_each(|(count, more)| *count = (*count + more) % COUNTER_END);
            }
            let during = after.since(&before);
            for counts in during.counts.values() {
                prop_assert_eq!(&counts[..], &more[..before.cpus.len()]);
            }
            prop_assert!(during.unknown_cpus().is_empty());
        }

        #[test]
        fn any_two_readings_can_be_compared(before in any_counts(), after in any_counts()) {
            let during = after.since(&before);
            for number in 20..26 {
                prop_assert!(!during.served_on(number).intersects(during.unknown_cpus()));
                prop_assert!(during.of(number).values().all(|count| *count < COUNTER_END));
            }
        }

        #[test]
        fn no_text_makes_it_panic(text in "([ 0-9A-Z:\\-é,\n]|CPU[0-9]| ){0,200}") {
            let _ = InterruptCounts::parse(&text).since(&InterruptCounts::parse(&text));
        }
    }
}
