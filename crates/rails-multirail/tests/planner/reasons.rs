//! A plan's reasons are true.

use crate::{chosen_cpus, cpus, loopback, nic, planned, planned_with, refused, served_by, two_packages};
use rails_multirail::{
    RailPlan, RailRequest,
    planner::{Affinities, Nearness, Need},
};
use rails_topo::{Gpu, Nic, NicKind, NodeId, Topology};

fn gpu(name: &str, node: Option<u32>) -> Gpu {
    Gpu { name: name.to_owned(), pci: None, model: None, driver: None, node: node.map(NodeId), local_cpus: None }
}

/// The line that gives the reason of the CPU.
fn why_cpu(plan: &RailPlan, rail: usize) -> &str {
    let mut reasons = plan.rails[rail].reasons.iter();
    reasons.find(|reason| reason.contains(" usable")).unwrap_or_else(|| panic!("{plan}"))
}

/// The reason of a CPU's rejection.
fn why_not(plan: &RailPlan, rail: usize, cpu: u32) -> &str {
    let told = plan.rails[rail].rejected_cpus.iter().find(|told| told.cpus.contains(rails_topo::CpuId(cpu)));
    &told.unwrap_or_else(|| panic!("{plan}")).reason
}

#[test]
fn unbound_rail_is_on_no_cpu() {
    let machine = two_packages(vec![nic("eth0", 1, 10, "10.0.0.1")]);
    let plan = planned(&machine, "eth0@default,eth0");
    assert_eq!(chosen_cpus(&plan)[1], 8, "the unbound rail takes no CPU from others: {plan}");
    assert!(why_cpu(&plan, 1).ends_with("no other rail on its core"), "{plan}");
    assert!(why_cpu(&plan, 0).starts_with("a bound rail would have CPU 8 of 16 usable"), "{plan}");
    assert!(plan.rails[0].rejected_cpus.is_empty(), "{plan}");
    let one = planned(&machine.with_allowed(cpus("8")), "eth0@default,eth0");
    assert!(!one.notes.iter().any(|note| note.contains("share CPU")), "{one}");
}
