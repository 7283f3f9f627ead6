//! Paths of real rates.

use crate::{
    bottleneck::{Bottleneck, Counts, Line},
    flows::adaptive,
    rivals::{bbr, cubic},
};
use rails_celeritas::proto::rate::AdaptiveOptions;
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

fn line(mbps: f64, queue_ms: u32, loss: f64) -> Line {
    Line { bits_per_second: mbps * 1e6, queue: queue_ms * MS, delay: Duration::from_micros(9_500), loss }
}

fn mbps(counts: &[Counts], time: Duration) -> Vec<f64> {
    counts.iter().map(|count| (count.passed / time.as_secs_f64() / 1e5).round() / 10.0).collect()
}

fn dropped(counts: &[Counts]) -> f64 {
    let sum = |count: fn(&Counts) -> u64| counts.iter().map(count).sum::<u64>() as f64;
    sum(|count| count.dropped) / sum(|count| count.sent)
}

fn new() -> AdaptiveOptions {
    AdaptiveOptions::new()
}

#[test]
fn one_flow_at_any_loss() {
    for queue in [20, 5] {
        for loss in [0.0, 1e-4, 1e-3, 1e-2, 5e-2] {
            let mut path = Bottleneck::new(1, line(500.0, queue, loss));
            path.add(adaptive(new()));
            let first = path.run(1000 * MS);
            let then = path.run(3000 * MS);
            let all = &path.counts;
            println!(
                "queue {queue} loss {loss}: {:?} then {:?} dropped {:.5} then {:.5}",
                mbps(&first, 1000 * MS),
                mbps(&then, 3000 * MS),
                dropped(all),
                dropped(&then)
            );
        }
    }
}

#[test]
fn capacity_changes() {
    let mut path = Bottleneck::new(1, line(500.0, 20, 0.0));
    path.add(adaptive(new()));
    for capacity in [500.0, 100.0, 500.0] {
        path.line.bits_per_second = capacity * 1e6;
        for _ in 0..6 {
            let counts = path.run(500 * MS);
            println!("{:?}: {:?} dropped {:.4}", path.passed(), mbps(&counts, 500 * MS), dropped(&counts));
        }
    }
}

#[test]
fn flows_share() {
    for (flows, queue) in [(2, 20), (4, 20), (2, 5), (4, 5)] {
        let mut path = Bottleneck::new(1, line(200.0, queue, 0.0));
        for _ in 0..flows {
            path.add(adaptive(new()));
            path.run(1000 * MS);
        }
        for _ in 0..6 {
            let counts = path.run(1500 * MS);
            println!(
                "queue {queue} {:?}: {:?} dropped {:.4}",
                path.passed(),
                mbps(&counts, 1500 * MS),
                dropped(&counts)
            );
        }
    }
}

#[test]
fn beside_rivals() {
    for is_bbr in [false, true] {
        for rival_first in [false, true] {
            let mut path = Bottleneck::new(1, line(100.0, 20, 0.0));
            let rival = if is_bbr { bbr } else { cubic };
            if rival_first {
                path.add(rival);
            } else {
                path.add(adaptive(new()));
            }
            path.run(2000 * MS);
            if rival_first {
                path.add(adaptive(new()));
            } else {
                path.add(rival);
            }
            for _ in 0..5 {
                let counts = path.run(4000 * MS);
                println!(
                    "bbr {is_bbr} rival first {rival_first} {:?}: {:?} dropped {:.4}",
                    path.passed(),
                    mbps(&counts, 4000 * MS),
                    dropped(&counts)
                );
            }
        }
    }
}
