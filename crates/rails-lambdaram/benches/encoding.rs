//! The rates of the encodings of blocks.
//!
//! Run: `cargo bench -p rails-lambdaram --bench encoding`
//!
//! A block is 256 KiB of a smooth field with noise in its last bits, as a model's output has it.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rails_formats::data_type::DataType;
use rails_lambdaram::{encoding::Coder, wire::Encoding};
use std::hint::black_box;

/// A wave over a plane of 256x256, with noise in the last twelve bits of each number.
fn field() -> Vec<u8> {
    let mut state = 7_u32;
    let number = |at: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let (x, y) = ((at % 256) as f32, (at / 256) as f32);
        let wave = 250.0 + 40.0 * (x / 40.0).sin() * (y / 60.0).cos();
        (wave.to_bits() & !0xfff | state >> 20).to_le_bytes()
    };
    (0..1 << 16).flat_map(number).collect()
}

fn encodings(criterion: &mut Criterion) {
    let (block, mut coder) = (field(), Coder::default());
    for encoding in Encoding::ALL {
        let mut payload = Vec::new();
        let used = coder.encode(&block, DataType::Float32, encoding, &mut payload);
        let mut group = criterion.benchmark_group(format!("{used}, {} to {} bytes", block.len(), payload.len()));
        group.throughput(Throughput::Bytes(block.len() as u64));
        let mut out = Vec::new();
        group.bench_function("encode", |bencher| {
            bencher.iter(|| {
                out.clear();
                coder.encode(black_box(&block), DataType::Float32, encoding, &mut out)
            });
        });
        group.bench_function("decode", |bencher| {
            bencher.iter(|| {
                coder.decode(black_box(&payload), DataType::Float32, used, block.len()).expect("the payload is whole")
            });
        });
        group.finish();
    }
}

criterion_group!(benches, encodings);
criterion_main!(benches);
