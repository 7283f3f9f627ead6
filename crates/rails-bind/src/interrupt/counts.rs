//! How often interrupts were served, and on which CPUs.

use super::{InterruptError, unreadable};
use rails_topo::{CpuId, InterruptLines};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// How often each interrupt was served on each CPU.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InterruptCounts {
    /// The CPUs that the counts are of, in their order.
    cpus: Vec<CpuId>,
    /// By interrupt, how often it was served on each of these.
    counts: BTreeMap<u32, Vec<u64>>,
}

impl InterruptCounts {
    /// Those of this machine, since it was started.
    ///
    /// # Privileges
    /// None.
    ///
    /// # Errors
    /// [`InterruptError::PermissionDenied`], [`InterruptError::Read`].
    pub fn read() -> Result<Self, InterruptError> {
        Self::read_under(Path::new("/"))
    }

    /// Those of the machine whose file system begins at `root` (it has `root/proc/interrupts`).
    ///
    /// # Errors
    /// As [`InterruptCounts::read`].
    pub fn read_under(root: &Path) -> Result<Self, InterruptError> {
        let path: PathBuf = root.join("proc/interrupts");
        let text = fs::read(&path).map_err(|source| unreadable(path, source))?;
        // The name of a handler may hold any bytes; nothing that is looked for is in it.
        Ok(Self::parse(&String::from_utf8_lossy(&text)))
    }

    /// How often each was served since `earlier`. An interrupt or a CPU that was not there then counts from zero, and so does
    /// a count that is lower than it was: the interrupt was made anew.
    pub fn since(&self, earlier: &Self) -> Self {
        let place = |cpu: &CpuId| earlier.cpus.iter().position(|known| known == cpu);
        let places: Vec<Option<usize>> = self.cpus.iter().map(place).collect();
        let none = Vec::new();
        let since = |(number, counts): (&u32, &Vec<u64>)| {
            let before = earlier.counts.get(number).unwrap_or(&none);
            let before = |index: usize| places[index].and_then(|place| before.get(place)).copied().unwrap_or(0);
            let of_cpu = |(index, now): (usize, &u64)| now.checked_sub(before(index)).unwrap_or(*now);
            (*number, counts.iter().enumerate().map(of_cpu).collect())
        };
        Self { cpus: self.cpus.clone(), counts: self.counts.iter().map(since).collect() }
    }

    /// How often interrupt `number` was served, on the CPUs that it was served on; empty for one that is not known.
    pub fn of(&self, number: u32) -> BTreeMap<CpuId, u64> {
        let counts = self.counts.get(&number).into_iter().flatten();
        let by_cpu = self.cpus.iter().copied().zip(counts.copied());
        by_cpu.filter(|(_, count)| *count > 0).collect()
    }

    /// The interrupts, by number.
    pub fn numbers(&self) -> impl Iterator<Item = u32> + '_ {
        self.counts.keys().copied()
    }

    fn parse(text: &str) -> Self {
        let lines = InterruptLines::parse(text);
        let cpus = lines.cpus().to_vec();
        Self { cpus, counts: lines.map(|line| (line.number, line.counts().collect())).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(text: &str) -> InterruptCounts {
        InterruptCounts::parse(text)
    }

    #[test]
    fn what_happened_meanwhile_is_told_by_cpu() {
        let before =
            counts("  CPU0 CPU2\n 24: 5 7  PCI-MSI 1-edge   eth0-rx-0\n 25: 9 9  PCI-MSI 2-edge   eth0-tx-0\n");
        let after = counts(
            "  CPU0 CPU1 CPU2\n 24: 5 3 8  PCI-MSI 1-edge   eth0-rx-0\n 25: 0 0 2  PCI-MSI 2-edge   eth0-tx-0\n \
             26: 1 0 0  PCI-MSI 3-edge   eth0-rx-1\n",
        );
        let during = after.since(&before);
        assert_eq!(during.of(24), BTreeMap::from([(CpuId(1), 3), (CpuId(2), 1)]));
        assert_eq!(during.of(25), BTreeMap::from([(CpuId(2), 2)]), "it was made anew");
        assert_eq!(during.of(26), BTreeMap::from([(CpuId(0), 1)]));
        assert_eq!(during.of(27), BTreeMap::new());
        assert_eq!(during.numbers().collect::<Vec<_>>(), [24, 25, 26]);
        assert!(after.since(&after).of(24).is_empty());
    }

    #[test]
    fn this_machine_counts_its_interrupts() {
        let counts = InterruptCounts::read().expect("the kernel counts");
        assert!(counts.numbers().any(|number| !counts.of(number).is_empty()), "the timer at least was served");
    }
}
