//! Planning rails on a machine of two packages and 192 PUs, with 16 NICs of 64 queues behind eight
//! PCIe switches.
//!
//! Run: `cargo bench --bench plan`
//!
//! Target: each plan within 5 ms. There is no rival.
//!
//! Measured on 2 CPUs of an AMD EPYC in a virtual machine, Linux 6.18, without link-time
//! optimization; others were compiling (load 7 to 9), so this is CPU time, the mean of 1,000 plans:
//! a rail on each NIC 1.4 ms, one rail 0.8 ms, 16 exclusive rails of four cores 2.6 ms, 64 rails on
//! loopback 1.9 ms.

#[path = "../crates/rails-topo/tests/large_machine/machine.rs"]
mod machine;

use criterion::{Criterion, criterion_group, criterion_main};
use rails::multirail::{RailRequest, plan_rails};
use std::hint::black_box;

fn plans(criterion: &mut Criterion) {
    let machine = machine::machine();
    let mut group = criterion.benchmark_group("plan on 192 PUs and 16 NICs");
    let mut plan = |name: &str, request: RailRequest| {
        group.bench_function(name, |bencher| {
            bencher
                .iter(|| plan_rails(black_box(&machine), black_box(&request)).expect("the machine has enough of all"));
        });
    };
    let read = |text: &str| text.parse::<RailRequest>().expect("it is a request");
    plan("a rail on each NIC", RailRequest::auto());
    plan("a rail on one NIC", RailRequest::count(1));
    let mut exclusive = RailRequest::auto();
    (exclusive.exclusive, exclusive.cores) = (true, 4);
    plan("16 exclusive rails of four cores", exclusive);
    let named = machine.nics().iter().zip((0..8).cycle()).map(|(nic, gpu)| format!("{}+gpu{gpu}", nic.name));
    plan("16 named NICs, each with a GPU", read(&named.collect::<Vec<_>>().join(",")));
    plan("64 rails on loopback", RailRequest::loopback(64));
    group.finish();
}

criterion_group!(benches, plans);
criterion_main!(benches);
