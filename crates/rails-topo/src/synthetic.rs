//! Described machines, in a subset of hwloc's synthetic syntax.

use crate::{
    Cache, CacheKind, Core, CpuId, CpuSet, DataSize, Die, Distances, Machine, Nic, NodeId, NumaNode, Origin, Package,
    SyntheticError, Topology,
};
use std::collections::BTreeSet;

impl Topology {
    /// The machine of that description, with these interfaces. Needs no hwloc.
    ///
    /// A description is a list of levels from the outermost to the innermost, each with its number
    /// in one of the level before: `package:2 numa:1 l3:1 core:4 pu:2` has two packages of
    /// eight PUs. Levels are `package` (or `socket`), `die`, `numa` (`node`, `numanode`), `l3`,
    /// `l2` and `l1` (`l3cache` and so on; `l1` is the data cache), `core` and `pu`, in any
    /// case of letters; `pu` is the last. PUs are numbered depth first. All are online and allowed.
    ///
    /// Nodes have 1 GiB of memory, as hwloc gives them, and are at distances 10 (themselves) and
    /// 20. Cache sizes are unknown. A level that is left out is absent: unlike hwloc, which
    /// adds a node, a description without `numa` is a machine without NUMA.
    ///
    /// # Errors
    ///
    /// [`SyntheticError`], by the fault; a machine may have at most 4,096 PUs.
    pub fn synthetic(description: &str, nics: Vec<Nic>) -> Result<Self, SyntheticError> {
        let levels = levels(description)?;
        let all: CpuSet = (0..levels.last().map_or(0, |(_, total)| *total)).map(CpuId).collect();
        let of = |level| sets(&levels, level);
        let (packages, dies) = (of(Level::Package), of(Level::Die));
        let per_package = |level| (of(level).len() / packages.len().max(1)).max(1) as u32;
        let (cores_per_package, dies_per_package) = (per_package(Level::Core), per_package(Level::Die));
        // A die that is a whole package is left out, as in the readers.
        let dies = if dies.len() == packages.len() { Vec::new() } else { dies };
        let nodes: Vec<NumaNode> = numbered(of(Level::Numa))
            .map(|(number, cpus)| NumaNode {
                memory: Some(DataSize::bytes(1 << 30)),
                ..NumaNode::of(NodeId(number), cpus)
            })
            .collect();
        let mut names = BTreeSet::new();
        if let Some(nic) = nics.iter().find(|nic| !names.insert(nic.name.as_str())) {
            return Err(SyntheticError::RepeatedNic { name: nic.name.clone() });
        }
        Ok(Self {
            origin: Origin::Synthetic { description: description.to_owned() },
            machine: Machine::default(),
            packages: numbered(packages).map(|(number, cpus)| Package { id: Some(number), cpus }).collect(),
            distances: distances(&nodes),
            allowed_nodes: nodes.iter().map(|node| node.id).collect(),
            nodes,
            caches: CACHES
                .iter()
                .flat_map(|level| of(*level).into_iter().filter_map(|cpus| cache(*level, cpus)))
                .collect(),
            cores: numbered(of(Level::Core))
                .map(|(number, cpus)| Core { id: Some(number % cores_per_package), cpus })
                .collect(),
            allowed_cpus: all.clone(),
            online_cpus: all,
            dies: numbered(dies).map(|(number, cpus)| Die { id: Some(number % dies_per_package), cpus }).collect(),
            core_kinds: Vec::new(),
            isolated_cpus: CpuSet::new(),
            nohz_full_cpus: CpuSet::new(),
            pci_devices: Vec::new(),
            nics,
            rdma_devices: Vec::new(),
            gpus: Vec::new(),
            block_devices: Vec::new(),
            overrides: Vec::new(),
        }
        .in_order())
    }
}

/// A level, ordered from the outermost that may hold it; nodes may stand anywhere above PUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Package,
    Die,
    L3,
    L2,
    L1,
    Core,
    Pu,
    Numa,
}

impl Level {
    fn name(self) -> &'static str {
        match self {
            Self::Package => "package",
            Self::Die => "die",
            Self::L3 => "l3",
            Self::L2 => "l2",
            Self::L1 => "l1",
            Self::Core => "core",
            Self::Pu => "pu",
            Self::Numa => "numa",
        }
    }

    fn named(name: &str) -> Option<Self> {
        match name.to_ascii_lowercase().as_str() {
            "package" | "socket" => Some(Self::Package),
            "die" => Some(Self::Die),
            "numa" | "node" | "numanode" => Some(Self::Numa),
            "l3" | "l3cache" => Some(Self::L3),
            "l2" | "l2cache" => Some(Self::L2),
            "l1" | "l1cache" | "l1d" | "l1dcache" => Some(Self::L1),
            "core" => Some(Self::Core),
            "pu" => Some(Self::Pu),
            _ => None,
        }
    }

    /// Whether this level can lie above `inner`; a core and its private caches may be written in
    /// either order.
    fn may_hold(self, inner: Self) -> bool {
        match (self, inner) {
            (Self::Numa, _) | (_, Self::Numa) | (Self::Core, Self::L1 | Self::L2) => true,
            _ => self < inner,
        }
    }
}

/// The levels, each with its number in the machine.
fn levels(description: &str) -> Result<Vec<(Level, u32)>, SyntheticError> {
    let mut levels: Vec<(Level, u32)> = Vec::new();
    let mut total = 1u32;
    for word in description.split_whitespace() {
        let malformed = || SyntheticError::Malformed { word: word.to_owned() };
        let (name, count) = word.split_once(':').ok_or_else(malformed)?;
        let level = Level::named(name).ok_or_else(|| SyntheticError::UnknownLevel { level: name.to_owned() })?;
        let count = count.parse::<u32>().ok().filter(|count| *count > 0).ok_or_else(malformed)?;
        for (outer, _) in &levels {
            if *outer == level {
                return Err(SyntheticError::Repeated { level: level.name() });
            }
            if !outer.may_hold(level) {
                return Err(SyntheticError::Order { inner: outer.name(), outer: level.name() });
            }
        }
        total = total
            .checked_mul(count)
            .filter(|total| *total <= MAX_PUS)
            .ok_or(SyntheticError::TooLarge { limit: MAX_PUS })?;
        if level == Level::Numa && total > MAX_NODES {
            return Err(SyntheticError::TooManyNodes { limit: MAX_NODES });
        }
        levels.push((level, total));
    }
    match levels.last() {
        Some((Level::Pu, _)) => Ok(levels),
        _ => Err(SyntheticError::NoPus),
    }
}

/// The PUs of each object of a level: ranges of equal length, since PUs are numbered depth first.
fn sets(levels: &[(Level, u32)], level: Level) -> Vec<CpuSet> {
    let total = |wanted| levels.iter().find(|(level, _)| *level == wanted).map(|(_, total)| *total);
    let (Some(objects), Some(pus)) = (total(level), total(Level::Pu)) else { return Vec::new() };
    let each = pus / objects;
    (0..objects).map(|object| (object * each..(object + 1) * each).map(CpuId).collect()).collect()
}

fn numbered(sets: Vec<CpuSet>) -> impl Iterator<Item = (u32, CpuSet)> {
    (0..).zip(sets)
}

fn cache(level: Level, cpus: CpuSet) -> Option<Cache> {
    let (level, kind) = match level {
        Level::L3 => (3, CacheKind::Unified),
        Level::L2 => (2, CacheKind::Unified),
        Level::L1 => (1, CacheKind::Data),
        _ => return None,
    };
    Some(Cache { level, kind, size: None, cpus })
}

fn distances(nodes: &[NumaNode]) -> Option<Distances> {
    let between = |from: &NumaNode, to: &NumaNode| if from.id == to.id { 10 } else { 20 };
    let values = nodes.iter().flat_map(|from| nodes.iter().map(move |to| between(from, to))).collect();
    (nodes.len() > 1).then(|| Distances { nodes: nodes.iter().map(|node| node.id).collect(), values })
}

const CACHES: [Level; 3] = [Level::L3, Level::L2, Level::L1];

/// Enough for any machine of today; a bound, so that a description cannot use unbounded memory.
const MAX_PUS: u32 = 4096;
/// The maximum of Linux (`CONFIG_NODES_SHIFT` is at most 10); memory grows with the square, for the
/// distances.
const MAX_NODES: u32 = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn description_becomes_a_machine() {
        let machine =
            Topology::synthetic("package:2 numa:1 L3Cache:1 core:4 pu:2", vec![Nic::named("b"), Nic::named("a")]);
        let machine = machine.unwrap();
        assert_eq!(machine.packages().len(), 2);
        assert_eq!(machine.nodes()[1].cpus.to_string(), "8-15");
        assert_eq!(machine.cores()[5].cpus.to_string(), "10-11");
        assert_eq!(machine.cores()[5].id, Some(1), "cores are numbered within their package");
        assert_eq!(machine.sharing_last_level_cache(CpuId(9)).unwrap().to_string(), "8-15");
        assert_eq!(machine.distances().unwrap().between(NodeId(0), NodeId(1)), Some(20));
        assert_eq!(machine.allowed_cpus().len(), 16);
        assert_eq!(machine.nics()[0].name, "a");
    }

    #[test]
    fn undescribed_objects_are_absent() {
        let machine = Topology::synthetic("pu:2", vec![]).unwrap();
        assert!(machine.packages().is_empty() && machine.nodes().is_empty() && machine.cores().is_empty());
        assert!(machine.distances().is_none() && machine.nearest_node(CpuId(0)).is_none());
    }

    #[test]
    fn errors_in_descriptions() {
        let error = |description| Topology::synthetic(description, vec![]).unwrap_err().to_string();
        assert_eq!(error("core"), "`core` is not a level with its count, such as core:4");
        assert_eq!(error("core:0 pu:1"), "`core:0` is not a level with its count, such as core:4");
        assert_eq!(error("rack:2 pu:1"), "`rack` is none of package, die, numa, l3, l2, l1, core and pu");
        assert_eq!(error("core:2 core:2 pu:1"), "the level `core` is given twice");
        assert_eq!(error("core:2 package:2 pu:1"), "the level `core` holds no `package`");
        assert_eq!(error("core:2"), "the last level must be pu, as in core:4 pu:2");
        assert_eq!(error(""), "the last level must be pu, as in core:4 pu:2");
        assert_eq!(error("core:4096 pu:2"), "more than 4096 PUs");
        assert_eq!(error("core:65536 pu:65536"), "more than 4096 PUs");
        assert_eq!(error("numa:4096 pu:1"), "more than 1024 NUMA nodes");
        let twins = vec![Nic::named("eth0"), Nic::named("eth0")];
        assert!(matches!(Topology::synthetic("pu:1", twins), Err(SyntheticError::RepeatedNic { .. })));
    }

    proptest! {
        #[test]
        fn hostile_descriptions_never_panic(text in "((package|numa|l3|core|pu|x):[0-9]{0,4} ?){0,6}|.{0,40}") {
            let _ = Topology::synthetic(&text, vec![]);
        }
    }
}
