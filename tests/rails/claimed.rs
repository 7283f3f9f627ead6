//! Rails that have their cores to themselves.

use rails::{
    bind::claims::Claims,
    multirail::{RailId, RailPlan, RailRequest, Rails, plan_rails, runtime::RuntimeError},
    topo::{CpuSet, Topology},
};
use std::{
    sync::{Mutex, MutexGuard, PoisonError, mpsc},
    time::{Duration, Instant},
};

/// The claims of the machine are for one test at a time.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A rail on a free core.
fn exclusive() -> (Topology, RailRequest, RailPlan) {
    let topology = Topology::detect().unwrap();
    let mut request = RailRequest::loopback(1);
    request.exclusive = true;
    request.claimed = Claims::machine().taken().unwrap();
    let plan = plan_rails(&topology, &request).unwrap();
    (topology, request, plan)
}

#[test]
fn exclusive_rails_claim_their_cores() {
    let _turn = turn();
    let (topology, mut request, plan) = exclusive();
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

/// As after an edit by hand.
#[test]
fn one_core_in_two_exclusive_rails_is_refused() {
    let (.., mut plan) = exclusive();
    let mut second = plan.rails[0].clone();
    second.id = RailId(1);
    plan.rails.push(second);
    let refused = Rails::build(&plan).unwrap_err();
    assert!(matches!(refused, RuntimeError::NotExclusive { rail: RailId(1), .. }), "{refused}");
}

#[test]
fn claims_end_with_the_threads_of_the_rails() {
    let _turn = turn();
    let (.., plan) = exclusive();
    let own: &CpuSet = &plan.rails[0].exclusive_cpus;
    let are_claimed = || own.intersects(Claims::machine().taken().unwrap().cpus());
    let rails = Rails::build(&plan).unwrap();
    rails.blocking_shutdown(PATIENCE).unwrap();
    assert!(!are_claimed(), "by rails that have stopped");
    drop(rails);

    let rails = Rails::build(&plan).unwrap();
    let (go_on, until) = mpsc::channel::<()>();
    let (running, runs) = mpsc::channel();
    let task = rails[RailId(0)].runtime().handle().spawn(async move {
        running.send(()).unwrap();
        let _ = until.recv();
    });
    runs.recv_timeout(PATIENCE).unwrap();
    rails.blocking_shutdown(Duration::ZERO).unwrap_err();
    drop(rails);
    assert!(are_claimed() && !task.is_finished(), "its thread goes on");
    drop(go_on);
    let begin = Instant::now();
    while are_claimed() {
        assert!(begin.elapsed() < PATIENCE, "it has ended");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A bound against hanging.
const PATIENCE: Duration = Duration::from_secs(20);
