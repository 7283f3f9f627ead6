//! The CPU and the memory of planned rails.

use crate::{chosen_cpus, cpus, interfaces, loopback, nic, on_card, planned, refused, served_by, two_packages};
use rails_topo::{CpuId, Nic, NicKind, NodeId, Topology};

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
            "CPU 2 of 4 usable: far from eth0: none of its CPUs 8-15 is among the usable ones; which CPU serves its \
             interrupts is not known; no other rail on its core",
            "memory from node 0: the nearest to CPU 2",
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
fn cpu_that_serves_the_interrupt_is_preferred() {
    let machine = two_packages(vec![served_by(nic("eth0", 1, 10, "10.0.0.1"), "13")]);
    let plan = planned(&machine, "eth0");
    assert_eq!(chosen_cpus(&plan), [13]);
    assert!(plan.rails[0].reasons[1].contains("serves its interrupts (on CPUs 13)"), "{plan}");
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
    assert!(plan.notes.contains(&"eth1 is left alone: the storage network's".to_owned()), "{:?}", plan.notes);
    for asked in ["eth1", "10.0.1.1"] {
        assert_eq!(refused(&machine, asked), "`eth1` is hidden: the storage network's (by its model)");
    }
}
