//! The CPUs and the memory of a program beside rails: a pure function of the machine and the plan.

use rails_bind::memory::MemoryPolicy;
use rails_multirail::{
    RailPlan,
    planner::{BindingKind, PlannedRail},
};
use rails_topo::{CpuSet, Nic, NicKind, NodeSet, Topology};
use std::collections::BTreeSet;

/// The CPUs and the nodes of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) cpus: CpuSet,
    /// The nodes nearest to the CPUs; empty on a machine without nodes.
    pub(super) nodes: NodeSet,
}

/// The CPUs beside NICs, as far as a program may use them.
#[derive(Debug)]
pub(super) struct Surroundings<'t> {
    topology: &'t Topology,
    /// The allowed CPUs that nobody else has claimed.
    usable: CpuSet,
}

impl<'t> Surroundings<'t> {
    /// The machine without these CPUs, which others have for themselves. Where no others are left,
    /// the program shares them.
    pub(super) fn new(topology: &'t Topology, claimed: &CpuSet) -> Self {
        let free = topology.allowed_cpus().difference(claimed);
        let usable = if free.is_empty() { topology.allowed_cpus().clone() } else { free };
        Self { topology, usable }
    }

    pub(super) fn topology(&self) -> &'t Topology {
        self.topology
    }

    /// The usable CPUs beside an interface: for one on top of others, those beside each device.
    /// `None` is unknown.
    pub(super) fn beside(&self, name: &str) -> Option<CpuSet> {
        let nic = self.topology.nic(name)?;
        let beside = |nic: &Nic| nic.locality(self.topology);
        let devices = devices(self.topology, nic);
        let cpus = match devices.is_empty() {
            true => beside(nic)?,
            false => devices.into_iter().filter_map(beside).reduce(|a, b| a.union(&b))?,
        };
        Some(cpus.intersection(&self.usable)).filter(|cpus| !cpus.is_empty())
    }

    /// The place beside all of these interfaces; `None` if one of them is unknown.
    pub(super) fn beside_all(&self, names: &BTreeSet<String>) -> Option<Place> {
        let sets = names.iter().map(|name| self.beside(name)).collect::<Option<Vec<_>>>()?;
        let cpus = sets.into_iter().reduce(|a, b| a.union(&b))?;
        Some(Place { nodes: self.nodes_of(&cpus), cpus })
    }

    /// The place of a program on the rails of a plan; `None` if the rails bind nothing. A rail that
    /// shares its cores gives all CPUs beside its NIC, unless `cores` are counted: a program has
    /// more threads than a rail.
    pub(super) fn of_rails(&self, plan: &RailPlan, counts_cores: bool) -> Option<Place> {
        let bound = plan.rails.iter().filter(|rail| rail.binding.is_bound());
        let places: Vec<Place> = bound.map(|rail| self.of_rail(rail, counts_cores)).collect();
        places.into_iter().reduce(|a, b| Place { cpus: a.cpus.union(&b.cpus), nodes: a.nodes.union(&b.nodes) })
    }

    fn of_rail(&self, rail: &PlannedRail, counts_cores: bool) -> Place {
        let (stated, node) = match &rail.binding.kind {
            BindingKind::Explicit { cpus, node } => (cpus.clone(), *node),
            BindingKind::Affine | BindingKind::Default => (None, None),
        };
        let stated = stated.map(|cpus| cpus.intersection(&self.usable)).filter(|cpus| !cpus.is_empty());
        let beside = || {
            let name = rail.interface.as_deref().filter(|_| !counts_cores)?;
            // The rails of the loopback interface are cores.
            let nic = self.topology.nic(name).filter(|nic| nic.kind != NicKind::Loopback)?;
            self.beside(&nic.name)
        };
        let cpus = match (rail.exclusive_cpus.is_empty(), stated) {
            (false, _) => rail.exclusive_cpus.clone(),
            (true, Some(stated)) => stated,
            (true, None) => beside().unwrap_or_else(|| rail.cpus()),
        };
        let nodes = match node {
            Some(node) => NodeSet::single(node),
            None => self.nodes_of(&cpus),
        };
        Place { cpus, nodes }
    }

    /// The nodes that these CPUs take memory from at the lowest distance.
    fn nodes_of(&self, cpus: &CpuSet) -> NodeSet {
        cpus.iter().filter_map(|cpu| self.topology.nearest_node(cpu)).collect()
    }

    /// The memory policies that suit a program on these nodes, the best first; none on a machine
    /// without nodes. A program that may move along with its traffic has the nodes of all NICs:
    /// with several nodes to prefer, the kernel takes each page from the nearest of them, and
    /// nobody can give a running program another policy.
    pub(super) fn policies(&self, place: &Place, follows: bool) -> Vec<MemoryPolicy> {
        let mut nodes = place.nodes.clone();
        if follows {
            let nics = self.topology.nics().iter().filter(|nic| nic.kind == NicKind::Device && nic.up != Some(false));
            let beside = nics.filter_map(|nic| self.beside(&nic.name));
            nodes = beside.fold(nodes, |nodes, cpus| nodes.union(&self.nodes_of(&cpus)));
        }
        match (nodes.first(), nodes.len()) {
            (None, _) => Vec::new(),
            (Some(only), 1) => vec![MemoryPolicy::Preferred(only)],
            // Linux before 5.15 knows no several nodes to prefer.
            _ => vec![MemoryPolicy::PreferredMany(nodes.clone()), MemoryPolicy::Interleave(nodes)],
        }
    }
}

/// Whether no device is under any of the plan's interfaces, as in a container: all are made in
/// software.
pub(super) fn is_beside_nothing(topology: &Topology, plan: &RailPlan) -> bool {
    let in_software = |name: &str| {
        topology.nic(name).is_some_and(|nic| nic.kind == NicKind::Virtual && devices(topology, nic).is_empty())
    };
    plan.rails.iter().all(|rail| rail.interface.as_deref().is_some_and(in_software))
}

/// The devices under an interface, which may be the interface itself.
pub(super) fn devices<'t>(topology: &'t Topology, nic: &'t Nic) -> Vec<&'t Nic> {
    topology.lanes_of(nic).devices
}

#[cfg(test)]
mod tests {
    use super::*;
    use rails_multirail::{RailRequest, plan_rails};
    use rails_topo::{InterfaceAddress, NodeId};

    /// Two packages of four CPUs, each a node with a NIC; `bond0` is on top of both.
    fn machine() -> Topology {
        let nic = |name: &str, node: u32, host: u8| Nic {
            node: Some(NodeId(node)),
            up: Some(true),
            addresses: vec![InterfaceAddress { ip: [10, 0, host, 1].into(), prefix_len: 24 }],
            ..Nic::named(name)
        };
        let bond =
            Nic { kind: NicKind::Virtual, lowers: vec!["eth0".to_owned(), "eth1".to_owned()], ..Nic::named("bond0") };
        Topology::synthetic("package:2 numa:1 l3:1 core:4 pu:1", vec![nic("eth0", 0, 0), nic("eth1", 1, 1), bond])
            .unwrap()
    }

    fn set(text: &str) -> CpuSet {
        text.parse().unwrap()
    }

    fn place(cpus: &str, nodes: &str) -> Place {
        Place { cpus: set(cpus), nodes: nodes.parse().unwrap() }
    }

    fn of_rails(machine: &Topology, rails: &str, claimed: &str, cores: Option<usize>) -> Option<Place> {
        let mut request: RailRequest = rails.parse().unwrap();
        request.cores = cores.unwrap_or(1);
        let plan = plan_rails(machine, &request).unwrap();
        Surroundings::new(machine, &set(claimed)).of_rails(&plan, cores.is_some())
    }

    #[test]
    fn a_program_has_all_cores_beside_its_nics() {
        let machine = machine();
        assert_eq!(of_rails(&machine, "eth0", "", None), Some(place("0-3", "0")));
        assert_eq!(of_rails(&machine, "auto", "", None), Some(place("0-7", "0-1")));
        assert_eq!(of_rails(&machine, "eth1", "4-5", None), Some(place("6-7", "1")));
        assert_eq!(of_rails(&machine, "eth1", "", Some(2)).unwrap().cpus.len(), 2);
    }

    #[test]
    fn unbound_rails_bind_nothing_and_stated_places_stay() {
        let machine = machine();
        assert_eq!(of_rails(&machine, "eth0@5-6/0", "", None), Some(place("5-6", "0")));
        assert_eq!(of_rails(&machine, "eth0@default", "", None), None);
        assert_eq!(of_rails(&machine, "eth0@default,eth1", "", None), Some(place("4-7", "1")));
    }

    #[test]
    fn exclusive_cores_alone() {
        let machine = machine();
        let mut request: RailRequest = "eth0".parse().unwrap();
        request.exclusive = true;
        let plan = plan_rails(&machine, &request).unwrap();
        let found = Surroundings::new(&machine, &CpuSet::new()).of_rails(&plan, true).unwrap();
        assert_eq!((&found.cpus, found.cpus.len()), (&plan.rails[0].exclusive_cpus, 1));
    }

    #[test]
    fn containers_interfaces_are_beside_nothing() {
        let machine = machine();
        let auto = |machine: &Topology| plan_rails(machine, &RailRequest::auto()).unwrap();
        assert!(!is_beside_nothing(&machine, &auto(&machine)));
        let held = machine.nics().iter().find(|nic| nic.name == "eth0").unwrap().addresses.clone();
        let without = |name: &str| Nic { up: Some(true), ..Nic::named(name) };
        let made = |name: &str, lowers: Vec<String>| Nic {
            kind: NicKind::Virtual,
            lowers,
            addresses: held.clone(),
            ..without(name)
        };
        let container = Topology::synthetic("core:2 pu:1", vec![made("veth0", Vec::new())]).unwrap();
        assert!(is_beside_nothing(&container, &auto(&container)));
        let bridge = vec![without("eth0"), made("br0", vec!["eth0".to_owned()])];
        let bridged = Topology::synthetic("core:2 pu:1", bridge).unwrap();
        assert!(!is_beside_nothing(&bridged, &auto(&bridged)));
    }

    #[test]
    fn interfaces_on_top_of_others_are_beside_all_devices() {
        let machine = machine();
        let around = Surroundings::new(&machine, &CpuSet::new());
        assert_eq!(around.beside("bond0"), Some(set("0-7")));
        assert_eq!(around.beside("eth1"), Some(set("4-7")));
        assert_eq!(around.beside("eth9"), None);
        let both = BTreeSet::from(["eth0".to_owned(), "eth1".to_owned()]);
        assert_eq!(around.beside_all(&both), Some(place("0-7", "0-1")));
    }

    #[test]
    fn memory_is_near_wherever_the_program_may_go() {
        let machine = machine();
        let around = Surroundings::new(&machine, &CpuSet::new());
        let here = place("0-3", "0");
        assert_eq!(around.policies(&here, false), [MemoryPolicy::Preferred(NodeId(0))]);
        let both: NodeSet = "0-1".parse().unwrap();
        let several = [MemoryPolicy::PreferredMany(both.clone()), MemoryPolicy::Interleave(both)];
        assert_eq!(around.policies(&here, true), several);
        let bare = Topology::synthetic("pu:2", Vec::new()).unwrap();
        let nowhere = Place { cpus: set("0-1"), nodes: NodeSet::new() };
        assert_eq!(Surroundings::new(&bare, &CpuSet::new()).policies(&nowhere, true), []);
    }
}
