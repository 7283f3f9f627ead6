//! Properties of plans for any machine and any request.

use crate::{loopback, nic, on_card, served_by};
use proptest::{option, prelude::*};
use rails_multirail::{
    RailId, RailPlan, RailRequest, plan_rails,
    planner::{LaneWish, LocalEnd},
};
use rails_topo::{CpuId, CpuSet, Nic, Topology};

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
        nics.into_iter().enumerate().map(build).chain([loopback()]).collect()
    })
}

fn machines() -> impl Strategy<Value = Topology> {
    let sizes = (1u32..3, 0u32..3, 0u32..3, 1u32..4, 1u32..3);
    (sizes, nics(), option::of(cpu_sets())).prop_map(|((packages, nodes, caches, cores, pus), nics, allowed)| {
        let level = |name: &str, count: u32| if count == 0 { String::new() } else { format!("{name}:{count} ") };
        let (nodes, caches) = (level("numa", nodes), level("l3", caches));
        let machine = Topology::synthetic(&format!("package:{packages} {nodes}{caches}core:{cores} pu:{pus}"), nics);
        let machine = machine.unwrap();
        match allowed {
            Some(allowed) => machine.with_allowed(allowed),
            None => machine,
        }
    })
}

fn requests() -> impl Strategy<Value = RailRequest> {
    let end = prop_oneof![
        (0u8..6).prop_map(|index| LocalEnd::Device(format!("eth{index}"))),
        (0u8..6).prop_map(|index| LocalEnd::Address([10, 0, index, 1].into())),
        Just(LocalEnd::Device("lo".to_owned())),
        Just(LocalEnd::Address([127, 0, 0, 5].into())),
        Just(LocalEnd::Address([0, 0, 0, 0].into())),
    ];
    let lane = (end, option::weighted(0.3, cpu_sets())).prop_map(|(end, cpus)| LaneWish { end, cpus });
    prop_oneof![
        Just(RailRequest::Auto),
        (0usize..70).prop_map(RailRequest::Count),
        option::of(0usize..300).prop_map(RailRequest::Loopback),
        prop::collection::vec(lane, 0..6).prop_map(RailRequest::Lanes),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn plans_stay_within_the_allowed_cpus(machine in machines(), request in requests()) {
        let planned = plan_rails(&machine, &request);
        prop_assert_eq!(&planned, &plan_rails(&machine, &request), "the same arguments give the same plan");
        let Ok(plan) = planned else { return Ok(()) };
        prop_assert!((1..=64).contains(&plan.rails.len()));
        for (index, rail) in plan.rails.iter().enumerate() {
            prop_assert_eq!(rail.id, RailId(index));
            prop_assert!(machine.allowed_cpus().contains(rail.cpu), "{}", plan);
            if let RailRequest::Lanes(lanes) = &request {
                prop_assert!(lanes[index].cpus.as_ref().is_none_or(|cpus| cpus.contains(rail.cpu)), "{}", plan);
            }
            prop_assert_eq!(rail.node, machine.nearest_node(rail.cpu));
            prop_assert!(rail.reasons.len() >= 3 && rail.reasons.iter().all(|reason| !reason.is_empty()));
            prop_assert!(rail.interface.as_deref().is_none_or(|name| machine.nic(name).is_some()));
        }
        let text = plan.to_string();
        prop_assert!(plan.rails.iter().flat_map(|rail| &rail.reasons).chain(&plan.notes).all(|line| text.contains(line)));
        let json = serde_json::to_string(&plan).unwrap();
        prop_assert_eq!(serde_json::from_str::<RailPlan>(&json).unwrap(), plan);
    }

    /// While cores near a lane are free, no two rails share one.
    #[test]
    fn loopback_rails_share_a_core_last(machine in machines(), count in 1usize..16) {
        let Ok(plan) = plan_rails(&machine, &RailRequest::Loopback(Some(count))) else { return Ok(()) };
        let usable = machine.cores().iter().filter(|core| core.cpus.intersects(machine.allowed_cpus())).count();
        let mut used: Vec<_> = plan.rails.iter().map(|rail| machine.core_of_cpu(rail.cpu).unwrap().cpus.first()).collect();
        used.sort_unstable();
        used.dedup();
        prop_assert_eq!(used.len(), usable.min(count));
    }
}
