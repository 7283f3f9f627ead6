//! The cost of a chunk besides its socket: shared out, framed, summed, put back in order.
//!
//! Run: `cargo bench --bench stripe`
//!
//! The state machines do no I/O, so they are measured alone. Compare the figures per chunk with 21
//! us, the time of a chunk of 256 KiB at 100 Gbit/s.

use bytes::Bytes;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use rails::multirail::Policy;
use rails_proto::{
    internals::{Reassembler, Scheduler},
    session::LaneTraits,
    stream_number::StreamNumber,
    wire::{Ack, DataHeader, Frame},
};
use std::{hint::black_box, time::Instant};

/// A chunk is written, taken by one of four lanes in turn, and acknowledged.
fn scheduler(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("scheduler");
    group.throughput(Throughput::Elements(1));
    // Time is an argument: at one moment nothing is overdue, every lane is fast, and reading a clock is
    // not measured.
    let now = Instant::now();
    for policy in [Policy::Adaptive, Policy::Static] {
        let mut scheduler = Scheduler::new(policy.build(), CHUNK, 4 << 20, WINDOW, WINDOW);
        scheduler.open(StreamNumber::FIRST, u64::MAX);
        (0..LANES).for_each(|lane| scheduler.lane_up(lane, LaneTraits::default()));
        let (payload, mut taken) = (Bytes::from(vec![0; CHUNK]), 0u64);
        group.bench_function(format!("take and acknowledge/{policy:?}"), |bencher| {
            bencher.iter(|| {
                let lane = taken as usize % LANES;
                let length = scheduler.chunk_length(lane);
                scheduler.write(StreamNumber::FIRST, payload.slice(..length));
                let chunk = scheduler.take(now, lane).expect("the written bytes can be taken");
                // The lane's own count, and a peer that reads as fast as it receives.
                let chunks = taken / LANES as u64 + 1;
                taken += 1;
                let end = chunk.offset + u64::from(chunk.length);
                let ack = Ack { chunks, limit: end + WINDOW, complete: false };
                scheduler.handle_ack(now, lane, &ack).expect("the taken bytes can be acknowledged");
                chunk
            });
        });
    }
    group.finish();
}

/// A window of chunks is inserted and read, in order and in an order in which nothing can be read
/// until the end.
fn reassembler(criterion: &mut Criterion) {
    const CHUNKS: u64 = WINDOW / CHUNK as u64;
    let mut group = criterion.benchmark_group("reassembler");
    group.throughput(Throughput::Elements(CHUNKS));
    // 37 and 64 have no common divisor, so every chunk comes once; starting at 1, the first of them
    // comes last.
    for (name, step, first) in [("in order", 1, 0), ("shuffled", 37, 1)] {
        let (mut reassembler, payload) = (Reassembler::new(WINDOW), Bytes::from(vec![0; CHUNK]));
        group.bench_function(format!("insert and read/{name}"), |bencher| {
            bencher.iter(|| {
                let base = reassembler.bytes_read();
                for index in 0..CHUNKS {
                    let offset = base + (index + first) * step % CHUNKS * CHUNK as u64;
                    let header = DataHeader {
                        stream: StreamNumber::FIRST,
                        offset,
                        length: CHUNK as u32,
                        fin: false,
                        checksum: 0,
                    };
                    reassembler.insert(&header, payload.clone()).expect("it is inside the window");
                    while let Some(bytes) = reassembler.read() {
                        black_box(bytes);
                    }
                }
                assert_eq!(reassembler.bytes_read(), base + WINDOW);
            });
        });
    }
    group.finish();
}

fn wire(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("wire");
    let frames = [
        (
            "data",
            Frame::Data(DataHeader {
                stream: StreamNumber::FIRST,
                offset: 1 << 40,
                length: CHUNK as u32,
                fin: false,
                checksum: 0x8a91_36aa,
            }),
        ),
        ("ack", Frame::Ack(Ack { chunks: 1 << 20, limit: 1 << 40, complete: false })),
    ];
    for (name, frame) in frames {
        let bytes = frame.encode();
        group.bench_function(format!("encode/{name}"), |bencher| bencher.iter(|| black_box(&frame).encode()));
        group.bench_function(format!("decode/{name}"), |bencher| bencher.iter(|| Frame::decode(black_box(&bytes))));
    }
    group.finish();
}

/// CRC-32C over a chunk that lies in the cache; at both ends every byte goes through this once.
fn checksum(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("checksum");
    for length in [4 << 10, CHUNK] {
        let payload = [Bytes::from(vec![7; length])];
        group.throughput(Throughput::Bytes(length as u64));
        group.bench_with_input(BenchmarkId::new("chunk", length), &payload, |bencher, payload| {
            bencher.iter(|| DataHeader::of(StreamNumber::FIRST, 0, black_box(payload), false));
        });
    }
    group.finish();
}

const LANES: usize = 4;
/// The longest chunk, and the window, unless the options say otherwise.
const CHUNK: usize = 256 << 10;
const WINDOW: u64 = 16 << 20;

criterion_group!(benches, scheduler, reassembler, wire, checksum);
criterion_main!(benches);
