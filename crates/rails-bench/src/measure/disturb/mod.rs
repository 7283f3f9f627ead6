//! What a stream makes of links that change under it, beside plain flows and MPTCP in the same run.
//!
//! The receiver writes down what it reads in every 20 ms, and each pause; the sender's interfaces are read as often. `scenario`
//! says what happens when, `run` does it, `figures` works out what came of it, `table` shows that.

mod figures;
mod run;
mod scenario;
mod table;

pub use run::DisturbContest;
pub use scenario::{Happening, Scenario};

use super::{
    compare::{Contender, Link, Spread},
    series::Series,
};
use serde::Serialize;

/// The outcome of one scenario.
#[derive(Debug, Clone, Serialize)]
pub struct Disturbance {
    /// The links, by number; the last is the one that is disturbed.
    pub links: Vec<Link>,
    /// What was done to it.
    pub scenario: Scenario,
    /// Congestion control of every socket.
    pub congestion_control: String,
    /// What the order of the contenders was drawn from.
    pub seed: u64,
    /// The rate of independent plain flows in the second half of each time between two happenings, median over the rounds.
    pub ceilings_bits_per_second: Vec<f64>,
    /// Every run that counts, in the order they were made.
    pub samples: Vec<DisturbSample>,
    /// What they come to, by contender.
    pub results: Vec<DisturbOutcome>,
}

/// One contender in one round.
#[derive(Debug, Clone, Serialize)]
pub struct DisturbSample {
    /// Its round, from 1.
    pub round: usize,
    /// Who.
    pub contender: Contender,
    /// What happened to the links meanwhile.
    #[serde(flatten)]
    pub course: Course,
    /// Bytes that the receiving application read; `None` where it came to no end.
    pub bytes: Option<u64>,
    /// How they arrived.
    pub series: Option<Series>,
    /// Why there are no figures, where there are none.
    pub failed: Option<String>,
    /// Why the figures are not what they seem to be.
    pub warnings: Vec<String>,
}

/// What happened to the links in the course of one run; times are the wall clock's.
#[derive(Debug, Clone, Serialize)]
pub struct Course {
    /// When the looking began.
    pub begun_unix_seconds: f64,
    /// When it ended.
    pub ended_unix_seconds: f64,
    /// What was done.
    pub happenings: Vec<Happened>,
    /// What the sender's interfaces had sent at each look.
    pub links: Vec<LinkLook>,
}

/// Something that was done, and when.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Happened {
    /// When it was done, by the wall clock.
    pub unix_seconds: f64,
    /// What.
    pub what: Happening,
}

/// The sender's interfaces at one moment.
#[derive(Debug, Clone, Serialize)]
pub struct LinkLook {
    /// The moment, by the wall clock.
    pub unix_seconds: f64,
    /// Bytes that each had sent, by the kernel's counters.
    pub tx_bytes: Vec<u64>,
}

/// One contender over all rounds.
#[derive(Debug, Clone, Serialize)]
pub struct DisturbOutcome {
    /// Who.
    pub contender: Contender,
    /// How many rounds have figures, and how many there were.
    pub rounds: (usize, usize),
    /// After each happening, how long until the rate was within 5 % of the new ceiling and stayed so on the whole; `None` where it
    /// never was in one of the rounds, or the ceiling is not known.
    pub settled_seconds: Vec<Option<Spread>>,
    /// The longest time from the first happening on in which the application read nothing; 0 for less than an interval.
    pub longest_pause_seconds: Option<Spread>,
    /// How long after the last happening the disturbed link carried a quarter of its rate again; `None` where it did not in one of the
    /// rounds.
    pub used_again_seconds: Option<Spread>,
    /// Every different warning and failure.
    pub warnings: Vec<String>,
}
