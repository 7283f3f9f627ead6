//! Rails that have their cores to themselves.

use rails::{
    bind::claims::Claims,
    multirail::{RailRequest, Rails, plan_rails, runtime::RuntimeError},
    topo::Topology,
};

#[test]
fn exclusive_rails_claim_their_cores() {
    let topology = Topology::detect().unwrap();
    let mut request = RailRequest::loopback(1);
    request.exclusive = true;
    request.claimed = Claims::machine().taken().unwrap();
    let plan = plan_rails(&topology, &request).unwrap();
    let (cpu, own) = (plan.rails[0].cpu, &plan.rails[0].exclusive_cpus);
    assert!(own.contains(cpu));

    let rails = Rails::build(&plan).unwrap();
    assert!(own.is_subset(Claims::machine().taken().unwrap().cpus()));
    let refused = Rails::build(&plan).unwrap_err();
    assert!(matches!(refused, RuntimeError::Claim(_)), "{refused}");
    request.claimed = own.clone().into();
    let beside = plan_rails(&topology, &request).map(|plan| plan.rails[0].cpu);
    assert!(beside.is_err() || !own.contains(beside.unwrap()), "another core, or none");

    drop(rails);
    assert!(!own.intersects(Claims::machine().taken().unwrap().cpus()));
    Rails::build(&plan).unwrap();
}
