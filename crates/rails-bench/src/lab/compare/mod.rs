//! Striped streams beside their rivals for the same bytes, over the same links in the same run.
//!
//! The two ends are processes in two network namespaces; each measurement starts both anew. Every
//! round runs every contender once, in an order drawn from the seed, so that a machine that speeds
//! up or slows down does so for all of them. A contender that cannot take part is listed with the
//! reason; a doubtful figure has a warning.
//!
//! `contender` names the contenders, `rivals` runs them, `testbed` has their links and CPUs,
//! `contest` runs the rounds, [`Spread`] sums them up into a [`Comparison`]; `table` and `chart`
//! show it.

mod chart;
mod contender;
mod contest;
mod error;
mod keys;
mod link;
pub(crate) mod peer;
mod rivals;
mod table;
mod terms;
pub(crate) mod testbed;

pub(crate) use chart::{ChartError, draw};
pub(crate) use contender::Contender;
pub(crate) use contest::Contest;
pub(crate) use error::ContestError;
pub(crate) use link::{Link, fastest};
pub(crate) use rails_cli::spread::Spread;
use rails_topo::{CpuSet, Topology};
#[cfg(feature = "fuzzing")]
pub(crate) use rivals::fuzz;
pub(crate) use rivals::{MeasuredAt, Running, mptcp, own};
use serde::Serialize;
use std::time::Duration;
pub(crate) use terms::Terms;
pub(crate) use testbed::Testbed;

/// The outcome of one contest.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Comparison {
    /// The links, by number.
    pub(crate) links: Vec<Link>,
    /// The setting of the contest.
    pub(crate) setting: Setting,
    /// The contenders that took part, and those that could not.
    pub(crate) entries: Vec<Entry>,
    /// All measurements that count, in order.
    pub(crate) samples: Vec<Sample>,
    /// The figures of each contender that took part.
    pub(crate) results: Vec<Outcome>,
}

/// The setting of a contest: the machine and the terms.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Setting {
    /// Processor model.
    pub(crate) cpu_model: Option<String>,
    /// Kernel release.
    pub(crate) kernel: Option<String>,
    /// Version of this program.
    pub(crate) version: String,
    /// CPUs of the sending process.
    pub(crate) sender_cpus: CpuSet,
    /// CPUs of the receiving process.
    pub(crate) receiver_cpus: CpuSet,
    /// Congestion control of every socket.
    pub(crate) congestion_control: String,
    /// The time that each measurement sends; 0 if it sends a number of messages.
    pub(crate) seconds: f64,
    /// Rounds that count, after one that does not.
    pub(crate) rounds: usize,
    /// The seed of the contenders' order.
    pub(crate) seed: u64,
}

impl Setting {
    /// The setting of measurements that send for `time` each.
    pub(crate) fn of(topology: &Topology, testbed: &Testbed, time: Duration, terms: &Terms) -> Self {
        Self {
            cpu_model: topology.machine().cpu_model.clone(),
            kernel: topology.machine().kernel.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            sender_cpus: testbed.sender_cpus.clone(),
            receiver_cpus: testbed.receiver_cpus.clone(),
            congestion_control: terms.congestion.clone(),
            seconds: time.as_secs_f64(),
            rounds: terms.rounds,
            seed: terms.seed,
        }
    }

    /// The processor, the kernel and this program's version, in one line.
    pub(crate) fn machine(&self) -> String {
        let known = |fact: &Option<String>| fact.clone().unwrap_or_else(|| "unknown".to_owned());
        format!("{}, kernel {}, rails-bench {}", known(&self.cpu_model), known(&self.kernel), self.version)
    }
}

#[cfg(test)]
impl Setting {
    /// A setting of two rounds on an unknown machine.
    pub(crate) fn unknown() -> Self {
        Self {
            cpu_model: None,
            kernel: None,
            version: String::new(),
            sender_cpus: CpuSet::new(),
            receiver_cpus: CpuSet::new(),
            congestion_control: "cubic".to_owned(),
            seconds: 1.0,
            rounds: 2,
            seed: 7,
        }
    }
}

/// A chosen contender.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Entry {
    /// The contender.
    pub(crate) contender: Contender,
    /// The contender's exact version; `None` for this program.
    pub(crate) version: Option<String>,
    /// The reason why the contender did not take part.
    pub(crate) absent: Option<String>,
}

/// One measurement.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Sample {
    /// The round, from 1.
    pub(crate) round: usize,
    /// The contender.
    pub(crate) contender: Contender,
    /// Bytes of the application that arrived.
    pub(crate) bytes: u64,
    /// The rate of their arrival.
    pub(crate) goodput_bits_per_second: f64,
    /// The end that measured the rate.
    pub(crate) measured_at: MeasuredAt,
    /// CPU time of all processes of both ends, during the measurement if they report it, else of
    /// their whole lives.
    pub(crate) cpu_seconds: f64,
    /// That CPU time over the bytes.
    pub(crate) cpu_seconds_per_gigabyte: f64,
    /// The sender's and the receiver's CPU time; `None` for foreign programs.
    pub(crate) cpu_seconds_by_side: Option<(f64, f64)>,
    /// Time in which CPUs of the machine were not idle while the processes lived, over the bytes.
    pub(crate) machine_seconds_per_gigabyte: f64,
    /// The bytes over the sender's CPU time: the rate of one busy core. `None` for foreign
    /// programs.
    pub(crate) goodput_per_sender_core_bits_per_second: Option<f64>,
    /// The bytes over the receiver's CPU time, likewise.
    pub(crate) goodput_per_receiver_core_bits_per_second: Option<f64>,
    /// Bytes that the sender's end of each link sent, by the kernel's counters.
    pub(crate) link_tx_bytes: Vec<u64>,
    /// Segments that TCP retransmitted at both ends, by the kernel's counters.
    pub(crate) retransmitted_segments: u64,
    /// Congestion control, as read from the sockets; empty if it is unknown.
    pub(crate) congestion_control: Vec<String>,
    /// The reasons to doubt the figure.
    pub(crate) warnings: Vec<String>,
}

/// A contender's figures over all rounds.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Outcome {
    /// The contender.
    pub(crate) contender: Contender,
    /// Median, minimum and maximum of the goodput.
    pub(crate) goodput_bits_per_second: Spread,
    /// Median, minimum and maximum of the CPU time.
    pub(crate) cpu_seconds_per_gigabyte: Spread,
    /// Median, minimum and maximum of the machine's CPU time.
    pub(crate) machine_seconds_per_gigabyte: Spread,
    /// The rate of one busy core of the sender; `None` for foreign programs.
    pub(crate) goodput_per_sender_core_bits_per_second: Option<Spread>,
    /// The rate of one busy core of the receiver, likewise.
    pub(crate) goodput_per_receiver_core_bits_per_second: Option<Spread>,
    /// The median goodput as a share of the ceiling's (one plain flow per link); `None` if the
    /// ceiling was not measured.
    pub(crate) share_of_ceiling: Option<f64>,
    /// The different warnings of the contender's samples.
    pub(crate) warnings: Vec<String>,
}

impl Comparison {
    fn new(links: Vec<Link>, setting: Setting, entries: Vec<Entry>, samples: Vec<Sample>) -> Self {
        let goodput = |contender| {
            let of = samples.iter().filter(move |sample| sample.contender == contender);
            Spread::of(of.map(|sample| sample.goodput_bits_per_second))
        };
        let ceiling = goodput(Contender::PlainFlows);
        let outcome = |entry: &Entry| {
            let of = || samples.iter().filter(|sample| sample.contender == entry.contender);
            let goodput = goodput(entry.contender)?;
            let mut warnings: Vec<String> = of().flat_map(|sample| sample.warnings.clone()).collect();
            warnings.sort();
            warnings.dedup();
            Some(Outcome {
                contender: entry.contender,
                goodput_bits_per_second: goodput,
                cpu_seconds_per_gigabyte: Spread::of(of().map(|sample| sample.cpu_seconds_per_gigabyte))?,
                machine_seconds_per_gigabyte: Spread::of(of().map(|sample| sample.machine_seconds_per_gigabyte))?,
                goodput_per_sender_core_bits_per_second: Spread::of(
                    of().filter_map(|sample| sample.goodput_per_sender_core_bits_per_second),
                ),
                goodput_per_receiver_core_bits_per_second: Spread::of(
                    of().filter_map(|sample| sample.goodput_per_receiver_core_bits_per_second),
                ),
                share_of_ceiling: ceiling.map(|ceiling| goodput.median / ceiling.median),
                warnings,
            })
        };
        let results = entries.iter().filter_map(outcome).collect();
        Self { links, setting, entries, samples, results }
    }

    /// The figures of one contender, if it took part.
    pub(crate) fn of(&self, contender: Contender) -> Option<&Outcome> {
        self.results.iter().find(|outcome| outcome.contender == contender)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use rails_lab::Shape;

    fn sample(round: usize, contender: Contender, goodput: f64) -> Sample {
        Sample {
            round,
            contender,
            bytes: 1,
            goodput_bits_per_second: goodput,
            measured_at: MeasuredAt::Receiver,
            cpu_seconds: 1.0,
            cpu_seconds_per_gigabyte: 1.0,
            cpu_seconds_by_side: None,
            machine_seconds_per_gigabyte: 1.0,
            goodput_per_sender_core_bits_per_second: None,
            goodput_per_receiver_core_bits_per_second: None,
            link_tx_bytes: vec![],
            retransmitted_segments: 0,
            congestion_control: vec![],
            warnings: vec!["it limps".to_owned()],
        }
    }

    pub(super) fn comparison(contenders: &[Contender]) -> Comparison {
        let goodput = |index: usize, round: usize| 1e8 * (10 - index.min(9)) as f64 + 1e6 * round as f64;
        let rounds = (1..=2).flat_map(|round| {
            contenders
                .iter()
                .enumerate()
                .map(move |(index, contender)| sample(round, *contender, goodput(index, round)))
        });
        let setting = Setting::unknown();
        let entry = |contender: &Contender| Entry { contender: *contender, version: None, absent: None };
        let absent = Entry { contender: Contender::Ucx, version: None, absent: Some("it is not here".to_owned()) };
        let entries = contenders.iter().map(entry).chain([absent]).collect();
        Comparison::new(vec![Link::Veth(Shape::mbit(400)); 2], setting, entries, rounds.collect())
    }

    #[test]
    fn share_of_the_median_ceiling_and_one_warning() {
        let comparison = comparison(&[Contender::PlainFlows, Contender::RailsAdaptive]);
        let adaptive = comparison.of(Contender::RailsAdaptive).unwrap();
        assert_eq!(adaptive.goodput_bits_per_second, Spread { median: 901.5e6, min: 901e6, max: 902e6 });
        assert!((adaptive.share_of_ceiling.unwrap() - 901.5 / 1001.5).abs() < 1e-9);
        assert_eq!(adaptive.warnings, ["it limps"]);
        assert!(comparison.of(Contender::Ucx).is_none(), "who was absent has no figures");
    }

    #[test]
    fn without_the_ceiling_there_is_no_share() {
        let comparison = comparison(&[Contender::RailsAdaptive]);
        assert_eq!(comparison.of(Contender::RailsAdaptive).unwrap().share_of_ceiling, None);
    }
}
