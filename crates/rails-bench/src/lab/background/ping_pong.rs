//! Exchanges of four bytes over several streams.

use super::{
    Sample,
    carrier::Carrier,
    cell, congestion_control,
    end::{ExchangeTimes, Job},
    median, run_rounds,
};
use crate::{
    lab::compare::{ContestError, Link, Setting, Spread, Terms},
    print,
};
use rails_topo::Topology;
use rand::{rngs::ChaCha8Rng, seq::SliceRandom};
use serde::Serialize;
use std::fmt;

/// A contest to be run.
#[derive(Debug, Clone)]
pub(crate) struct PingPongContest {
    /// The link.
    pub(crate) link: Link,
    /// Numbers of streams.
    pub(crate) streams: Vec<u16>,
    /// Exchanges over each number of streams, in each round.
    pub(crate) count: u32,
    /// The terms of the contest.
    pub(crate) terms: Terms,
}

/// The result.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct PingPongReport {
    link: Link,
    setting: Setting,
    streams: Vec<u16>,
    count: u32,
    /// All measurements that count, in order.
    samples: Vec<Sample>,
    /// The figures by number of streams and carrier.
    results: Vec<PingPongOutcome>,
}

/// One carrier with one number of streams over all rounds.
#[derive(Debug, Clone, Serialize)]
struct PingPongOutcome {
    streams: u16,
    carrier: Carrier,
    /// The rounds' medians of exchanges that are made one at a time, on one stream after the other.
    one_at_a_time_us: Spread,
    /// The ratio of each to the median of one stream in the same round.
    over_one_stream: Option<Spread>,
    /// The rounds' medians while every stream has an exchange under way.
    all_at_once_us: Spread,
    /// The total time of these exchanges over their number.
    all_at_once_us_each: Spread,
}

impl PingPongContest {
    /// Makes the link, runs every round, and takes the link down again. Calls `progress` before
    /// each measurement.
    ///
    /// # Errors
    /// [`ContestError`]. A link that was made is taken down.
    ///
    /// # Privileges
    /// Root, for the namespaces.
    pub(crate) fn run(
        &self,
        topology: &Topology,
        progress: impl FnMut(usize, Carrier),
    ) -> Result<PingPongReport, ContestError> {
        let mut streams = self.streams.clone();
        let job = |order: &mut ChaCha8Rng| {
            streams.shuffle(order);
            Job::PingPong { streams: streams.clone(), count: self.count }
        };
        let (setting, samples) = run_rounds((self.link, &self.terms), topology, CARRIERS.to_vec(), job, progress)?;
        Ok(PingPongReport::new(self, setting, samples))
    }
}

impl PingPongReport {
    fn new(contest: &PingPongContest, setting: Setting, samples: Vec<Sample>) -> Self {
        let outcome = |(streams, carrier): (u16, Carrier)| {
            let of = || samples.iter().filter(move |sample| sample.carrier == carrier);
            let with = |sample: &Sample, streams| {
                sample.sender.ping_pong.iter().find(|times| times.streams == streams).cloned()
            };
            let spread = |figure: fn(&ExchangeTimes) -> Option<f64>| {
                Spread::of(of().filter_map(|sample| figure(&with(sample, streams)?)))
            };
            let over_one = |sample| Some(one_at_a_time(&with(sample, streams)?)? / one_at_a_time(&with(sample, 1)?)?);
            Some(PingPongOutcome {
                streams,
                carrier,
                one_at_a_time_us: spread(one_at_a_time)?,
                over_one_stream: Spread::of(of().filter_map(over_one)),
                all_at_once_us: spread(|times| microseconds(&times.all_at_once_ns))?,
                all_at_once_us_each: spread(|times| {
                    let exchanges = Some(times.all_at_once_ns.len()).filter(|exchanges| *exchanges > 0)?;
                    Some(times.all_at_once_seconds * 1e6 / exchanges as f64)
                })?,
            })
        };
        let cases = contest.streams.iter().flat_map(|streams| CARRIERS.map(|carrier| (*streams, carrier)));
        let results = cases.filter_map(outcome).collect();
        let PingPongContest { link, streams, count, .. } = contest.clone();
        Self { link, setting, streams, count, samples, results }
    }
}

fn one_at_a_time(times: &ExchangeTimes) -> Option<f64> {
    microseconds(&times.one_at_a_time_ns)
}

/// The median of nanoseconds, in microseconds.
fn microseconds(nanoseconds: &[u64]) -> Option<f64> {
    median(nanoseconds.iter().map(|nanoseconds| *nanoseconds as f64 / 1e3))
}

impl fmt::Display for PingPongReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (setting, count) = (&self.setting, self.count);
        writeln!(f, "exchanges of 4 bytes, medians in us; link: {}", self.link)?;
        writeln!(
            f,
            "one at a time: on one stream after the other, while a task waits on each at the receiver; \
             all at once: a task for each stream at both ends"
        )?;
        writeln!(
            f,
            "{} rounds of {count} exchanges a case after a warm-up, order from seed {}; the sockets said {}",
            setting.rounds,
            setting.seed,
            congestion_control(self.samples.iter().flat_map(|sample| [&sample.sender, &sample.receiver]))
        )?;
        writeln!(f, "asked on CPU {}, answered on CPU {}", setting.sender_cpus, setting.receiver_cpus)?;
        writeln!(f, "{}", setting.machine())?;
        let mut table = print::table(
            2,
            ["streams", "", "one at a time", "over one stream", "all at once", "all at once, time of all / number"],
        );
        for outcome in &self.results {
            let over = outcome.over_one_stream.map_or("unknown".to_owned(), |over| cell(over, 2));
            let times = [outcome.one_at_a_time_us, outcome.all_at_once_us, outcome.all_at_once_us_each];
            let [one, all, each] = times.map(|spread| cell(spread, 1));
            table.add_row([outcome.streams.to_string(), outcome.carrier.to_string(), one, over, all, each]);
        }
        writeln!(f, "{table}")
    }
}

/// The carriers that take part: a program that waits for each exchange needs no progress in the
/// background.
const CARRIERS: [Carrier; 2] = [Carrier::Rails, Carrier::ProgressThread];

#[cfg(test)]
mod tests {
    use super::{super::end::EndReport, *};
    use rails_lab::Shape;
    use rails_topo::CpuSet;

    #[test]
    fn medians_over_those_of_one_stream_by_round() {
        let times = |streams, micros: u64| ExchangeTimes {
            streams,
            one_at_a_time_ns: vec![1000 * micros, 1, 2000 * micros],
            all_at_once_ns: vec![3000 * micros; 4],
            all_at_once_seconds: 4e-6,
        };
        let end = |ping_pong| EndReport {
            program_cpus: CpuSet::new(),
            carrier_cpus: CpuSet::new(),
            congestion_control: vec![],
            overlap: vec![],
            ping_pong,
        };
        let sample = |round, one, two| Sample {
            round,
            carrier: Carrier::Rails,
            sender: end(vec![times(2, two), times(1, one)]),
            receiver: end(vec![]),
        };
        let terms = Terms { rounds: 2, seed: 7, congestion: "cubic".to_owned(), program: "rails-bench".into() };
        let link = Link::Veth(Shape::mbit(1000));
        let contest = PingPongContest { link, streams: vec![1, 2], count: 3, terms };
        let setting = Setting::unknown();
        let report = PingPongReport::new(&contest, setting, vec![sample(1, 10, 11), sample(2, 20, 26)]);
        let [one, two] = &report.results[..] else { panic!("{report:?}") };
        assert_eq!(one.over_one_stream, Some(Spread { median: 1.0, min: 1.0, max: 1.0 }));
        assert_eq!(two.one_at_a_time_us, Spread { median: 18.5, min: 11.0, max: 26.0 });
        assert_eq!(two.over_one_stream.map(|spread| (spread.min, spread.max)), Some((1.1, 1.3)));
        assert_eq!((two.all_at_once_us.min, two.all_at_once_us_each.min), (33.0, 1.0));
        assert!(report.to_string().contains("1.20 (1.10 to 1.30)"), "{report}");
    }
}
