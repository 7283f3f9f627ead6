//! Sets of CPUs, on machines of 192 and of 4,096: read, printed, intersected.
//!
//! Run: `cargo bench --bench cpuset`
//!
//! `regular` is one range, as `allowed` is on most machines; `scattered` is every other CPU, the
//! longest list there is.

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use rails::topo::{CpuId, CpuSet};
use std::hint::black_box;

fn cpusets(criterion: &mut Criterion) {
    for cpus in [192, 4096] {
        let regular: CpuSet = (0..cpus).map(CpuId).collect();
        let scattered: CpuSet = (0..cpus).step_by(2).map(CpuId).collect();
        for (kind, set) in [("regular", &regular), ("scattered", &scattered)] {
            let text = set.to_string();
            assert_eq!(text.parse::<CpuSet>().as_ref(), Ok(set));
            let mut group = criterion.benchmark_group(format!("cpuset/{kind}"));
            group.bench_with_input(BenchmarkId::new("parse", cpus), &text, |bencher, text| {
                bencher.iter(|| black_box(text).parse::<CpuSet>());
            });
            group.bench_with_input(BenchmarkId::new("print", cpus), set, |bencher, set| {
                bencher.iter(|| black_box(set).to_string());
            });
            group.bench_with_input(BenchmarkId::new("intersection", cpus), set, |bencher, set| {
                bencher.iter(|| black_box(set).intersection(black_box(&regular)));
            });
        }
    }
}

criterion_group!(benches, cpusets);
criterion_main!(benches);
