//! The cost of a copy plan beside that of the bytes it copies.
//!
//! Run: `cargo bench -p rails-array`
//!
//! The box is the one of a basin: 64 steps of one level, 100 rows of 150 numbers of 4 bytes, out of
//! planes of 361x540. The rival copies as many rows of the same length, whose offsets it knows.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rails_array::{BlockGrid, CopyPlan, Region, Selection, Shape, copy, copy_from_slots};
use std::{hint::black_box, num::NonZeroU64};

fn shape<const N: usize>(extents: [u64; N]) -> Shape {
    Shape::new(extents).expect("the shape is small")
}

fn basin() -> Region {
    Region::new([0, 0, 130, 200], shape([64, 1, 100, 150])).expect("the region is small")
}

/// Rows of 600 bytes out of planes.
fn rows(criterion: &mut Criterion) {
    let planes = Region::whole(&shape([64, 1, 361, 540]));
    let source = vec![1_u8; (planes.elements() * 4) as usize];
    let plan = CopyPlan::new(&planes, &basin().into(), 4).expect("the plan is small");
    let mut destination = vec![0_u8; plan.bytes() as usize];
    let mut group = criterion.benchmark_group("basin out of planes");
    group.throughput(Throughput::Bytes(plan.bytes()));
    group.bench_function("copy", |bencher| {
        bencher.iter(|| copy(black_box(&plan), &source, &mut destination).expect("the memory fits"));
    });
    let slot_bytes = NonZeroU64::new(64 << 10).expect("slots have bytes");
    let slots: Vec<&[u8]> = source.chunks(64 << 10).collect();
    group.bench_function("copy from slots", |bencher| {
        bencher.iter(|| copy_from_slots(black_box(&plan), slot_bytes, &slots, &mut destination).expect("it fits"));
    });
    group.bench_function("memcpy of rows", |bencher| {
        bencher.iter(|| {
            // As long as the compiler does not know, as in a plan.
            let length = black_box(600);
            for (number, row) in destination.chunks_exact_mut(length).enumerate() {
                let at = number / 100 * (361 * 540 * 4) + (130 + number % 100) * (540 * 4) + 800;
                row.copy_from_slice(&source[at..at + length]);
            }
        });
    });
    group.bench_function("memcpy at once", |bencher| {
        bencher.iter(|| destination.copy_from_slice(black_box(&source[..64 * 100 * 600])));
    });
    group.finish();
    let mut group = criterion.benchmark_group("runs of the basin");
    group.throughput(Throughput::Elements(plan.runs().len() as u64));
    group.bench_function("iterate", |bencher| {
        bencher.iter(|| black_box(&plan).runs().fold(0, |sum, run| sum + run.source + run.destination));
    });
    group.finish();
}

/// Single elements: every third one along the last axis.
fn elements(criterion: &mut Criterion) {
    let plane = Region::whole(&shape([361, 540]));
    let source = vec![1_u8; (plane.elements() * 4) as usize];
    let every_third = Selection::new(plane.clone(), [1, 3]).expect("the steps fit");
    let plan = CopyPlan::new(&plane, &every_third, 4).expect("the plan is small");
    let mut destination = vec![0_u8; plan.bytes() as usize];
    let mut group = criterion.benchmark_group("every third element");
    group.throughput(Throughput::Elements(plan.bytes() / 4));
    group.bench_function("copy", |bencher| {
        bencher.iter(|| copy(black_box(&plan), &source, &mut destination).expect("the memory fits"));
    });
    group.finish();
}

/// The questions that a request asks: which blocks, and how each is copied.
fn questions(criterion: &mut Criterion) {
    let array = Region::whole(&shape([64, 36, 361, 540]));
    let grid = BlockGrid::new(array, shape([1, 1, 91, 135])).expect("the blocks fit");
    let selection = Selection::from(basin());
    let blocks = grid.blocks_of_selection(&selection).expect("the ranks are equal");
    let mut group = criterion.benchmark_group("blocks of the basin");
    group.throughput(Throughput::Elements(blocks.len() as u64));
    group.bench_function("list", |bencher| {
        bencher.iter(|| {
            let blocks = grid.blocks_of_selection(black_box(&selection)).expect("the ranks are equal");
            blocks.fold(0, |sum, block| sum + block.0)
        });
    });
    group.bench_function("plan", |bencher| {
        bencher.iter(|| {
            let plan = |block| CopyPlan::new(&grid.block_region(block), &selection, 4).expect("the plan is small");
            blocks.clone().fold(0, |sum, block| sum + plan(block).bytes())
        });
    });
    group.finish();
}

criterion_group!(benches, rows, elements, questions);
criterion_main!(benches);
