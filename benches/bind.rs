//! A thread bound to one CPU: with what it was read back and put back, and by a rival that only calls.
//!
//! Run: `cargo bench --bench bind`
//!
//! The two do not do the same. `bind_current` reads the former CPUs, sets, and reads what came of it; its guard sets and reads
//! again. `core_affinity` sets, and says whether the call succeeded. The difference is what knowing costs.

use criterion::{Criterion, criterion_group, criterion_main};
use rails::{bind::thread, topo::CpuSet};

fn bind(criterion: &mut Criterion) {
    let allowed = thread::current_affinity().expect("the kernel says where a thread may run");
    let cpu = allowed.first().expect("a thread may run somewhere");
    let one = CpuSet::single(cpu);
    // The rival leaves the thread where it put it; this puts it back at the end.
    let guard = thread::bind_current(&allowed).expect("a thread may run where it may run");
    let mut group = criterion.benchmark_group("bind a thread");
    group.bench_function("bind_current, read back, put back", |bencher| {
        bencher.iter(|| {
            let guard = thread::bind_current(&one).expect("the CPU is allowed");
            guard.restore().expect("the former CPUs are still there");
        });
    });
    group.bench_function("bind_current and read back, already there", |bencher| {
        let _there = thread::bind_current(&one).expect("the CPU is allowed");
        bencher.iter(|| thread::bind_current(&one).expect("the CPU is allowed").keep());
    });
    group.bench_function("core_affinity, already there", |bencher| {
        let core = core_affinity::CoreId { id: cpu.0 as usize };
        assert!(core_affinity::set_for_current(core));
        bencher.iter(|| core_affinity::set_for_current(core));
    });
    group.finish();
    guard.restore().expect("the former CPUs are still there");
}

criterion_group!(benches, bind);
criterion_main!(benches);
