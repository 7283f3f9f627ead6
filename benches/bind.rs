//! Binding a thread to one CPU: with reading and putting back, and by a rival without; reading a
//! thread's usage; and claiming a CPU.
//!
//! Run: `cargo bench --bench bind`
//!
//! The rival, `core_affinity`, sets the CPUs and returns whether the call succeeded. `bind_current`
//! reads the former CPUs (also offline ones), sets the new ones, and reads the result; its guard
//! sets and reads again. In "the same work" both set the CPUs and then read where the thread may
//! run, which the rival does by `get_core_ids`. The ratio of these two is the fair one; the ratio
//! to the bare call is the cost of reading back.
//!
//! Targets: `bind_current` with its reading back within 20 us; a claim made and released within 200
//! us.
//!
//! Measured on 2 CPUs of an AMD EPYC in a virtual machine, Linux 6.18, medians; others were
//! compiling (load 2 to 4): 4.0 to 4.3 times the rival that sets and reads, 9 times the bare call.
//! `bind_current` and read back 9.1 to 10.4 us, put back as well 13 us; by number 19 us;
//! `core_affinity` 2.1 to 2.6 us with its reading, 1.1 us without. To claim and release a CPU 16
//! us, to see which CPUs are taken 7 us.

use criterion::{Criterion, criterion_group, criterion_main};
use rails::{
    bind::{
        claims::{Claims, Resource},
        thread::{self, SchedulingClass, ThreadPlacement},
        usage::ThreadUsage,
    },
    topo::CpuSet,
};

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
    group.bench_function("does a binding still hold", |bencher| {
        let there = thread::bind_current(&one).expect("the CPU is allowed");
        bencher.iter(|| there.check().expect("it can be read"));
    });
    group.bench_function("bind by number, read back, already there", |bencher| {
        let _there = thread::bind_current(&one).expect("the CPU is allowed");
        bencher.iter(|| thread::bind(thread::current_tid(), &one).expect("the CPU is allowed").keep());
    });
    group.bench_function("CPUs, class and name at once, read back, put back", |bencher| {
        let placement = ThreadPlacement::new().cpus(one.clone()).class(SchedulingClass::Batch).name("rail0");
        bencher.iter(|| placement.apply().expect("it takes no privilege").restore().expect("there is a way back"));
    });
    let core = core_affinity::CoreId { id: cpu.0 as usize };
    group.bench_function("core_affinity, set and read, already there", |bencher| {
        assert!(core_affinity::set_for_current(core));
        bencher.iter(|| {
            assert!(core_affinity::set_for_current(core));
            core_affinity::get_core_ids().expect("it can be read")
        });
    });
    group.bench_function("core_affinity, already there", |bencher| {
        assert!(core_affinity::set_for_current(core));
        bencher.iter(|| core_affinity::set_for_current(core));
    });
    group.finish();
    guard.restore().expect("the former CPUs are still there");
}

fn usage(criterion: &mut Criterion) {
    let tid = thread::current_tid();
    criterion.bench_function("usage of a thread", |bencher| {
        bencher.iter(|| ThreadUsage::of(tid).expect("the thread lives"));
    });
}

fn claims(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a folder");
    let claims = Claims::at(folder.path().join("rails"));
    let cpu = thread::current_affinity().expect("the kernel says so").first().expect("a thread may run somewhere");
    let mut group = criterion.benchmark_group("claims");
    group.bench_function("claim and release a CPU", |bencher| {
        bencher.iter(|| {
            let claim = claims.claim([Resource::Cpu(cpu)]).expect("nobody else has the folder");
            claim.release().expect("the kernel lets go");
        });
    });
    group.bench_function("the CPUs that are taken, one of them", |bencher| {
        let _claim = claims.claim([Resource::Cpu(cpu)]).expect("nobody else has the folder");
        bencher.iter(|| claims.taken().expect("it can be read"));
    });
    group.finish();
}

criterion_group!(benches, bind, usage, claims);
criterion_main!(benches);
