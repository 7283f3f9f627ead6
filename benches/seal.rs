//! The cost for a rail's core of sealing and opening chunks, against the checksum of those that
//! travel in the clear.
//!
//! Run: `cargo bench --bench seal`. Each figure is that of one core: a lane seals and opens on its
//! own.

use bytes::Bytes;
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use rails::multirail::Secret;
use rails_proto::{
    seal::{Role, SEALED_FRAME_LEN, Seals, TAG_LEN},
    stream_number::StreamNumber,
    wire::{DataHeader, FRAME_LEN, Frame},
};
use std::hint::black_box;

/// One chunk: long enough that the header does not count, short enough for a core's own cache.
const CHUNK: usize = 256 << 10;

fn chunk() -> Bytes {
    (0..CHUNK).map(|index| (index * 31) as u8).collect::<Vec<u8>>().into()
}

fn seals(role: Role) -> Seals {
    Seals::derive(&Secret::pre_shared(b"sixteen bytes ok").expect("it is long enough"), &[7; 32], role)
}

fn clear(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("chunk of 256 KiB");
    group.throughput(Throughput::Bytes(CHUNK as u64));
    let payload = [chunk()];
    group.bench_function("in the clear: checksum at both ends", |bencher| {
        bencher.iter(|| {
            let header = DataHeader::of(StreamNumber::FIRST, 0, black_box(&payload), false);
            black_box(header.matches(&payload[0]))
        });
    });
    let header = Frame::Data(DataHeader {
        stream: StreamNumber::FIRST,
        offset: 0,
        length: CHUNK as u32,
        fin: false,
        checksum: 0,
    })
    .encode();
    let mut near = seals(Role::Initiator);
    group.bench_function("sealed: sending end", |bencher| {
        bencher.iter(|| black_box(near.sealer.seal(&header, black_box(&payload)).len()));
    });
    let two = [payload[0].slice(..CHUNK / 2), payload[0].slice(CHUNK / 2..)];
    group.bench_function("sealed: sending end, of two pieces", |bencher| {
        bencher.iter(|| black_box(near.sealer.seal(&header, black_box(&two)).len()));
    });
    let (mut near, mut far) = (seals(Role::Initiator), seals(Role::Responder));
    group.bench_function("sealed: receiving end", |bencher| {
        bencher.iter_batched(
            || near.sealer.seal(&header, &payload).to_vec(),
            |mut sealed| {
                let (head, rest) = sealed.split_first_chunk_mut::<SEALED_FRAME_LEN>().expect("a header");
                let opened = far.opener.header(head).expect("it is as it was sealed");
                let (text, tag) = rest.split_at_mut(CHUNK);
                assert_eq!((opened.len(), tag.len()), (FRAME_LEN, TAG_LEN));
                far.opener.payload(text, tag).expect("it is as it was sealed");
                sealed
            },
            BatchSize::LargeInput,
        );
    });
    group.finish();
}

criterion_group!(benches, clear);
criterion_main!(benches);
