//! Drawn networks and messages.

use crate::{
    callers::Callers,
    network::{Network, Path, parameters},
};
use rails_celeritas::proto::{
    connection::{Failure, Parameters},
    rate::Fixed,
};
use rails_topo::Bandwidth;
use rand::{Rng, RngExt, SeedableRng, rngs::ChaCha8Rng};
use std::{env, ops::Range, time::Duration};

fn seeds() -> Range<u64> {
    let Ok(text) = env::var("RAILS_SEEDS") else { return 0..300 };
    let (from, to) = text.split_once("..").expect("RAILS_SEEDS=0..500");
    from.parse().expect("a number")..to.parse().expect("a number")
}

fn path(rng: &mut impl Rng, corruption: f64) -> Path {
    let bits_per_second = 10u64.pow(rng.random_range(6..10));
    let delay = Duration::from_micros(10u64.pow(rng.random_range(1..5)));
    let one_of = |rng: &mut dyn Rng, chances: [f64; 4]| chances[rng.random_range(0..4)];
    Path {
        delay,
        bits_per_second,
        queue: rng.random_range(20_000..2_000_000),
        loss: one_of(rng, [0.0, 0.01, 0.2, 0.6]),
        reordering: one_of(rng, [0.0, 0.01, 0.2, 0.5]),
        duplication: one_of(rng, [0.0, 0.0, 0.01, 0.3]),
        corruption,
        largest: 1500,
    }
}

/// Draws a network and messages both ways, and runs until all have arrived.
fn run(seed: u64, corruption: f64) -> Network {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut paths = [path(&mut rng, corruption), path(&mut rng, corruption)];
    let rtt = paths[0].delay + paths[1].delay;
    let max_unacknowledged = 10u64.pow(rng.random_range(3..8));
    // Some ends look for the path's MTU.
    let (base_payload, max_payload) = [(1432, 1432), (1212, 1432), (1212, 8932)][rng.random_range(0..3)];
    if base_payload < max_payload {
        paths.iter_mut().for_each(|path| path.largest = rng.random_range(1280..1600));
    }
    let [windows, longest] = [0; 2].map(|_| [0; 2].map(|_| rng.random_range(5_000..1_000_000u64)));
    let chosen = |end: usize| Parameters {
        max_payload,
        base_payload,
        floor_payload: (base_payload < max_payload).then_some(508),
        max_unacknowledged,
        window: windows[end],
        max_message: longest[end],
        ..parameters(rtt, end)
    };
    let most = paths.iter().map(|path| path.bits_per_second).min().unwrap();
    // Up to more than the path carries.
    let rate = Bandwidth::bits_per_second(most / 10 * rng.random_range(1..15));
    let mut network = Network::new(seed, paths, [0, 1].map(chosen), || Box::new(Fixed(rate)));
    let mut callers = [0, 1].map(|end| Callers::new(end, &mut rng));
    for end in 0..2 {
        for _ in 0..rng.random_range(1..8) {
            let length = 10f64.powf(rng.random_range(0.0..5.3)) as u64;
            network.send(end, length.max(1));
        }
    }
    let given_up: Vec<(usize, usize, u32)> = (0..[0, 0, 1, 6][rng.random_range(0..4)])
        .map(|_| (rng.random_range(0..50), rng.random_range(0..2), rng.random_range(0..8)))
        .collect();
    let finished_at = [0, 1].map(|_| rng.random_range(1..60));
    // An application that is gone, and the MTU of a path that changes.
    let abandoned = rng.random_bool(0.1).then(|| (rng.random_range(1..60), rng.random_range(0..2)));
    let shrinks = (base_payload < max_payload).then(|| (rng.random_range(1..60), rng.random_range(0..2)));
    // A path that becomes another one.
    let moves = rng.random_bool(0.2).then(|| (rng.random_range(1..60), rng.random_range(0..2)));
    let delay = Duration::from_micros(10u64.pow(rng.random_range(1..6))).min(Duration::from_millis(300));
    // Processes that are stopped, and clocks that jump.
    let absences: Vec<(usize, usize, bool, Duration)> = (0..[0, 0, 0, 1, 4][rng.random_range(0..5)])
        .map(|_| {
            let time = [10, 300, 3_000, 4_900, 6_000, 60_000][rng.random_range(0..6)];
            (rng.random_range(1..200), rng.random_range(0..2), rng.random_bool(0.7), Duration::from_millis(time))
        })
        .collect();
    let mut steps = 0;
    let mut step = |network: &mut Network, is_last: bool| {
        steps += 1;
        callers.iter_mut().for_each(|callers| callers.work(network, is_last));
        for (end, at) in finished_at.iter().enumerate() {
            if *at == steps {
                network.finish(end);
            }
        }
        for (_, end, message) in given_up.iter().filter(|(step, ..)| *step == steps) {
            network.give_up(*end, *message);
        }
        for (_, end, is_stop, time) in absences.iter().filter(|(step, ..)| *step == steps) {
            if *is_stop { network.stop(*end, *time) } else { network.jump(*end, *time) }
        }
        if let Some((_, end)) = abandoned.filter(|(step, _)| *step == steps) {
            network.abandon(end);
        }
        // At a loss of 60 % and a few packets a second, 5 s may pass before one of 1,280 bytes arrives.
        if let Some((_, end)) = shrinks.filter(|(step, end)| *step == steps && network.paths[*end].loss <= 0.2) {
            network.paths[end].largest = 1280;
        }
        if let Some((_, end)) = moves.filter(|(step, end)| *step == steps && network.paths[*end].loss <= 0.2) {
            network.paths[end].delay = delay;
        }
        network.closed == [true; 2] || network.failures.iter().any(Option::is_some)
    };
    let limit = Duration::from_secs(100_000);
    let mut over = network.run(limit, |network| step(network, false));
    if !over {
        // All has arrived before their turn to finish came, or waits for callers.
        (0..2).for_each(|end| network.finish(end));
        over = network.run(limit, |network| step(network, true));
    }
    assert!(over, "seed {seed} does not end after {:?}: {:?}", network.passed(), network.ends);
    callers.iter_mut().for_each(|callers| callers.take_the_rest(&mut network));
    network
}

#[test]
fn every_message_arrives_once_and_whole() {
    for seed in seeds() {
        let network = run(seed, 0.0);
        let Some(gone) = network.abandoned.iter().position(|gone| *gone) else {
            assert!(network.failures.iter().all(Option::is_none), "seed {seed}: {:?}", network.failures);
            assert!(network.oracles.iter().all(|oracle| oracle.is_satisfied()), "seed {seed}");
            assert!(network.oracles.iter().all(|oracle| oracle.is_taken()), "seed {seed}");
            continue;
        };
        // The messages of the abandoned end arrive, or it says that they do not; the peer's may be cut off.
        let failure = &network.failures[gone];
        assert!(matches!(failure, None | Some(Failure::Abandoned | Failure::Cut)), "seed {seed}: {failure:?}");
        assert!(!network.closed[gone] || network.oracles[gone].is_settled(), "seed {seed}");
        let failure = &network.failures[1 - gone];
        assert!(matches!(failure, None | Some(Failure::Cut)), "seed {seed}: {failure:?}");
    }
}

/// A header that is damaged and passes every checksum may place bytes anywhere. Neither end panics
/// or runs for ever.
#[test]
fn damaged_headers_end_no_run() {
    seeds().for_each(run_damaged);
}

fn run_damaged(seed: u64) {
    let path = Path {
        delay: Duration::from_millis(5),
        bits_per_second: 100_000_000,
        queue: 1_000_000,
        loss: 0.05,
        reordering: 0.05,
        duplication: 0.05,
        corruption: 0.05,
        largest: 1500,
    };
    let ends = [0, 1].map(|end| parameters(Duration::from_millis(10), end));
    let mut network = Network::new(seed, [path.clone(), path], ends, || Box::new(Fixed(Bandwidth::mbps(90))));
    for end in 0..2 {
        network.send(end, 300_000);
    }
    network.run(Duration::from_secs(60), |network| network.oracles.iter().all(|oracle| oracle.is_satisfied()));
}
