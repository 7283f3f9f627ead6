//! The replay of recorded decisions.
//!
//! `RAILS_REPLAY=$PWD/FILE cargo test -p rails-proto --test simulation replay` replays a record
//! from another machine, and reports each decision that differs now with the policy's view. Cargo
//! runs the test in `crates/rails-proto`, so the path is absolute.

use crate::{
    application::Habits,
    network::LaneSpec,
    pair::Scenario,
    properties::{for_each_seed, scenarios},
};
use rails_proto::{policy::Policy, record::Record};
use std::time::Duration;

/// Panics with every decision of `record` that differs now.
fn replay(record: &Record) {
    let policy = record.policy.expect("only the application can replay the record of its own policy");
    let differences: Vec<String> = record.replay(&mut *policy.build()).iter().map(ToString::to_string).collect();
    let (count, of) = (differences.len(), record.decisions());
    assert!(differences.is_empty(), "{count} of {of} decisions differ now:\n{}", differences.join("\n"));
    println!("{of} decisions of the {policy:?} policy are the same");
}

/// Two unequal lanes, of which one breaks and comes back, with a window that fills.
fn troubled(policy: Policy) -> Scenario {
    let ms = Duration::from_millis;
    let mut lanes = [400, 40].map(|rate| LaneSpec::steady(rate, ms(1), 256 << 10)).to_vec();
    lanes[0].breaks = Some((ms(100), [ms(10), ms(30)]));
    lanes[0].returns = Some(ms(50));
    let habits = [Habits::bulk(16 << 20), Habits { stall: Some((1 << 20, ms(300))), ..Habits::bulk(0) }];
    Scenario { policy, habits, window: 1 << 20, ..Scenario::one_way(0, lanes) }
}

/// Replays the record of a file, if there is one, and else a record that it makes.
#[test]
fn replay_of_a_record() {
    if let Ok(path) = std::env::var("RAILS_REPLAY") {
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("RAILS_REPLAY={path}: {error}"));
        let record = text.parse::<Record>();
        return replay(&record.unwrap_or_else(|error| panic!("RAILS_REPLAY={path}: {error} ({error:?})")));
    }
    for policy in [Policy::Adaptive, Policy::Static, Policy::Weighted] {
        let [record, _] = troubled(policy).run_recorded(1 << 16);
        assert!(record.dropped == 0 && record.decisions() > 50, "{} decisions", record.decisions());
        replay(&record.to_string().parse().expect("this test wrote it"));
    }
}

/// A ring that has dropped its beginning replays as well as a whole one.
#[test]
fn replay_of_any_scenario() {
    for_each_seed("replay_of_any_scenario", 4, scenarios, |scenario| {
        for record in scenario.run_recorded(200) {
            replay(&record.to_string().parse().expect("this test wrote it"));
        }
    });
}

#[test]
fn replay_under_another_policy_differs() {
    let [record, _] = troubled(Policy::Adaptive).run_recorded(1 << 16);
    let differences = record.replay(&mut *Policy::Static.build());
    assert!(differences.len() > 20, "{} differences", differences.len());
}
