//! CPUs for tasks, and requirements of them.

use crate::{chosen_cpus, cpus, nic, planned, planned_with, served_by, two_packages};
use rails_multirail::{
    RailId, RailRequest,
    planner::{Affinities, Need, PlanError},
};
use rails_topo::{CpuSet, Gpu, NodeId, Topology};

#[test]
fn unbound_rails_have_no_core_to_themselves() {
    let machine = two_packages(vec![nic("eth0", 1, 10, "10.0.0.1")]);
    let error = planned_with(&machine, "eth0,eth0+cores:2@default", |request| request.exclusive = true).unwrap_err();
    assert!(error.to_string().contains("cores of its own and with nothing bound"), "{error}");
    assert_eq!(error, PlanError::UnboundCores { rail: RailId(1) });
    let plan = planned(&machine, "eth0+cores:3@default");
    assert_eq!(plan.rails[0].task_cpus.len(), 2);
    assert_eq!(plan.rails[0].reasons.last().unwrap(), "2 threads for tasks, bound to nothing");
}

#[test]
fn required_memory_affinity_holds_for_tasks() {
    let machine = two_packages(vec![nic("eth0", 1, 10, "10.0.0.1")]);
    let memory = Affinities { memory: Need::Required, ..Affinities::default() };
    let require = |request: &mut RailRequest| request.affinities = memory;
    assert!(planned_with(&machine, "eth0+cores:4", require).is_ok());
    let error = planned_with(&machine, "eth0+cores:5", require).unwrap_err();
    assert!(matches!(error, PlanError::AffinityMissing { affinity: "memory", .. }), "{error}");
    assert!(planned(&machine, "eth0+cores:5").rails[0].task_cpus.intersects(&cpus("0-7")));
}

#[test]
fn required_thread_affinity_holds_for_tasks() {
    let nic = served_by(nic("eth0", 0, 10, "10.0.0.1"), "0");
    let machine = Topology::synthetic("package:1 numa:1 l3:2 core:2 pu:1", vec![nic]).unwrap();
    let thread = Affinities { thread: Need::Required, ..Affinities::default() };
    let require = |request: &mut RailRequest| request.affinities = thread;
    assert_eq!(planned_with(&machine, "eth0+cores:2", require).unwrap().rails[0].cpus(), cpus("0-1"));
    let error = planned_with(&machine, "eth0+cores:3", require).unwrap_err();
    assert!(matches!(error, PlanError::AffinityMissing { affinity: "thread", .. }), "{error}");
}

#[test]
fn required_affinity_chooses_the_cpu() {
    let machine = two_packages(vec![served_by(nic("eth0", 1, 10, "10.0.0.1"), "0")]);
    let need = Need::Required;
    let thread = |request: &mut RailRequest| request.affinities = Affinities { thread: need, ..Affinities::default() };
    let plan = planned_with(&machine, "eth0", thread).unwrap();
    assert_eq!(chosen_cpus(&plan), [2], "{plan}");
    let memory = |request: &mut RailRequest| request.affinities = Affinities { memory: need, ..Affinities::default() };
    let plan = planned_with(&machine, "eth0@/0", memory).unwrap();
    assert_eq!((chosen_cpus(&plan), plan.rails[0].node), (vec![2], Some(NodeId(0))), "{plan}");
}

#[test]
fn required_thread_affinity_needs_a_binding() {
    let machine = two_packages(vec![served_by(nic("eth0", 1, 10, "10.0.0.1"), "13")]);
    let thread = Affinities { thread: Need::Required, ..Affinities::default() };
    let error = planned_with(&machine, "eth0@default", |request| request.affinities = thread).unwrap_err();
    assert!(matches!(error, PlanError::AffinityMissing { affinity: "thread", .. }), "{error}");
}

#[test]
fn tasks_beside_the_devices_of_a_rail_without_nic() {
    let gpu =
        Gpu { name: "card0".into(), pci: None, model: None, driver: None, node: Some(NodeId(1)), local_cpus: None };
    let machine = Topology::synthetic("package:2 numa:1 l3:2 core:2 pu:1", vec![]).unwrap().with_gpus(vec![gpu]);
    assert_eq!(planned(&machine, "gpu0+cores:4").rails[0].cpus(), cpus("4-7"));
    let alone = planned_with(&machine, "cores:3", |request| request.claimed = cpus("0-4").into()).unwrap();
    assert_eq!(alone.rails[0].cpus(), cpus("5-7"));
}

#[test]
fn tasks_of_a_far_rail_are_near_its_lane() {
    let nic = nic("eth0", 1, 10, "10.0.0.1");
    let machine = Topology::synthetic("package:4 numa:1 l3:1 core:2 pu:1", vec![nic]).unwrap();
    let plan = planned(&machine.with_allowed(cpus("0,4-7")), "eth0+cores:2@6/3");
    assert_eq!(plan.rails[0].cpus(), cpus("6-7"), "{plan}");
}

#[test]
fn tasks_are_on_the_cpus_that_were_asked_for() {
    let machine = two_packages(vec![nic("eth0", 1, 10, "10.0.0.1")]);
    assert_eq!(planned(&machine, "eth0+cores:3@0-7").rails[0].cpus(), cpus("0,2,4"));
    let few = planned(&machine, "eth0+cores:2@4");
    assert_eq!((chosen_cpus(&few), few.rails[0].task_cpus.len()), (vec![4], 1));
    assert!(few.to_string().contains("not among the CPUs that were asked for"), "{few}");
}

#[test]
fn cpus_for_tasks_are_not_rejected() {
    let machine = two_packages(vec![nic("eth0", 1, 10, "10.0.0.1")]);
    let rail = &planned(&machine, "eth0+cores:3").rails[0];
    let rejected = rail.rejected_cpus.iter().fold(CpuSet::new(), |all, told| all.union(&told.cpus));
    assert!(!rejected.intersects(&rail.task_cpus), "{rejected}");
}

#[test]
fn tasks_on_the_cores_of_other_rails_are_told() {
    let nics = vec![nic("eth0", 0, 10, "10.0.0.1"), nic("eth1", 0, 10, "10.0.1.1")];
    let machine = Topology::synthetic("package:1 numa:1 l3:1 core:2 pu:2", nics).unwrap();
    let plan = planned(&machine, "eth0+cores:2,eth1");
    assert_eq!((chosen_cpus(&plan), &plan.rails[0].task_cpus), (vec![0, 2], &cpus("3")));
    let text = plan.to_string();
    assert!(!text.contains("each on a core of its own"), "{text}");
    assert!(plan.notes.iter().any(|note| note == "CPUs 3 are for tasks of rail 0, and other rails are on their cores"));
}

#[test]
fn exclusive_rails_on_cpus_that_were_asked_for() {
    let machine = two_packages(vec![nic("eth0", 1, 10, "10.0.0.1"), nic("eth1", 1, 10, "10.0.1.1")]);
    let exclusive = |text: &str| planned_with(&machine, text, |request| request.exclusive = true);
    for text in ["eth0@4,eth1@4", "eth0@4,eth1@5"] {
        let told = exclusive(text).unwrap_err().to_string();
        assert!(told.contains("were asked for `eth1`, and none of them is free"), "{told}");
    }
    let claimed = |request: &mut RailRequest| (request.exclusive, request.claimed) = (true, cpus("5").into());
    let claimed = planned_with(&machine, "eth0@4", claimed).unwrap_err().to_string();
    assert!(claimed.contains("CPUs 4 were asked for `eth0`, and none of them is free"), "{claimed}");
    assert_eq!(chosen_cpus(&exclusive("eth0,eth1@8").unwrap()), [10, 8], "a wish for CPUs comes first");
    assert_eq!(chosen_cpus(&planned(&machine, "eth0,eth1@9")), [10, 9]);
}

#[test]
fn numbers_of_cores_in_errors() {
    let machine = two_packages(vec![nic("eth0", 1, 10, "10.0.0.1"), nic("eth1", 1, 10, "10.0.1.1")]);
    let with = |text: &str, exclusive: bool, cores: usize| {
        let adjust = |request: &mut RailRequest| (request.exclusive, request.cores) = (exclusive, cores);
        planned_with(&machine, text, adjust).unwrap_err()
    };
    let few = |wanted| PlanError::TooFewCores { wanted, usable: 8 };
    assert_eq!(with("loopback:9", true, 2), few(18));
    assert_eq!(with("auto", true, 5), few(10));
    assert_eq!(with("cores:5,cores:9", false, 1), few(9), "rails may share cores, so the second one has too many");
    assert_eq!(with("eth0,eth1", false, usize::MAX), few(usize::MAX));
    assert_eq!(with("eth0,eth1", true, usize::MAX), few(usize::MAX));
    let error = few(9).to_string();
    assert_eq!(error, "too few cores: 9 needed, 8 free; `rails-bench rails` lists claims");
}

#[test]
fn lanes_leave_room_for_tasks() {
    let machine = two_packages(vec![]);
    let memory = Affinities { memory: Need::Required, ..Affinities::default() };
    let adjust = |request: &mut RailRequest| (request.exclusive, request.affinities) = (true, memory);
    let plan = planned_with(&machine, "cores:3,cores:2", adjust).unwrap();
    assert_eq!([plan.rails[0].cpus(), plan.rails[1].cpus()], [cpus("0,2,4"), cpus("8,10")]);
    assert!(plan.to_string().contains("too few cores of its node are free for the rail's tasks"), "{plan}");
}
