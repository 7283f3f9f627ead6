//! The objects of a machine that have a queue each, as a tree.

use rails_topo::{CacheKind, CpuId, CpuSet, Topology};
use std::fmt;

/// The number of an object in [`Objects`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId(pub(crate) usize);

/// An object of the machine whose CPUs differ from those of the objects inside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// The outermost of the objects with these CPUs.
    pub kind: ObjectKind,
    /// The object's online CPUs.
    pub cpus: CpuSet,
    /// The object around this one; `None` for the machine.
    pub parent: Option<ObjectId>,
}

/// The kind of an object, in the words of hwloc.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ObjectKind {
    /// The whole machine.
    Machine,
    /// A package, or socket.
    Package,
    /// A NUMA node.
    NumaNode,
    /// A die of a package.
    Die,
    /// A cache that several cores share, or that is a core's own, of level 2 or more.
    Cache(u8),
    /// A core of several PUs.
    Core,
    /// A PU: a hardware thread.
    Pu,
}

/// The tree of a machine's objects, the machine first and each object behind its parent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Objects(Vec<Object>);

impl Objects {
    /// The objects of the online CPUs. An object that crosses a larger one, as some machines
    /// report, has no queue.
    pub fn of(topology: &Topology) -> Self {
        let online = topology.online_cpus();
        let mut found = vec![(ObjectKind::Machine, online.clone())];
        let mut add = |kind, cpus: &CpuSet| found.push((kind, cpus.intersection(online)));
        topology.packages().iter().for_each(|package| add(ObjectKind::Package, &package.cpus));
        topology.nodes().iter().for_each(|node| add(ObjectKind::NumaNode, &node.cpus));
        topology.dies().iter().for_each(|die| add(ObjectKind::Die, &die.cpus));
        let caches = topology.caches().iter().filter(|cache| cache.level >= 2 && cache.kind != CacheKind::Instruction);
        caches.for_each(|cache| add(ObjectKind::Cache(cache.level), &cache.cpus));
        topology.cores().iter().for_each(|core| add(ObjectKind::Core, &core.cpus));
        online.iter().for_each(|cpu| add(ObjectKind::Pu, &CpuSet::single(cpu)));
        // The larger ones first, and of equal ones the outermost.
        found.sort_by_key(|(kind, cpus)| (std::cmp::Reverse(cpus.len()), *kind));
        let mut objects: Vec<Object> = Vec::new();
        for (kind, cpus) in found {
            let is_other = |other: &Object| !other.cpus.intersects(&cpus) || cpus.is_subset(&other.cpus);
            let is_new = !cpus.is_empty() && objects.iter().all(|other| other.cpus != cpus && is_other(other));
            if is_new {
                let parent = objects.iter().rposition(|other| cpus.is_subset(&other.cpus)).map(ObjectId);
                objects.push(Object { kind, cpus, parent });
            }
        }
        Self(objects)
    }

    /// All objects, with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (ObjectId, &Object)> {
        self.0.iter().enumerate().map(|(index, object)| (ObjectId(index), object))
    }

    /// An object of this machine.
    ///
    /// # Panics
    /// If the number is one of a larger machine.
    pub fn get(&self, id: ObjectId) -> &Object {
        &self.0[id.0]
    }

    /// The smallest object that covers these CPUs; `None` if they are empty or beyond the machine.
    pub fn covering(&self, cpus: &CpuSet) -> Option<ObjectId> {
        let covers = |object: &Object| cpus.is_subset(&object.cpus);
        self.0.iter().rposition(covers).filter(|_| !cpus.is_empty()).map(ObjectId)
    }

    /// The object of a PU.
    pub fn of_cpu(&self, cpu: CpuId) -> Option<ObjectId> {
        self.covering(&CpuSet::single(cpu))
    }

    /// An object and those around it, from the inside out.
    pub fn path(&self, from: ObjectId) -> impl Iterator<Item = ObjectId> {
        std::iter::successors(Some(from), |id| self.0[id.0].parent)
    }

    /// The number of steps from one object to the other, by the smallest that covers both.
    pub(crate) fn distance(&self, from: ObjectId, to: ObjectId) -> usize {
        let place = |id| self.path(to).position(|around| around == id);
        let common = self.path(from).enumerate().find_map(|(up, id)| Some(up + place(id)?));
        common.unwrap_or(usize::MAX)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

impl fmt::Display for ObjectKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Machine => f.write_str("machine"),
            Self::Package => f.write_str("package"),
            Self::NumaNode => f.write_str("NUMA node"),
            Self::Die => f.write_str("die"),
            Self::Cache(level) => write!(f, "L{level} cache"),
            Self::Core => f.write_str("core"),
            Self::Pu => f.write_str("PU"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn objects(description: &str) -> Objects {
        Objects::of(&Topology::synthetic(description, Vec::new()).unwrap())
    }

    #[test]
    fn equal_objects_are_one() {
        let objects = objects("package:2 numa:1 l3:1 core:2 pu:2");
        let kinds: Vec<_> = objects.iter().map(|(_, object)| (object.kind, object.cpus.to_string())).collect();
        assert_eq!(
            kinds[..3],
            [
                (ObjectKind::Machine, "0-7".into()),
                (ObjectKind::Package, "0-3".into()),
                (ObjectKind::Package, "4-7".into()),
            ]
        );
        assert_eq!(kinds.iter().filter(|(kind, _)| *kind == ObjectKind::Core).count(), 4);
        assert_eq!(kinds.len(), 1 + 2 + 4 + 8);
        let cpu = objects.of_cpu(CpuId(5)).unwrap();
        let path: Vec<_> = objects.path(cpu).map(|id| objects.get(id).cpus.to_string()).collect();
        assert_eq!(path, ["5", "4-5", "4-7", "0-7"]);
        assert_eq!(objects.distance(cpu, objects.of_cpu(CpuId(4)).unwrap()), 2);
        assert_eq!(objects.distance(cpu, objects.of_cpu(CpuId(0)).unwrap()), 6);
    }

    #[test]
    fn machine_of_one_cpu_has_one_object() {
        assert_eq!(objects("pu:1").len(), 1);
    }

    proptest! {
        #[test]
        fn smallest_object_covers_the_set(
            packages in 1..4u32, nodes in 1..3u32, caches in 1..4u32, cores in 1..4u32, pus in 1..3u32,
            picks in proptest::collection::vec(any::<u32>(), 1..5),
        ) {
            let text = format!("package:{packages} numa:{nodes} l3:{caches} core:{cores} pu:{pus}");
            let objects = objects(&text);
            let count = packages * nodes * caches * cores * pus;
            let cpus: CpuSet = picks.into_iter().map(|pick| CpuId(pick % count)).collect();
            let found = objects.get(objects.covering(&cpus).unwrap());
            prop_assert!(cpus.is_subset(&found.cpus));
            for (_, other) in objects.iter().filter(|(_, other)| cpus.is_subset(&other.cpus)) {
                prop_assert!(found.cpus.is_subset(&other.cpus), "{} is smaller", other.cpus);
            }
            // Each object is in its parent and is not its parent.
            for (_, object) in objects.iter().skip(1) {
                let parent = objects.get(object.parent.unwrap());
                prop_assert!(object.cpus.is_subset(&parent.cpus) && object.cpus != parent.cpus);
            }
            let outside = CpuSet::single(CpuId(count));
            prop_assert_eq!((objects.covering(&outside), objects.covering(&CpuSet::default())), (None, None));
        }
    }
}
