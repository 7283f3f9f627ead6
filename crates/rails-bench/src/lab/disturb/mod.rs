//! Streams over links that change under them, beside plain flows and MPTCP in the same run.
//!
//! The receiver records the bytes that it reads in every 20 ms, and each pause; the sender's
//! interfaces are read as often. `scenario` lists the events of a run, `run` carries them out,
//! `target` names the measures and their goals, `figures` computes the measures from the samples,
//! `table` prints them.

mod figures;
mod run;
mod scenario;
mod table;
mod target;

use crate::{
    lab::{
        compare::{Contender, Link, Terms},
        fault::Happening,
    },
    measure::series::Series,
};
pub(crate) use scenario::Scenario;
use serde::Serialize;
use std::time::Duration;
pub(crate) use target::Measure;

/// A contest to be run.
#[derive(Debug, Clone)]
pub(crate) struct DisturbContest {
    /// The links, each with a rate; the last is disturbed.
    pub(crate) links: Vec<Link>,
    /// The disturbance.
    pub(crate) scenario: Scenario,
    /// The contenders; foreign programs are left out.
    pub(crate) contenders: Vec<Contender>,
    /// The time of a run: a third before, a third while the link is disturbed, and a third after.
    pub(crate) time: Duration,
    /// The terms of the contest.
    pub(crate) terms: Terms,
}

/// The outcome of one scenario.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Disturbance {
    /// The links, by number; the last is the one that is disturbed.
    pub(crate) links: Vec<Link>,
    /// The disturbance.
    pub(crate) scenario: Scenario,
    /// Congestion control of every socket.
    pub(crate) congestion_control: String,
    /// The seed of the contenders' order.
    pub(crate) seed: u64,
    /// The rate of independent plain flows in the second half of each time between two events; the
    /// median over the rounds.
    pub(crate) ceilings_bits_per_second: Vec<f64>,
    /// All runs that count, in order.
    pub(crate) samples: Vec<DisturbSample>,
    /// The results by contender.
    pub(crate) results: Vec<DisturbOutcome>,
}

/// One contender in one round.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct DisturbSample {
    /// The round, from 1.
    pub(crate) round: usize,
    /// The contender.
    pub(crate) contender: Contender,
    /// The events of the links meanwhile.
    #[serde(flatten)]
    pub(crate) course: Course,
    /// Bytes that the sending application wrote; `None` if it did not finish.
    pub(crate) bytes_written: Option<u64>,
    /// Bytes that the receiving application read; `None` if it did not finish.
    pub(crate) bytes: Option<u64>,
    /// The offset of the first wrong byte, if there was one.
    pub(crate) wrong_at: Option<u64>,
    /// The arrivals of these bytes over time.
    pub(crate) series: Option<Series>,
    /// The reason why there are no figures, if there are none.
    pub(crate) failed: Option<String>,
    /// The reasons to doubt the figures.
    pub(crate) warnings: Vec<String>,
}

/// The events of the links in the course of one run; times are the wall clock's.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Course {
    /// The start of the observation.
    pub(crate) begun_unix_seconds: f64,
    /// The end of the observation.
    pub(crate) ended_unix_seconds: f64,
    /// The events.
    pub(crate) happenings: Vec<Happened>,
    /// The longest delay of an event; `None` if not all of the events came about.
    pub(crate) late_seconds: Option<f64>,
    /// The counts of the sender's interfaces, over time.
    pub(crate) links: Vec<LinkLook>,
}

impl Course {
    /// Whether all events happened, and none too late.
    fn was_in_time(&self) -> bool {
        self.late_seconds.is_some_and(|late| late <= LATEST_SECONDS)
    }
}

/// The longest delay of an event.
const LATEST_SECONDS: f64 = 0.2;

/// An event, with its time.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Happened {
    /// The time of the event, by the wall clock.
    pub(crate) unix_seconds: f64,
    /// The event.
    #[serde(flatten)]
    pub(crate) what: Happening,
}

/// The sender's interfaces at one moment.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct LinkLook {
    /// The moment, by the wall clock.
    pub(crate) unix_seconds: f64,
    /// Bytes that each had sent, by the kernel's counters.
    pub(crate) tx_bytes: Vec<u64>,
}

/// One contender over all rounds.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct DisturbOutcome {
    /// The contender.
    pub(crate) contender: Contender,
    /// The number of rounds with figures, and of all rounds. A round in which the link changed too
    /// late has none.
    pub(crate) rounds: (usize, usize),
    /// All measures.
    pub(crate) figures: Vec<Figure>,
    /// The different warnings and failures.
    pub(crate) warnings: Vec<String>,
}

/// One measure of one contender over all rounds that have figures: seconds, or bytes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Figure {
    /// The measure.
    pub(crate) measure: Measure,
    /// The limit for a stream; `None` without a target.
    pub(crate) target: Option<f64>,
    /// The median over the rounds, in which an event that never happened counts as the latest;
    /// `None` if the median is never, or unknown.
    pub(crate) median: Option<f64>,
    /// The lowest value.
    pub(crate) min: Option<f64>,
    /// The highest value; `None` if it is never.
    pub(crate) max: Option<f64>,
    /// The number of rounds in which the event never happened.
    pub(crate) never: usize,
    /// Whether the median is within the target.
    pub(crate) is_met: Option<bool>,
}
