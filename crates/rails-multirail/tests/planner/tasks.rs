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
