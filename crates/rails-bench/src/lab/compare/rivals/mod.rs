//! The contenders at work, one file for each kind.

mod iperf3;
pub(crate) mod mptcp;
mod own;
mod program;
mod ucx;

use super::{Contender, ContestError, Link, Testbed};
use own::Keep;
pub(crate) use own::{Own, Running};
use rails_lab::Side;
use serde::Serialize;
use std::path::Path;

/// A carrier of bytes from side A to side B of the testbed.
pub(super) trait Rival {
    /// The rival's exact version; `None` for this program.
    fn version(&self) -> Option<String> {
        None
    }

    /// Carries bytes for the testbed's time, and reports how many arrived.
    fn measure(&mut self, testbed: &Testbed) -> Result<Figures, ContestError>;
}

/// A rival's figures of one measurement.
pub(super) struct Figures {
    pub(super) goodput_bits_per_second: f64,
    pub(super) bytes: u64,
    pub(super) measured_at: MeasuredAt,
    /// CPU time of the sender and of the receiver during the measurement; `None` if the rival does
    /// not report it, and that of their whole lives counts.
    pub(super) cpu_seconds: Option<(f64, f64)>,
    pub(super) congestion_control: Vec<String>,
    /// The reasons to doubt the figure.
    pub(super) warnings: Vec<String>,
}

/// The end that measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum MeasuredAt {
    /// The receiving program, by the bytes that it read.
    Receiver,
    /// The sending program, by the bytes that were confirmed.
    Sender,
}

/// Prepares a contender, or returns the reason why it cannot take part.
pub(super) fn enter(contender: Contender, testbed: &Testbed, ucx: Option<&Path>) -> Result<Box<dyn Rival>, String> {
    Ok(match (contender, own(contender, testbed)) {
        (Contender::Mptcp, Some(program)) => Box::new(mptcp::Mptcp::enable(testbed, program)?),
        (_, Some(own)) => Box::new(own),
        (Contender::Iperf3, None) => Box::new(iperf3::Iperf3::find()?),
        (_, None) => Box::new(ucx::Ucx::find(ucx)?),
    })
}

/// The commands of this program for a contender; `None` for foreign programs.
pub(crate) fn own(contender: Contender, testbed: &Testbed) -> Option<Own> {
    let all = || Own::on((0..testbed.links.len()).collect());
    Some(match contender {
        Contender::PlainFlows => all().sender(&["--plain"]),
        Contender::PlainBestLink => Own::on(vec![super::link::fastest(&testbed.links)]).sender(&["--plain"]),
        Contender::RailsStatic => all().sender(&["--policy", "static"]),
        Contender::RailsAdaptive => all(),
        Contender::RailsSingle => all().both(&["--driver", "single"]),
        Contender::RailsWeighted => all().sender(&["--policy", "weighted", "--weights", &weights(&testbed.links)]),
        Contender::RailsPsk => all().kept(Keep::Psk),
        Contender::RailsTls => all().kept(Keep::Tls),
        Contender::RailsParallel => {
            // A stream has at most 64 connections.
            let connections = PARALLEL.min(64 / testbed.links.len()).max(1);
            all().sender(&["--parallel", &connections.to_string()])
        }
        Contender::RailsCeleritas => all().over("celeritas://").both(&["--rate", &rates(testbed)]),
        // The connection is made over the first link, and the kernel adds the others. Subflows
        // arrive at the other addresses, so the listener is on all of them.
        Contender::Mptcp => Own::on(vec![0]).sender(&["--mptcp"]).listening("0.0.0.0"),
        Contender::Iperf3 | Contender::Ucx => return None,
    })
}

/// The links' rates as weights; equal shares if a link has none.
fn weights(links: &[Link]) -> String {
    let rates: Option<Vec<u64>> = links.iter().map(|link| link.mbit()).collect();
    let weights = rates.unwrap_or_else(|| vec![1; links.len()]);
    weights.iter().map(u64::to_string).collect::<Vec<_>>().join(",")
}

/// The rates of Celeritas lanes: on each link a little less than it carries, so that its queue
/// stays empty. Frames have 14 bytes more than the IP packets that these rates count: 1 % of those
/// of 1,500 bytes.
fn rates(testbed: &Testbed) -> String {
    let rate = |link: usize| {
        let mbit = testbed.links[link].mbit().unwrap_or(UNSHAPED_MBIT);
        format!("{}={}kbit", testbed.lab.address(Side::B, link), mbit * 985)
    };
    (0..testbed.links.len()).map(rate).collect::<Vec<_>>().join(",")
}

/// The rate of a Celeritas lane on a link without one.
const UNSHAPED_MBIT: u64 = 10_000;
/// TCP connections of a lane of [`Contender::RailsParallel`].
const PARALLEL: usize = 4;

/// For [`crate::fuzzing`].
#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz(output: &[u8]) {
    iperf3::fuzz(output);
    ucx::fuzz(&String::from_utf8_lossy(output));
}

#[cfg(test)]
mod tests {
    use super::*;
    use rails_lab::Shape;

    #[test]
    fn weights_by_rates_and_equal_without_one() {
        let veth = |mbit| Link::Veth(Shape::mbit(mbit));
        assert_eq!(weights(&[veth(400), veth(4)]), "400,4");
        assert_eq!(weights(&[veth(400), Link::Veth(Shape::Unshaped)]), "1,1");
    }
}
