//! The cost of a detector for each read: the read itself, and the eight regions after it.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rails_array::{Region, Shape};
use rails_cache::pattern::Detector;
use std::hint::black_box;

/// A read by its number.
type Trace = fn(u64) -> Region;

const READS: u64 = 10_000;

fn array() -> Shape {
    Shape::new([64, 36, 361, 540]).expect("a small array")
}

fn region(start: [u64; 4], extents: [u64; 4]) -> Region {
    Region::new(start, Shape::new(extents).expect("a small box")).expect("a box near the origin")
}

fn plane_by_plane(read: u64) -> Region {
    region([read / 36 % 64, read % 36, 0, 0], [1, 1, 361, 540])
}

fn row_by_row(read: u64) -> Region {
    region([read / 1000 % 64, read / 100 % 10 * 3, 200 + read % 100, 40], [1, 1, 1, 150])
}

/// The high bits of a multiplication, which have no order that a detector knows.
fn anywhere(read: u64) -> Region {
    let place = |salt: u64| ((read + salt).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (read + salt).pow(3)) >> 9;
    region([place(1) % 64, place(2) % 36, place(3) % 261, place(4) % 390], [1, 1, 100, 150])
}

/// Four threads, each with rows of its own, in an order that repeats after 31 reads.
fn four_threads(read: u64) -> Region {
    let thread = (read * read + read / 31) % 4;
    region([thread * 16 + read / 361 % 16, 0, read % 361, 0], [1, 1, 1, 540])
}

fn detector(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("pattern");
    group.throughput(Throughput::Elements(READS));
    let traces = [
        ("plane_by_plane", plane_by_plane as Trace),
        ("row_by_row", row_by_row),
        ("anywhere", anywhere),
        ("four_threads", four_threads),
    ];
    for (name, trace) in traces {
        let reads: Vec<Region> = (0..READS).map(trace).collect();
        for ahead in [0, 8] {
            group.bench_function(format!("{name}/{ahead}_ahead"), |bencher| {
                bencher.iter(|| {
                    let mut detector = Detector::new(&array());
                    for read in &reads {
                        detector.observe(read);
                        black_box(detector.predict(ahead));
                    }
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, detector);
criterion_main!(benches);
