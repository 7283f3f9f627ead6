//! Packages, dies, nodes and shared caches as a tree of objects, with each core in the smallest
//! object that holds it.

use super::phrases;
use crate::{Cache, Core, CpuId, CpuSet, Die, NumaNode, Package, Topology};
use std::{cmp::Reverse, collections::BTreeMap};

/// The objects of a machine, the outermost first.
pub(super) struct ObjectTree<'a> {
    /// The objects that no other object holds, in the order of first PUs; memory without processors
    /// comes last.
    pub(super) outermost: Vec<Object<'a>>,
    /// The cores that no object holds.
    pub(super) cores: Vec<&'a Core>,
    /// Online PUs of unknown cores.
    pub(super) loose: CpuSet,
    private: BTreeMap<CpuId, Vec<&'a Cache>>,
}

/// An object that holds PUs.
pub(super) struct Object<'a> {
    pub(super) object_type: ObjectType<'a>,
    pub(super) cpus: &'a CpuSet,
    /// The objects right below, in the order of first PUs.
    pub(super) inner: Vec<Object<'a>>,
    /// The cores that none of the inner objects holds.
    pub(super) cores: Vec<&'a Core>,
}

/// The type of an object.
pub(super) enum ObjectType<'a> {
    Package(&'a Package),
    Die(&'a Die),
    Node(&'a NumaNode),
    /// Caches that the same PUs of several cores share, the last level first.
    Caches(Vec<&'a Cache>),
}

impl<'a> ObjectTree<'a> {
    pub(super) fn of(topology: &'a Topology) -> Self {
        let (shared, private) = caches(topology);
        let flat = flat(topology, shared);
        let mut outer: Vec<Option<usize>> = Vec::with_capacity(flat.len());
        let mut depths: Vec<usize> = Vec::with_capacity(flat.len());
        for (index, object) in flat.iter().enumerate() {
            let mut holder = (0..index).rev().find(|&above| holds(&flat[above], object));
            while let Some(above) = holder.filter(|&above| depths[above] + 1 >= DEEPEST) {
                holder = outer[above];
            }
            outer.push(holder);
            depths.push(holder.map_or(0, |above| depths[above] + 1));
        }
        let mut cores: Vec<Vec<&Core>> = flat.iter().map(|_| Vec::new()).collect();
        let (mut without_object, mut in_cores) = (Vec::new(), CpuSet::new());
        for core in topology.cores() {
            in_cores = in_cores.union(&core.cpus);
            match flat.iter().rposition(|object| is_in(&core.cpus, object.cpus)) {
                Some(object) => cores[object].push(core),
                None => without_object.push(core),
            }
        }
        let loose = topology.online_cpus().difference(&in_cores);
        Self { outermost: nest(flat, &outer, cores), cores: without_object, loose, private }
    }

    /// The cores in groups of equal PU counts and equal private caches, in the order of their first
    /// cores.
    pub(super) fn groups<'c>(&self, cores: &[&'c Core]) -> Vec<Vec<&'c Core>> {
        let mut groups: Vec<Vec<&Core>> = Vec::new();
        let mut known = BTreeMap::new();
        for core in cores {
            let caches = phrases::private_caches(self.private(core));
            let group = *known.entry((core.cpus.len(), core.id.is_some(), caches)).or_insert(groups.len());
            match groups.get_mut(group) {
                Some(group) => group.push(core),
                None => groups.push(vec![core]),
            }
        }
        groups
    }

    /// The private caches of this core, the last level first.
    pub(super) fn private(&self, core: &Core) -> &[&'a Cache] {
        core.cpus.first().and_then(|cpu| self.private.get(&cpu)).map_or(&[], Vec::as_slice)
    }
}

/// Caches in groups of equal PUs.
type Groups<'a> = BTreeMap<Vec<u64>, Vec<&'a Cache>>;

/// The caches that several cores share, and those of single cores by the first PU of their core.
fn caches(topology: &Topology) -> (Groups<'_>, BTreeMap<CpuId, Vec<&Cache>>) {
    let owners: BTreeMap<CpuId, &Core> =
        topology.cores().iter().flat_map(|core| core.cpus.iter().map(move |cpu| (cpu, core))).collect();
    let (mut shared, mut private) = (Groups::new(), BTreeMap::<CpuId, Vec<&Cache>>::new());
    for cache in topology.caches().iter().rev() {
        let Some(first) = cache.cpus.first() else { continue };
        match owners.get(&first).filter(|core| cache.cpus.is_subset(&core.cpus)) {
            Some(core) => private.entry(core.cpus.first().unwrap_or(first)).or_default().push(cache),
            None => shared.entry(cache.cpus.as_words().to_vec()).or_default().push(cache),
        }
    }
    (shared, private)
}

/// All objects from the largest to the smallest, so that each comes before the objects in it.
fn flat<'a>(topology: &'a Topology, shared: Groups<'a>) -> Vec<Object<'a>> {
    let object = |object_type, cpus| Object { object_type, cpus, inner: Vec::new(), cores: Vec::new() };
    let packages = topology.packages().iter().map(|package| object(ObjectType::Package(package), &package.cpus));
    let dies = topology.dies().iter().map(|die| object(ObjectType::Die(die), &die.cpus));
    let nodes = topology.nodes().iter().map(|node| object(ObjectType::Node(node), &node.cpus));
    let caches = shared.into_values().map(|group| {
        let cpus = &group[0].cpus;
        object(ObjectType::Caches(group), cpus)
    });
    let mut flat: Vec<Object<'_>> = packages.chain(dies).chain(nodes).chain(caches).collect();
    flat.sort_by_key(|object| (Reverse(object.cpus.len()), object.object_type.rank()));
    flat
}

/// Whether one object lies in another; of two with the same PUs the one of the higher rank holds
/// the other.
fn holds(outer: &Object<'_>, inner: &Object<'_>) -> bool {
    is_in(inner.cpus, outer.cpus) && (inner.cpus != outer.cpus || outer.object_type.rank() < inner.object_type.rank())
}

/// Whether the set is not empty and lies within the other one; mostly the first PU decides.
fn is_in(cpus: &CpuSet, outer: &CpuSet) -> bool {
    cpus.first().is_some_and(|first| outer.contains(first)) && cpus.is_subset(outer)
}

/// Puts every object into its holder. Holders come before the objects in them, so the last one is
/// always complete.
fn nest<'a>(flat: Vec<Object<'a>>, outer: &[Option<usize>], mut cores: Vec<Vec<&'a Core>>) -> Vec<Object<'a>> {
    let mut inner: Vec<Vec<Object<'a>>> = flat.iter().map(|_| Vec::new()).collect();
    let mut outermost = Vec::new();
    for (index, mut object) in flat.into_iter().enumerate().rev() {
        object.inner = in_order(std::mem::take(&mut inner[index]));
        object.cores = std::mem::take(&mut cores[index]);
        match outer[index] {
            Some(above) => inner[above].push(object),
            None => outermost.push(object),
        }
    }
    in_order(outermost)
}

fn in_order(mut objects: Vec<Object<'_>>) -> Vec<Object<'_>> {
    // `nest` finds objects in the reverse of their order.
    objects.reverse();
    objects.sort_by_key(|object| (object.cpus.is_empty(), object.cpus.first()));
    objects
}

impl ObjectType<'_> {
    /// The name of an object, and its facts.
    pub(super) fn in_words(&self) -> (String, Vec<String>) {
        let number = |id: Option<u32>| id.map_or("of unknown number".to_owned(), |id| id.to_string());
        match self {
            Self::Package(package) => (format!("package {}", number(package.id)), Vec::new()),
            Self::Die(die) => (format!("die {}", number(die.id)), Vec::new()),
            Self::Node(node) => (format!("node {}", node.id), phrases::memory(node)),
            Self::Caches(caches) => {
                let mut caches = caches.iter().map(|one| phrases::cache(one));
                (caches.next().unwrap_or_default(), caches.collect())
            }
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Package(_) => 0,
            Self::Die(_) => 1,
            Self::Node(_) => 2,
            Self::Caches(_) => 3,
        }
    }
}

/// Machines nest about five objects. A model may come from a hostile file, and the walks of the
/// tree are recursive.
const DEEPEST: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CacheKind, NodeId};

    #[test]
    fn objects_nest_by_their_cpus() {
        let mut machine = Topology::synthetic("package:2 numa:1 l3:2 core:2 l2:1 pu:2", vec![]).unwrap();
        machine.nodes.push(NumaNode::of(NodeId(2), CpuSet::new()));
        machine.dies = machine.packages.iter().map(|package| Die { id: None, cpus: package.cpus.clone() }).collect();
        let tree = ObjectTree::of(&machine);
        assert_eq!(tree.outermost.len(), 3);
        assert!(
            matches!(tree.outermost[2].object_type, ObjectType::Node(node) if node.id == NodeId(2)),
            "it has no CPUs"
        );
        let package = &tree.outermost[1];
        assert!(matches!(package.object_type, ObjectType::Package(_)));
        let die = &package.inner[0];
        let node = &die.inner[0];
        assert!(matches!((&die.object_type, &node.object_type), (ObjectType::Die(_), ObjectType::Node(_))));
        let caches: Vec<String> = node.inner.iter().map(|cache| cache.cpus.to_string()).collect();
        assert_eq!(caches, ["8-11", "12-15"]);
        assert_eq!(node.inner[1].cores.len(), 2);
        assert_eq!(tree.private(node.inner[1].cores[0])[0].level, 2);
    }

    #[test]
    fn hundreds_of_nested_objects_are_no_deep_tree() {
        let mut machine = Topology::synthetic("package:1 core:300 pu:1", vec![]).unwrap();
        let cpus = |last: u32| (0..=last).map(CpuId).collect();
        let cache = |last| Cache { level: 3, kind: CacheKind::Unified, size: None, cpus: cpus(last) };
        machine.caches = (1..299).map(cache).collect();
        fn depth(object: &Object<'_>) -> usize {
            1 + object.inner.iter().map(depth).max().unwrap_or(0)
        }
        let tree = ObjectTree::of(&machine);
        assert_eq!(tree.outermost.iter().map(depth).max(), Some(DEEPEST));
    }
}
