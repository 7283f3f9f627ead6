//! How often interrupts were served, read from `/proc/interrupts` of a large machine.
//!
//! Run: `cargo bench --bench interrupts`
//!
//! The file is written here, so the time the kernel takes to write its own is not part of it.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use rails::bind::interrupt::InterruptCounts;
use std::{fmt::Write as _, fs, path::Path};

fn counts(criterion: &mut Criterion) {
    let root = std::env::temp_dir().join(format!("rails-interrupts-{}", std::process::id()));
    fs::create_dir_all(root.join("proc")).expect("a directory");
    let mut group = criterion.benchmark_group("counts of interrupts");
    for (queues, cpus) in [(64, 192), (10_000, 192)] {
        let text = interrupts(queues, cpus);
        fs::write(root.join("proc/interrupts"), &text).expect("a file");
        group.throughput(Throughput::Bytes(text.len() as u64));
        let name = |what| BenchmarkId::new(what, format!("{queues} queues, {cpus} CPUs"));
        group.bench_function(name("read"), |bencher| bencher.iter(|| read(&root)));
        let (earlier, later) = (read(&root), read(&root));
        group.bench_function(name("since"), |bencher| bencher.iter(|| later.since(&earlier)));
    }
    group.finish();
    fs::remove_dir_all(&root).expect("the directory was made here");
}

fn read(root: &Path) -> InterruptCounts {
    InterruptCounts::read_under(root).expect("the file was written here")
}

/// The file of a machine with one NIC of that many queues.
fn interrupts(queues: u32, cpus: u32) -> String {
    let mut text = " ".repeat(12);
    for cpu in 0..cpus {
        write!(text, "CPU{cpu:<8}").expect("a string takes all");
    }
    for queue in 0..queues {
        write!(text, "\n{:>4}: ", queue + 100).expect("a string takes all");
        for cpu in 0..cpus {
            let count = if cpu == queue % cpus { 123_456_789 + queue } else { 0 };
            write!(text, "{count:>10} ").expect("a string takes all");
        }
        write!(text, " IR-PCI-MSIX-0000:18:00.0 {:>4}-edge      ice-eth0-TxRx-{queue}", queue + 1)
            .expect("a string takes all");
    }
    text.push('\n');
    text
}

criterion_group!(benches, counts);
criterion_main!(benches);
