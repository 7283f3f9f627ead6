//! How often interrupts were served: `/proc/interrupts` read, and the difference of two readings;
//! 64 and 10,000 interrupts on 192 CPUs.
//!
//! Run: `cargo bench --bench interrupts`
//!
//! The file lies in `/dev/shm`. "The text alone" is the cost of reading it without parsing.
//!
//! Measured on 2 CPUs of an AMD EPYC in a virtual machine, Linux 6.18, medians; others were
//! compiling (load 2 to 4): read takes 32 to 42 times as long as the text alone with 64 interrupts
//! (0.46 to 0.66 ms), and 13 to 14 times with 10,000 (76 to 99 ms: 40 to 50 ns a count). The
//! difference of two readings takes 31 to 40 us, and 6 to 8 ms.

mod machine;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use rails::bind::interrupt::InterruptCounts;
use std::fs;

fn interrupts(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("interrupts of 192 CPUs");
    group.sample_size(20);
    for count in [64, 10_000] {
        let root = tempfile::tempdir_in("/dev/shm").expect("there is memory for files");
        let path = root.path().join("proc/interrupts");
        let text = machine::interrupts(count);
        fs::create_dir(root.path().join("proc")).expect("there is room");
        fs::write(&path, &text).expect("there is room");
        let counts = InterruptCounts::read_under(root.path()).expect("it can be read");
        assert_eq!(counts.numbers().count(), count as usize);
        assert_eq!(counts.of(machine::FIRST).len(), 1, "each was served on one CPU");

        group.throughput(Throughput::Bytes(text.len() as u64));
        group.bench_function(BenchmarkId::new("the text alone", count), |bencher| {
            bencher.iter(|| fs::read(&path).expect("it can be read"));
        });
        group.bench_function(BenchmarkId::new("read", count), |bencher| {
            bencher.iter(|| InterruptCounts::read_under(root.path()).expect("it can be read"));
        });
        group.throughput(Throughput::Elements(u64::from(count)));
        group.bench_function(BenchmarkId::new("since", count), |bencher| bencher.iter(|| counts.since(&counts)));
    }
    group.finish();
}

criterion_group!(benches, interrupts);
criterion_main!(benches);
