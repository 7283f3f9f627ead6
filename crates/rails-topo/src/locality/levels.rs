//! Objects that PUs share: cores, caches, dies, nodes, packages, and the machine.

use super::Locality;
use crate::{CacheKind, CpuId, CpuSet, Topology};
use std::fmt;

/// Types of objects that PUs can share, in the usual order from the innermost to the outermost; a
/// machine may nest them otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Level {
    /// A core.
    Core,
    /// A cache of that level, of data or of everything.
    Cache(u8),
    /// A die.
    Die,
    /// A NUMA node.
    Node,
    /// A package.
    Package,
    /// The machine.
    Machine,
}

/// An object that PUs share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SharedObject<'l> {
    /// The type of the shared object.
    pub level: Level,
    /// The allowed PUs that share it; empty where none of them is allowed.
    pub cpus: &'l CpuSet,
}

impl Topology {
    /// The PUs that share the last-level cache with `cpu`, `cpu` included.
    pub fn sharing_last_level_cache(&self, cpu: CpuId) -> Option<&CpuSet> {
        self.caches.iter().rev().find(|cache| cache.cpus.contains(cpu)).map(|cache| &cache.cpus)
    }
}

impl Locality<'_> {
    /// The objects around an online PU, the innermost first: mostly core, caches, die, node,
    /// package and machine, as far as the model knows them. Objects with the same PUs are in the
    /// order of [`Level`]. Empty for a PU that is not online.
    pub fn around(&self, cpu: CpuId) -> impl ExactSizeIterator<Item = SharedObject<'_>> + Clone {
        self.levels.of_cpu(cpu).iter().map(|index| self.levels.shared(*index))
    }

    /// The allowed PUs that share an object of this level with an online PU, including that PU if
    /// it is allowed. `None` if the model has no such object around it.
    pub fn sharing(&self, cpu: CpuId, level: Level) -> Option<&CpuSet> {
        self.around(cpu).find(|shared| shared.level == level).map(|shared| shared.cpus)
    }

    /// The innermost object that two online PUs share, as far as the model knows; `None` if one of
    /// them is not online.
    pub fn shared_by(&self, a: CpuId, b: CpuId) -> Option<SharedObject<'_>> {
        let (mut a, mut b) = (self.levels.of_cpu(a), self.levels.of_cpu(b));
        while let ([first_a, rest_a @ ..], [first_b, rest_b @ ..]) = (a, b) {
            match first_a.cmp(first_b) {
                std::cmp::Ordering::Less => a = rest_a,
                std::cmp::Ordering::Greater => b = rest_b,
                std::cmp::Ordering::Equal => return Some(self.levels.shared(*first_a)),
            }
        }
        None
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Core => f.write_str("core"),
            Self::Cache(level) => write!(f, "L{level} cache"),
            Self::Die => f.write_str("die"),
            Self::Node => f.write_str("node"),
            Self::Package => f.write_str("package"),
            Self::Machine => f.write_str("machine"),
        }
    }
}

/// The objects of a machine, and the objects around each online PU.
#[derive(Debug, Clone)]
pub(super) struct Levels {
    /// The objects, the smallest first, and among equally large ones the innermost level first.
    objects: Vec<(Level, CpuSet)>,
    /// The ends of the PUs' parts of `around`, by PU number; each begins where the one before it
    /// ends.
    ends: Vec<usize>,
    /// Indices in `objects`, rising for each PU.
    around: Vec<u32>,
}

impl Levels {
    pub(super) fn of(topology: &Topology) -> Self {
        let data = topology.caches().iter().filter(|cache| cache.kind != CacheKind::Instruction);
        let mut objects: Vec<(Level, CpuSet)> = [(Level::Machine, topology.online_cpus())]
            .into_iter()
            .chain(topology.packages().iter().map(|package| (Level::Package, &package.cpus)))
            .chain(topology.nodes().iter().map(|node| (Level::Node, &node.cpus)))
            .chain(topology.dies().iter().map(|die| (Level::Die, &die.cpus)))
            .chain(data.map(|cache| (Level::Cache(cache.level), &cache.cpus)))
            .chain(topology.cores().iter().map(|core| (Level::Core, &core.cpus)))
            .map(|(level, cpus)| (level, cpus.intersection(topology.online_cpus())))
            .collect();
        objects.sort_by_cached_key(|(level, cpus)| (cpus.len(), *level, cpus.first()));

        let count = topology.online_cpus().last().map_or(0, |cpu| cpu.0 as usize + 1);
        let mut counts = vec![0; count];
        let parts = || (0..).zip(&objects).flat_map(|(index, (_, cpus))| cpus.iter().map(move |cpu| (index, cpu)));
        parts().for_each(|(_, cpu)| counts[cpu.0 as usize] += 1);
        let mut next: Vec<usize> = sums(&counts);
        let mut around = vec![0; counts.iter().sum()];
        for (index, cpu) in parts() {
            let slot = &mut next[cpu.0 as usize];
            around[*slot] = index;
            *slot += 1;
        }
        for (_, cpus) in &mut objects {
            *cpus = cpus.intersection(topology.allowed_cpus());
        }
        Self { objects, ends: next, around }
    }

    fn of_cpu(&self, cpu: CpuId) -> &[u32] {
        let index = cpu.0 as usize;
        let Some(end) = self.ends.get(index) else { return &[] };
        let begin = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.around[begin..*end]
    }

    fn shared(&self, index: u32) -> SharedObject<'_> {
        let (level, cpus) = &self.objects[index as usize];
        SharedObject { level: *level, cpus }
    }
}

/// The sum of the earlier counts, for each count.
fn sums(counts: &[usize]) -> Vec<usize> {
    let add = |sum: &mut usize, count: &usize| {
        let before = *sum;
        *sum += count;
        Some(before)
    };
    counts.iter().scan(0, add).collect()
}
