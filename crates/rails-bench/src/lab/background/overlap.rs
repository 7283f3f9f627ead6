//! Overlap of communication and computation: the time of the work alone over that of the work
//! beside a message.

use super::{
    Sample,
    carrier::Carrier,
    case::{Computes, Message},
    cell, congestion_control,
    end::{EndReport, Job, OverlapTimes},
    median, run_rounds,
};
use crate::{
    lab::compare::{ContestError, Link, Setting, Spread, Terms},
    print,
};
use clap::ValueEnum;
use rails_topo::{DataSize, Topology};
use serde::Serialize;
use std::{fmt, time::Duration};

/// A contest to be run.
#[derive(Debug, Clone)]
pub(crate) struct OverlapContest {
    /// The link.
    pub(crate) link: Link,
    /// The messages, each with its work.
    pub(crate) messages: Vec<Message>,
    /// The number of times that each is sent in each case and round.
    pub(crate) count: u32,
    /// The terms of the contest.
    pub(crate) terms: Terms,
}

/// The result.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct OverlapReport {
    link: Link,
    setting: Setting,
    messages: Vec<Message>,
    count: u32,
    /// All measurements that count, in order.
    samples: Vec<Sample>,
    /// The figures by message and carrier.
    results: Vec<OverlapOutcome>,
}

/// One carrier with one message over all rounds. An overlap is the median time of the work alone
/// over the median time from the start of the transfer, over the work, to its end.
#[derive(Debug, Clone, Serialize)]
struct OverlapOutcome {
    message: Message,
    carrier: Carrier,
    /// The time from the start of the message to the report of its arrival at the sender, while
    /// neither end computes.
    message_alone_us: Spread,
    /// Overlap at the sender, which alone computes.
    sender_computes: Spread,
    /// Overlap at the receiver, which alone computes.
    receiver_computes: Spread,
    /// Overlap at the sender while both compute.
    both_compute_at_sender: Spread,
    /// Overlap at the receiver while both compute.
    both_compute_at_receiver: Spread,
}

impl OverlapContest {
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
    ) -> Result<OverlapReport, ContestError> {
        let job = Job::Overlap { messages: self.messages.clone(), count: self.count };
        let carriers = Carrier::value_variants().to_vec();
        let case = (self.link, &self.terms);
        let (setting, samples) = run_rounds(case, topology, carriers, |_| job.clone(), progress)?;
        Ok(OverlapReport::new(self, setting, samples))
    }
}

impl OverlapReport {
    fn new(contest: &OverlapContest, setting: Setting, samples: Vec<Sample>) -> Self {
        let outcome = |(message, carrier): (Message, Carrier)| {
            let of = || samples.iter().filter(move |sample| sample.carrier == carrier);
            let spread = |end: fn(&Sample) -> &EndReport, computes, figure: fn(&OverlapTimes) -> Option<f64>| {
                let is_meant = |times: &&OverlapTimes| times.message == message && times.computes == computes;
                Spread::of(of().flat_map(|sample| end(sample).overlap.iter().filter(is_meant)).filter_map(figure))
            };
            let [sender, receiver]: [fn(&Sample) -> &EndReport; 2] = [|one| &one.sender, |one| &one.receiver];
            Some(OverlapOutcome {
                message,
                carrier,
                message_alone_us: spread(sender, Computes::Nobody, |times| median(times.total_us.iter().copied()))?,
                sender_computes: spread(sender, Computes::Sender, overlap)?,
                receiver_computes: spread(receiver, Computes::Receiver, overlap)?,
                both_compute_at_sender: spread(sender, Computes::Both, overlap)?,
                both_compute_at_receiver: spread(receiver, Computes::Both, overlap)?,
            })
        };
        let carriers = Carrier::value_variants();
        let cases = contest.messages.iter().flat_map(|message| carriers.iter().map(|carrier| (*message, *carrier)));
        let results = cases.filter_map(outcome).collect();
        let OverlapContest { link, messages, count, .. } = contest.clone();
        Self { link, setting, messages, count, samples, results }
    }
}

/// The overlap of one end in one round; `None` if it does not compute.
fn overlap(times: &OverlapTimes) -> Option<f64> {
    Some(median(times.alone_us.iter().copied())? / median(times.total_us.iter().copied())?)
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {:?}", DataSize::bytes(self.bytes.into()), Duration::from_micros(self.work_us))
    }
}

impl fmt::Display for OverlapReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (setting, count) = (&self.setting, self.count);
        writeln!(f, "overlap, the time of the work alone over that of the work beside a message; link: {}", self.link)?;
        writeln!(
            f,
            "{} rounds of {count} messages a case after a warm-up, order from seed {}; the sockets said {}",
            setting.rounds,
            setting.seed,
            congestion_control(self.samples.iter().flat_map(|sample| [&sample.sender, &sample.receiver]))
        )?;
        writeln!(
            f,
            "sender on CPU {}, receiver on CPU {}, each with the thread that computes and the one that makes progress",
            setting.sender_cpus, setting.receiver_cpus
        )?;
        writeln!(f, "{}", setting.machine())?;
        let mut table = print::table(
            2,
            [
                "message, work",
                "",
                "alone, us",
                "sender computes",
                "receiver computes",
                "both: sender",
                "both: receiver",
            ],
        );
        for outcome in &self.results {
            let overlaps = [
                outcome.sender_computes,
                outcome.receiver_computes,
                outcome.both_compute_at_sender,
                outcome.both_compute_at_receiver,
            ];
            let [sender, receiver, both_sender, both_receiver] = overlaps.map(|spread| cell(spread, 3));
            let (message, carrier) = (outcome.message.to_string(), outcome.carrier.to_string());
            let alone = format!("{:.0}", outcome.message_alone_us.median);
            table.add_row([message, carrier, alone, sender, receiver, both_sender, both_receiver]);
        }
        writeln!(f, "{table}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rails_lab::Shape;
    use rails_topo::CpuSet;

    const MESSAGE: Message = Message { bytes: 32, work_us: 9 };

    fn end(ends: &[(Computes, f64, f64)]) -> EndReport {
        let times = |(computes, alone, total): &(Computes, f64, f64)| OverlapTimes {
            message: MESSAGE,
            computes: *computes,
            alone_us: if *alone > 0.0 { vec![*alone; 3] } else { vec![] },
            total_us: vec![*total, 9e9, *total],
        };
        EndReport {
            program_cpus: CpuSet::new(),
            carrier_cpus: CpuSet::new(),
            congestion_control: vec!["bbr".to_owned(), "bbr".to_owned()],
            overlap: ends.iter().map(times).collect(),
            ping_pong: vec![],
        }
    }

    #[test]
    fn overlap_is_of_medians_by_case_and_end() {
        use Computes::{Both, Nobody, Receiver, Sender};
        let sample = |round, total: f64| Sample {
            round,
            carrier: Carrier::Rails,
            sender: end(&[(Nobody, 0.0, 5.0), (Sender, 9.0, total), (Receiver, 0.0, 7.0), (Both, 9.0, 90.0)]),
            receiver: end(&[(Nobody, 0.0, 6.0), (Sender, 0.0, 7.0), (Receiver, 9.0, 12.0), (Both, 9.0, 9.0)]),
        };
        let terms = Terms { rounds: 2, seed: 7, congestion: "cubic".to_owned(), program: "rails-bench".into() };
        let link = Link::Veth(Shape::mbit(1000));
        let contest =
            OverlapContest { link, messages: vec![MESSAGE, Message { work_us: 8, ..MESSAGE }], count: 3, terms };
        let report = OverlapReport::new(&contest, Setting::unknown(), vec![sample(1, 10.0), sample(2, 18.0)]);
        let [outcome] = &report.results[..] else { panic!("{report:?}") };
        let same = |value| Spread { median: value, min: value, max: value };
        assert_eq!(outcome.sender_computes, Spread { median: 0.7, min: 0.5, max: 0.9 });
        assert_eq!(outcome.message_alone_us, same(5.0));
        assert_eq!(outcome.receiver_computes, same(0.75));
        assert_eq!((outcome.both_compute_at_sender, outcome.both_compute_at_receiver), (same(0.1), same(1.0)));
        let printed = report.to_string();
        assert!(
            printed.contains("the sockets said bbr\n")
                && printed.contains("32 B, 9µs")
                && printed.contains("0.700 (0.500 to 0.900)"),
            "{printed}"
        );
    }
}
