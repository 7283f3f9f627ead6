//! One rail: planned, built, used for a task that cannot leave its thread, and read back.
//!
//! Run: `cargo run --example pin_one_rail`, or `cargo run --example pin_one_rail -- eth0` for a
//! rail on that NIC.
//!
//! Expected: the plan with its reasons, the sum that the task computes, the thread and its CPUs as
//! read back from the kernel, and which of the three affinities hold. On the loopback interface two
//! of them are unknown, because it has no interrupt.

use anyhow::Context;
use rails::{
    bind::affinity::AffinityReport,
    multirail::{
        RailRequest, Rails, plan_rails,
        runtime::{Placement, RailRuntime},
    },
    topo::{CpuId, CpuSet, Topology},
};
use std::{cell::Cell, rc::Rc};

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let wish = std::env::args().nth(1).unwrap_or("loopback:1".to_owned());
    let pinned = run(&wish).await?;
    println!("the task on the rail came to {}", pinned.sum);
    let Pinned { planned, placement: Placement { tid, cpu, memory_node, .. }, cpus_now, .. } = &pinned;
    println!("thread {tid} may run on CPUs {cpus_now} (read back; planned: {planned}), and was seen on CPU {cpu}");
    match memory_node {
        Ok(node) => println!("its memory comes from node {node} (read back)"),
        Err(reason) => println!("where its memory comes from is unknown: {reason}"),
    }
    println!("{}", pinned.affinity);
    Ok(())
}

/// The observations of the rail.
pub(crate) struct Pinned {
    /// The planned CPU.
    pub(crate) planned: CpuId,
    /// The placement of the thread when the rail was built.
    pub(crate) placement: Placement,
    /// The CPUs that it may run on now.
    pub(crate) cpus_now: CpuSet,
    /// Which of the three affinities hold.
    pub(crate) affinity: AffinityReport,
    /// The result of its task.
    pub(crate) sum: u32,
}

/// Builds the rail that `wish` asks for (`eth0`, `10.0.0.1`, `eth0@2-3`, `loopback:1`).
pub(crate) async fn run(wish: &str) -> anyhow::Result<Pinned> {
    let topology = Topology::detect()?;
    let plan = plan_rails(&topology, &wish.parse::<RailRequest>()?)?;
    for reason in plan.rails.iter().flat_map(|rail| &rail.reasons).chain(&plan.notes) {
        println!("planned: {reason}");
    }
    let rails = Rails::build(&plan)?;
    let rail = rails.iter().next().context("the plan has no rail")?;
    Ok(Pinned {
        planned: rail.planned().cpu,
        sum: count_together(rail.runtime()).await?,
        placement: (*rail.runtime().placement()).clone(),
        cpus_now: rail.runtime().cpus_now()?,
        affinity: rail.affinity(&topology),
    })
}

/// Two futures share a counter without a lock or an atomic: both run on one thread, so they can
/// share an `Rc`.
async fn count_together(runtime: &RailRuntime) -> anyhow::Result<u32> {
    let task = runtime.spawn_local(|| async {
        let counter = Rc::new(Cell::new(0));
        let count = |step| {
            let counter = counter.clone();
            async move {
                for _ in 0..100 {
                    counter.set(counter.get() + step);
                    tokio::task::yield_now().await;
                }
            }
        };
        tokio::join!(count(1), count(10));
        counter.get()
    });
    Ok(task.await?)
}
