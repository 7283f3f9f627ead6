//! The longest wait of a reader while links fail and come back, and one link always works.

use crate::{
    application::Habits,
    network::{LaneSpec, Stop},
    pair::Scenario,
    properties::for_each_seed,
};
use proptest::prelude::*;
use rand::{RngExt, SeedableRng, rngs::ChaCha8Rng, seq::IndexedRandom};
use std::time::Duration;

/// As in `rails-bench soak`: at any time one link works, and not always the same one.
#[test]
fn no_reader_waits_long_while_one_link_is_whole() {
    // Each seed transfers 200 MB.
    for_each_seed("no_reader_waits_long_while_one_link_is_whole", 40, troubled, |scenario| {
        let outcome = scenario.check();
        assert!(outcome.read_end.iter().all(Option::is_some), "{outcome:?}");
        let longest = outcome.gaps.iter().flatten().max_by_key(|(_, length)| *length);
        assert!(longest.is_none_or(|(_, length)| *length <= LONGEST), "{longest:?}");
    });
}

/// The worst of 250 seeds is 171 ms.
const LONGEST: Duration = Duration::from_millis(300);

/// Bulk both ways over three links.
fn troubled() -> impl Strategy<Value = Scenario> {
    any::<u64>().prop_map(|seed| {
        let scenario = Scenario::one_way(0, links(seed));
        Scenario { seed, habits: [Habits::bulk(TOTAL), Habits::bulk(TOTAL)], ..scenario }
    })
}

#[derive(Clone, Copy)]
enum Fault {
    Rate(u64),
    Stops(Stop),
    Reset,
}

fn links(seed: u64) -> Vec<LaneSpec> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut faults = vec![Vec::new(); LINKS];
    let mut until = [Duration::ZERO; LINKS];
    let mut now = Duration::from_millis(200);
    while now < LAST_FAULT {
        let whole: Vec<usize> = (0..LINKS).filter(|link| until[*link] <= now).collect();
        if whole.len() > 1
            && let Some(link) = whole.choose(&mut random).copied()
        {
            let fault = match random.random_range(0..6) {
                0 | 1 => Fault::Rate(*RATES.choose(&mut random).expect("there are rates")),
                2 => Fault::Stops(Stop::LinkDown(random.random_range(0..2))),
                3 => Fault::Stops(Stop::OneWay(random.random_range(0..2))),
                4 => Fault::Stops(Stop::BothWays),
                _ => Fault::Reset,
            };
            let time = Duration::from_millis(random.random_range(100..3_000));
            until[link] = now + time;
            faults[link].push((now, time, fault));
        }
        now += Duration::from_millis(random.random_range(50..1_500));
    }
    faults.iter().map(|faults| link(faults)).collect()
}

/// Creates a link with these faults, one after the other.
fn link(faults: &[(Duration, Duration, Fault)]) -> LaneSpec {
    let mut link = LaneSpec::steady(RATE, DELAY, BUFFER);
    for (index, (at, time, fault)) in faults.iter().copied().enumerate() {
        match fault {
            Fault::Rate(megabits) => link.changes.extend([(at, megabits * 1_000_000), (at + time, RATE * 1_000_000)]),
            Fault::Stops(stop) => link.stops.push((at, time, stop)),
            Fault::Reset => {
                link.breaks = Some((at, [Duration::ZERO; 2]));
                link.returns = Some(Duration::from_millis(100));
                link.returns_as = Some(Box::new(self::link(&faults[index + 1..])));
                break;
            }
        }
    }
    link
}

const LINKS: usize = 3;
/// The rate of a working link, in Mbit/s.
const RATE: u64 = 200;
const RATES: [u64; 5] = [2, 10, 50, 400, 1_000];
const DELAY: Duration = Duration::from_micros(100);
const BUFFER: usize = 400 << 10;
const LAST_FAULT: Duration = Duration::from_secs(4);
/// The bytes in each direction.
const TOTAL: u64 = 100_000_000;
