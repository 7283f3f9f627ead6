//! Replays of programs that are made up.

use super::{
    Outcome, ReplayError, Setting,
    advise::{Advice, Adviser},
    fitted_path, replay,
};
use crate::trace::{ReadOutcome, TRACE_VERSION, Told, Trace, TraceHeader, TracedArray, TracedRead};
use rails_array::{Region, Shape};
use rails_cache::{Policy, pattern::Path};
use rails_topo::DataSize;
use rand::{SeedableRng, rngs::ChaCha8Rng, seq::SliceRandom};
use std::time::{Duration, Instant};

const MS: Duration = Duration::from_millis(1);

fn region(start: [u64; 3], extents: [u64; 3]) -> Region {
    Region::new(start, Shape::new(extents).unwrap()).unwrap()
}

/// A program that computes for a time after each read, and whose reads waited 30 ms each.
fn trace(block_shape: [u64; 3], reads: impl IntoIterator<Item = Region>, compute: Duration) -> Trace {
    let array = TracedArray {
        dataset: "merra".into(),
        name: "wind".into(),
        shape: Shape::new([64, 361, 540]).unwrap(),
        element_bytes: 4,
        block_shape: Shape::new(block_shape).unwrap(),
    };
    let header = TraceHeader {
        version: TRACE_VERSION,
        address: "lram://host/merra".into(),
        process: 1,
        application: "default".into(),
        memory_bytes: 64 << 20,
        slot_bytes: 64 << 10,
        max_block_bytes: 1 << 20,
        policy: Policy::Lru,
        prefetch: true,
        views: true,
        presend: false,
    };
    let read = |(number, region): (usize, Region)| TracedRead {
        at: MS * 7 + (compute + MS * 30) * number as u32,
        handle: 0,
        array: 0,
        selection: region.into(),
        waited: MS * 30,
        outcome: ReadOutcome::Done,
    };
    Trace {
        header,
        path: Path { round_trip: MS * 19, storage_latency: Duration::ZERO, bytes_per_second: 62_500_000 },
        arrays: vec![array],
        reads: reads.into_iter().enumerate().map(read).collect(),
        tells: Vec::new(),
        end: None,
        is_cut: false,
    }
}

/// A box takes 5 ms on this path: bytes beside it are no matter on a faster one.
fn slow(mut trace: Trace) -> Trace {
    trace.path.bytes_per_second = 2_000_000;
    trace
}

fn planes() -> impl Iterator<Item = Region> {
    (0..64).map(|step| region([step, 0, 0], [1, 361, 540]))
}

/// Numbers in an order that nothing foretells.
fn shuffled(count: u64) -> Vec<u64> {
    let mut numbers: Vec<u64> = (0..count).collect();
    numbers.shuffle(&mut ChaCha8Rng::seed_from_u64(1));
    numbers
}

/// Boxes at places that nothing foretells, each of them once: five of a hundred elements.
fn boxes() -> impl Iterator<Item = Region> {
    let places = shuffled(64 * 72).into_iter().step_by(19);
    places.map(|number| region([number / 72, number % 9 * 40, number / 9 % 8 * 60], [1, 40, 60]))
}

fn run(trace: &Trace, change: impl FnOnce(&mut Setting)) -> Outcome {
    let mut setting = Setting::recorded(trace);
    change(&mut setting);
    replay(trace, &setting, Instant::now()).unwrap()
}

fn advise(trace: &Trace) -> Advice {
    let mut adviser = Adviser::new(trace, &[]);
    loop {
        let round = adviser.next_round();
        if round.is_empty() {
            break;
        }
        for setting in round {
            if let Ok(outcome) = replay(trace, &setting, Instant::now()) {
                adviser.learn(setting, &outcome);
            }
        }
    }
    adviser.advice().unwrap()
}

#[test]
fn reads_one_after_the_other_wait_as_the_path_says() {
    let trace = trace([1, 91, 135], planes(), MS * 50);
    let alone = run(&trace, |setting| setting.prefetch = false);
    // A round trip, and the bytes of a plane on the link.
    let of_plane = MS * 19 + Duration::from_secs_f64(361.0 * 540.0 * 4.0 / 62_500_000.0);
    for wait in &alone.waits {
        assert!(wait.abs_diff(of_plane) < Duration::from_micros(1), "{wait:?} for {of_plane:?}");
    }
    assert_eq!((alone.stats.misses, alone.stats.hits, alone.path_blocks), (64 * 16, 0, 64 * 16));
    assert_eq!((alone.path_bytes, alone.wanted_bytes), (64 * 361 * 540 * 4, 64 * 361 * 540 * 4));
    assert!(alone.elapsed.abs_diff(of_plane * 64 + MS * 50 * 63) < MS);
    let ahead = run(&trace, |_| {});
    assert!(ahead.waited() < alone.waited() / 8, "{ahead:?}");
    assert_eq!(ahead.unused(), 0);
}

#[test]
fn a_replay_has_one_result() {
    let trace = trace([1, 91, 135], boxes(), MS * 3);
    let first = replay(&trace, &Setting::recorded(&trace), Instant::now()).unwrap();
    let second = replay(&trace, &Setting::recorded(&trace), Instant::now() + Duration::from_secs(999)).unwrap();
    assert_eq!(first, second);
    assert_eq!(advise(&trace), advise(&trace));
}

#[test]
fn a_rate_is_found_in_the_waits() {
    for (prefetches, bytes_per_second) in [(false, 3_000_000), (false, 400_000_000), (true, 20_000_000)] {
        let mut trace = trace([1, 91, 135], planes(), MS * 5);
        trace.header.prefetch = prefetches;
        let true_path = Path { bytes_per_second, ..trace.path };
        let waits = run(&trace, |setting| setting.path = true_path).waits;
        let mut at = MS;
        for (read, wait) in trace.reads.iter_mut().zip(waits) {
            (read.at, read.waited) = (at, wait);
            at += wait + MS * 5;
        }
        // A site measures encoded bytes.
        trace.path.bytes_per_second = 1_000_000;
        let found = fitted_path(&trace, Instant::now()).unwrap();
        let ratio = found.bytes_per_second as f64 / bytes_per_second as f64;
        assert!((0.98..1.02).contains(&ratio) && found.round_trip == trace.path.round_trip, "{ratio} {prefetches}");
        // Less than a round trip for each read.
        trace.reads.iter_mut().for_each(|read| read.waited = MS);
        trace.header.prefetch = false;
        assert_eq!(fitted_path(&trace, Instant::now()).unwrap(), trace.path);
    }
}

#[test]
fn reads_that_overlapped_overlap_again() {
    let mut trace = trace([1, 91, 135], planes().take(2), Duration::ZERO);
    let [first, second] = &mut trace.reads[..] else { panic!("there are two") };
    (second.at, second.handle) = (first.at + MS * 10, 1);
    let outcome = run(&trace, |setting| setting.prefetch = false);
    // The second one begins when the replay has run for 10 ms, and its bytes follow those of the first.
    let on_link = Duration::from_secs_f64(361.0 * 540.0 * 4.0 / 62_500_000.0);
    assert!(outcome.elapsed.abs_diff(MS * 29 + on_link) < MS * 13, "{outcome:?}");
    second_begins_before_the_first_ends(&outcome);
    // Reads that failed or were given up are left out.
    trace.reads[0].outcome = ReadOutcome::Cancelled;
    trace.reads[1].outcome = ReadOutcome::Failed;
    assert_eq!(run(&trace, |_| {}).waits, []);
}

fn second_begins_before_the_first_ends(outcome: &Outcome) {
    let apart = outcome.waits[0] + outcome.waits[1];
    assert!(outcome.elapsed < apart, "{outcome:?}");
}

#[test]
fn announced_regions_are_fetched_ahead() {
    let mut trace = trace([1, 361, 540], boxes().step_by(7), MS * 20);
    trace.arrays[0].block_shape = Shape::new([1, 40, 60]).unwrap();
    let unknown = run(&trace, |_| {});
    let regions = trace.reads.iter().map(|read| read.selection.bounds().clone()).collect();
    trace.tells.push(Told { at: MS, handle: 0, array: 0, regions });
    let told = run(&trace, |_| {});
    assert!(told.waited() < unknown.waited() / 5, "{:?} {:?}", told.waited(), unknown.waited());
    let hinted = run(&trace, |setting| setting.policy = Policy::Hinted);
    assert_eq!(hinted.waited(), told.waited());
}

#[test]
fn policies_differ_where_a_scan_begins_again() {
    // 243 boxes of a slot each, four times in the same order, in a memory of 128 slots.
    let scans = (0..4).flat_map(|_| boxes());
    let trace = trace([1, 40, 60], scans, Duration::ZERO);
    let with = |policy| {
        run(&trace, |setting| {
            (setting.policy, setting.memory, setting.prefetch) = (policy, DataSize::bytes(8 << 20), false);
        })
    };
    let [lru, mru, schedule] = [Policy::Lru, Policy::Mru, Policy::Schedule].map(|policy| with(policy).waited());
    assert!(mru < lru.mul_f64(0.9), "{mru:?} {lru:?}");
    assert!(schedule <= mru, "{schedule:?} {mru:?}");
}

#[test]
fn regions_get_blocks_of_their_own_as_in_a_site() {
    let basin = (0..64).map(|step| region([step, 100, 200], [1, 100, 150]));
    let trace = trace([1, 121, 540], basin, MS * 20);
    let (with, without) = (run(&trace, |_| {}), run(&trace, |setting| setting.views = false));
    assert_eq!((with.views, without.views), (1, 0));
    assert!(with.path_bytes < without.path_bytes / 3, "{} {}", with.path_bytes, without.path_bytes);
}

/// A memory of 64 MiB has room for the blocks of some sixty regions at a time.
#[test]
fn handles_that_are_gone_leave_their_memory_to_others() {
    let boxes = (0..400).map(|number| region([number % 64, number % 300, number], [1, 10, 20]));
    let mut trace = trace([1, 121, 540], boxes, MS * 20);
    let numbered = |(number, read): (usize, &mut TracedRead)| read.handle = number as u32;
    trace.reads.iter_mut().enumerate().for_each(numbered);
    let (with, without) = (run(&trace, |_| {}), run(&trace, |setting| setting.views = false));
    assert_eq!(with.views, 400);
    assert!(with.path_bytes < without.path_bytes / 3, "{} {}", with.path_bytes, without.path_bytes);
    let blocks = |outcome: &Outcome| outcome.stats.misses + outcome.stats.ahead_fetched;
    assert!(with.stats.misses >= 400 && blocks(&with) >= with.path_blocks, "{with:?}");
}

#[test]
fn partial_boxes_are_advised_blocks_that_fit() {
    let trace = slow(trace([1, 361, 540], boxes(), MS * 3));
    let advice = advise(&trace);
    let shape = advice.best.setting.block_shape(&trace, 0).extents().to_vec();
    assert!(40_u64.is_multiple_of(shape[1]) && 60_u64.is_multiple_of(shape[2]) && shape[0] <= 4, "{shape:?}");
    assert!(advice.best.gain_over(&advice.recorded) > 0.05, "{advice:?}");
    assert!(advice.tried <= Adviser::MAX_TRIALS && advice.best.path_bytes < advice.recorded.path_bytes);
    assert_eq!(advice.memories.len(), 2);
    assert!(advice.bound.unwrap().waited <= advice.best.waited);
}

#[test]
fn blocks_that_fit_are_left_alone() {
    // The blocks are the reads, each of them once.
    let trace = slow(trace([1, 40, 60], boxes(), MS * 3));
    let advice = advise(&trace);
    assert!(advice.best.gain_over(&advice.recorded) < 0.05, "{advice:?}");
    assert_eq!(advice.best.setting, advice.recorded.setting);
}

#[test]
fn settings_that_do_not_fit_are_refused() {
    let trace = trace([1, 91, 135], planes(), MS);
    let refused = |change: fn(&mut Setting)| {
        let mut setting = Setting::recorded(&trace);
        change(&mut setting);
        replay(&trace, &setting, Instant::now()).unwrap_err()
    };
    let with = |shape: &[u64]| {
        let mut setting = Setting::recorded(&trace);
        setting.block_shapes.insert(0, Shape::new(shape.iter().copied()).unwrap());
        replay(&trace, &setting, Instant::now()).unwrap_err()
    };
    assert!(matches!(refused(|setting| setting.memory = DataSize::bytes(1 << 20)), ReplayError::Memory(_)));
    assert!(matches!(refused(|setting| setting.memory = DataSize::bytes(2 << 40)), ReplayError::Slots { .. }));
    assert!(matches!(with(&[1, 1]), ReplayError::Grid { .. }));
    assert!(matches!(with(&[64, 361, 540]), ReplayError::Declare { .. }));
    let mut large = self::trace([1, 1, 1], [], MS);
    large.arrays[0].shape = Shape::new([1 << 30, 1 << 20, 4]).unwrap();
    let all = Region::whole(&large.arrays[0].shape);
    large.reads.push(TracedRead {
        at: MS,
        handle: 0,
        array: 0,
        selection: all.into(),
        waited: MS,
        outcome: ReadOutcome::Done,
    });
    let error = replay(&large, &Setting::recorded(&large), Instant::now()).unwrap_err();
    assert!(matches!(error, ReplayError::Blocks { .. }), "{error}");
}
