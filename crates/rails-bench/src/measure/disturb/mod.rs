//! What a stream makes of links that change under it, beside plain flows and MPTCP in the same run.
//!
//! The receiver writes down what it reads in every 20 ms, and each pause; the sender's interfaces are read as often. `scenario`
//! says what happens when, `run` does it, `target` says what is measured and how good it is to be, `figures` works out what came
//! of it, `table` shows that.

mod figures;
mod run;
mod scenario;
mod table;
mod target;

pub use run::DisturbContest;
pub use scenario::{DropsAt, Happening, Scenario};
pub use target::Measure;

use super::{
    compare::{Contender, Link},
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
    /// Bytes that the sending application wrote; `None` where it came to no end.
    pub bytes_written: Option<u64>,
    /// Bytes that the receiving application read; `None` where it came to no end.
    pub bytes: Option<u64>,
    /// The place of the first byte that was another than the one written there, if there was one.
    pub wrong_at: Option<u64>,
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
    /// How much later than it should the latest of it was done; `None` where not all of it was.
    pub late_seconds: Option<f64>,
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
    /// How many rounds have figures, and how many there were. One in which the link was changed too late has none.
    pub rounds: (usize, usize),
    /// Everything that is measured.
    pub figures: Vec<Figure>,
    /// Every different warning and failure.
    pub warnings: Vec<String>,
}

/// One measure of one contender over all rounds that have figures: seconds, or bytes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Figure {
    /// What is measured.
    pub measure: Measure,
    /// The most that a stream is to reach; `None` where nothing is asked.
    pub target: Option<f64>,
    /// The median over the rounds, where what never came to pass is later than all else; `None` where that is never, or nothing is
    /// known.
    pub median: Option<f64>,
    /// The least.
    pub least: Option<f64>,
    /// The most; `None` where it is never.
    pub most: Option<f64>,
    /// In how many rounds it never came to pass.
    pub never: usize,
    /// Whether the median is no more than the target.
    pub is_met: Option<bool>,
}
