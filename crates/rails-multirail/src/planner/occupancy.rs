//! The CPUs that rails occupy.

use rails_topo::{CpuId, CpuSet};
use std::collections::BTreeMap;

/// The number of rails on each CPU, and the CPUs for tasks that these rails still need.
#[derive(Default)]
pub(super) struct Occupancy {
    rails: BTreeMap<CpuId, usize>,
    expected_tasks: Vec<(CpuId, usize)>,
}

impl Occupancy {
    /// Adds a rail on each of these CPUs.
    pub(super) fn add(&mut self, cpus: impl IntoIterator<Item = CpuId>) {
        cpus.into_iter().for_each(|cpu| *self.rails.entry(cpu).or_default() += 1);
    }

    /// Adds CPUs for tasks that will be needed beside the lane on that CPU.
    pub(super) fn expect_tasks(&mut self, lane: CpuId, tasks: usize) {
        self.expected_tasks.push((lane, tasks));
    }

    /// The number of rails on a CPU.
    pub(super) fn rails_on(&self, cpu: CpuId) -> usize {
        self.rails.get(&cpu).copied().unwrap_or_default()
    }

    /// The number of rails on the CPUs of a core.
    pub(super) fn rails_on_core(&self, core: &CpuSet) -> usize {
        core.iter().map(|cpu| self.rails_on(cpu)).sum()
    }

    /// The CPU of each lane whose tasks have no CPUs yet, and the number that they need.
    pub(super) fn expected_tasks(&self) -> impl Iterator<Item = (CpuId, usize)> {
        self.expected_tasks.iter().copied()
    }
}
