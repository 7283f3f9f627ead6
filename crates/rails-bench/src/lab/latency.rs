//! Round trips over striped streams beside those over one plain flow and MPTCP, over the same links
//! in the same run.

use crate::{
    commands::ping::Application,
    lab::compare::{ContestError, Link, Spread, Terms, Testbed, fastest, mptcp, peer::Peer, testbed::halves},
    measure::latency::{self, RoundTrips},
    print,
};
use clap::ValueEnum;
use rails_lab::Side;
use rails_topo::Topology;
use rand::{SeedableRng, seq::SliceRandom};
use serde::Serialize;
use std::{fmt, time::Duration};

/// A carrier of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Carrier {
    /// One plain tokio TCP flow on the fastest link
    Plain,
    /// One socket of the kernel's MPTCP, with a subflow on every link
    Mptcp,
    /// A stream over all links, with one thread per CPU
    Rails,
    /// A stream over all links, with one thread for all rails
    RailsSingle,
    /// The messages of a stream over all links, with one thread per CPU
    RailsMessages,
    /// A stream over all links, whose lanes are asked for 50 us for more before their threads sleep
    RailsBusy,
}

/// A contest to be run.
#[derive(Debug, Clone)]
pub(crate) struct LatencyContest {
    /// The links, by number.
    pub(crate) links: Vec<Link>,
    /// Lengths of the messages.
    pub(crate) sizes: Vec<u32>,
    /// Round trips of each size that count, in each round.
    pub(crate) count: u32,
    /// The runtime of the application's task, at both ends.
    pub(crate) application: Application,
    /// Whether each end has a half of the CPUs for itself.
    pub(crate) confined: bool,
    /// The terms of the contest.
    pub(crate) terms: Terms,
}

/// The result.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct LatencyComparison {
    /// The links, by number.
    pub(crate) links: Vec<Link>,
    /// The runtime of the application's task, at both ends.
    pub(crate) application: Application,
    /// Whether each end had a half of the CPUs for itself.
    pub(crate) confined: bool,
    /// The seed of the order.
    pub(crate) seed: u64,
    /// The reason why MPTCP took no part; `None` if it did.
    pub(crate) mptcp_absent: Option<String>,
    /// All measurements that count, in order.
    pub(crate) samples: Vec<LatencySample>,
    /// The results by size and carrier.
    pub(crate) results: Vec<LatencyOutcome>,
}

/// One carrier in one round.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct LatencySample {
    /// The round, from 1.
    pub(crate) round: usize,
    /// The carrier.
    pub(crate) carrier: Carrier,
    /// Figures of each size.
    pub(crate) round_trips: Vec<RoundTrips>,
    /// The reason to doubt the figures.
    pub(crate) warning: Option<String>,
}

/// One carrier with one size over all rounds.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct LatencyOutcome {
    /// Length of the messages.
    pub(crate) bytes: u32,
    /// The carrier.
    pub(crate) carrier: Carrier,
    /// The rounds' medians.
    pub(crate) p50_us: Spread,
    /// The rounds' 99th percentiles.
    pub(crate) p99_us: Spread,
    /// The median of the medians over that of the plain flow.
    pub(crate) p50_over_plain: Option<f64>,
    /// The median of the 99th percentiles over that of the plain flow.
    pub(crate) p99_over_plain: Option<f64>,
}

impl LatencyContest {
    /// Makes the links, runs every round, and takes the links down again. Calls `absent` where
    /// MPTCP cannot take part, with the reason, and `progress` before each measurement.
    ///
    /// # Errors
    /// [`ContestError`]. Links that were made are taken down.
    ///
    /// # Privileges
    /// Root, for the namespaces.
    pub(crate) fn run(
        &self,
        topology: &Topology,
        absent: impl FnOnce(Carrier, &str),
        mut progress: impl FnMut(usize, Carrier),
    ) -> Result<LatencyComparison, ContestError> {
        let all = topology.allowed_cpus();
        let cpus = if self.confined { halves(all) } else { (all.clone(), all.clone()) };
        let testbed = Testbed::build(&self.links, cpus, Duration::ZERO, &self.terms)?;
        let mptcp_absent = mptcp::enable(&testbed).err();
        if let Some(reason) = &mptcp_absent {
            absent(Carrier::Mptcp, reason);
        }
        let takes_part = |carrier: &Carrier| *carrier != Carrier::Mptcp || mptcp_absent.is_none();
        let mut carriers: Vec<Carrier> = Carrier::ALL.into_iter().filter(takes_part).collect();
        let mut order = rand::rngs::ChaCha8Rng::seed_from_u64(self.terms.seed);
        let mut samples = Vec::new();
        for round in 0..=self.terms.rounds {
            carriers.shuffle(&mut order);
            for carrier in carriers.iter().copied() {
                progress(round, carrier);
                let joins = mptcp::joins(&testbed)?;
                let round_trips = self.measure(&testbed, carrier)?;
                let warning = if carrier == Carrier::Mptcp { mptcp::missing(&testbed, joins)? } else { None };
                if round > 0 {
                    samples.push(LatencySample { round, carrier, round_trips, warning });
                }
            }
        }
        Ok(LatencyComparison::new(self, mptcp_absent, samples))
    }

    fn measure(&self, testbed: &Testbed, carrier: Carrier) -> Result<Vec<RoundTrips>, ContestError> {
        let links = match carrier {
            Carrier::Plain => vec![fastest(&self.links)],
            // The connection is made over the first link, and the kernel adds the others.
            Carrier::Mptcp => vec![0],
            _ => (0..self.links.len()).collect(),
        };
        let ends = |side| {
            let addresses = links.iter().map(|link| testbed.lab.address(side, *link).to_string());
            addresses.collect::<Vec<_>>().join(",")
        };
        // Subflows arrive at the other addresses too.
        let listen = if carrier == Carrier::Mptcp { "0.0.0.0".to_owned() } else { ends(Side::B) };
        let application = self.application.to_string();
        let common = ["--insecure", "--json", "--congestion", &testbed.congestion, "--application", &application];
        let mut serve = testbed.command(Side::B, &testbed.program);
        serve.args(["serve", "--once", "--listen", &listen]).args(common).args(carrier.of_both());
        let mut receiver = Peer::start(serve, testbed.cpus(Side::B))?;
        receiver.wait_for("listening on")?;
        let sizes = self.sizes.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        let mut stream = testbed.command(Side::A, &testbed.program);
        stream.args(["stream", "--to", &ends(Side::B), "--from", &ends(Side::A), "--ping", &sizes]);
        stream
            .args(["--round-trips", &self.count.to_string()])
            .args(common)
            .args(carrier.of_both())
            .args(carrier.of_asker());
        let report = Peer::start(stream, testbed.cpus(Side::A))?.finish()?;
        receiver.finish()?;
        let report: latency::Report = serde_json::from_slice(&report)?;
        Ok(report.round_trips)
    }
}

impl Carrier {
    /// All carriers.
    pub(crate) const ALL: [Self; 6] =
        [Self::Plain, Self::Mptcp, Self::Rails, Self::RailsSingle, Self::RailsMessages, Self::RailsBusy];

    /// The arguments of both ends.
    fn of_both(self) -> &'static [&'static str] {
        match self {
            Self::RailsSingle => &["--driver", "single"],
            Self::RailsBusy => &["--busy-poll", "50us"],
            Self::Plain | Self::Mptcp | Self::Rails | Self::RailsMessages => &[],
        }
    }

    /// The arguments of the end that asks.
    fn of_asker(self) -> &'static [&'static str] {
        match self {
            Self::Plain => &["--plain"],
            Self::Mptcp => &["--mptcp"],
            Self::RailsMessages => &["--messages"],
            Self::Rails | Self::RailsSingle | Self::RailsBusy => &[],
        }
    }
}

impl LatencyComparison {
    fn new(contest: &LatencyContest, mptcp_absent: Option<String>, samples: Vec<LatencySample>) -> Self {
        let spread = |bytes: u32, carrier: Carrier, figure: fn(&RoundTrips) -> f64| {
            let of = samples.iter().filter(|sample| sample.carrier == carrier).flat_map(|sample| &sample.round_trips);
            Spread::of(of.filter(|figures| figures.bytes == bytes).map(figure))
        };
        let mut sizes: Vec<u32> = samples.iter().flat_map(|sample| &sample.round_trips).map(|one| one.bytes).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let figures: [fn(&RoundTrips) -> f64; 2] = [|one| one.p50_us, |one| one.p99_us];
        let outcome = |(bytes, carrier)| {
            let [p50, p99] = figures.map(|figure| spread(bytes, carrier, figure));
            let [plain50, plain99] = figures.map(|figure| spread(bytes, Carrier::Plain, figure));
            let over = |ours: Spread, plain: Option<Spread>| plain.map(|plain| ours.median / plain.median);
            let (p50_us, p99_us) = (p50?, p99?);
            Some(LatencyOutcome {
                bytes,
                carrier,
                p50_us,
                p99_us,
                p50_over_plain: over(p50_us, plain50),
                p99_over_plain: over(p99_us, plain99),
            })
        };
        let pairs = sizes.iter().flat_map(|bytes| Carrier::ALL.map(|carrier| (*bytes, carrier)));
        let results = pairs.filter_map(outcome).collect();
        let LatencyContest { application, confined, .. } = *contest;
        let (links, seed) = (contest.links.clone(), contest.terms.seed);
        Self { links, application, confined, seed, mptcp_absent, samples, results }
    }
}

impl fmt::Display for Carrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Plain => "tokio TCP, one flow",
            Self::Mptcp => "MPTCP, the kernel's",
            Self::Rails => "rails",
            Self::RailsSingle => "rails, single driver",
            Self::RailsMessages => "rails, messages",
            Self::RailsBusy => "rails, busy polling",
        })
    }
}

impl fmt::Display for LatencyComparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let links: Vec<String> = self.links.iter().map(Link::to_string).collect();
        let place = if self.confined { "each end on a half of the CPUs" } else { "both ends on all CPUs" };
        writeln!(
            f,
            "round trips over {} link(s): {}; application on {}, {place}; order from seed {}",
            links.len(),
            links.join(", "),
            self.application,
            self.seed
        )?;
        if let Some(reason) = &self.mptcp_absent {
            writeln!(f, "NOT MEASURED: {}: {reason}", Carrier::Mptcp)?;
        }
        let [min, max, over] = ["min", "max", "over plain"];
        let mut table = print::table(2, ["bytes", "", "p50, us", min, max, over, "p99, us", min, max, over]);
        for outcome in &self.results {
            let over = |ratio: Option<f64>| ratio.map_or("unknown".to_owned(), |ratio| format!("{ratio:.3}"));
            let spread = |spread: Spread| [spread.median, spread.min, spread.max].map(|us| format!("{us:.1}"));
            let [p50, p50_min, p50_max] = spread(outcome.p50_us);
            let [p99, p99_min, p99_max] = spread(outcome.p99_us);
            let over = [over(outcome.p50_over_plain), over(outcome.p99_over_plain)];
            let [over50, over99] = over;
            let (bytes, carrier) = (outcome.bytes.to_string(), outcome.carrier.to_string());
            table.add_row([bytes, carrier, p50, p50_min, p50_max, over50, p99, p99_min, p99_max, over99]);
        }
        writeln!(f, "{table}")?;
        let warned = |sample: &LatencySample| Some((sample.round, sample.carrier, sample.warning.clone()?));
        let mut warnings = self.samples.iter().filter_map(warned);
        warnings.try_for_each(|(round, carrier, warning)| writeln!(f, "(!) {carrier}, round {round}: {warning}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_over_those_of_the_plain_flow() {
        let sample = |round, carrier, p50_us: f64| LatencySample {
            round,
            carrier,
            round_trips: vec![RoundTrips {
                bytes: 64,
                count: 1,
                min_us: 1.0,
                p50_us,
                p99_us: 2.0 * p50_us,
                max_us: 9.0,
                each_ns: vec![],
            }],
            warning: (carrier == Carrier::Rails && round == 3).then(|| "it limps".to_owned()),
        };
        let samples = [(1, 10.0, 12.0), (2, 20.0, 22.0), (3, 30.0, 32.0)];
        let samples = samples.iter().flat_map(|(round, plain, rails)| {
            [sample(*round, Carrier::Plain, *plain), sample(*round, Carrier::Rails, *rails)]
        });
        let terms = Terms { rounds: 3, seed: 1, congestion: "cubic".to_owned(), program: "rails-bench".into() };
        let application = Application::MultiThread;
        let contest = LatencyContest { links: vec![], sizes: vec![64], count: 1, application, confined: true, terms };
        let absent = Some("it is not here".to_owned());
        let comparison = LatencyComparison::new(&contest, absent, samples.collect());
        assert_eq!(comparison.results.len(), 2, "who was not measured has no figures");
        assert_eq!(comparison.results[0].p50_over_plain, Some(1.0));
        assert_eq!(comparison.results[1].p50_us, Spread { median: 22.0, min: 12.0, max: 32.0 });
        assert_eq!(comparison.results[1].p99_over_plain, Some(1.1));
        let printed = comparison.to_string();
        assert!(printed.contains("1.100"), "{printed}");
        assert!(printed.contains("NOT MEASURED: MPTCP, the kernel's: it is not here"), "{printed}");
        assert!(printed.contains("(!) rails, round 3: it limps"), "{printed}");
    }
}
