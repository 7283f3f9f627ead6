//! Queries about distance on a machine of 192 PUs with 16 NICs of 64 queues: the index made, and
//! asked; and the machine written and read.
//!
//! Run: `cargo bench --bench locality`
//!
//! Targets: a query at most 1 us, without allocation (a test of rails-topo counts them); the
//! machine written as JSON at most 1 MiB (tested there too). There is no rival.

#[path = "../crates/rails-topo/tests/large_machine/machine.rs"]
mod machine;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rails::topo::{CpuId, Level, NodeId, Topology};
use std::hint::black_box;

fn queries(criterion: &mut Criterion) {
    let machine = machine::machine();
    let locality = machine.locality();
    let (nic, far, gpu) = (&machine.nics()[0], &machine.nics()[15], &machine.gpus()[0]);
    let sibling = locality.sharers(nic).next().expect("its card has two ports").nic;
    let mut group = criterion.benchmark_group("locality on 192 PUs");
    let mut query = |name: &str, mut ask: Box<dyn FnMut() + '_>| {
        group.bench_function(name, |bencher| bencher.iter(&mut ask));
    };
    query(
        "nodes from a CPU",
        Box::new(|| locality.nodes_from_cpu(black_box(CpuId(191))).for_each(|tier| _ = black_box(tier))),
    );
    query(
        "nodes from a node",
        Box::new(|| locality.nodes_from_node(black_box(NodeId(7))).for_each(|tier| _ = black_box(tier))),
    );
    query("nodes from a device", Box::new(|| locality.nodes_from(black_box(nic)).for_each(|tier| _ = black_box(tier))));
    query("nearest node of a CPU", Box::new(|| _ = black_box(locality.nearest_node(black_box(CpuId(191))))));
    query(
        "all around a CPU",
        Box::new(|| locality.around(black_box(CpuId(191))).for_each(|shared| _ = black_box(shared))),
    );
    query("sharing the L3", Box::new(|| _ = black_box(locality.sharing(black_box(CpuId(191)), Level::Cache(3)))));
    query(
        "shared by two CPUs",
        Box::new(|| _ = black_box(locality.shared_by(black_box(CpuId(0)), black_box(CpuId(191))))),
    );
    query("closest PUs of a NIC", Box::new(|| _ = black_box(locality.closest_pus(black_box(nic)))));
    query("closest nodes of a GPU", Box::new(|| _ = black_box(locality.closest_nodes(black_box(gpu)))));
    query("common ancestor, a card", Box::new(|| _ = black_box(locality.common_ancestor(black_box(nic), sibling))));
    query("common ancestor, a switch", Box::new(|| _ = black_box(locality.common_ancestor(black_box(nic), gpu))));
    query("common ancestor, the machine", Box::new(|| _ = black_box(locality.common_ancestor(black_box(nic), far))));
    query("path of a NIC", Box::new(|| _ = black_box(locality.path(black_box(nic)))));
    query("sharers of a NIC", Box::new(|| locality.sharers(black_box(nic)).for_each(|sharer| _ = black_box(sharer))));
    group.finish();
}

fn snapshots(criterion: &mut Criterion) {
    let machine = machine::machine();
    let written = serde_json::to_vec(&machine).expect("it can be written");
    println!(
        "the machine is {} bytes of JSON, {:.2} of the target",
        written.len(),
        written.len() as f64 / (1 << 20) as f64
    );
    let mut group = criterion.benchmark_group("a machine of 192 PUs and 1,024 queues");
    group.bench_function("the index made", |bencher| bencher.iter(|| machine.locality()));
    group.throughput(Throughput::Bytes(written.len() as u64));
    group.bench_function("written as JSON", |bencher| {
        bencher.iter(|| serde_json::to_vec(&machine).expect("it can be written"))
    });
    group.bench_function("read from JSON", |bencher| {
        bencher.iter(|| serde_json::from_slice::<Topology>(&written).expect("it was written"));
    });
    group.finish();
}

criterion_group!(benches, queries, snapshots);
criterion_main!(benches);
