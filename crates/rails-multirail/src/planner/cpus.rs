//! The choice of CPUs.

use super::{Nearness, RejectedCpus, occupancy::Occupancy};
use rails_topo::{CpuId, CpuSet, Interrupt, Locality, Nic, NicKind, NodeId, Topology};
use std::collections::{BTreeMap, BTreeSet};

/// The CPUs that rails may be planned on.
pub(super) struct Cpus<'a> {
    topology: &'a Topology,
    /// The CPUs by number.
    cpus: Vec<Cpu<'a>>,
    /// The numbers of these CPUs.
    ids: CpuSet,
    /// The NICs that may carry packets.
    nics: Vec<NicPlace<'a>>,
}

struct Cpu<'a> {
    id: CpuId,
    core: CpuSet,
    node: Option<NodeId>,
    cache: Option<&'a CpuSet>,
    package: Option<&'a CpuSet>,
    /// The NICs whose interrupts the CPU's core serves, by name.
    serves: Vec<&'a str>,
    /// Of the NICs beside the CPU: those whose interrupts it serves, those that are served in its
    /// core or cache, and all.
    near_nics: [usize; 3],
}

/// A NIC, the CPUs beside it as far as they are known, and the CPUs that serve its interrupts.
struct NicPlace<'a> {
    name: &'a str,
    beside: Option<CpuSet>,
    serving: CpuSet,
}

/// The criteria by which a CPU is sought.
pub(super) struct CpuQuery<'s> {
    /// The place of each of the rail's devices.
    pub(super) near: Vec<DevicePlace>,
    /// The CPUs that serve the NIC's interrupts, as far as they are known.
    pub(super) serving: CpuSet,
    /// The NICs whose interrupts these are.
    pub(super) nics: Vec<&'s str>,
    /// `None` if the CPU of the interrupts does not matter.
    pub(super) nearness: Option<Nearness>,
    /// A CPU with which a cache is to be shared.
    pub(super) beside: Option<CpuId>,
    /// The CPUs that were asked for by other rails.
    pub(super) asked_elsewhere: CpuSet,
    /// The CPUs that the rail has at present, which it keeps if no other is better.
    pub(super) present: CpuSet,
    /// The node of its memory at present, which it leaves last.
    pub(super) present_node: Option<NodeId>,
    /// The number of CPUs for tasks that the rail will need.
    pub(super) tasks: usize,
}

/// The place of a device.
#[derive(Clone)]
pub(super) struct DevicePlace {
    pub(super) device: String,
    /// The CPUs beside it; `None` is unknown.
    pub(super) cpus: Option<CpuSet>,
}

/// A CPU with its rank; the lowest is the best.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Candidate {
    /// The number of devices that the CPU is not beside.
    pub(super) far: usize,
    /// The sum of the distances of the CPU's node from the nodes of these devices.
    pub(super) distance: u64,
    pub(super) rails_on_cpu: usize,
    pub(super) rails_on_core: usize,
    /// 2 if another rail asks for the CPU, 1 if one asks for another hardware thread of its core.
    asked_elsewhere: u8,
    from_interrupt_rank: u8,
    shares_no_cache: bool,
    /// The number of other NICs whose interrupts the CPU's core serves.
    pub(super) other_nics: usize,
    /// 0 for the rail's present CPU, 1 for another one of its present node.
    elsewhere: u8,
    /// Whether the CPU's node has too few free cores for the rail's tasks.
    lacks_room: bool,
    /// Of the other NICs beside the CPU: those whose interrupts it serves, those served in its core
    /// or cache, and all.
    near_others: [usize; 3],
    pub(super) cpu: CpuId,
    pub(super) from_interrupt: FromInterrupt,
    /// Whether the CPUs that share a cache with this one are known.
    pub(super) is_cache_known: bool,
}

/// A CPU, seen from the CPUs that serve a NIC's interrupts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FromInterrupt {
    Serves,
    /// Another hardware thread of the core serves them.
    Sibling,
    SharesCache,
    SamePackage,
    Apart,
    Unknown,
}

impl<'a> Cpus<'a> {
    /// The allowed CPUs on whose cores nothing is claimed.
    pub(super) fn of(locality: &Locality<'a>, claimed: &CpuSet) -> Self {
        let topology = locality.topology();
        let mut serves: BTreeMap<CpuId, Vec<&str>> = BTreeMap::new();
        for nic in topology.nics() {
            serving_cpus(nic).iter().for_each(|cpu| serves.entry(cpu).or_default().push(&nic.name));
        }
        let is_used = |nic: &&Nic| nic.kind == NicKind::Device && nic.hidden.is_none() && nic.up != Some(false);
        let place =
            |nic: &'a Nic| NicPlace { name: &nic.name, beside: locality.cpus_beside(nic), serving: serving_cpus(nic) };
        let nics: Vec<NicPlace<'_>> = topology.nics().iter().filter(is_used).map(place).collect();
        let cpu = |id: CpuId| {
            let core = core_around(topology, id);
            let mut served: Vec<&str> = core.iter().filter_map(|cpu| serves.get(&cpu)).flatten().copied().collect();
            served.sort_unstable();
            served.dedup();
            let mut cpu = Cpu {
                id,
                core,
                node: topology.node_of_cpu(id).map(|node| node.id),
                cache: topology.sharing_last_level_cache(id),
                near_nics: [0; 3],
                package: topology.package_of_cpu(id).map(|package| &package.cpus),
                serves: served,
            };
            cpu.near_nics = cpu.near(&nics);
            cpu
        };
        let is_free = |cpu: &Cpu<'_>| !cpu.core.intersects(claimed);
        let cpus: Vec<Cpu<'_>> = topology.allowed_cpus().iter().map(cpu).filter(is_free).collect();
        let ids = cpus.iter().map(|cpu| cpu.id).collect();
        Self { topology, cpus, ids, nics }
    }

    /// Whether a rail may be planned on the CPU, since nothing is claimed on its core.
    pub(super) fn has(&self, id: CpuId) -> bool {
        self.ids.contains(id)
    }

    pub(super) fn len(&self) -> usize {
        self.cpus.len()
    }

    /// The number of cores of these CPUs.
    pub(super) fn cores(&self) -> usize {
        self.cpus.iter().map(|cpu| cpu.core.first()).collect::<BTreeSet<_>>().len()
    }

    /// The candidates among `within`, or among all; if `exclusive`, those on cores without a rail.
    pub(super) fn candidates(
        &self,
        sought: &CpuQuery<'_>,
        within: Option<&CpuSet>,
        exclusive: bool,
        occupancy: &Occupancy,
    ) -> Vec<Candidate> {
        let search = Search {
            sought,
            occupancy,
            own: self.nics.iter().filter(|nic| sought.nics.contains(&nic.name)).collect(),
            distances: sought.near.iter().map(|place| self.distances(place)).collect(),
            room: self.room(sought.tasks, occupancy),
        };
        let cpus = self.cpus.iter().filter(|cpu| within.is_none_or(|within| within.contains(cpu.id)));
        let is_free = |cpu: &&Cpu<'_>| !exclusive || occupancy.rails_on_core(&cpu.core) == 0;
        cpus.filter(is_free).map(|cpu| self.candidate(cpu, &search)).collect()
    }

    /// The number of free cores of each node beyond those that the rails on it will need, if that
    /// matters.
    fn room(&self, tasks: usize, occupancy: &Occupancy) -> BTreeMap<Option<NodeId>, usize> {
        if tasks == 0 {
            return BTreeMap::new();
        }
        let free = self.cpus.iter().filter(|cpu| occupancy.rails_on_core(&cpu.core) == 0);
        let free: BTreeSet<_> = free.map(|cpu| (cpu.node, cpu.core.first())).collect();
        let mut room = BTreeMap::new();
        free.into_iter().for_each(|(node, _)| *room.entry(node).or_default() += 1);
        for (cpu, tasks) in occupancy.expected_tasks() {
            let node = self.topology.node_of_cpu(cpu).map(|node| node.id);
            room.entry(node).and_modify(|free: &mut usize| *free = free.saturating_sub(tasks));
        }
        room
    }

    /// The distance of each node from the nearest node of a place; the largest number if it is
    /// unknown.
    fn distances(&self, from: &DevicePlace) -> Vec<(NodeId, u64)> {
        let Some(from) = &from.cpus else { return Vec::new() };
        let nodes = self.topology.nodes();
        let from: Vec<NodeId> = nodes.iter().filter(|node| node.cpus.intersects(from)).map(|node| node.id).collect();
        let between = |to| from.iter().filter_map(move |node| self.topology.distances()?.between(*node, to)).min();
        nodes.iter().map(|node| (node.id, between(node.id).unwrap_or(u64::MAX))).collect()
    }

    fn candidate(&self, cpu: &Cpu<'_>, search: &Search<'_>) -> Candidate {
        let sought = search.sought;
        let rails_on_core = search.occupancy.rails_on_core(&cpu.core);
        let own = usize::from(rails_on_core == 0);
        let room = search.room.get(&cpu.node).map_or(0, |free| free.saturating_sub(own));
        let from_interrupt = cpu.beside_interrupt(&sought.serving);
        let shares = |other: CpuId| cpu.cache.is_none_or(|cache| cache.contains(other));
        let own_nics = cpu.near(search.own.iter().copied());
        let other_nics = cpu.serves.iter().filter(|name| !sought.nics.contains(name)).count();
        let far = sought.near.iter().zip(&search.distances);
        let far = far.filter(|(place, _)| place.cpus.as_ref().is_some_and(|near| !near.contains(cpu.id)));
        let to_cpu = |(node, _): &&(NodeId, u64)| Some(*node) == cpu.node;
        let distance = |distances: &[(NodeId, u64)]| distances.iter().find(to_cpu).map_or(u64::MAX, |(_, far)| *far);
        Candidate {
            distance: far.clone().map(|(_, distances)| distance(distances)).fold(0, u64::saturating_add),
            far: far.count(),
            rails_on_cpu: search.occupancy.rails_on(cpu.id),
            rails_on_core,
            asked_elsewhere: match &sought.asked_elsewhere {
                asked if asked.contains(cpu.id) => 2,
                asked => u8::from(asked.intersects(&cpu.core)),
            },
            from_interrupt_rank: sought.nearness.map_or(0, |nearness| from_interrupt.rank(nearness, other_nics > 0)),
            shares_no_cache: sought.beside.is_some_and(|other| !shares(other)),
            other_nics,
            elsewhere: match sought.present_node {
                _ if sought.present.contains(cpu.id) => 0,
                Some(node) if self.topology.node_of_cpu(cpu.id).is_some_and(|own| own.id == node) => 1,
                _ => 2,
            },
            lacks_room: room < sought.tasks,
            near_others: std::array::from_fn(|index| cpu.near_nics[index] - own_nics[index]),
            cpu: cpu.id,
            from_interrupt,
            is_cache_known: cpu.cache.is_some(),
        }
    }

    /// The CPUs of the core of one.
    pub(super) fn core_of(&self, id: CpuId) -> CpuSet {
        let known = self.cpus.binary_search_by_key(&id, |cpu| cpu.id).ok().map(|index| &self.cpus[index]);
        known.map_or_else(|| CpuSet::single(id), |cpu| cpu.core.clone())
    }
}

/// A search for a CPU, with the figures that are the same for all candidates.
struct Search<'s> {
    sought: &'s CpuQuery<'s>,
    occupancy: &'s Occupancy,
    /// The NICs of the rail.
    own: Vec<&'s NicPlace<'s>>,
    /// The distances of the nodes from each of the rail's places.
    distances: Vec<Vec<(NodeId, u64)>>,
    /// The free cores of each node.
    room: BTreeMap<Option<NodeId>, usize>,
}

impl Cpu<'_> {
    /// The numbers of NICs beside the CPU: those whose interrupts it serves, those served in its
    /// core or cache, and all. A NIC of unknown place is beside every CPU.
    fn near<'n>(&self, nics: impl IntoIterator<Item = &'n NicPlace<'n>>) -> [usize; 3] {
        let mut near = [0; 3];
        for NicPlace { beside, serving, .. } in nics {
            if beside.as_ref().is_none_or(|beside| beside.contains(self.id)) {
                let shares = self.cache.unwrap_or(&self.core).intersects(serving) || self.core.intersects(serving);
                near[0] += usize::from(serving.contains(self.id));
                near[1] += usize::from(shares);
                near[2] += 1;
            }
        }
        near
    }

    fn beside_interrupt(&self, serving: &CpuSet) -> FromInterrupt {
        let intersects = |cpus: Option<&CpuSet>| cpus.is_some_and(|cpus| cpus.intersects(serving));
        if serving.is_empty() {
            FromInterrupt::Unknown
        } else if serving.contains(self.id) {
            FromInterrupt::Serves
        } else if self.core.intersects(serving) {
            FromInterrupt::Sibling
        } else if intersects(self.cache) {
            FromInterrupt::SharesCache
        } else if intersects(self.package) {
            FromInterrupt::SamePackage
        } else {
            FromInterrupt::Apart
        }
    }
}

impl FromInterrupt {
    /// The rank of a CPU in this place; 0 is the best. A core that serves interrupts of other NICs
    /// is no good neighbour.
    fn rank(self, nearness: Nearness, serves_others: bool) -> u8 {
        match (nearness, self) {
            (_, Self::Unknown) => 0,
            (Nearness::Package, Self::Apart) => 1,
            (Nearness::Package, _) => 0,
            (Nearness::SameCpu, Self::Serves) => 0,
            (Nearness::SameCpu, Self::SharesCache) if !serves_others => 1,
            (Nearness::SharedCache, Self::SharesCache) if !serves_others => 0,
            (Nearness::SharedCache, Self::Serves) => 1,
            (_, Self::SharesCache) => 2,
            (_, Self::Sibling) => 3,
            (_, Self::SamePackage) => 4,
            (_, Self::Apart) => 5,
        }
    }

    /// Whether a thread there is thread affine: it shares at least a cache with a CPU that serves
    /// the interrupts.
    pub(super) fn is_affine(self) -> bool {
        matches!(self, Self::Serves | Self::Sibling | Self::SharesCache)
    }
}

/// The CPUs of the core of one. Cores that overlap, which only a false model has, are one.
pub(super) fn core_around(topology: &Topology, id: CpuId) -> CpuSet {
    let mut around = CpuSet::single(id);
    while let Some(core) =
        topology.cores().iter().map(|core| &core.cpus).find(|cpus| cpus.intersects(&around) && !cpus.is_subset(&around))
    {
        around = around.union(core);
    }
    around
}

/// The rank of a rail's CPUs, its lane's first, if it asks for some; the lowest is the best.
///
/// Rails that move to lower ranks only, one at a time, come to rest: of all that is summed here,
/// only the number of rails beside depends on other rails, and a rail that moves to where that
/// number is smaller by n takes n pairs from the machine's total.
pub(super) fn place_rank(chosen: &[Candidate], asked: Option<&CpuSet>) -> impl Ord + use<> {
    let (lane, tasks) = chosen.split_at(1.min(chosen.len()));
    let far = |cpus: &[Candidate]| -> (usize, u128) {
        (cpus.iter().map(|cpu| cpu.far).sum(), cpus.iter().map(|cpu| u128::from(cpu.distance)).sum())
    };
    let rest = |cpus: &[Candidate]| -> [usize; 4] {
        cpus.iter().fold([0; 4], |sum, cpu| {
            let own = [
                usize::from(cpu.asked_elsewhere),
                usize::from(cpu.from_interrupt_rank),
                usize::from(cpu.shares_no_cache),
                cpu.other_nics,
            ];
            std::array::from_fn(|index| sum[index] + own[index])
        })
    };
    let not_asked = tasks.iter().filter(|cpu| asked.is_some_and(|asked| !asked.contains(cpu.cpu))).count();
    let on_cpus: usize = chosen.iter().map(|cpu| cpu.rails_on_cpu).sum();
    let on_cores: usize = chosen.iter().map(|cpu| cpu.rails_on_core).sum();
    (far(lane), not_asked, far(tasks), on_cpus, on_cores, rest(lane), rest(tasks))
}

/// The CPUs that `best` won against, by the first criterion in which each is worse.
pub(super) fn rejected(best: &Candidate, candidates: &[Candidate]) -> impl Iterator<Item = RejectedCpus> + use<> {
    let shares = |candidate: &Candidate| candidate.from_interrupt.is_affine();
    let mut by_reason: Vec<(&str, CpuSet)> = Vec::new();
    for other in candidates.iter().filter(|other| other.cpu != best.cpu) {
        let reason = if other < best {
            "better for the lane, and not for its tasks too"
        } else if (other.far, other.distance) != (best.far, best.distance) {
            "farther from the rail's devices"
        } else if other.rails_on_cpu != best.rails_on_cpu {
            "another rail runs on it"
        } else if other.rails_on_core != best.rails_on_core {
            "another rail runs on its core"
        } else if other.asked_elsewhere != best.asked_elsewhere {
            "another rail asks for it, or for its core"
        } else if other.from_interrupt_rank != best.from_interrupt_rank {
            match other.from_interrupt {
                FromInterrupt::Serves => "serves the NIC's interrupts, which need its time",
                FromInterrupt::Sibling => "a hardware thread beside the one that serves the NIC's interrupts",
                FromInterrupt::SharesCache if other.other_nics > 0 => "serves interrupts of other NICs",
                FromInterrupt::SharesCache => "serves none of the NIC's interrupts",
                FromInterrupt::Apart if best.from_interrupt != FromInterrupt::Apart && !shares(best) => {
                    "in no package with a CPU that serves the NIC's interrupts"
                }
                _ if !other.is_cache_known => "not known to share a cache with a CPU that serves the NIC's interrupts",
                _ => "shares no cache with a CPU that serves the NIC's interrupts",
            }
        } else if other.other_nics != best.other_nics {
            "serves interrupts of other NICs"
        } else if other.elsewhere != best.elsewhere {
            "as good, and farther from the present place"
        } else if other.lacks_room != best.lacks_room {
            "as good, and too few cores of its node are free for the rail's tasks"
        } else if other.near_others != best.near_others {
            "as good, and of more use to other NICs"
        } else {
            "as good, with a higher number"
        };
        match by_reason.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, cpus)) => cpus.insert(other.cpu),
            None => by_reason.push((reason, CpuSet::single(other.cpu))),
        }
    }
    by_reason.sort_unstable_by_key(|(reason, _)| *reason);
    by_reason.into_iter().map(|(reason, cpus)| RejectedCpus { cpus, reason: reason.to_owned() })
}

/// The CPUs that serve the NIC's interrupts, as far as they are known. An interrupt that was moved
/// to one CPU goes there when it next fires.
pub(super) fn serving_cpus(nic: &Nic) -> CpuSet {
    let serving = |interrupt: &Interrupt| {
        let effective = interrupt.effective.clone()?;
        let moved = interrupt.affinity.clone().filter(|to| to.len() == 1 && !to.intersects(&effective));
        Some(moved.unwrap_or(effective))
    };
    nic.interrupts.iter().filter_map(serving).fold(CpuSet::new(), |all, cpus| all.union(&cpus))
}
