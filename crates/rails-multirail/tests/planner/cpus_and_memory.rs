//! The CPU and the memory of planned rails.

use crate::{
    changed, chosen_cpus, cpus, interfaces, loopback, nic, on_card, planned, planned_with, refused, served_by,
    two_packages,
};
use rails_bind::claims::Resources;
use rails_multirail::{
    RailPlan, RailRequest, plan_rails,
    planner::{Affinities, BindingKind, Nearness, Need, PlanError},
};
use rails_topo::{CpuId, CpuSet, Interrupt, Nic, NicKind, NodeId, RxQueue, Topology};

#[test]
fn cpus_beside_the_nic_win() {
    let machine = two_packages(vec![nic("eth0", 1, 10, "10.0.0.1"), nic("eth1", 0, 10, "10.0.1.1")]);
    let plan = planned(&machine, "eth0,eth1");
    assert_eq!(chosen_cpus(&plan), [8, 0]);
    assert_eq!(plan.rails.iter().map(|rail| rail.node).collect::<Vec<_>>(), [Some(NodeId(1)), Some(NodeId(0))]);
}

#[test]
fn far_cpu_where_near_ones_are_forbidden() {
    let machine = two_packages(vec![nic("eth0", 1, 10, "10.0.0.1")]).with_allowed(cpus("2-5"));
    let plan = planned(&machine, "eth0");
    assert_eq!(chosen_cpus(&plan), [2]);
    assert_eq!(
        plan.rails[0].reasons,
        [
            "lane eth0 from 10.0.0.1 (a device without a PCI address; 10 Gbit/s)",
            "CPU 2 of 4 usable: far from eth0 (CPUs 8-15), as all of these are; which CPU serves its interrupts \
             is not known; no other rail on its core",
            "memory from node 0: the nearest to CPU 2",
        ]
    );
}

#[test]
fn nearest_node_where_near_cpus_are_forbidden() {
    let nic = nic("eth0", 3, 10, "10.0.0.1");
    let machine = Topology::synthetic("package:4 numa:1 core:2 pu:1", vec![nic]).unwrap();
    let machine = changed(&machine, |json| json["distances"]["values"][4 * 3 + 2] = 12.into());
    let plan = planned(&machine.with_allowed(cpus("0-5")), "eth0");
    assert_eq!(chosen_cpus(&plan), [4], "{plan}");
    let told = plan.rails[0].rejected_cpus.iter().find(|told| told.reason == "farther from the rail's devices");
    assert_eq!(told.unwrap().cpus, cpus("0-3"));
}

/// The first rail has nothing to choose by, and the second one has one good CPU.
#[test]
fn cpus_of_use_to_other_nics_are_left_to_them() {
    for (serving, chosen) in [("0", [2, 1]), ("2", [0, 3])] {
        let nics = vec![nic("eth0", 0, 10, "10.0.0.1"), served_by(nic("eth1", 0, 10, "10.0.1.1"), serving)];
        let machine = Topology::synthetic("package:1 numa:1 l3:2 core:2 pu:1", nics).unwrap();
        let plan = planned(&machine, "eth0,eth1");
        assert_eq!(chosen_cpus(&plan), chosen, "{plan}");
    }
    let machine = two_packages(vec![nic("eth0", 0, 10, "10.0.0.1")]).with_allowed(cpus("0-9"));
    let plan = planned(&machine, "0.0.0.0");
    assert_eq!(chosen_cpus(&plan), [8]);
    assert_eq!(plan.rails[0].rejected_cpus[1].reason, "as good, and of more use to other NICs");
}

#[test]
fn rail_without_devices_is_beside_its_memory() {
    let machine = two_packages(vec![]);
    let plan = planned(&machine, "cores:2@/1");
    assert_eq!((plan.rails[0].cpus(), plan.rails[0].node), (cpus("8,10"), Some(NodeId(1))), "{plan}");
    assert!(plan.to_string().contains("near node 1 (CPUs 8-15)"), "{plan}");
}

#[test]
fn bond_is_where_its_devices_are() {
    let lowers = vec!["eth0".to_owned(), "eth1".to_owned()];
    let bond = Nic { kind: NicKind::Virtual, lowers, node: None, ..nic("bond0", 0, 20, "10.0.0.1") };
    let device = |name: &str| served_by(Nic { addresses: Vec::new(), ..nic(name, 1, 10, "10.0.1.1") }, "13");
    let plan = planned(&two_packages(vec![device("eth0"), device("eth1"), bond]), "bond0");
    assert_eq!((chosen_cpus(&plan), plan.rails[0].node), (vec![8], Some(NodeId(1))));
    assert_eq!(
        plan.rails[0].reasons[..2],
        [
            "lane bond0 from 10.0.0.1 (made in software, over eth0 and eth1; 20 Gbit/s)",
            "CPU 8 of 16 usable: near eth0 (CPUs 8-15) and eth1 (CPUs 8-15); shares a cache with CPUs 13, which serve \
             its interrupts; no other rail on its core"
        ]
    );
}

#[test]
fn rails_spread_over_cores_before_they_share_one() {
    let machine = two_packages(vec![nic("eth0", 1, 10, "10.0.0.1")]);
    let plan = planned(&machine, "eth0,eth0,eth0,eth0,eth0");
    assert_eq!(chosen_cpus(&plan), [8, 10, 12, 14, 9]);
    assert!(plan.rails[4].reasons[1].ends_with("1 other rail on its core, on another CPU"), "{plan}");
    assert_eq!(plan.notes, ["5 rails share the address 10.0.0.1"]);
}

#[test]
fn interrupt_on_its_way_serves_where_it_goes() {
    let interrupt = |affinity: &str| Interrupt {
        number: 40,
        name: None,
        affinity: affinity.parse().ok(),
        effective: Some(cpus("8")),
    };
    let near = |affinity: &str| {
        let nic = Nic { interrupts: vec![interrupt(affinity)], ..nic("eth0", 1, 10, "10.0.0.1") };
        chosen_cpus(&planned(&two_packages(vec![nic]), "eth0"))[0]
    };
    assert_eq!((near("8"), near("8-15")), (10, 10), "beside CPU 8");
    assert_eq!(near("10"), 8, "beside CPU 10, where it fires next");
    assert_eq!(near("10-15"), 10, "which of them it will be is not known");
}

#[test]
fn nearness_to_the_cpu_that_serves_the_interrupt() {
    let machine = two_packages(vec![served_by(nic("eth0", 1, 10, "10.0.0.1"), "13")]);
    let cpu = |nearness: Nearness| {
        let mut request: RailRequest = "eth0".parse().unwrap();
        request.nearness = nearness;
        plan_rails(&machine, &request).unwrap()
    };
    let beside = planned(&machine, "eth0");
    assert_eq!(chosen_cpus(&beside), [8], "TCP gains from another core, which is not the hardware thread beside it");
    assert_eq!(beside, cpu(Nearness::SharedCache));
    assert!(beside.rails[0].reasons[1].contains("shares a cache with CPUs 13, which serve its interrupts"), "{beside}");
    let same = cpu(Nearness::SameCpu);
    assert_eq!(chosen_cpus(&same), [13]);
    assert!(same.rails[0].reasons[1].contains("serves its interrupts (on CPUs 13)"), "{same}");
    assert_eq!(chosen_cpus(&cpu(Nearness::Package)), [8]);
    let alone = plan_rails(&machine.with_allowed(cpus("12-13")), &"eth0".parse().unwrap()).unwrap();
    assert_eq!(chosen_cpus(&alone), [13], "sooner than the hardware thread beside it");
}

#[test]
fn next_best_cpu_shares_the_interrupts_cache() {
    // One node with two L3s. The NIC is near to both.
    let nic = served_by(nic("eth0", 0, 10, "10.0.0.1"), "6");
    let machine =
        Topology::synthetic("package:1 numa:1 l3:2 core:4 pu:1", vec![nic]).unwrap().with_allowed(cpus("0-5"));
    let plan = planned(&machine, "eth0");
    assert_eq!(chosen_cpus(&plan), [4]);
    assert!(plan.rails[0].reasons[1].contains("shares a cache with CPUs 6, which serve its interrupts"), "{plan}");
}

#[test]
fn far_interrupt_does_not_draw_the_rail() {
    let machine = two_packages(vec![served_by(nic("eth0", 1, 10, "10.0.0.1"), "0")]);
    let plan = planned(&machine, "eth0");
    assert_eq!(chosen_cpus(&plan), [8]);
    assert!(plan.rails[0].reasons[1].contains("shares no cache with CPUs 0, which serve"), "{plan}");
}

#[test]
fn wish_for_cpus_is_kept_to() {
    let machine = two_packages(vec![nic("eth0", 1, 10, "10.0.0.1")]);
    let plan = planned(&machine, "eth0@3,eth0@0-1,eth0@7-9");
    assert_eq!(chosen_cpus(&plan), [3, 0, 8]);
    assert_eq!(plan.rails[2].reasons[1], "CPUs 7-9 were asked for, of which 7-9 may be used");
    assert_eq!(
        refused(&machine.with_allowed(cpus("0-3")), "eth0@4,eth0@5"),
        "CPUs 4 were asked for `eth0`, and none of them may be used here (allowed: 0-3)"
    );
}

#[test]
fn more_rails_than_cpus_are_noted() {
    let machine = two_packages(vec![nic("eth0", 1, 10, "10.0.0.1")]).with_allowed(cpus("8"));
    let plan = planned(&machine, "eth0,eth0");
    assert_eq!(plan.notes[1], "2 rails share CPU 8: there are fewer usable CPUs beside their lanes than rails");
    assert!(plan.rails[1].reasons[1].ends_with("1 other rail on it already"), "{plan}");
}

#[test]
fn memory_comes_from_the_nearest_node_that_there_is() {
    let machine = Topology::synthetic("package:1 core:2 pu:1", vec![loopback()]).unwrap();
    let plan = planned(&machine, "loopback:1");
    assert_eq!(plan.rails[0].node, None);
    assert_eq!(plan.rails[0].reasons[2], "memory from anywhere: the machine shows no NUMA nodes");
}

#[test]
fn plan_for_a_nic_of_unknown_facts() {
    let machine = two_packages(vec![Nic::named("eth0")]);
    let plan = planned(&machine, "eth0");
    assert_eq!(plan.rails[0].cpu, CpuId(0));
    assert_eq!(plan.rails[0].reasons[0], "lane eth0 (a device without a PCI address; speed unknown)");
    assert_eq!(
        plan.rails[0].reasons[1],
        "CPU 0 of 16 usable: which CPUs are near eth0 is not known; which CPU serves its interrupts is not known; no \
         other rail on its core"
    );
}

#[test]
fn plan_on_an_interface_without_a_device() {
    let machine = two_packages(vec![Nic { kind: NicKind::Virtual, ..Nic::named("veth0") }, loopback()]);
    for request in ["veth0", "loopback:1", "0.0.0.0"] {
        let plan = planned(&machine, request);
        assert!(!plan.rails[0].reasons[1].contains("interrupt"), "{plan}");
    }
}

#[test]
fn card_with_all_its_facts_is_described_in_one_line() {
    let machine = two_packages(vec![on_card(nic("eth0", 1, 100, "fd00::1"), "0000:81:00.0")]);
    let plan = planned(&machine, "eth0");
    assert_eq!(plan.rails[0].reasons[0], "lane eth0 from fd00::1 (PCI 0000:81:00.0 on node 1; 100 Gbit/s)");
}

#[test]
fn hidden_lane_gets_no_rail() {
    let hidden = Nic { hidden: Some("the storage network's".to_owned()), ..nic("eth1", 1, 100, "10.0.1.1") };
    let machine = two_packages(vec![nic("eth0", 0, 10, "10.0.0.1"), hidden]);
    let plan = planned(&machine, "auto");
    assert_eq!(interfaces(&plan), ["eth0"]);
    assert_eq!(plan.rejected_nics[0].reason, "left alone: the storage network's");
    for asked in ["eth1", "10.0.1.1"] {
        assert_eq!(refused(&machine, asked), "`eth1` is hidden: the storage network's (by its model)");
    }
}

#[test]
fn cpus_that_serve_other_nics_are_avoided() {
    let nics = vec![nic("eth0", 0, 10, "10.0.0.1"), served_by(nic("eth1", 1, 10, "10.0.1.1"), "0")];
    let plan = planned(&two_packages(nics), "eth0");
    assert_eq!(chosen_cpus(&plan), [2], "CPUs 0 and 1 are the core that serves eth1");
    let told = plan.rails[0].rejected_cpus.iter().find(|told| told.reason == "serves interrupts of other NICs");
    assert_eq!(told.unwrap().cpus, cpus("0-1"));
}

/// On two CPUs that share a cache, neither rail moves to the CPU of the other NIC's interrupts.
#[test]
fn rails_do_not_change_places() {
    let nics = vec![served_by(nic("eth0", 0, 10, "10.0.0.1"), "0"), served_by(nic("eth1", 0, 10, "10.0.1.1"), "1")];
    let machine = Topology::synthetic("package:1 numa:1 l3:1 core:2 pu:1", nics).unwrap();
    assert_eq!(chosen_cpus(&planned(&machine, "eth0,eth1")), [0, 1]);
    assert_eq!(chosen_cpus(&planned(&machine, "eth1,eth0")), [1, 0]);
}

#[test]
fn reasons_of_rejected_cpus() {
    let nic = served_by(nic("eth0", 1, 10, "10.0.0.1"), "13");
    let plan = planned(&two_packages(vec![nic]).with_allowed(cpus("0,8-14")), "eth0,eth0");
    let told = |rail: usize| {
        let told = plan.rails[rail].rejected_cpus.iter();
        told.map(|told| (told.cpus.to_string(), told.reason.as_str())).collect::<Vec<_>>()
    };
    assert_eq!(
        told(1),
        [
            ("1-7,15".to_owned(), "may not be used here (cpuset or CPU affinity of the process)"),
            ("12".to_owned(), "a hardware thread beside the one that serves the NIC's interrupts"),
            ("8".to_owned(), "another rail runs on it"),
            ("9".to_owned(), "another rail runs on its core"),
            ("11,14".to_owned(), "as good, with a higher number"),
            ("0".to_owned(), "farther from the rail's devices"),
            ("13".to_owned(), "serves the NIC's interrupts, which need its time"),
        ]
    );
}

#[test]
fn exclusive_rails_have_their_cores_to_themselves() {
    let machine = two_packages(vec![loopback()]);
    let exclusive = |request: &str| planned_with(&machine, request, |request| request.exclusive = true);
    assert_eq!(chosen_cpus(&exclusive("loopback:8").unwrap()), [0, 2, 4, 6, 8, 10, 12, 14]);
    let error = exclusive("loopback:9").unwrap_err();
    assert_eq!(error, PlanError::TooFewCores { wanted: 9, usable: 8 });
    let claimed = |request: &mut RailRequest| request.claimed = cpus("0,3").into();
    assert_eq!(chosen_cpus(&planned_with(&machine, "loopback:2", claimed).unwrap()), [4, 6], "whole cores are claimed");
    let all = |request: &mut RailRequest| (request.exclusive, request.claimed) = (true, cpus("0-15").into());
    let error = planned_with(&machine, "loopback:2", all).unwrap_err();
    assert_eq!(error, PlanError::TooFewCores { wanted: 2, usable: 0 });
}

#[test]
fn claimed_cores_are_shared_where_there_are_no_others() {
    let machine = two_packages(vec![loopback()]);
    for (request, claimed, shared) in
        [("loopback:2", "0-15", "0-3"), ("127.0.0.1@4", "5", "5"), ("cores:3", "0-11", "0-5"), ("cores:2", "0-11", "")]
    {
        let plan = planned_with(&machine, request, |request| request.claimed = cpus(claimed).into()).unwrap();
        let note = format!("CPUs {shared} are claimed by other owners, and shared with them, as no plan does without");
        assert_eq!(plan.notes.contains(&note), !shared.is_empty(), "{plan}");
        assert!(shared.is_empty() || plan.rails.iter().all(|rail| rail.exclusive_cpus.is_empty()), "{plan}");
    }
    let absent = planned_with(&machine, "127.0.0.1@99", |request| request.claimed = cpus("0-15").into());
    assert!(matches!(absent, Err(PlanError::TooFewCores { .. })), "{absent:?}");
}

#[test]
fn exclusive_rails_have_interrupts_and_queues() {
    let on = |nic: Nic, numbers: &[u32], queues: u32| Nic {
        interrupts: numbers
            .iter()
            .map(|number| Interrupt { number: *number, name: None, affinity: None, effective: None })
            .collect(),
        rx_queues: (0..queues).map(|index| RxQueue { index, ..RxQueue::default() }).collect(),
        ..nic
    };
    let machine = two_packages(vec![
        on(nic("eth0", 1, 10, "10.0.0.1"), &[40, 41, 43], 2),
        on(nic("eth1", 0, 10, "10.0.1.1"), &[43, 44], 1),
        nic("eth2", 0, 10, "10.0.2.1"),
        Nic { kind: NicKind::Virtual, ..on(nic("veth0", 0, 10, "10.0.3.1"), &[], 1) },
    ]);
    let plan = planned_with(&machine, "eth0,eth1,eth0,eth2,veth0,cores:2", |request| request.exclusive = true).unwrap();
    let own: Vec<String> =
        plan.rails.iter().map(|rail| rail.exclusive_resources().collect::<Resources>().to_string()).collect();
    assert_eq!(
        own,
        [
            "CPUs 8-9, interrupts 40-41,43, rx queues 0-1 of eth0",
            "CPUs 0-1, interrupt 44, rx queue 0 of eth1",
            "CPUs 10-11",
            "CPUs 2-3",
            "CPUs 4-5",
            "CPUs 12-15",
        ]
    );
    let reasons = |rail: usize| plan.rails[rail].reasons.iter().map(String::as_str).collect::<Vec<_>>();
    assert!(own.iter().enumerate().all(|(rail, own)| reasons(rail).contains(&&*format!("has to itself: {own}"))));
    assert!(
        reasons(2).contains(&"the interrupts and receive queues of eth0 are rail 0's, which is on it too"),
        "{plan}"
    );
    assert!(reasons(3).contains(&"no interrupt of eth2 is known, so it has none to itself"), "{plan}");

    let shared = planned(&machine, "eth0");
    assert_eq!(shared.rails[0].exclusive_resources().count(), 0);
    // A plan without these fields can be read.
    let mut told = serde_json::to_value(&plan).unwrap();
    assert_eq!(
        (&told["rails"][0]["exclusive_interrupts"], &told["rails"][0]["exclusive_queues"]),
        (&"40-41,43".into(), &"0-1".into())
    );
    let rail = told["rails"][0].as_object_mut().unwrap();
    for field in ["exclusive_interrupts", "exclusive_queues"] {
        rail.remove(field);
    }
    let read: RailPlan = serde_json::from_value(told).unwrap();
    assert!(read.rails[0].exclusive_interrupts.is_empty() && read.rails[0].exclusive_queues.is_empty());
}

#[test]
fn cores_for_tasks_beside_the_lane() {
    let machine = two_packages(vec![nic("eth0", 1, 10, "10.0.0.1"), nic("eth1", 0, 10, "10.0.1.1")]);
    let plan = planned(&machine, "eth0+cores:3,eth1+cores:2");
    assert_eq!(chosen_cpus(&plan), [8, 0]);
    let tasks: Vec<&CpuSet> = plan.rails.iter().map(|rail| &rail.task_cpus).collect();
    assert_eq!(tasks, [&cpus("10,12"), &cpus("2")]);
    assert_eq!(plan.rails[0].reasons.last().unwrap(), "CPUs 10,12 for tasks, each on a further core");
    let alone = planned(&machine, "cores:2");
    assert_eq!((&alone.rails[0].end, alone.rails[0].cpus()), (&None, cpus("0,2")));
    assert_eq!(alone.rails[0].reasons[0], "cores alone, no lane");
    let error = planned_with(&machine, "cores:9", |_| ()).unwrap_err();
    assert_eq!(error, PlanError::TooFewCores { wanted: 9, usable: 8 });
}

#[test]
fn deliberate_placements() {
    let machine = two_packages(vec![nic("eth0", 1, 10, "10.0.0.1")]);
    let plan = planned(&machine, "eth0@default,eth0@0/0,eth0");
    assert_eq!(
        plan.rails.iter().map(|rail| rail.bound_cpu()).collect::<Vec<_>>(),
        [None, Some(CpuId(0)), Some(CpuId(8))]
    );
    assert_eq!(plan.rails.iter().map(|rail| rail.node).collect::<Vec<_>>(), [None, Some(NodeId(0)), Some(NodeId(1))]);
    let explicit = BindingKind::Explicit { cpus: Some(cpus("0")), node: Some(NodeId(0)) };
    assert_eq!(plan.rails[1].binding, explicit.into());
    assert_eq!(planned(&machine, "eth0@/0").rails[0].node, Some(NodeId(0)));
    assert_eq!(
        refused(&machine, "eth0@/7"),
        "memory from node 7 was asked for, and the nodes that may be used are 0-1"
    );
    assert_eq!(refused(&machine, "eth0@99"), "CPUs 99 were asked for `eth0`, and the machine has CPUs 0-15");
}

#[test]
fn required_affinities() {
    let machine = |cpu: &str| two_packages(vec![served_by(nic("eth0", 1, 10, "10.0.0.1"), cpu)]);
    let require = |affinities: Affinities| move |request: &mut RailRequest| request.affinities = affinities;
    let need = Need::Required;
    let all = Affinities { interrupt: need, thread: need, memory: need };
    assert_eq!(chosen_cpus(&planned_with(&machine("13"), "eth0", require(all)).unwrap()), [8]);
    let missing = |machine: &Topology, request: &str, affinities: Affinities| {
        planned_with(machine, request, require(affinities)).unwrap_err().to_string()
    };
    let none = Affinities::default();
    assert_eq!(
        missing(&machine("0"), "eth0", Affinities { interrupt: need, ..none }),
        "rail 0 lacks interrupt affinity, which is required: CPUs 0 serve the interrupts of eth0, and 8-15 are near it; \
         `rails-bench doctor` says more"
    );
    let thread = missing(&machine("0"), "eth0@8-15", Affinities { thread: need, ..none });
    assert!(thread.contains("no usable CPU is known to share a cache with CPUs 0"), "{thread}");
    let unknown =
        missing(&two_packages(vec![nic("eth0", 1, 10, "10.0.0.1")]), "eth0", Affinities { thread: need, ..none });
    assert!(unknown.contains("which CPU serves the interrupts of eth0 is not known"), "{unknown}");
    for far in ["eth0@8/0", "eth0@default"] {
        let memory = missing(&machine("13"), far, Affinities { memory: need, ..none });
        assert!(memory.contains("lacks memory affinity"), "{memory}");
    }
    let unwanted = Affinities { memory: Need::Unwanted, thread: Need::Unwanted, ..none };
    let plan = planned_with(&machine("9"), "eth0", require(unwanted)).unwrap();
    assert_eq!((chosen_cpus(&plan), plan.rails[0].node), (vec![8], None));
}
