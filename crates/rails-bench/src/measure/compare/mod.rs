//! Striped streams beside what else could carry the same bytes, over the same links in the same run.
//!
//! The two ends are processes in two network namespaces; each measurement starts both anew. Every round runs every contender
//! once, in an order drawn from the seed, so that a machine that speeds up or slows down does so for all of them.

mod contest;
mod table;

pub use contest::{Contest, ContestError};

use rails_lab::Shape;
use rails_topo::CpuSet;
use serde::Serialize;
use std::fmt;

/// Who carries the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Contender {
    /// One plain tokio TCP flow per link, at once: the ceiling.
    PlainFlows,
    /// One plain tokio TCP flow on the fastest link.
    PlainBestLink,
    /// A stream under the adaptive policy.
    RailsAdaptive,
    /// A stream under the static policy.
    RailsStatic,
}

/// The outcome of one contest.
#[derive(Debug, Clone, Serialize)]
pub struct Comparison {
    /// The links, by number.
    pub links: Vec<Shape>,
    /// Where and how it was run.
    pub setting: Setting,
    /// Every measurement that counts, in the order they were made.
    pub samples: Vec<Sample>,
    /// Each contender's figures.
    pub results: Vec<Outcome>,
}

/// Where and how a contest was run.
#[derive(Debug, Clone, Serialize)]
pub struct Setting {
    /// Processor model.
    pub cpu_model: Option<String>,
    /// Kernel release.
    pub kernel: Option<String>,
    /// Version of this program.
    pub version: String,
    /// CPUs of the sending process.
    pub sender_cpus: CpuSet,
    /// CPUs of the receiving process.
    pub receiver_cpus: CpuSet,
    /// Congestion control asked for.
    pub congestion_control: String,
    /// How long each measurement sends.
    pub seconds: f64,
    /// Rounds that count, after one that does not.
    pub rounds: usize,
    /// What the order of the contenders was drawn from.
    pub seed: u64,
}

/// One measurement.
#[derive(Debug, Clone, Serialize)]
pub struct Sample {
    /// Its round, from 1.
    pub round: usize,
    /// Who.
    pub contender: Contender,
    /// What the receiver got.
    pub receiver_goodput_bits_per_second: f64,
    /// CPU time of both processes over the bytes.
    pub cpu_seconds_per_gigabyte: f64,
    /// Bytes that the sender's end of each link sent, by the kernel's counters.
    pub link_tx_bytes: Vec<u64>,
    /// Segments that TCP sent again, of all lanes.
    pub retransmitted_segments: u64,
    /// Congestion control as the sockets said it.
    pub congestion_control: Vec<String>,
}

/// A contender's figures over all rounds.
#[derive(Debug, Clone, Serialize)]
pub struct Outcome {
    /// Who.
    pub contender: Contender,
    /// Median, least and most of what the receiver got.
    pub receiver_goodput_bits_per_second: Spread,
    /// Median, least and most of the CPU time.
    pub cpu_seconds_per_gigabyte: Spread,
    /// The median of the goodput as a share of the ceiling in the same round.
    pub share_of_plain_flows: f64,
}

/// Median, least and most.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// The middle one; of an even number the mean of the middle two.
    pub median: f64,
    /// The least.
    pub least: f64,
    /// The most.
    pub most: f64,
}

impl Contender {
    /// Those that make sense on so many links.
    fn on(links: usize) -> Vec<Self> {
        match links {
            1 => vec![Self::PlainFlows, Self::RailsAdaptive],
            _ => vec![Self::PlainFlows, Self::PlainBestLink, Self::RailsAdaptive, Self::RailsStatic],
        }
    }
}

impl Comparison {
    fn new(links: Vec<Shape>, setting: Setting, samples: Vec<Sample>) -> Self {
        let of = |contender| samples.iter().filter(move |sample: &&Sample| sample.contender == contender);
        let results = Contender::on(links.len()).into_iter().map(|contender| {
            let goodput = |sample: &Sample| sample.receiver_goodput_bits_per_second;
            let share = |sample: &Sample| {
                let ceiling = of(Contender::PlainFlows).find(|ceiling| ceiling.round == sample.round);
                ceiling.map(|ceiling| goodput(sample) / goodput(ceiling))
            };
            Outcome {
                contender,
                receiver_goodput_bits_per_second: Spread::of(of(contender).map(goodput)),
                cpu_seconds_per_gigabyte: Spread::of(of(contender).map(|sample| sample.cpu_seconds_per_gigabyte)),
                share_of_plain_flows: Spread::of(of(contender).filter_map(share)).median,
            }
        });
        let results = results.collect();
        Self { links, setting, samples, results }
    }

    /// The figures of one contender, if it took part.
    pub fn of(&self, contender: Contender) -> Option<&Outcome> {
        self.results.iter().find(|outcome| outcome.contender == contender)
    }
}

impl Spread {
    /// Of these values; all not a number where there are none.
    fn of(values: impl Iterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        let (Some(least), Some(most)) = (values.first(), values.last()) else {
            return Self { median: f64::NAN, least: f64::NAN, most: f64::NAN };
        };
        let middle = values.len() / 2;
        let median = if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 };
        Self { median, least: *least, most: *most }
    }
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PlainFlows => "plain tokio TCP, one flow per link (the ceiling)",
            Self::PlainBestLink => "plain tokio TCP, the fastest link alone",
            Self::RailsAdaptive => "rails, adaptive",
            Self::RailsStatic => "rails, static",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(round: usize, contender: Contender, goodput: f64) -> Sample {
        Sample {
            round,
            contender,
            receiver_goodput_bits_per_second: goodput,
            cpu_seconds_per_gigabyte: 1.0,
            link_tx_bytes: vec![],
            retransmitted_segments: 0,
            congestion_control: vec![],
        }
    }

    #[test]
    fn a_share_is_of_the_ceiling_in_the_same_round() {
        let samples = vec![
            sample(1, Contender::PlainFlows, 100.0),
            sample(1, Contender::RailsAdaptive, 90.0),
            sample(2, Contender::PlainFlows, 50.0),
            sample(2, Contender::RailsAdaptive, 50.0),
        ];
        let setting = Setting {
            cpu_model: None,
            kernel: None,
            version: String::new(),
            sender_cpus: CpuSet::new(),
            receiver_cpus: CpuSet::new(),
            congestion_control: String::new(),
            seconds: 1.0,
            rounds: 2,
            seed: 0,
        };
        let comparison = Comparison::new(vec![Shape::Unshaped], setting, samples);
        let adaptive = comparison.of(Contender::RailsAdaptive).unwrap();
        assert!((adaptive.share_of_plain_flows - 0.95).abs() < 1e-9);
        assert_eq!(adaptive.receiver_goodput_bits_per_second, Spread { median: 70.0, least: 50.0, most: 90.0 });
        assert!(comparison.of(Contender::RailsStatic).is_none());
    }
}
