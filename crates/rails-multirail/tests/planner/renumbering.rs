//! Plans for one machine under several numberings of its CPUs and names of its NICs.
//!
//! Ties between CPUs go to the lowest number, and between NICs to the first name. A single rail is
//! as well placed under each numbering. Rails are placed one after the other, so the choice of one
//! among equally good CPUs can take a CPU from a later one: the places of several rails are only
//! proven to be as good on machines of regular structure.

use crate::{changed, nic, on_card, properties, served_by};
use proptest::{option, prelude::*, sample::Index};
use rails_lab::captures::{self, Unpacked};
use rails_multirail::{
    RailPlan, RailRequest, plan_rails,
    planner::{BindingKind, Nearness, Need, PlannedRail, Which},
};
use rails_topo::{Bandwidth, CpuId, CpuSet, Nic, PciDevice, Topology};
use serde_json::Value;

/// Other numbers of CPUs: each gets the number at its place.
#[derive(Debug, Clone)]
struct Numbers(Vec<u32>);

impl Numbers {
    fn any() -> impl Strategy<Value = Self> {
        Just((0..96).collect::<Vec<u32>>()).prop_shuffle().prop_map(Self)
    }

    /// Numbers below 1,021, which is prime, for CPUs below it.
    fn scattered(by: u32) -> Self {
        Self((0..1_021).map(|cpu| (cpu + 1) * by % 1_021).collect())
    }

    fn of(&self, cpus: &CpuSet) -> CpuSet {
        cpus.iter().map(|cpu| CpuId(self.0[cpu.0 as usize])).collect()
    }

    fn of_machine(&self, machine: &Topology) -> Topology {
        let machine = changed(machine, |json| self.change(json));
        // This puts every list into the order that the model promises.
        let functions = machine.pci_devices().to_vec();
        machine.with_pci_devices(functions)
    }

    fn of_request(&self, request: &RailRequest) -> RailRequest {
        let mut request = request.clone();
        request.claimed = self.of(request.claimed.cpus()).into();
        if let Which::Listed(wishes) = &mut request.which {
            for wish in wishes {
                if let BindingKind::Explicit { cpus: Some(cpus), .. } = &mut wish.binding.kind {
                    *cpus = self.of(cpus);
                }
            }
        }
        request
    }

    fn change(&self, json: &mut Value) {
        match json {
            Value::Array(items) => items.iter_mut().for_each(|item| self.change(item)),
            Value::Object(fields) => {
                for (name, value) in fields {
                    match value.as_str().filter(|_| SETS_OF_CPUS.contains(&name.as_str())) {
                        Some(set) => *value = self.of(&set.parse().unwrap()).to_string().into(),
                        None => self.change(value),
                    }
                }
            }
            _ => {}
        }
    }
}

/// The fields of a model in JSON that hold CPUs.
const SETS_OF_CPUS: [&str; 10] = [
    "cpus",
    "online_cpus",
    "allowed_cpus",
    "isolated_cpus",
    "nohz_full_cpus",
    "local_cpus",
    "rps_cpus",
    "xps_cpus",
    "affinity",
    "effective",
];

/// How good the place of a rail is.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    /// The distances of the NIC's devices that its CPU is not beside.
    far: Vec<Option<u64>>,
    rails_on_cpu: usize,
    rails_on_core: usize,
    from_interrupt: u8,
    other_nics: usize,
    is_memory_near: bool,
}

/// The places of a plan's rails.
fn places(machine: &Topology, request: &RailRequest, plan: &RailPlan) -> Vec<Place> {
    let bound: Vec<CpuId> = plan.rails.iter().filter_map(PlannedRail::bound_cpu).collect();
    let place = |rail: &PlannedRail| {
        let Some(cpu) = rail.bound_cpu() else { return Place::default() };
        let core = machine.core_of_cpu(cpu).map_or_else(|| CpuSet::single(cpu), |core| core.cpus.clone());
        let nic = rail.interface.as_deref().and_then(|name| machine.nic(name));
        let devices = nic.map(|nic| machine.lanes_of(nic).devices).unwrap_or_default();
        let serving = devices.iter().fold(CpuSet::new(), |all, device| all.union(&serving(device)));
        let is_other = |nic: &&Nic| devices.iter().all(|device| device.name != nic.name);
        let others = machine.nics().iter().filter(is_other);
        Place {
            far: devices.iter().filter_map(|device| far(machine, device, cpu)).collect(),
            rails_on_cpu: bound.iter().filter(|other| **other == cpu).count(),
            rails_on_core: bound.iter().filter(|other| core.contains(**other)).count(),
            from_interrupt: from_interrupt(machine, request, &serving, cpu),
            other_nics: others.filter(|nic| self::serving(nic).intersects(&core)).count(),
            is_memory_near: rail.node == machine.nearest_node(cpu),
        }
    };
    plan.rails.iter().map(place).collect()
}

fn serving(nic: &Nic) -> CpuSet {
    nic.interrupts.iter().flat_map(|irq| irq.effective.iter().flat_map(CpuSet::iter)).collect()
}

/// The distance of a device that the CPU is not beside.
fn far(machine: &Topology, device: &Nic, cpu: CpuId) -> Option<Option<u64>> {
    let beside = machine.locality().cpus_beside(device).filter(|beside| !beside.contains(cpu))?;
    let nodes = machine.nodes().iter().filter(|node| node.cpus.intersects(&beside));
    let own = machine.node_of_cpu(cpu).map(|node| node.id);
    Some(nodes.filter_map(|node| machine.distances()?.between(node.id, own?)).min())
}

/// The rank of the CPU by the interrupts, as the request has it.
fn from_interrupt(machine: &Topology, request: &RailRequest, serving: &CpuSet, cpu: CpuId) -> u8 {
    let holds = |cpus: Option<&CpuSet>| cpus.is_some_and(|cpus| cpus.intersects(serving));
    let in_package = holds(machine.package_of_cpu(cpu).map(|package| &package.cpus));
    match request.nearness {
        _ if serving.is_empty() || request.affinities.thread == Need::Unwanted => 0,
        Nearness::Package if in_package => 1,
        _ if serving.contains(cpu) => 2,
        _ if holds(machine.core_of_cpu(cpu).map(|core| &core.cpus)) => 3,
        _ if holds(machine.sharing_last_level_cache(cpu)) => 4,
        _ if in_package => 5,
        _ => 6,
    }
}

/// The facts of a plan that say nothing about places, by rail.
fn facts(plan: &RailPlan) -> Vec<impl PartialEq + std::fmt::Debug + use<>> {
    let facts = |rail: &PlannedRail| {
        let lane = (rail.interface.clone(), rail.address, rail.end.clone(), rail.capacity.clone());
        (lane, rail.bound_cpu().is_some(), rail.task_cpus.len(), rail.exclusive_cpus.is_empty())
    };
    plan.rails.iter().map(facts).collect()
}

/// Whether rails can take from each other something that the request insists on.
fn can_fail_by_order(request: &RailRequest) -> bool {
    let affinities = [request.affinities.thread, request.affinities.memory];
    let is_explicit = match &request.which {
        Which::Listed(wishes) => wishes.iter().any(|wish| matches!(wish.binding.kind, BindingKind::Explicit { .. })),
        _ => false,
    };
    request.exclusive && (is_explicit || affinities.contains(&Need::Required))
}

/// A machine of regular structure, all of it free. No two NICs are served in one L3, in which there
/// is another core.
fn uncontended() -> impl Strategy<Value = Topology> {
    let sizes = (1u32..3, 1u32..3, 1u32..4, 2u32..4, 1u32..3);
    let served = prop::collection::vec(option::weighted(0.8, option::of(any::<Index>())), 12);
    (sizes, served).prop_map(|((packages, nodes, caches, cores, pus), served)| {
        let in_cache = cores * pus;
        let build = |(cache, served): (u32, Option<Option<Index>>)| {
            let nic = nic_at(cache as usize, cache / caches);
            Some(match served? {
                Some(cpu) => served_by(nic, &(cache * in_cache + cpu.index(in_cache as usize) as u32).to_string()),
                None => nic,
            })
        };
        let nics = (0..packages * nodes * caches).zip(served).filter_map(build).collect();
        Topology::synthetic(&format!("package:{packages} numa:{nodes} l3:{caches} core:{cores} pu:{pus}"), nics)
            .unwrap()
    })
}

/// A machine of two nodes with a PCIe switch each, below which are cards of one or two ports, all
/// equally fast.
fn with_cards() -> impl Strategy<Value = Topology> {
    (prop::collection::vec(any::<bool>(), 12), 1u64..100).prop_map(|(ports, link)| {
        let at = |bus: usize, function: usize| format!("0000:{bus:02x}:00.{function}");
        let build = |index: usize| {
            let (node, bus) = (index / 6, 0x10 + index / 2);
            let nic = nic(&format!("eth{index:02}"), node as u32, 40, &format!("10.0.{index}.1"));
            on_card(nic, &at(bus, index % 2))
        };
        let nics: Vec<Nic> = (0..12).filter(|index| ports[*index]).map(build).collect();
        let below = |text: String, parent: Option<String>| PciDevice {
            parent: parent.map(|parent| parent.parse().unwrap()),
            bandwidth: Some(Bandwidth::mbps(1_000 * link)),
            ..PciDevice::at(text.parse().unwrap())
        };
        let switches = (0..2).flat_map(|node| {
            let upper = below(at(1 + node, 0), Some(format!("0000:00:0{node}.0")));
            let lowers = (0..3).map(move |card| (format!("0000:0{}:0{card}.0", 3 + node), at(1 + node, 0)));
            [below(format!("0000:00:0{node}.0"), None), upper]
                .into_iter()
                .chain(lowers.map(|(lower, upper)| below(lower, Some(upper))))
                .collect::<Vec<_>>()
        });
        let functions = nics.iter().map(|nic| nic.pci.unwrap()).map(|pci| {
            let card = usize::from(pci.bus) - 0x10;
            below(pci.to_string(), Some(format!("0000:0{}:0{}.0", 3 + card / 3, card % 3)))
        });
        let functions = switches.chain(functions).collect();
        Topology::synthetic("package:2 numa:1 l3:1 core:8 pu:2", nics).unwrap().with_pci_devices(functions)
    })
}

fn nic_at(index: usize, node: u32) -> Nic {
    nic(&format!("eth{index}"), node, 10, &format!("10.0.{index}.1"))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(100) })]

    #[test]
    fn one_rail_is_as_well_placed(
        machine in properties::machines(),
        mut request in properties::requests(),
        numbers in Numbers::any(),
    ) {
        match &mut request.which {
            Which::Auto => request.which = Which::Count(1),
            Which::Count(count) | Which::Loopback(Some(count)) => *count = 1,
            which @ Which::Loopback(None) => *which = Which::Loopback(Some(1)),
            Which::Listed(wishes) => wishes.truncate(1),
        }
        let (other, renumbered) = (numbers.of_machine(&machine), numbers.of_request(&request));
        let (plan, again) = (plan_rails(&machine, &request), plan_rails(&other, &renumbered));
        prop_assert_eq!(plan.is_ok(), again.is_ok(), "{:?} {:?}", plan, again);
        let (Ok(plan), Ok(again)) = (plan, again) else { return Ok(()) };
        prop_assert_eq!(places(&machine, &request, &plan), places(&other, &request, &again), "{}\n{}", plan, again);
        prop_assert_eq!((facts(&plan), &plan.expected), (facts(&again), &again.expected));
    }

    #[test]
    fn rails_are_the_same_but_for_places(
        machine in properties::machines(),
        mut request in properties::requests(),
        numbers in Numbers::any(),
    ) {
        request.exclusive &= !can_fail_by_order(&request);
        let (other, renumbered) = (numbers.of_machine(&machine), numbers.of_request(&request));
        let (plan, again) = (plan_rails(&machine, &request), plan_rails(&other, &renumbered));
        prop_assert_eq!(plan.is_ok(), again.is_ok(), "{:?} {:?}", plan, again);
        let (Ok(plan), Ok(again)) = (plan, again) else { return Ok(()) };
        prop_assert_eq!((facts(&plan), &plan.expected), (facts(&again), &again.expected));
        prop_assert_eq!(plan.rejected_nics, again.rejected_nics);
    }

    #[test]
    fn rails_that_do_not_compete_are_as_well_placed(
        machine in uncontended(),
        (exclusive, same_cpu, count) in (any::<bool>(), any::<bool>(), option::of(1usize..8)),
        numbers in Numbers::any(),
    ) {
        let mut request = RailRequest::new(count.map_or(Which::Auto, Which::Count));
        request.exclusive = exclusive;
        if same_cpu {
            request.nearness = Nearness::SameCpu;
        }
        let other = numbers.of_machine(&machine);
        let (plan, again) = (plan_rails(&machine, &request), plan_rails(&other, &request));
        prop_assert_eq!(plan.is_ok(), again.is_ok(), "{:?} {:?}", plan, again);
        let (Ok(plan), Ok(again)) = (plan, again) else { return Ok(()) };
        prop_assert_eq!(places(&machine, &request, &plan), places(&other, &request, &again), "{}\n{}", plan, again);
    }

    #[test]
    fn renamed_nics(
        machine in with_cards(),
        count in option::of(1usize..12),
        names in Just((0..12_usize).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        let request = RailRequest::new(count.map_or(Which::Auto, Which::Count));
        let other = changed(&machine, |json| {
            for nic in json["nics"].as_array_mut().unwrap() {
                let index: usize = nic["name"].as_str().unwrap()[3..].parse().unwrap();
                nic["name"] = format!("eth{:02}", names[index]).into();
            }
        });
        let functions = other.pci_devices().to_vec();
        let other = other.with_pci_devices(functions);
        let (plan, again) = (plan_rails(&machine, &request), plan_rails(&other, &request));
        prop_assert_eq!(plan.is_ok(), again.is_ok(), "{:?} {:?}", plan, again);
        let (Ok(plan), Ok(again)) = (plan, again) else { return Ok(()) };
        let capacities = |plan: &RailPlan| {
            let mut all: Vec<_> = plan.rails.iter().map(|rail| (rail.speed, rail.capacity.bandwidth)).collect();
            all.sort_unstable();
            all
        };
        prop_assert_eq!(capacities(&plan), capacities(&again));
        let together = |plan: &RailPlan| plan.expected.as_ref().map(|expected| (expected.each, expected.together));
        prop_assert_eq!(together(&plan), together(&again), "{}\n{}", plan, again);
    }
}

/// Plans on every NIC and on loopback, each under some numberings.
fn check_renumbered(machine: &Topology) {
    let requests = machine.nics().iter().map(|nic| nic.name.clone());
    let requests = requests.chain(["auto", "1", "loopback", "loopback:1", "cores:2"].map(str::to_owned));
    for text in requests {
        let Ok(request) = text.parse::<RailRequest>() else { continue };
        let Ok(plan) = plan_rails(machine, &request) else { continue };
        for numbers in [7, 500, 1_020].map(Numbers::scattered) {
            let other = numbers.of_machine(machine);
            let again = plan_rails(&other, &request).unwrap();
            assert_eq!((facts(&plan), &plan.expected), (facts(&again), &again.expected), "{text}");
            if plan.rails.len() == 1 {
                assert_eq!(places(machine, &request, &plan), places(&other, &request, &again), "{text}");
            }
        }
    }
}

#[test]
fn renumbered_fixtures() {
    for name in ["two-sockets", "virtual-machine"] {
        let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../rails-topo/tests/fixtures");
        let machine = Topology::from_capture(format!("{fixtures}/{name}.tar.gz")).unwrap();
        check_renumbered(&machine);
        let (request, numbers) = (RailRequest::auto(), Numbers::scattered(7));
        let other = numbers.of_machine(&machine);
        let (plan, again) = (plan_rails(&machine, &request).unwrap(), plan_rails(&other, &request).unwrap());
        assert_eq!(places(&machine, &request, &plan), places(&other, &request, &again), "{plan}\n{again}");
    }
}

#[test]
#[ignore = "reads captured machines: set RAILS_CAPTURES to their folder"]
fn captured_renumbered_machines() {
    for archive in captures::trees() {
        check_renumbered(&Topology::from_sysfs_root(Unpacked::of(&archive).root()).unwrap());
    }
}
