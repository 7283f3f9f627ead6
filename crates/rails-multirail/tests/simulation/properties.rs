//! Scenarios that nobody thought of.

use crate::{application::Habits, network::LaneSpec, pair::Scenario};
use proptest::{option, prelude::*};
use rails_multirail::Policy;
use std::time::Duration;

fn time(most_milliseconds: u64) -> impl Strategy<Value = Duration> {
    (0..most_milliseconds * 1000).prop_map(Duration::from_micros)
}

fn lane() -> impl Strategy<Value = LaneSpec> {
    let breaks = option::weighted(0.4, (time(400), [time(100), time(100)]));
    let changes = prop::collection::vec((time(300), prop_oneof![Just(0), 1_000_000u64..400_000_000]), 0..3);
    let opens = prop_oneof![3 => Just(Duration::ZERO), 1 => time(500)];
    let rate = prop_oneof![1_000_000u64..10_000_000, 10_000_000u64..1_000_000_000];
    (rate, time(60), 1usize..200_000, opens, changes, breaks).prop_map(
        |(rate, delay, buffer, opens, changes, breaks)| {
            let breaks = breaks.map(|(at, detection)| (opens + delay + at, detection));
            LaneSpec { rate, delay, buffer, opens, changes, breaks }
        },
    )
}

fn habits() -> impl Strategy<Value = Habits> {
    let total = prop_oneof![Just(0u64), 1u64..2_000, 2_000u64..400_000];
    let bursts = option::of((1u64..50_000, time(20)));
    let stall = option::weighted(0.3, (0u64..100_000, time(500)));
    (total, prop_oneof![2usize..100, 100usize..64_000], bursts, stall, any::<bool>()).prop_map(
        |(total, longest_write, bursts, stall, drops)| {
            // A pause behind every few bytes would take hours.
            let bursts = bursts.map(|(every, pause)| (every.max(total / 100), pause));
            Habits {
                total,
                longest_write: longest_write.max(total as usize / 1000),
                bursts,
                stall,
                messages: false,
                drops,
            }
        },
    )
}

fn scenarios() -> impl Strategy<Value = Scenario> {
    let policy = prop_oneof![4 => Just(Policy::Adaptive), 1 => Just(Policy::Static), 1 => Just(Policy::Weighted)];
    let window = prop_oneof![1u64..100, 1_000u64..20_000, 20_000u64..500_000];
    let chunk = prop_oneof![1usize..2_000, 2_000usize..64_000];
    let sizes = (window, chunk, prop_oneof![1usize..100, 1_000usize..200_000]);
    (any::<u64>(), policy, sizes, prop::collection::vec(lane(), 1..5), habits(), habits()).prop_map(
        |(seed, policy, (window, chunk, send_buffer), lanes, first, second)| {
            // Windows and buffers of a few bytes are for streams of a few bytes.
            let most = (window.min(chunk as u64).min(send_buffer as u64)).saturating_mul(1_000);
            let shorten = |habits: Habits| Habits { total: habits.total.min(most), ..habits };
            Scenario {
                seed,
                policy,
                longest_chunk: chunk.min(window as usize),
                send_buffer,
                window,
                outage_limit: Duration::from_secs(10),
                lanes,
                habits: [shorten(first), shorten(second)],
            }
        },
    )
}

/// The same with messages in both directions.
fn scenarios_of_messages() -> impl Strategy<Value = Scenario> {
    (scenarios(), 4_096u64..500_000, 1u64..300, 1u64..300).prop_map(|(scenario, window, first, second)| {
        let longest = (window / 2) as usize;
        let messages = |habits: &Habits, total| {
            let stall = habits.stall.map(|(at, pause)| (at % total, pause));
            let longest_write = habits.longest_write.min(longest);
            // A pause behind every tenth message or so is as much as a run should take.
            let bursts = habits.bursts.map(|(every, pause)| (every.max(total / 100), pause));
            Habits { messages: true, total, longest_write, stall, bursts, ..habits.clone() }
        };
        let longest_write = scenario.habits[0].longest_write.min(scenario.habits[1].longest_write);
        let habits = [messages(&scenario.habits[0], first), messages(&scenario.habits[1], second)];
        let habits = habits.map(|habits| Habits { longest_write: habits.longest_write.min(longest_write), ..habits });
        let longest_chunk = scenario.longest_chunk.clamp(64, window as usize);
        Scenario { window, longest_chunk, habits, ..scenario }
    })
}

proptest! {
    /// Whatever the lanes and the applications do, every byte arrives once and in order, both ends come to their end, and nothing is kept or
    /// sent beyond what was agreed; what is checked is in `pair.rs`.
    #[test]
    fn streams_come_to_their_end(scenario in scenarios()) {
        scenario.run();
    }

}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// The same for messages, each of which is received once, whole, and in the order of its priority.
    #[test]
    fn streams_of_messages_come_to_their_end(scenario in scenarios_of_messages()) {
        scenario.run();
    }
}
