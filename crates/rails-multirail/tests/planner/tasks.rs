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
