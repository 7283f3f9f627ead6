//! Random scenarios: each is drawn from a seed of its own.
//!
//! `RAILS_SEEDS=FIRST..END` chooses the seeds. A failing seed is printed with the command that
//! draws it again, and with its scenario, shrunk as far as it still fails.

use crate::{
    application::Habits,
    network::{LaneSpec, Stop},
    pair::Scenario,
};
use proptest::{
    option,
    prelude::*,
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};
use rails_proto::{
    messages::{MIN_WINDOW, longest_message},
    policy::Policy,
};
use std::{
    ops::Range,
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::Duration,
};

/// Lanes and applications behave at random: every byte arrives once and in order, both ends come to
/// their end, and neither keeps or sends more than the windows allow. The checks are in `pair.rs`.
#[test]
fn any_stream_of_bytes_comes_to_its_end() {
    for_each_seed("any_stream_of_bytes_comes_to_its_end", 1, scenarios, |scenario| {
        scenario.check();
    });
}

/// As `any_stream_of_bytes_comes_to_its_end`, for messages: each arrives once, whole, and in the
/// order of its priority.
#[test]
fn any_stream_of_messages_comes_to_its_end() {
    for_each_seed("any_stream_of_messages_comes_to_its_end", 4, scenarios_of_messages, |scenario| {
        scenario.check();
    });
}

/// Lanes beside the best one do no harm: bulk over steady lanes, whose rates may differ a
/// hundredfold, arrives as soon as over the best lane alone, within [`SLACK`] and the time that
/// [`late`] allows.
#[test]
fn bulk_is_as_fast_as_over_the_best_lane_alone() {
    // Each seed runs several transfers of megabytes.
    for_each_seed("bulk_is_as_fast_as_over_the_best_lane_alone", 4, steady, |scenario| {
        let alone = |lane: &LaneSpec| Scenario { lanes: vec![lane.clone()], ..scenario.clone() }.time_to_read();
        let best = scenario.lanes.iter().map(alone).min().expect("there is a lane");
        let all = scenario.time_to_read();
        assert!(
            all <= best.mul_f64(SLACK) + late(best),
            "the stream takes {all:?}, and {best:?} over the best lane alone"
        );
    });
}

/// The factor by which a stream may exceed the time of the best lane alone.
const SLACK: f64 = 1.05;
/// The further time that a stream may take if it takes `best` over its best lane alone. An unknown
/// lane gets a first chunk of 16 KiB like any other; on a lane that is a hundred times as slow,
/// that takes half a second. Another lane takes the chunk over only after that time, when something
/// must be wrong, and then the chunk goes out behind the bytes that the best lane has. A longer
/// transfer hides that time. Of 2,500 scenarios the worst was 767 ms late, one with 250 kB; of the
/// scenarios that take the best lane more than half a second, none was more than 371 ms late.
fn late(best: Duration) -> Duration {
    Duration::from_millis(if best < Duration::from_millis(500) { 800 } else { 400 })
}

impl Scenario {
    fn time_to_read(&self) -> Duration {
        self.check().read_end[1].expect("the second end has read everything")
    }
}

pub(crate) fn time(max_milliseconds: u64) -> impl Strategy<Value = Duration> {
    (0..max_milliseconds * 1000).prop_map(Duration::from_micros)
}

fn stop() -> impl Strategy<Value = (Duration, Duration, Stop)> {
    let kind =
        prop_oneof![(0usize..2).prop_map(Stop::OneWay), Just(Stop::BothWays), (0usize..2).prop_map(Stop::LinkDown),];
    (time(1_000), prop_oneof![3 => time(400), 1 => time(15_000)], kind)
}

fn lane() -> impl Strategy<Value = LaneSpec> {
    let breaks = option::weighted(0.4, (time(400), [time(100), time(100)]));
    let returns = option::weighted(0.5, prop_oneof![time(500), time(12_000)]);
    let changes = prop::collection::vec((time(300), prop_oneof![Just(0), 1_000_000u64..400_000_000]), 0..3);
    let opens = prop_oneof![3 => Just(Duration::ZERO), 1 => time(500)];
    let rate = prop_oneof![1_000_000u64..10_000_000, 10_000_000u64..1_000_000_000];
    let stops = prop_oneof![2 => Just(Vec::new()), 1 => prop::collection::vec(stop(), 1..3)];
    let leaves = option::weighted(0.15, (time(500), 0usize..2));
    let faults = (changes, breaks, returns, stops, leaves);
    (rate, time(60), 1usize..200_000, opens, faults).prop_map(
        |(rate, delay, buffer, opens, (changes, breaks, returns, stops, leaves))| {
            let breaks = breaks.map(|(at, detection)| (opens + delay + at, detection));
            let leaves = leaves.map(|(at, end)| (opens + delay + at, end));
            LaneSpec {
                opens,
                changes,
                breaks,
                returns,
                stops,
                leaves,
                ..LaneSpec { rate, ..LaneSpec::steady(0, delay, buffer) }
            }
        },
    )
}

fn habits() -> impl Strategy<Value = Habits> {
    let total = prop_oneof![Just(0u64), 1u64..2_000, 2_000u64..400_000];
    let bursts = option::of((1u64..50_000, time(20)));
    let stall = option::weighted(0.3, (0u64..100_000, prop_oneof![3 => time(500), 1 => time(30_000)]));
    let leaving = (any::<bool>(), option::weighted(0.2, 0u64..400_000));
    (total, prop_oneof![2usize..100, 100usize..64_000], bursts, stall, leaving).prop_map(
        |(total, longest_write, bursts, stall, (drops, goes))| {
            // A pause behind every few bytes would take hours.
            let bursts = bursts.map(|(every, pause)| (every.max(total / 100), pause));
            Habits {
                total,
                longest_write: longest_write.max(total as usize / 1000),
                bursts,
                stall,
                messages: false,
                drops,
                goes: goes.map(|at| at % (total + 1)),
            }
        },
    )
}

pub(crate) fn scenarios() -> impl Strategy<Value = Scenario> {
    let policy = prop_oneof![4 => Just(Policy::Adaptive), 1 => Just(Policy::Static), 1 => Just(Policy::Weighted)];
    let window = prop_oneof![1u64..100, 1_000u64..20_000, 20_000u64..500_000];
    let chunk = prop_oneof![1usize..2_000, 2_000usize..64_000];
    // Mostly the peer's window is the narrower bound of the two.
    let unacknowledged = prop_oneof![1 => 1u64..100, 1 => 1_000u64..20_000, 4 => Just(500_000)];
    let sizes = (window, chunk, prop_oneof![1usize..100, 1_000usize..200_000], unacknowledged);
    let outage_limit = prop_oneof![2 => Just(Duration::from_secs(10)), 1 => time(2_000), 1 => Just(Duration::ZERO)];
    let lanes = prop::collection::vec(lane(), 1..5);
    let pause = prop::collection::vec((time(2_000), time(60_000), 0usize..2), 1..3);
    let pauses = prop_oneof![3 => Just(Vec::new()), 1 => pause];
    (any::<u64>(), policy, sizes, outage_limit, (lanes, pauses), habits(), habits()).prop_map(
        |(
            seed,
            policy,
            (window, chunk, send_buffer, max_unacknowledged),
            outage_limit,
            (lanes, pauses),
            first,
            second,
        )| {
            // Windows and buffers of a few bytes are for streams of a few bytes.
            let least = window.min(chunk as u64).min(send_buffer as u64).min(max_unacknowledged);
            let most = least.saturating_mul(1_000);
            let shorten = |habits: Habits| {
                let total = habits.total.min(most);
                Habits { total, goes: habits.goes.map(|at| at.min(total)), ..habits }
            };
            Scenario {
                seed,
                helped: seed % 2 == 0,
                policy,
                contrary: None,
                longest_chunk: chunk.min(window as usize),
                send_buffer,
                max_unacknowledged,
                window,
                outage_limit,
                linger: Duration::from_secs(3_000),
                lanes,
                pauses,
                habits: [shorten(first), shorten(second)],
            }
        },
    )
}

/// Scenarios with messages in both directions.
pub(crate) fn scenarios_of_messages() -> impl Strategy<Value = Scenario> {
    let window = prop_oneof![1 => MIN_WINDOW..8_192, 2 => 8_192u64..500_000];
    (scenarios(), window, 1u64..300, 1u64..300).prop_map(|(scenario, window, first, second)| {
        let max_unacknowledged = scenario.max_unacknowledged.max(MIN_WINDOW);
        let longest = longest_message(window.min(max_unacknowledged)) as usize;
        let messages = |habits: &Habits, total| {
            let stall = habits.stall.map(|(at, pause)| (at % total, pause));
            let longest_write = habits.longest_write.min(longest);
            // A pause behind every tenth message or so is as much as a run should take.
            let bursts = habits.bursts.map(|(every, pause)| (every.max(total / 100), pause));
            let goes = habits.goes.map(|at| at % (total + 1));
            Habits { messages: true, total, longest_write, stall, bursts, goes, ..habits.clone() }
        };
        let longest_write = scenario.habits[0].longest_write.min(scenario.habits[1].longest_write);
        let habits = [messages(&scenario.habits[0], first), messages(&scenario.habits[1], second)];
        let habits = habits.map(|habits| Habits { longest_write: habits.longest_write.min(longest_write), ..habits });
        let longest_chunk = scenario.longest_chunk.clamp(64, window as usize);
        Scenario { window, max_unacknowledged, longest_chunk, habits, ..scenario }
    })
}

/// Bulk from the first end to the second, over lanes that do not change and hold as many bytes as
/// they carry in a round trip.
fn steady() -> impl Strategy<Value = Scenario> {
    let lane = (1.0f64..100.0, time(60), 1u64..4);
    let lanes = prop::collection::vec(lane, 2..5);
    let total = (any::<u64>(), 5_000_000u64..400_000_000, 64u64 << 10..16 << 20, lanes);
    total.prop_map(|(seed, best, total, lanes)| {
        let lanes = lanes.into_iter().enumerate().map(|(index, (slower, delay, products))| {
            let rate = if index == 0 { best } else { (best as f64 / slower) as u64 };
            let product = rate / 8 * (2 * delay.as_micros() as u64) / 1_000_000;
            let buffer = (product * products) as usize + (64 << 10);
            LaneSpec { rate, ..LaneSpec::steady(0, delay, buffer) }
        });
        Scenario { seed, ..Scenario::one_way(total, lanes.collect()) }
    })
}

/// Draws a scenario from each seed that is a multiple of `every`, and checks it; on all processors.
pub(crate) fn for_each_seed<S: Strategy<Value = Scenario>>(
    test: &str,
    every: u64,
    draw: impl Fn() -> S + Sync,
    check: impl Fn(&Scenario) + Sync + std::panic::RefUnwindSafe,
) {
    for_each_seed_of(seeds(SEEDS), test, every, draw, check);
}

/// As [`for_each_seed`], for the seeds in a range, and scenarios of any kind.
pub(crate) fn for_each_seed_of<S: Strategy>(
    Range { start, end }: Range<u64>,
    test: &str,
    every: u64,
    draw: impl Fn() -> S + Sync,
    check: impl Fn(&S::Value) + Sync + std::panic::RefUnwindSafe,
) {
    let (next, check) = (AtomicU64::new(start.next_multiple_of(every)), &check);
    let work = || {
        let strategy = draw();
        loop {
            let seed = next.fetch_add(every, Ordering::Relaxed);
            if seed >= end {
                return Ok(());
            }
            let config = Config { cases: 1, failure_persistence: None, max_shrink_iters: 500, ..Config::default() };
            let mut bytes = [0; 32];
            bytes[..8].copy_from_slice(&seed.to_le_bytes());
            let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
            let run = runner.run(&strategy, |scenario| {
                check(&scenario);
                Ok(())
            });
            if let Err(error) = run {
                // The other threads have no more to do.
                next.store(end, Ordering::Relaxed);
                return Err(format!("seed {seed}: {error}\n  again: RAILS_SEEDS={seed}..{} {AGAIN} {test}", seed + 1));
            }
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from).min((end - start).max(1) as usize);
    let outcomes: Vec<Result<(), String>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().expect("a scenario's panic is caught")).collect()
    });
    let failed: Vec<String> = outcomes.into_iter().filter_map(Result::err).collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    println!("{test}: {} seeds", (end - start) / every);
}

/// The seeds that `RAILS_SEEDS` names, or else the first `count`.
pub(crate) fn seeds(count: u64) -> Range<u64> {
    let Ok(text) = std::env::var("RAILS_SEEDS") else { return 0..count };
    let range = text.split_once("..").and_then(|(start, end)| Some(start.parse().ok()?..end.parse().ok()?));
    range.unwrap_or_else(|| panic!("RAILS_SEEDS is FIRST..END, not `{text}`"))
}

/// The default without `RAILS_SEEDS`: few, for without optimisation each takes a quarter of a
/// second.
const SEEDS: u64 = 64;
const AGAIN: &str = "cargo test --release --package rails-proto --test simulation";
