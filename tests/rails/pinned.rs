//! A rail's thread runs on the planned CPU, by two witnesses; an impossible placement is an error.

use crate::loopback;
use rails::{
    bind::{BindError, memory::BufferOptions, thread},
    multirail::{
        RailRequest, Rails, plan_rails,
        planner::PlanError,
        runtime::{RailRuntimeBuilder, RuntimeError},
    },
    topo::{CpuId, CpuSet, NodeSet, Topology},
};

#[tokio::test]
async fn rail_on_its_planned_cpu_by_two_witnesses() {
    let (_, rails) = loopback(2);
    for rail in rails.iter() {
        let planned = rail.planned().cpu;
        let placement = rail.runtime().placement();
        assert_eq!(thread::affinity_of(placement.tid).unwrap(), CpuSet::single(planned));
        assert_eq!(rail.runtime().cpus_now().unwrap(), CpuSet::single(planned));
        assert!(placement.cpus.as_ref().unwrap().is_applied());
        // Another library, called on the rail.
        let seen = rail.runtime().spawn(async { core_affinity::get_core_ids() }).await.unwrap().unwrap();
        assert_eq!(seen.iter().map(|core| core.id).collect::<Vec<_>>(), [planned.0 as usize]);
        let ran_on = rail.runtime().spawn(async { (thread::current_tid(), thread::current_cpu().unwrap()) });
        assert_eq!(ran_on.await.unwrap(), (placement.tid, planned));
    }
}

#[test]
fn plan_without_its_first_rail_is_refused() {
    let mut plan = plan_rails(&Topology::detect().unwrap(), &RailRequest::loopback(2)).unwrap();
    plan.rails.remove(0);
    let refused = Rails::build(&plan).unwrap_err();
    assert!(matches!(refused, RuntimeError::Number { index: 0, .. }), "{refused}");
}

#[test]
fn rails_are_spread_over_the_cpus_that_there_are() {
    let (topology, rails) = loopback(2);
    let cpus: CpuSet = rails.iter().map(|rail| rail.planned().cpu).collect();
    assert_eq!(cpus.len(), topology.allowed_cpus().len().min(2));
    assert!(cpus.is_subset(topology.allowed_cpus()));
}

#[test]
fn the_affinities_of_a_loopback_rail_are_not_claimed() {
    let (topology, rails) = loopback(1);
    let report = rails.iter().next().unwrap().affinity(&topology);
    let no_interrupts = "unknown: lo raises no interrupts";
    assert_eq!((report.interrupt.to_string(), report.thread.to_string()), (no_interrupts.into(), no_interrupts.into()));
    assert!(!report.holds());
}

#[test]
fn cpus_that_do_not_exist_make_no_plan() {
    let topology = Topology::detect().unwrap();
    let wish: RailRequest = format!("127.0.0.1@{ABSENT}").parse().unwrap();
    let error = plan_rails(&topology, &wish).unwrap_err();
    let wanted = CpuSet::single(CpuId(ABSENT));
    let online = topology.online_cpus().clone();
    assert_eq!(error, PlanError::NoSuchCpus { lane: "lo".into(), wanted, online });
}

/// As a plan from another machine, or from before a CPU went offline.
#[test]
fn a_plan_for_cpus_that_do_not_exist_builds_nothing() {
    let topology = Topology::detect().unwrap();
    let mut plan = plan_rails(&topology, &RailRequest::loopback(2)).unwrap();
    plan.rails[1].cpu = CpuId(ABSENT);
    let error = Rails::build(&plan).unwrap_err();
    let RuntimeError::Bind { name, source: BindError::CpusUnusable { requested, offline, .. } } = error else {
        panic!("{error}");
    };
    assert_eq!(name, "rail-1");
    assert_eq!(requested, CpuSet::single(CpuId(ABSENT)));
    assert_eq!(offline, Some(requested));
}

#[test]
fn runtime_with_some_of_its_cpus() {
    let here = thread::current_affinity().unwrap().first().unwrap();
    let wanted: CpuSet = [here, CpuId(ABSENT)].into_iter().collect();
    let runtime = RailRuntimeBuilder::new("half", wanted.clone()).build().unwrap();
    let placement = runtime.placement();
    let outcome = placement.cpus.as_ref().unwrap();
    assert!(!outcome.is_applied());
    assert_eq!(outcome.got(), &CpuSet::single(here));
    let none = RailRuntimeBuilder::new("none", CpuSet::new()).build().unwrap_err();
    assert!(matches!(none, RuntimeError::Bind { source: BindError::EmptySet { .. }, .. }), "{none}");
}

#[test]
fn runtime_with_a_name_that_no_thread_can_have() {
    let cpus = thread::current_affinity().unwrap();
    let error = RailRuntimeBuilder::new("null\0", cpus).build().unwrap_err();
    assert!(matches!(error, RuntimeError::Spawn { .. }), "{error}");
}

/// Above the CPU numbers of every machine that runs these tests, and below the largest number that
/// a set takes from text.
const ABSENT: u32 = 100_000;

#[test]
fn a_rails_buffers_lie_on_its_node_and_are_bounded() {
    let (_, rails) = loopback(1);
    let rail = rails.iter().next().unwrap();
    let pool = rail.buffer_pool(64 << 10, 3, &BufferOptions::new().lock(true)).unwrap();
    let node = rail.runtime().placement().memory_node.clone().unwrap();
    assert!(pool.residency().unwrap().is_all_on(&NodeSet::single(node)));
    let taken: Vec<_> = std::iter::from_fn(|| pool.take()).collect();
    assert_eq!((taken.len(), pool.available()), (3, 0));
    drop(taken);
    assert_eq!(pool.available(), 3);
}
