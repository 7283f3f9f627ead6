//! Properties of plans for any machine and any request.

use crate::{loopback, nic, on_card, served_by};
use proptest::{option, prelude::*};
use rails_bind::claims::Resource;
use rails_multirail::{
    RailId, RailPlan, RailRequest, plan_rails,
    planner::{Affinities, BindingKind, LocalEnd, Nearness, Need, Part, PlanError, RailWish, Which},
};
use rails_topo::{Bandwidth, CpuId, CpuSet, Nic, NicKind, NodeId, PciAddress, PciDevice, Topology};
use std::collections::BTreeSet;

fn cpu_sets() -> impl Strategy<Value = CpuSet> {
    prop::collection::vec(0u32..40, 0..20).prop_map(|ids| ids.into_iter().map(CpuId).collect())
}

fn nics() -> impl Strategy<Value = Vec<Nic>> {
    let one = (0u32..4, 0u64..3, option::of(0u8..3), option::of(0u32..32), option::of(any::<bool>()), any::<bool>());
    prop::collection::vec(one, 0..6).prop_map(|nics| {
        type Facts = (u32, u64, Option<u8>, Option<u32>, Option<bool>, bool);
        let build = |(index, (node, gigabits, card, served, up, known)): (usize, Facts)| {
            let mut nic = nic(&format!("eth{index}"), node, gigabits, &format!("10.0.{index}.1"));
            if let Some(card) = card {
                nic = on_card(nic, &format!("0000:{card:02x}:00.{index}"));
            }
            if let Some(cpu) = served {
                nic = served_by(nic, &cpu.to_string());
            }
            if !known {
                (nic.node, nic.speed) = (None, None);
            }
            Nic { up, ..nic }
        };
        let vlan = |nic: &Nic| Nic {
            kind: NicKind::Virtual,
            lowers: vec![nic.name.clone()],
            ..self::nic(&format!("{}.5", nic.name), 0, 7, "10.0.100.1")
        };
        let mut nics: Vec<Nic> = nics.into_iter().enumerate().map(build).collect();
        nics.extend(nics.first().map(vlan));
        nics.into_iter().chain([loopback()]).collect()
    })
}

/// The functions of the NICs, below root ports for each card or each two cards, with links of that
/// bandwidth.
fn functions(nics: &[Nic], cards: u8, gigabits: Option<u64>) -> Vec<PciDevice> {
    let root = |bus: u8| PciAddress { domain: 0, bus: 0x80, device: 1 + bus / cards, function: 0 };
    let bandwidth = gigabits.map(|gigabits| Bandwidth::mbps(1_000 * gigabits));
    let below = |at: PciAddress| PciDevice { parent: Some(root(at.bus)), bandwidth, ..PciDevice::at(at) };
    let used: Vec<PciAddress> = nics.iter().filter_map(|nic| nic.pci).collect();
    let roots: BTreeSet<PciAddress> = used.iter().map(|at| root(at.bus)).collect();
    roots.into_iter().map(PciDevice::at).chain(used.into_iter().map(below)).collect()
}

pub(crate) fn machines() -> impl Strategy<Value = Topology> {
    let sizes = (1u32..3, 0u32..3, 0u32..3, 1u32..4, 1u32..3);
    let links = (1u8..3, option::of(1u64..4));
    (sizes, nics(), option::of(cpu_sets()), links).prop_map(|(sizes, nics, allowed, (cards, gigabits))| {
        let (packages, nodes, caches, cores, pus) = sizes;
        let functions = functions(&nics, cards, gigabits);
        let level = |name: &str, count: u32| if count == 0 { String::new() } else { format!("{name}:{count} ") };
        let (nodes, caches) = (level("numa", nodes), level("l3", caches));
        let machine = Topology::synthetic(&format!("package:{packages} {nodes}{caches}core:{cores} pu:{pus}"), nics);
        let machine = machine.unwrap().with_pci_devices(functions);
        match allowed {
            Some(allowed) => machine.with_allowed(allowed),
            None => machine,
        }
    })
}

pub(crate) fn requests() -> impl Strategy<Value = RailRequest> {
    let end = prop_oneof![
        (0u8..6).prop_map(|index| LocalEnd::Device(format!("eth{index}"))),
        Just(LocalEnd::Device("eth0.5".to_owned())),
        (0u8..6).prop_map(|index| LocalEnd::Address([10, 0, index, 1].into())),
        Just(LocalEnd::Device("lo".to_owned())),
        Just(LocalEnd::Address([127, 0, 0, 5].into())),
        Just(LocalEnd::Address([0, 0, 0, 0].into())),
    ];
    let binding = prop_oneof![
        4 => Just(BindingKind::Affine),
        1 => Just(BindingKind::Default),
        3 => (option::of(cpu_sets()), option::of(0u32..5))
            .prop_map(|(cpus, node)| BindingKind::Explicit { cpus, node: node.map(NodeId) }),
    ];
    let parts = (option::weighted(0.9, end), option::weighted(0.2, 0usize..2), option::weighted(0.3, 1usize..4));
    let wish = (parts, binding).prop_map(|((end, gpu, cores), binding)| {
        let gpu = gpu.map(|index| Part::Named(format!("gpu{index}")));
        let parts = end.map(Part::End).into_iter().chain(gpu).chain(cores.map(Part::Cores)).collect();
        RailWish { parts, binding: binding.into() }
    });
    let which = prop_oneof![
        Just(Which::Auto),
        (0usize..70).prop_map(Which::Count),
        option::of(0usize..300).prop_map(Which::Loopback),
        prop::collection::vec(wish, 0..6).prop_map(Which::Listed),
    ];
    let need = || prop_oneof![4 => Just(Need::Preferred), 1 => Just(Need::Required), 1 => Just(Need::Unwanted)];
    let affinities =
        (need(), need(), need()).prop_map(|(interrupt, thread, memory)| Affinities { interrupt, thread, memory });
    let nearness = prop_oneof![Just(Nearness::SameCpu), Just(Nearness::SharedCache), Just(Nearness::Package)];
    let flags = (any::<bool>(), any::<bool>(), 1usize..3);
    (which, affinities, nearness, flags, option::weighted(0.3, cpu_sets())).prop_map(
        |(which, affinities, nearness, (exclusive, share_nics, cores), claimed)| {
            let mut request = RailRequest::new(which);
            (request.affinities, request.nearness, request.cores) = (affinities, nearness, cores);
            (request.exclusive, request.share_nics) = (exclusive, share_nics);
            request.claimed = claimed.unwrap_or_default().into();
            request
        },
    )
}

/// The hardware threads of the cores of a rail.
pub(crate) fn cores_of(machine: &Topology, cpus: &CpuSet) -> CpuSet {
    cpus.iter().flat_map(|cpu| machine.core_of_cpu(cpu).unwrap().cpus.iter().collect::<Vec<_>>()).collect()
}

/// The bandwidths that an interface cannot exceed: its own, and those of the device under it and of
/// its PCI path.
fn limits(machine: &Topology, name: &str) -> Vec<Bandwidth> {
    let nic = machine.nic(name).unwrap();
    let devices = machine.lanes_of(nic).devices;
    let paths = devices.iter().filter_map(|device| machine.locality().path(*device)?.bandwidth());
    devices.iter().filter_map(|device| device.speed).chain(paths).chain(nic.speed).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn plans_stay_within_the_allowed_cpus(machine in machines(), request in requests()) {
        let planned = plan_rails(&machine, &request);
        prop_assert_eq!(&planned, &plan_rails(&machine, &request), "the same arguments give the same plan");
        let plan = match planned {
            Ok(plan) => plan,
            Err(error) => {
                if let PlanError::TooFewCores { wanted, usable } = error {
                    prop_assert!(usable < wanted, "{}", error);
                }
                return Ok(());
            }
        };
        prop_assert!((1..=64).contains(&plan.rails.len()));
        for (index, rail) in plan.rails.iter().enumerate() {
            prop_assert_eq!(rail.id, RailId(index));
            prop_assert!(machine.allowed_cpus().contains(rail.cpu), "{}", plan);
            let wish = match &request.which {
                Which::Listed(wishes) => Some(&wishes[index]),
                _ => None,
            };
            if let Some(BindingKind::Explicit { cpus: Some(cpus), .. }) = wish.map(|wish| &wish.binding.kind) {
                prop_assert!(cpus.contains(rail.cpu), "{}", plan);
            }
            prop_assert!(rail.cpus().is_subset(machine.allowed_cpus()), "{}", plan);
            let is_shared = cores_of(&machine, &rail.cpus()).intersects(request.claimed.cpus());
            let told = plan.notes.iter().any(|note| note.contains("are claimed by other owners"));
            prop_assert!(!is_shared || told && !request.exclusive, "{}", plan);
            let affine = wish.is_none_or(|wish| wish.binding.kind == BindingKind::Affine);
            if affine && request.affinities.memory != Need::Unwanted {
                prop_assert_eq!(rail.node, machine.nearest_node(rail.cpu));
            }
            if request.affinities.thread == Need::Required {
                prop_assert!(rail.bound_cpu().is_some(), "{}", plan);
                let nic = machine.nic(rail.interface.as_deref().unwrap()).unwrap();
                let interrupts = machine.lanes_of(nic).devices.into_iter().flat_map(|device| &device.interrupts);
                let serving: CpuSet = interrupts.flat_map(|irq| irq.effective.iter().flat_map(CpuSet::iter)).collect();
                for cpu in rail.cpus().iter() {
                    let cache = machine.sharing_last_level_cache(cpu).cloned().unwrap_or_default();
                    prop_assert!(cache.union(&cores_of(&machine, &CpuSet::single(cpu))).intersects(&serving), "{}", plan);
                }
            }
            if request.affinities.memory == Need::Required {
                prop_assert!(rail.cpus().iter().all(|cpu| machine.nearest_node(cpu) == rail.node && rail.node.is_some()));
            }
            // Every CPU of the machine is chosen, or rejected for one reason or another.
            let told = rail.rejected_cpus.iter().fold(rail.cpus(), |all, told| all.union(&told.cpus));
            let count = rail.rejected_cpus.iter().map(|told| told.cpus.len()).sum::<usize>() + rail.cpus().len();
            if rail.bound_cpu().is_some() {
                prop_assert!(machine.online_cpus().is_subset(&told) && told.len() == count, "{}", plan);
            }
            prop_assert!(rail.rejected_cpus.iter().all(|told| !told.cpus.is_empty() && !told.reason.is_empty()));
            prop_assert!(rail.reasons.len() >= 3 && rail.reasons.iter().all(|reason| !reason.is_empty()));
            prop_assert!(rail.interface.as_deref().is_none_or(|name| machine.nic(name).is_some()));
            let carried = rail.capacity.bandwidth;
            for limit in rail.interface.iter().flat_map(|name| limits(&machine, name)) {
                prop_assert!(carried.is_some_and(|carried| carried <= limit), "{}", plan);
            }
            let task_cores = rail.task_cpus.iter().map(|cpu| cores_of(&machine, &CpuSet::single(cpu)));
            let apart: BTreeSet<_> = task_cores.map(|core| core.first()).collect();
            let own = cores_of(&machine, &CpuSet::single(rail.cpu)).first();
            prop_assert!(apart.len() == rail.task_cpus.len() && !apart.contains(&own), "{}", plan);
        }
        if request.exclusive {
            for (index, rail) in plan.rails.iter().enumerate() {
                let own = cores_of(&machine, &rail.cpus());
                let others = plan.rails.iter().enumerate().filter(|(other, _)| *other != index);
                prop_assert!(others.clone().all(|(_, other)| !other.cpus().intersects(&own)), "{}", plan);
                let has = |resource: &Resource| others.clone().any(|(_, other)| other.exclusive_resources().any(|of| of == *resource));
                prop_assert!(!rail.exclusive_resources().any(|own| has(&own)), "one owner for each: {}", plan);
            }
        }
        if let Some(expected) = &plan.expected {
            prop_assert!(expected.delta <= 1.0 && expected.rails <= plan.rails.len(), "{}", plan);
            let alone = plan.rails.iter().filter_map(|rail| rail.capacity.bandwidth);
            let sum = alone.map(|bandwidth| bandwidth.as_bits_per_second()).sum::<u64>();
            prop_assert!(expected.together.as_bits_per_second() <= sum, "{}", plan);
            // No root port and no device carries more than it can.
            let used: BTreeSet<&str> = plan.rails.iter().filter_map(|rail| rail.interface.as_deref()).collect();
            let devices = used.iter().flat_map(|name| machine.lanes_of(machine.nic(name).unwrap()).devices);
            let devices: Vec<&Nic> = devices.collect();
            let most = machine.locality().joint_bandwidth(devices.iter().copied());
            prop_assert!(devices.is_empty() || most.bandwidth.is_none_or(|most| expected.together <= most), "{}", plan);
        }
        if let Which::Count(_) = request.which && !request.share_nics {
            let mut names: Vec<_> = plan.rails.iter().map(|rail| &rail.interface).collect();
            names.sort_unstable();
            names.dedup();
            prop_assert_eq!(names.len(), plan.rails.len(), "no NIC is shared unasked");
        }
        let text = plan.to_string();
        prop_assert!(plan.rails.iter().flat_map(|rail| &rail.reasons).chain(&plan.notes).all(|line| text.contains(line)));
        let json = serde_json::to_string(&plan).unwrap();
        prop_assert_eq!(serde_json::from_str::<RailPlan>(&json).unwrap(), plan);
    }

    /// While cores near a lane are free, no two rails share one.
    #[test]
    fn loopback_rails_share_a_core_last(machine in machines(), count in 1usize..16) {
        let Ok(plan) = plan_rails(&machine, &RailRequest::loopback(count)) else { return Ok(()) };
        let usable = machine.cores().iter().filter(|core| core.cpus.intersects(machine.allowed_cpus())).count();
        let mut used: Vec<_> = plan.rails.iter().map(|rail| machine.core_of_cpu(rail.cpu).unwrap().cpus.first()).collect();
        used.sort_unstable();
        used.dedup();
        prop_assert_eq!(used.len(), usable.min(count));
    }
}
