//! Paths of real rates and messages of real sizes. All times are the simulation's: no assertion
//! depends on the clock.

use crate::network::{Network, Path, parameters};
use rails_celeritas::proto::{
    connection::{Failure, Parameters},
    rate::{Adaptive, AdaptiveOptions, Fixed, RateController},
    wire::{Control, ErrorList},
};
use rails_topo::Bandwidth;
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);
const MESSAGE: u64 = 20_000_000;
/// The messages that may arrive before a caller asks for them.
const MAX_AHEAD: u32 = 1 << 14;

fn fixed(mbps: u64) -> impl Fn() -> Box<dyn RateController> {
    move || Box::new(Fixed(Bandwidth::mbps(mbps)))
}

/// 500 Mbit/s, 19 ms round trip, 20 ms of queue.
fn wan(loss: f64) -> Path {
    Path {
        delay: Duration::from_micros(9_500),
        bits_per_second: 500_000_000,
        queue: 1_250_000,
        loss,
        reordering: 0.0,
        duplication: 0.0,
        corruption: 0.0,
        largest: 1500,
    }
}

fn network(seed: u64, loss: f64, mbps: u64) -> Network {
    let mut network =
        Network::new(seed, [wan(loss), wan(0.0)], [0, 1].map(|end| parameters(19 * MS, end)), fixed(mbps));
    // The first limits reach the sender.
    network.run(10 * MS, |_| false);
    network
}

#[test]
fn goodput_does_not_depend_on_loss() {
    for loss in [0.0, 1e-4, 1e-3, 1e-2, 5e-2] {
        let mut network = network(7, loss, 495);
        for _ in 0..8 {
            network.send(0, MESSAGE);
        }
        let begin = network.passed();
        assert!(network.run(Duration::from_secs(60), |network| network.oracles[0].is_satisfied()));
        let seconds = (network.passed() - begin).as_secs_f64();
        let goodput = 8.0 * MESSAGE as f64 * 8.0 / seconds / 1e6;
        let (stats, _) = network.ends[0].stats();
        let again = stats.retransmitted_segments as f64 / stats.segments as f64;
        let lost = network.counts[0].lost as f64 / network.counts[0].sent as f64;
        println!("loss {loss}: {goodput:.0} Mbit/s, {again:.5} sent again, {lost:.5} lost, {:?}", network.counts[0]);
        assert_eq!(network.counts[0].overflowed, 0, "it fills no queue at a rate below the path's");
        assert!(again <= lost + 0.002, "{again} of the segments were sent again, and {lost} lost");
        // Of 495 Mbit/s, 1432 of 1500 bytes are payload; the last losses take a few round trips.
        assert!(goodput >= 0.95 * 472.5 * (1.0 - loss), "{goodput}");
    }
}

#[test]
fn unacknowledged_bytes_are_bounded() {
    let bounded = |end| Parameters { max_unacknowledged: 100_000, ..parameters(19 * MS, end) };
    let mut network = Network::new(3, [wan(0.01), wan(0.0)], [0, 1].map(bounded), fixed(495));
    network.send(0, MESSAGE);
    assert!(network.run(Duration::from_secs(60), |network| network.oracles[0].is_satisfied()));
}

#[test]
fn sender_waits_at_the_limits() {
    let ends = [0, 1].map(|end| Parameters { window: 10_000, ..parameters(19 * MS, end) });
    let mut network = Network::new(5, [wan(0.0), wan(0.0)], ends, fixed(495));
    for _ in 0..3 {
        network.send(0, 4_000);
    }
    assert!(!network.run(Duration::from_secs(20), |network| network.oracles[0].is_satisfied()));
    assert_eq!(network.ends[1].receiver().complete(), 10_000, "a short segment comes up to the limit");
    let first = network.reserve(1, None);
    assert!(network.take(1, first).is_some());
    assert!(network.run(Duration::from_secs(40), |network| network.oracles[0].is_satisfied()));
    assert!(network.failures.iter().all(Option::is_none), "{:?}", network.failures);
}

/// An end that closes before the peer takes all that was sent.
fn closing(limit: Duration) -> Network {
    let ends = [0, 1].map(|end| Parameters { window: 10_000, ..parameters(19 * MS, end) });
    let mut network = Network::new(5, [wan(0.0), wan(0.0)], ends, fixed(495));
    for _ in 0..3 {
        network.send(0, 4_000);
    }
    network.finish(1);
    network.run(Duration::from_secs(1), |_| false);
    network.close(0, limit);
    network
}

#[test]
fn close_gives_a_peer_up_that_takes_nothing() {
    let mut network = closing(Duration::from_secs(30));
    assert!(network.run(Duration::from_secs(40), |network| network.ends[0].is_abandoned()));
    assert!((30..=31).contains(&network.passed().as_secs()), "{:?}", network.passed());
}

/// The peer takes the rest while the end that closes, or that was dropped, is stopped for longer
/// than it waits.
#[test]
fn stopped_process_gives_no_peer_up() {
    for is_dropped in [false, true] {
        let mut network = closing(if is_dropped { Duration::ZERO } else { Duration::from_secs(30) });
        network.stop(0, Duration::from_secs(120));
        network.run(Duration::from_secs(60), |_| false);
        let numbers: Vec<u32> = (0..3).map(|_| network.reserve(1, None)).collect();
        let has_closed = network.run(Duration::from_secs(130), |network| {
            numbers.iter().for_each(|number| drop(network.take(1, *number)));
            network.closed == [true; 2]
        });
        assert!(has_closed && network.failures == [None, None], "{:?}", network.failures);
        assert_eq!(network.ends[0].is_abandoned(), is_dropped);
    }
}

/// The stop is over before the limit is, for which alone the end that closes, or that was dropped,
/// waits.
#[test]
fn stop_within_the_limit_counts_little() {
    for (limit, length, stop) in [(30, 30, 24), (0, 5, 4)] {
        let mut network = closing(Duration::from_secs(limit));
        network.run(Duration::from_secs(2), |_| false);
        network.stop(0, Duration::from_secs(stop));
        let gives_up = |network: &mut Network| match limit {
            0 => network.failures[0].is_some(),
            _ => network.ends[0].is_abandoned(),
        };
        assert!(!network.run(Duration::from_secs(length + stop * 3 / 4), gives_up), "{length} s");
        assert!(network.run(Duration::from_secs(length + stop + 2), gives_up), "{length} s");
    }
}

/// Messages that no caller receives, more than the peer keeps records of. One that the sender
/// cannot begin is given up.
#[test]
fn sender_waits_at_the_limit_of_messages() {
    let mut network = network(6, 0.0, 495);
    for _ in 0..MAX_AHEAD + 3 {
        network.send(0, 10);
    }
    assert!(network.give_up(0, MAX_AHEAD + 1));
    network.finish(0);
    network.finish(1);
    assert!(!network.run(Duration::from_secs(20), |network| network.closed[0]));
    assert_eq!(network.ends[1].receiver().complete(), 10 * u64::from(MAX_AHEAD));
    for number in 0..MAX_AHEAD + 3 {
        assert_eq!(network.reserve(1, None), number);
        network.run(Duration::from_secs(21), |network| network.take(1, number).is_some());
    }
    assert!(network.run(Duration::from_secs(30), |network| network.closed == [true; 2]), "{:?}", network.failures);
    assert_eq!(network.oracles[0].ends(), (MAX_AHEAD as usize + 2, 1));
}

#[test]
fn silent_peer_halves_the_rate_and_ends_it() {
    let mut network = network(9, 0.0, 495);
    network.send(0, 1 << 40);
    network.run(Duration::from_millis(100), |_| false);
    network.control_works[0] = false;
    let mut least = network.ends[0].rate();
    network.run(Duration::from_secs(20), |network| {
        least = least.min(network.ends[0].rate());
        network.failures[0].is_some()
    });
    assert!(matches!(network.failures[0], Some(Failure::Silent(_))), "{:?}", network.failures);
    assert!(least < Bandwidth::mbps(10), "{least:?}");
    assert!(network.passed() < Duration::from_secs(6));
}

/// The stop comes in mid-transfer, or beside a segment that is alone under way.
#[test]
fn stopped_process_ends_no_connection() {
    for (end, seconds, length) in [(0, 20, MESSAGE), (1, 20, MESSAGE), (1, 3_600, MESSAGE), (0, 20, 100), (1, 20, 100)]
    {
        let mut network = network(31, 0.001, 495);
        network.send(0, length);
        network.run(network.passed() + 5 * MS, |_| false);
        network.stop(end, Duration::from_secs(seconds));
        let limit = network.passed() + Duration::from_secs(seconds + 10);
        let over = network.run(limit, |network| network.oracles[0].is_satisfied());
        assert!(over && network.failures == [None, None], "end {end}, {seconds} s: {:?}", network.failures);
        let rtt = network.ends[0].rtt();
        assert!(rtt.smoothed() < 100 * MS, "an end that is stopped is no long path: {rtt:?}");
    }
}

/// No packet is under way without a stall.
#[test]
fn stalls_in_each_round_trip_stop_no_flow() {
    let path = Path { delay: 100 * MS, bits_per_second: 50_000_000, ..wan(0.0) };
    let ends = [0, 1].map(|end| parameters(200 * MS, end));
    let rate = || -> Box<dyn RateController> { Box::new(Adaptive::new(AdaptiveOptions::new())) };
    let mut network = Network::new(36, [path.clone(), path], ends, rate);
    network.run(300 * MS, |_| false);
    network.send(0, 1 << 40);
    let mut acknowledged = [8, 10].map(|seconds| {
        while network.passed() < Duration::from_secs(seconds) {
            network.stop(0, 110 * MS);
            network.run(network.passed() + 290 * MS, |_| false);
        }
        network.ends[0].stats().0.acknowledged_bytes
    });
    acknowledged[1] -= acknowledged[0];
    let counts = network.counts[0];
    // The sender runs for 180 of 290 ms.
    assert!(
        acknowledged[1] * 8 / 2 > 20_000_000 && counts.overflowed * 100 < counts.sent,
        "{acknowledged:?} {counts:?}"
    );
}

#[test]
fn clock_that_jumps_ends_no_connection() {
    for end in 0..2 {
        let mut network = network(32, 0.001, 495);
        network.send(0, MESSAGE);
        for jumps in 1..4 {
            network.run(network.passed() + 50 * MS, |_| false);
            network.jump(end, jumps * Duration::from_secs(20));
        }
        let over = network.run(Duration::from_secs(60), |network| network.oracles[0].is_satisfied());
        assert!(over && network.failures == [None, None], "end {end}: {:?}", network.failures);
        let rtt = network.ends[0].rtt();
        assert!(rtt.smoothed() < 100 * MS, "a clock that jumps is no long path: {rtt:?}");
    }
}

/// The host's kernel acknowledges nothing more.
#[test]
fn host_that_is_gone_ends_the_connection() {
    let mut network = network(33, 0.0, 495);
    network.send(0, MESSAGE);
    network.run(network.passed() + 50 * MS, |_| false);
    network.stop(1, Duration::from_secs(3_600));
    network.control_works = [false; 2];
    let limit = network.passed() + Duration::from_secs(6);
    assert!(network.run(limit, |network| network.failures[0].is_some()));
    assert!(matches!(network.failures[0], Some(Failure::Silent(_))), "{:?}", network.failures);
}

/// TCP probes no peer while bytes are unacknowledged: here a frame that gives a message up.
#[test]
fn dead_host_of_a_stopped_peer_is_found() {
    for length in [100, MESSAGE] {
        let mut network = network(35, 0.0, 495);
        network.send(0, length);
        network.run(network.passed() + 5 * MS, |_| false);
        network.stop(1, Duration::from_secs(3_600));
        network.run(network.passed() + Duration::from_secs(60), |_| false);
        assert!(network.ends[0].peer_is_stopped() && network.failures[0].is_none(), "{:?}", network.failures);
        network.control_works = [false; 2];
        let message = network.send(0, 100);
        assert!(network.give_up(0, message));
        let limit = network.passed() + Duration::from_secs(6);
        assert!(network.run(limit, |network| network.failures[0].is_some()));
        assert!(matches!(network.failures[0], Some(Failure::Silent(_))), "{:?}", network.failures);
    }
}

/// The peer's process is stopped, and all that is sent to it expires: between any two messages
/// nothing is under way.
#[test]
fn short_waits_hide_no_dead_host() {
    for (deadline, pause) in [(100, 200), (250, 100)] {
        let mut network = network(37, 0.0, 495);
        stop_and_send(&mut network, Duration::from_secs(60), deadline, pause);
        assert!(network.ends[0].peer_is_stopped() && network.failures[0].is_none(), "{:?}", network.failures);
        network.control_works = [false; 2];
        stop_and_send(&mut network, Duration::from_secs(60), deadline, pause);
        assert!(matches!(network.failures[0], Some(Failure::Silent(_))), "{:?}", network.failures);
    }
}

/// The frames that give messages up are under way all the time.
#[test]
fn busy_control_channel_hides_no_living_host() {
    for (deadline, pause) in [(1_800, 100), (3_000, 10)] {
        let path = Path { delay: 200 * MS, ..wan(0.0) };
        let ends = [0, 1].map(|end| parameters(400 * MS, end));
        let mut network = Network::new(38, [path.clone(), path], ends, fixed(20));
        network.run(300 * MS, |_| false);
        stop_and_send(&mut network, Duration::from_secs(120), deadline, pause);
        assert!(network.ends[0].peer_is_stopped() && network.failures[0].is_none(), "{:?}", network.failures);
    }
}

/// Stops the peer, and sends it messages with deadlines of `deadline` ms, one every `pause` ms.
fn stop_and_send(network: &mut Network, time: Duration, deadline: u32, pause: u32) {
    network.stop(1, Duration::from_secs(3_600));
    let begin = network.passed();
    let mut next = Duration::ZERO;
    while next < time && network.failures[0].is_none() {
        let message = network.send(0, 100);
        network.ends[0].set_deadline(message, network.now + deadline * MS);
        next += pause * MS;
        network.run(begin + next, |_| false);
        network.now += (begin + next).saturating_sub(network.passed());
    }
}

/// The last segment is repeated several times before the connection is given up, however long the
/// round trip is.
#[test]
fn lost_tail_is_repeated_at_any_round_trip() {
    for rtt in [MS, 19 * MS, 300 * MS, 1_600 * MS, 5_000 * MS] {
        let path = Path { delay: rtt / 2, ..wan(0.0) };
        let ends = [0, 1].map(|end| parameters(rtt, end));
        let mut network = Network::new(34, [path.clone(), path], ends, fixed(20));
        network.run(rtt, |_| false);
        network.send(0, 100_000);
        assert!(network.run(Duration::from_secs(30), |network| network.oracles[0].is_satisfied()));
        network.paths[0].largest = 0;
        let (begin, before) = (network.passed(), network.ends[0].stats().0);
        network.send(0, 100);
        assert!(network.run(Duration::from_secs(600), |network| network.failures[0].is_some()));
        let (took, sent) = (network.passed() - begin, network.ends[0].stats().0.segments - before.segments);
        println!("{rtt:?}: {sent} transmissions in {took:?}");
        assert!(sent >= 4 && took >= Duration::from_secs(5), "{rtt:?}: {sent} in {took:?}");
    }
}

/// A single segment, which is repeated in vain.
#[test]
fn silence_after_one_segment_ends_it_too() {
    let mut network = network(10, 0.0, 495);
    network.control_works[0] = false;
    network.send(0, 100);
    network.run(Duration::from_secs(60), |network| network.failures[0].is_some());
    assert!(matches!(network.failures[0], Some(Failure::Blocked)), "{:?}", network.failures);
}

/// A machine that is silent for a while, beside a path that has never carried anything.
#[test]
fn only_a_path_that_worked_is_waited_for() {
    let patient = |end| Parameters { max_silence: Duration::from_secs(900), ..parameters(19 * MS, end) };
    for works in [true, false] {
        let path = Path { largest: if works { 1500 } else { 0 }, ..wan(0.0) };
        let mut network = Network::new(12, [path.clone(), path.clone()], [0, 1].map(patient), fixed(100));
        network.send(0, 20_000_000);
        network.run(500 * MS, |_| false);
        network.paths.iter_mut().for_each(|path| path.largest = 0);
        network.run(Duration::from_secs(60), |network| network.failures[0].is_some());
        match works {
            true => assert_eq!(network.failures, [None, None]),
            false => assert!(matches!(network.failures[0], Some(Failure::Blocked)), "{:?}", network.failures),
        }
        network.paths.iter_mut().for_each(|path| path.largest = 1500);
        let arrived = network.run(Duration::from_secs(65), |network| network.oracles[0].is_satisfied());
        assert_eq!(arrived, works);
    }
}

#[test]
fn message_that_is_given_up_holds_nothing_up() {
    let mut network = network(11, 0.02, 495);
    let numbers: Vec<u32> = (0..4).map(|_| network.send(0, 5_000_000)).collect();
    network.run(50 * MS, |_| false);
    assert!(network.give_up(0, numbers[0]), "it is under way");
    assert!(network.give_up(0, numbers[3]), "it has not begun");
    assert!(!network.give_up(0, numbers[0]));
    network.reserve(1, None);
    network.reserve(1, None);
    assert_eq!(network.reserve(1, Some(1_000)), numbers[2], "it does not fit in the caller's blocks");
    let over = network.run(Duration::from_secs(10), |network| network.oracles[0].is_satisfied());
    assert!(over, "{:?} {:?} {:?}", network.failures, network.oracles[0], network.ends);
    assert_eq!(network.refused[0], [numbers[2]]);
}

/// Frames of video at 60 a second, at a rate that carries two of three of them.
#[test]
fn message_is_given_up_at_its_deadline() {
    let mut network = network(17, 0.01, 200);
    let mut frames = 0;
    let begin = network.passed();
    while frames < 120 {
        let number = network.send(0, 625_000);
        network.ends[0].set_deadline(number, network.now + 100 * MS);
        frames += 1;
        let until = begin + frames * Duration::from_micros(16_667);
        network.run(until, |_| false);
    }
    assert!(network.run(begin + Duration::from_secs(10), |network| network.oracles[0].is_satisfied()));
    let (whole, expired) = network.oracles[0].ends();
    println!("{whole} arrived, {expired} expired");
    assert!(whole >= 60 && expired >= 20 && whole + expired == 120, "{whole} arrived, {expired} expired");
    network.run(Duration::from_secs(60), |_| false);
    assert!(network.ends.iter().all(|end| end.poll_timeout().is_none()));
}

#[test]
fn idle_ends_have_no_timer() {
    let mut network = network(13, 0.3, 495);
    network.send(0, 3_000_000);
    assert!(network.run(Duration::from_secs(20), |network| network.oracles[0].is_satisfied()));
    network.run(Duration::from_secs(60), |_| false);
    assert!(network.ends.iter().all(|end| end.poll_timeout().is_none()));
    assert!(network.failures.iter().all(Option::is_none));
}

/// An end which only receives keeps its binding too.
#[test]
fn idle_ends_keep_the_bindings_of_nats() {
    let keep_alive = Some(Duration::from_secs(25));
    let ends = [0, 1].map(|end| Parameters { keep_alive, ..parameters(19 * MS, end) });
    let mut network = Network::new(14, [wan(0.0), wan(0.0)], ends, fixed(495));
    network.send(0, 3_000_000);
    network.run(Duration::from_secs(10), |_| false);
    let before = network.counts.map(|counts| counts.sent);
    network.run(Duration::from_secs(260), |_| false);
    let sent = [0, 1].map(|end| network.counts[end].sent - before[end]);
    assert_eq!(sent, [10, 10]);
    assert!(network.failures == [None, None], "{:?}", network.failures);
    (0..2).for_each(|end| network.finish(end));
    network.reserve(1, None);
    assert!(!network.run(Duration::from_secs(3_600), |_| false), "an end that has closed sends nothing");
    assert_eq!((network.closed, network.counts[0].sent - before[0]), ([true; 2], 10));
}

#[test]
fn strange_giving_up_ends_the_connection() {
    for (message, start, length) in
        [(MAX_AHEAD, 0, 0), (5, 1 << 61, 1 << 61), (5, 0, 10), (5, u64::MAX, 2), (0, 1, 899_999), (1, 899_999, 10)]
    {
        let ends = [0, 1].map(|end| Parameters { window: 1_000_000, ..parameters(19 * MS, end) });
        let mut network = Network::new(19, [wan(0.0), wan(0.0)], ends, fixed(495));
        network.send(0, 900_000);
        network.run(21 * MS, |_| false);
        assert!(network.ends[1].receiver().complete() > 0, "the message has begun");
        network.control(1, &Control::GiveUp { message, start, length });
        network.run(22 * MS, |_| false);
        let failure = &network.failures[1];
        assert!(matches!(failure, Some(Failure::Contradiction(_))), "{message} {start} {length}: {failure:?}");
    }
}

#[test]
fn peer_that_claims_unsent_bytes_ends_the_connection() {
    let sent = |list: ErrorList| {
        let mut network = network(15, 0.0, 495);
        network.send(0, 100_000);
        network.run(60 * MS, |_| false);
        network.control(0, &Control::ErrorList(list));
        network.run(61 * MS, |_| false);
        network.failures[0].clone()
    };
    let bytes = ErrorList { complete: 200_000, known: 200_000, ..ErrorList::default() };
    assert!(matches!(sent(bytes), Some(Failure::Violation(_))));
    let sunk = ErrorList { complete: 0, known: 0, ..ErrorList::default() };
    assert!(matches!(sent(sunk), Some(Failure::Violation(_))));
    let packet = ErrorList { largest: 1 << 40, received: 1, ..ErrorList::default() };
    assert!(matches!(sent(packet), Some(Failure::Violation(_))));
}

/// A network whose ends begin with IP packets of 1,280 bytes and look for up to 9,000, over a path
/// that takes `largest`.
fn searching(seed: u64, path: Path, largest: u64, mbps: u64) -> Network {
    let ends = [0, 1].map(|end| Parameters {
        base_payload: 1212,
        max_payload: 8932,
        floor_payload: Some(508),
        ..parameters(19 * MS, end)
    });
    let paths = [Path { largest, ..path }, wan(0.0)];
    Network::new(seed, paths, ends, fixed(mbps))
}

/// With losses and with a queue that overflows, as at a rate above the path's.
#[test]
fn path_mtu_is_found_and_kept() {
    for (largest, loss, mbps) in
        [(1500, 0.0, 495), (1500, 0.01, 495), (9000, 0.01, 495), (4444, 0.01, 495), (1500, 0.0, 700)]
    {
        for seed in 0..2 {
            let mut network = searching(seed, wan(loss), largest, mbps);
            network.send(0, 130_000_000);
            network.run(Duration::from_secs(2), |_| false);
            let found = network.ends[0].path_mtu();
            assert!(
                (largest as u32 - 32..=largest as u32).contains(&found),
                "{found} of {largest} at a loss of {loss}"
            );
            let over = network.run(Duration::from_secs(60), |network| {
                assert!(network.ends[0].path_mtu() >= found, "a black hole that is none");
                network.oracles[0].is_satisfied()
            });
            assert!(over && network.failures.iter().all(Option::is_none), "{:?}", network.failures);
        }
    }
}

#[test]
fn smaller_path_mtu_in_mid_transfer() {
    // At the low rate no limit stops the sender while nothing arrives.
    for (before, after, mbps) in [(9000, 1500, 495), (1500, 1300, 495), (9000, 1280, 495), (1500, 1300, 5)] {
        for seed in 0..2 {
            let mut network = searching(seed, wan(0.01), before, mbps);
            network.send(0, mbps * 100_000);
            network.run(Duration::from_millis(500), |_| false);
            network.paths[0].largest = after;
            let at = network.passed();
            let limit = at + Duration::from_secs(2);
            network.run(limit, |network| (after as u32 - 32..=after as u32).contains(&network.ends[0].path_mtu()));
            assert!(network.passed() < limit, "{:?}", network.ends[0].path_mtu());
            println!("{before} to {after}: found after {:?}", network.passed() - at);
            assert!(network.run(Duration::from_secs(60), |network| network.oracles[0].is_satisfied()));
            assert!(network.failures.iter().all(Option::is_none), "{:?}", network.failures);
        }
    }
}

/// As after a failover to a tunnel: answers take far longer than those before, and nothing large
/// arrives.
#[test]
fn smaller_path_mtu_on_a_longer_path() {
    for seed in 0..10 {
        let mut network = searching(seed, wan(0.01), 1500, 495);
        network.send(0, 50_000_000);
        network.run(Duration::from_millis(300), |_| false);
        (network.paths[0].largest, network.paths[0].delay) = (1280, 200 * MS);
        let over = network.run(Duration::from_secs(60), |network| network.oracles[0].is_satisfied());
        assert!(over && network.failures.iter().all(Option::is_none), "{:?}", network.failures);
    }
}

/// The peer's lists tell that messages were given up, and of no arrival: that is no sign of life of
/// the path.
#[test]
fn expired_messages_hide_no_dead_path() {
    // The second ones are sent when nothing is under way any more.
    for (after, deadline, pause) in [(0, 100, 20), (0, 50, 100), (1400, 100, 20), (1400, 50, 100)] {
        let mut network = searching(7, wan(0.0), 1500, 495);
        network.send(0, 1_000_000);
        network.run(Duration::from_secs(1), |_| false);
        network.paths[0].largest = after;
        let begin = network.passed();
        let mut sent = 0;
        while network.failures[0].is_none() && sent < 3_000 && network.ends[0].path_mtu() > 1400 {
            let number = network.send(0, 1_400);
            network.ends[0].set_deadline(number, network.now + deadline * MS);
            sent += 1;
            network.run(begin + sent * pause * MS, |_| false);
        }
        let failure = &network.failures[0];
        println!("{after} {deadline}: {sent} messages, {failure:?}, {}", network.ends[0].path_mtu());
        match after {
            0 => assert!(matches!(failure, Some(Failure::Silent(_))), "{deadline} ms: {failure:?}"),
            _ => assert!(failure.is_none() && network.ends[0].path_mtu() <= 1400, "{deadline} ms: {failure:?}"),
        }
    }
}

/// The message is given up before the silence has lasted too long, and the path is whole again long
/// after.
#[test]
fn old_outage_ends_no_later_transfer() {
    for idle in [Duration::from_millis(100), Duration::from_secs(3600)] {
        let mut network = searching(8, wan(0.0), 1500, 495);
        network.send(0, 1_000_000);
        network.run(Duration::from_secs(1), |_| false);
        network.paths[0].largest = 0;
        let late = network.send(0, 1_400);
        network.ends[0].set_deadline(late, network.now + 4_900 * MS);
        network.run(Duration::from_secs(6), |_| false);
        network.paths[0].largest = 1500;
        network.now += idle;
        network.send(0, 1_000_000);
        let over = network.run(idle + Duration::from_secs(60), |network| network.oracles[0].is_satisfied());
        assert!(over && network.failures[0].is_none(), "after {idle:?}: {:?}", network.failures);
    }
}

/// The first answers come when most of the time without news has passed.
#[test]
fn smaller_path_mtu_on_a_path_by_satellite() {
    for delay in [325, 450] {
        let path = || Path { delay: delay * MS, ..wan(0.0) };
        let ends = [0, 1].map(|end| Parameters {
            base_payload: 1212,
            max_payload: 1432,
            floor_payload: Some(508),
            ..parameters(2 * delay * MS, end)
        });
        let mut network = Network::new(21, [path(), path()], ends, fixed(20));
        network.send(0, 40_000_000);
        network.run(Duration::from_secs(10), |_| false);
        network.paths[0].largest = 1400;
        let over = network.run(Duration::from_secs(100), |network| network.oracles[0].is_satisfied());
        assert!(over && network.failures.iter().all(Option::is_none), "{delay} ms: {:?}", network.failures);
    }
}

/// A rate below that to which silence slows a connection.
#[test]
fn low_rates_are_kept() {
    let ends = [0, 1].map(|end| parameters(19 * MS, end));
    let rate = || -> Box<dyn RateController> { Box::new(Fixed(Bandwidth::bits_per_second(64_000))) };
    let mut network = Network::new(23, [wan(0.0), wan(0.0)], ends, rate);
    network.send(0, 80_000);
    assert!(network.run(Duration::from_secs(60), |network| network.oracles[0].is_satisfied()));
    assert!(network.passed() >= Duration::from_secs(10), "{:?}", network.passed());
}

#[test]
fn path_below_the_least_mtu_is_told() {
    let mut network = searching(3, wan(0.01), 1000, 495);
    network.send(0, 1_000_000);
    network.run(Duration::from_secs(20), |network| network.failures[0].is_some());
    assert!(matches!(network.failures[0], Some(Failure::SmallPath)), "{:?}", network.failures);
}

/// More ranges are missing in a round trip than a short list tells of.
#[test]
fn lists_cap_no_long_lossy_path() {
    let path = |loss| Path { delay: 100 * MS, queue: 20_000_000, ..wan(loss) };
    let ends = [0, 1].map(|end| Parameters { max_unacknowledged: 64 << 20, ..parameters(200 * MS, end) });
    let mut network = Network::new(7, [path(0.1), path(0.0)], ends, fixed(495));
    for _ in 0..8 {
        network.send(0, MESSAGE);
    }
    let mut acknowledged = [1_500, 2_500].map(|at| {
        network.run(at * MS, |_| false);
        network.ends[0].stats().0.acknowledged_bytes
    });
    acknowledged[1] -= acknowledged[0];
    println!("{} Mbit/s", acknowledged[1] * 8 / 1_000_000);
    // Of 495 Mbit/s, 1432 of 1500 bytes are payload, of which a tenth is lost.
    assert!(acknowledged[1] * 8 >= 400_000_000, "{acknowledged:?}");
}
