use super::*;
use crate::stream_number::StreamNumber;
use proptest::prelude::*;
use rand::SeedableRng;

fn chunk(offset: u64, bytes: &[u8], fin: bool) -> (DataHeader, Bytes) {
    let payload = Bytes::copy_from_slice(bytes);
    (DataHeader::of(StreamNumber::FIRST, offset, std::slice::from_ref(&payload), fin), payload)
}

fn drain(reassembler: &mut Reassembler) -> Vec<u8> {
    std::iter::from_fn(|| reassembler.read()).flatten().collect()
}

#[test]
fn chunks_outside_the_window_change_nothing() {
    let mut reassembler = Reassembler::new(10);
    let take = |reassembler: &mut Reassembler, (header, bytes): (DataHeader, Bytes)| reassembler.insert(&header, bytes);
    assert_eq!(take(&mut reassembler, chunk(8, b"abc", false)), Err(Violation::BeyondWindow { end: 11, limit: 10 }));
    assert!(matches!(take(&mut reassembler, chunk(u64::MAX, b"abc", false)), Err(Violation::BeyondWindow { .. })));
    take(&mut reassembler, chunk(4, b"ef", false)).unwrap();
    assert_eq!(take(&mut reassembler, chunk(0, b"abc", true)), Err(Violation::EndMoved { end: 3 }));
    take(&mut reassembler, chunk(6, b"", true)).unwrap();
    assert_eq!(take(&mut reassembler, chunk(6, b"g", false)), Err(Violation::BeyondEnd { chunk_end: 7, end: 6 }));
    assert_eq!(take(&mut reassembler, chunk(0, b"abc", true)), Err(Violation::EndMoved { end: 3 }));
    take(&mut reassembler, chunk(0, b"abcd", false)).unwrap();
    assert!(reassembler.is_complete() && !reassembler.is_finished());
    assert_eq!(drain(&mut reassembler), b"abcdef");
    assert!(reassembler.is_finished());
}

#[test]
fn a_peer_that_sends_every_other_byte_is_stopped() {
    let mut reassembler = Reassembler::new(1 << 24);
    let stopped = (0..).find(|index| {
        let (header, bytes) = chunk(2 * index + 1, b"x", false);
        reassembler.insert(&header, bytes).is_err()
    });
    // The first chunk is alone, and keeps its buffer.
    assert_eq!(stopped, Some(max_runs(1 << 24) as u64));
}

#[test]
fn tiny_chunks_are_gathered() {
    let mut reassembler = Reassembler::new(1 << 24);
    for index in 0..100_000u64 {
        let (header, bytes) = chunk(index, b"x", false);
        reassembler.insert(&header, bytes).unwrap();
    }
    assert!(reassembler.segments.len() as u64 <= 100_000 / BLOCK + 1);
}

/// Every other chunk arrives first, as when one of two lanes lags behind, and the application does
/// not read.
#[test]
fn tiny_chunks_are_gathered_in_any_order() {
    let mut reassembler = Reassembler::new(1 << 24);
    for batch in (0..200_000u64).step_by(1_000) {
        for index in (batch + 1..batch + 1_000).step_by(2).chain((batch..batch + 1_000).step_by(2)) {
            let (header, bytes) = chunk(index, &[index as u8], false);
            reassembler.insert(&header, bytes).unwrap();
        }
    }
    assert!(reassembler.segments.len() as u64 <= 200_000 / BLOCK + 2, "{}", reassembler.segments.len());
    assert!(drain(&mut reassembler).into_iter().eq((0..200_000u64).map(|index| index as u8)));
}

#[test]
fn large_window_full_of_kibibytes_with_gaps() {
    let mut reassembler = Reassembler::new(1 << 28);
    for index in 0..100_000 {
        let (header, bytes) = chunk(index * 2_048, &[1; 1_024], false);
        reassembler.insert(&header, bytes).unwrap();
    }
}

/// Each chunk brings one new piece; the reassembler keeps the piece, not the chunk.
#[test]
fn a_small_part_of_a_chunk_does_not_hold_its_buffer() {
    let mut reassembler = Reassembler::new(1 << 24);
    let buffer = Bytes::from(vec![1; 100_000]);
    for index in 0..100 {
        let header = DataHeader::of(StreamNumber::FIRST, index * 5_000, std::slice::from_ref(&buffer), false);
        reassembler.insert(&header, buffer.clone()).unwrap();
    }
    let ours = buffer.as_ptr_range();
    let held = reassembler
        .segments
        .values()
        .filter(|held| matches!(held, Segment::Whole { bytes, .. } if ours.contains(&bytes.as_ptr())));
    assert_eq!(held.count(), 1, "all bytes of only the first chunk were new");
}

proptest! {
    /// Any chunks of a stream, overlapping, duplicated and in any order, give the stream back when they cover it.
    #[test]
    fn bytes_come_out_once_and_in_order(
        stream in prop::collection::vec(any::<u8>(), 1..20_000),
        cuts in prop::collection::vec((any::<prop::sample::Index>(), 0usize..6_000), 0..60),
        order in any::<u64>(),
        reads in prop::collection::vec(any::<bool>(), 60),
    ) {
        let total = stream.len();
        let mut ranges: Vec<(usize, usize)> = cuts.iter().map(|(at, length)| {
            let at = at.index(total);
            (at, (at + length).min(total))
        }).collect();
        // Cover the whole of it as well.
        ranges.extend((0..total).step_by(777).map(|at| (at, (at + 777).min(total))));
        let mut random = rand::rngs::ChaCha8Rng::seed_from_u64(order);
        rand::seq::SliceRandom::shuffle(&mut ranges[..], &mut random);
        let mut reassembler = Reassembler::new(total as u64);
        let mut out = Vec::new();
        let mut brought = 0;
        for (index, (from, to)) in ranges.into_iter().enumerate() {
            let (header, bytes) = chunk(from as u64, &stream[from..to], to == total);
            let admission = reassembler.admit(&header).unwrap();
            let arrived = reassembler.window.bytes_arrived();
            reassembler.insert(&header, bytes).unwrap();
            brought += (to - from) as u64;
            if admission == Admission::Duplicate {
                prop_assert_eq!(arrived, reassembler.window.bytes_arrived());
            }
            let have = |at: &u64| *at < reassembler.bytes_read() || reassembler.run_end(*at).is_some();
            let held_in_order = (0..total as u64).find(|at| !have(at)).unwrap_or(total as u64);
            prop_assert_eq!(reassembler.bytes_in_order(), held_in_order);
            prop_assert_eq!(reassembler.bytes_out_of_order().0, reassembler.window.bytes_arrived() - held_in_order);
            if reads[index % reads.len()] {
                out.extend(drain(&mut reassembler));
            }
        }
        prop_assert!(reassembler.is_complete());
        out.extend(drain(&mut reassembler));
        prop_assert_eq!(&out, &stream);
        prop_assert!(reassembler.is_finished());
        prop_assert_eq!(reassembler.bytes_duplicated(), brought - total as u64);
        prop_assert_eq!(reassembler.bytes_held(), 0);
    }

    #[test]
    fn hostile_headers_within_the_window(
        chunks in prop::collection::vec((0u64..3_000, 0usize..700, any::<bool>()), 0..200),
    ) {
        let mut reassembler = Reassembler::new(2_000);
        for (offset, length, fin) in chunks {
            let (header, bytes) = chunk(offset, &vec![0; length], fin);
            let _ = reassembler.insert(&header, bytes);
            prop_assert!(reassembler.bytes_held() <= 2_000);
            if length % 3 == 0 {
                reassembler.read();
            }
        }
    }
}

/// The memory of a reassembler: the length of its buffers, and the greatest overhead of each entry
/// and run. That is an entry of a map whose nodes are half full, the header of a shared buffer, and
/// the allocator's header before each.
fn memory(reassembler: &Reassembler) -> u64 {
    let entry = 2 * (8 + size_of::<Segment>() as u64);
    let of = |held: &Segment| match held {
        Segment::Whole { bytes, waste } => bytes.len() as u64 + waste + entry + 100,
        Segment::Gathered(gathered) => gathered.memory() + entry + 50 + 8 * gathered.runs().max(4) as u64,
    };
    reassembler.segments.values().map(of).sum()
}

fn bound(window: u64) -> u64 {
    window + window / 10 + BLOCK
}

#[test]
fn memory_of_the_most_expensive_window() {
    const WINDOW: u64 = 1 << 24;
    let every = |length: usize, step: u64| move |index: u64| (index * step, length);
    let mixed = |index: u64| (index / 2 * (SMALL as u64 + 1) + index % 2, [1, SMALL][index as usize % 2]);
    let halves = |index: u64| (index * SMALL as u64, 2 * SMALL);
    let floods: [&dyn Fn(u64) -> (u64, usize); 7] = [
        &every(1, 1_024),
        &every(1, 16),
        &every(SMALL, SMALL as u64),
        &every(SMALL - 1, SMALL as u64),
        &every(100_000, 60_000),
        &mixed,
        &halves,
    ];
    for (number, flood) in floods.iter().enumerate() {
        let mut reassembler = Reassembler::new(WINDOW);
        let chunks = (0..).map(flood).take_while(|(at, length)| at + 1 + *length as u64 <= WINDOW);
        for (at, length) in chunks {
            let (header, bytes) = chunk(at + 1, &vec![7; length], false);
            if reassembler.insert(&header, bytes).is_err() {
                break;
            }
            assert!(reassembler.runs <= max_runs(WINDOW));
        }
        assert!(memory(&reassembler) <= bound(WINDOW), "flood {number}: {}", memory(&reassembler));
        assert!(reassembler.wasted <= WINDOW / MAX_WASTE);
    }
}

#[test]
fn tiny_chunk_in_order_is_kept_as_it_came() {
    let mut reassembler = Reassembler::new(1 << 20);
    for index in 0..10 {
        let (header, bytes) = chunk(index, &[7], false);
        reassembler.insert(&header, bytes.clone()).unwrap();
        assert_eq!(reassembler.read().unwrap().as_ptr(), bytes.as_ptr());
    }
}

proptest! {
    /// Chunks of all sizes, in any order, with and without a reader.
    #[test]
    fn memory_is_bounded_and_its_parts_are_counted(
        chunks in prop::collection::vec((0u64..1 << 18, prop::sample::select(vec![1usize, 2, 100, 5_000, 9_000, 20_000, 60_000]), any::<bool>()), 0..300),
    ) {
        const WINDOW: u64 = 1 << 18;
        let mut reassembler = Reassembler::new(WINDOW);
        let buffer = Bytes::from(vec![7; 60_000]);
        for (at, length, read) in chunks {
            let at = reassembler.bytes_read() + at;
            let payload = buffer.slice(..length);
            let header = DataHeader::of(StreamNumber::FIRST, at, std::slice::from_ref(&payload), false);
            let _ = reassembler.insert(&header, payload);
            if read {
                reassembler.read();
            }
            prop_assert!(memory(&reassembler) <= bound(WINDOW), "{}", memory(&reassembler));
            let (mut runs, mut wasted, mut taken, mut ends) = (0, 0, 0, reassembler.bytes_read());
            for (from, held) in &reassembler.segments {
                prop_assert!(ends <= *from, "two segments overlap");
                ends = from + held.extent();
                match held {
                    Segment::Whole { bytes, waste } => {
                        taken += bytes.len() as u64;
                        wasted += waste;
                    }
                    Segment::Gathered(held) => {
                        taken += held.memory();
                        runs += held.runs();
                    }
                }
            }
            prop_assert!(ends <= reassembler.limit());
            prop_assert_eq!((runs, wasted, taken), (reassembler.runs, reassembler.wasted, reassembler.memory_held()));
            prop_assert!(taken <= WINDOW);
        }
    }
}
