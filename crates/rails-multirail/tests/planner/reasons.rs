//! A plan's reasons are true.

use crate::{chosen_cpus, cpus, loopback, nic, planned, planned_with, refused, served_by, two_packages};
use rails_bind::claims::Resource;
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

#[test]
fn nothing_is_near_a_device_of_unknown_place() {
    let machine = two_packages(vec![Nic::named("eth0")]).with_gpus(vec![gpu("card0", Some(1))]);
    let plan = planned(&machine, "eth0+gpu0");
    assert_eq!(chosen_cpus(&plan), [8]);
    let said = why_cpu(&plan, 0);
    assert!(!said.contains("near eth0 (") && said.contains("near card0 (CPUs 8-15)"), "{said}");
    assert!(said.contains("which CPUs are near eth0 is not known"), "{said}");
}

#[test]
fn nic_with_claimed_interrupt_has_no_exclusive_rail() {
    let machine = two_packages(vec![served_by(nic("eth0", 0, 100, "10.0.0.1"), "0"), nic("eth1", 1, 10, "10.0.1.1")]);
    let taken = Resource::Interrupt(machine.nics()[0].interrupts[0].number);
    let exclusive = |request: &mut RailRequest| {
        (request.exclusive, request.claimed) = (true, [taken.clone()].into_iter().collect());
    };
    let plan = planned_with(&machine, "1", exclusive).unwrap();
    assert_eq!(plan.rails[0].interface.as_deref(), Some("eth1"), "{plan}");
    let why = format!("another owner has claimed {taken}");
    assert!(
        plan.rejected_nics.iter().any(|nic| nic.name == "eth0" && nic.reason.starts_with("another owner")),
        "{plan}"
    );
    let named = planned_with(&machine, "eth0", exclusive).unwrap();
    assert!(named.notes.contains(&format!("eth0: {why}")), "{named}");
    let shared =
        planned_with(&machine, "1", |request| request.claimed = [taken.clone()].into_iter().collect()).unwrap();
    assert_eq!(shared.rails[0].interface.as_deref(), Some("eth0"), "{shared}");
}

#[test]
fn cores_alone_are_near_no_device() {
    let machine = two_packages(vec![loopback()]);
    for request in ["cores:1", "lo", "0.0.0.0"] {
        let plan = planned(&machine, request);
        assert!(!why_cpu(&plan, 0).contains("near"), "{plan}");
    }
}

#[test]
fn gpu_is_not_near_the_cpus_of_another_node() {
    let machine = two_packages(vec![]).with_gpus(vec![gpu("card0", Some(1))]).with_allowed(cpus("0-5"));
    let plan = planned(&machine, "gpu0");
    assert!(why_cpu(&plan, 0).contains("far from card0 (CPUs 8-15), as all of these are"), "{plan}");
}

#[test]
fn unknown_caches_are_not_told_as_not_shared() {
    let nic = served_by(nic("eth0", 0, 10, "10.0.0.1"), "3");
    let machine = Topology::synthetic("package:1 numa:1 core:4 pu:1", vec![nic]).unwrap().with_allowed(cpus("0-2"));
    let plan = planned(&machine, "eth0");
    assert!(!why_cpu(&plan, 0).contains("shares no cache"), "{plan}");
    assert!(why_cpu(&plan, 0).contains("not known to share a cache with CPUs 3"), "{plan}");
}

#[test]
fn reasons_by_package_where_no_cpu_shares_a_cache() {
    let nic = served_by(nic("eth0", 0, 10, "10.0.0.1"), "0");
    let nic = Nic { node: None, ..nic };
    let machine = Topology::synthetic("package:2 l3:2 core:2 pu:1", vec![nic]).unwrap();
    let request = |nearness| {
        move |request: &mut RailRequest| (request.nearness, request.claimed) = (nearness, cpus("0-1").into())
    };
    for nearness in [Nearness::Package, Nearness::SharedCache] {
        let plan = planned_with(&machine, "eth0", request(nearness)).unwrap();
        assert_eq!(chosen_cpus(&plan), [2]);
        assert_eq!(why_not(&plan, 0, 4), "in no package with a CPU that serves the NIC's interrupts", "{plan}");
    }
}

#[test]
fn required_affinity_of_rails_without_interrupts() {
    let bond = Nic { kind: NicKind::Virtual, ..nic("bond0", 0, 10, "10.0.0.1") };
    let machine = two_packages(vec![loopback(), bond]);
    let need = Need::Required;
    for affinities in
        [Affinities { interrupt: need, ..Affinities::default() }, Affinities { thread: need, ..Affinities::default() }]
    {
        let told = |request: &str| {
            let adjust = |request: &mut RailRequest| request.affinities = affinities;
            planned_with(&machine, request, adjust).unwrap_err().to_string()
        };
        assert!(told("cores:1").contains("it is planned on no NIC"), "{}", told("cores:1"));
        assert!(told("lo").contains("lo has no interrupts"), "{}", told("lo"));
        assert!(told("bond0").contains("bond0 has no interrupts"), "{}", told("bond0"));
        assert!(told("0.0.0.0").contains("it is planned on no NIC"), "{}", told("0.0.0.0"));
    }
}

#[test]
fn memory_from_anywhere_on_a_machine_with_nodes() {
    let machine = two_packages(vec![nic("eth0", 1, 10, "10.0.0.1")]).with_allowed_nodes("".parse().unwrap());
    let plan = planned(&machine, "eth0");
    assert_eq!(plan.rails[0].node, None);
    assert!(!plan.to_string().contains("the machine shows no NUMA nodes"), "{plan}");
    assert_eq!(
        refused(&machine, "eth0@/0"),
        "memory from node 0 was asked for, and the nodes that may be used are none"
    );
}

#[test]
fn shared_cpus_that_were_asked_for() {
    let machine = two_packages(vec![nic("eth0", 1, 10, "10.0.0.1"), nic("eth1", 1, 10, "10.0.1.1")]);
    let plan = planned(&machine, "eth0@4,eth1@4");
    assert_eq!(plan.notes, ["2 rails share CPU 4: fewer CPUs were asked for than rails"]);
}

#[test]
fn each_cpu_is_rejected_for_one_reason() {
    let machine = two_packages(vec![nic("eth0", 1, 10, "10.0.0.1")]).with_allowed(cpus("0-6,8-15"));
    let adjust = |request: &mut RailRequest| (request.exclusive, request.claimed) = (true, cpus("8").into());
    let plan = planned_with(&machine, "eth0@6,eth0@9-13,eth0", adjust).unwrap();
    for rail in &plan.rails {
        let told: usize = rail.rejected_cpus.iter().map(|told| told.cpus.len()).sum();
        assert_eq!(told, 15, "{plan}");
    }
}

#[test]
fn link_that_is_down_is_told() {
    let machine = two_packages(vec![Nic { up: Some(false), ..nic("eth0", 0, 10, "10.0.0.1") }]);
    let plan = planned(&machine, "eth0");
    assert!(plan.notes.iter().any(|note| note == "the link of eth0 is down"), "{plan}");
}
