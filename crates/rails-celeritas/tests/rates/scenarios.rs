//! Flows alone, and beside others.

use crate::{
    bottleneck::{Bottleneck, Line},
    flows::{Plan, adaptive},
    rivals::{bbr, cubic},
};
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);
const S: Duration = Duration::from_secs(1);

fn line(mbps: f64, queue_ms: u32, loss: f64) -> Line {
    Line { bits_per_second: mbps * 1e6, queue: queue_ms * MS, delay: Duration::from_micros(9_500), loss }
}

#[test]
fn loss_of_the_path_does_not_slow_a_flow() {
    for (queue, loss) in [(20, 0.0), (20, 1e-2), (5, 1e-3), (5, 5e-2)] {
        let mut path = Bottleneck::new(1, line(500.0, queue, loss));
        path.add(adaptive(Plan::endless()));
        let first = path.run(S)[0];
        assert!(first.mbps(S) > 350.0 && first.drops() < 0.05, "queue {queue} ms, loss {loss}: {first:?}");
        let then = path.run(S)[0];
        assert!(then.mbps(S) > 490.0 && then.drops() < 0.002, "queue {queue} ms, loss {loss}: {then:?}");
    }
}

/// Flows that begin one after the other. Returns their rates after some time, of which the least is
/// 1.
fn share(flows: usize, line: Line) -> Vec<f64> {
    let mut path = Bottleneck::new(1, line);
    for _ in 0..flows {
        path.add(adaptive(Plan::endless()));
        path.run(S);
    }
    path.run(6 * S);
    let counts = path.run(2 * S);
    let rates: Vec<f64> = counts.iter().map(|count| count.mbps(2 * S)).collect();
    assert!(rates.iter().sum::<f64>() > 0.95 * line.bits_per_second / 1e6, "{rates:?}");
    assert!(counts.iter().all(|count| count.drops() < 0.015), "{counts:?}");
    let least = rates.iter().copied().fold(f64::MAX, f64::min);
    rates.iter().map(|rate| rate / least).collect()
}

#[test]
fn two_flows_share() {
    let rates = share(2, line(100.0, 20, 0.0));
    assert!(rates.iter().all(|rate| *rate < 1.2), "{rates:?}");
}

#[test]
fn four_flows_share_a_short_queue() {
    let rates = share(4, line(150.0, 5, 0.0));
    assert!(rates.iter().all(|rate| *rate < 1.8), "{rates:?}");
}

/// CUBIC's window fills the queue, and is cut each time that it has.
#[test]
fn late_flow_gets_a_share_beside_cubic() {
    let mut path = Bottleneck::new(1, line(20.0, 50, 0.0));
    path.add(cubic);
    path.run(2 * S);
    let own = path.add(adaptive(Plan::endless()));
    path.run(14 * S);
    let counts = path.run(40 * S);
    assert!(counts[own].mbps(40 * S) > 5.0, "{} of 20 Mbit/s", counts[own].mbps(40 * S));
}

/// BBR leaves little to a flow that came later, also to CUBIC.
#[test]
fn rivals_leave_a_share_and_get_one() {
    for (rival, name, least) in [(cubic as fn(_, _) -> _, "CUBIC", 10.0), (bbr, "BBR", 2.0)] {
        for rival_first in [false, true] {
            let mut path = Bottleneck::new(1, line(100.0, 20, 0.0));
            let own = if rival_first { 1 } else { 0 };
            for is_rival in [rival_first, !rival_first] {
                if is_rival {
                    path.add(rival)
                } else {
                    path.add(adaptive(Plan::endless()))
                };
                path.run(2 * S);
            }
            path.run(8 * S);
            let counts = path.run(8 * S);
            let (own, other) = (counts[own].mbps(8 * S), counts[1 - own].mbps(8 * S));
            assert!(own > least && other > 40.0, "{own} beside {other} of {name}, which was first: {rival_first}");
            assert!(own + other > 90.0, "{own} beside {other} of {name}, which was first: {rival_first}");
        }
    }
}
