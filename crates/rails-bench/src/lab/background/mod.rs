//! Communication in the background, as PIOMan's paper measures it (Trahay and Denis, figures 4 to
//! 7): beside threads that compute, and over many streams at a time, over rails and over plain
//! tokio TCP in the same rounds.
//!
//! The two ends are processes in two network namespaces, each with one CPU for the program and for
//! the thread that makes its transfers progress: no core is idle. `carrier` has the contenders,
//! `end` the work of a process; `overlap` and `ping_pong` run the rounds and sum them up.

mod carrier;
mod case;
mod end;
mod overlap;
mod ping_pong;

use super::compare::{ContestError, Link, Setting, Spread, Terms, Testbed, peer::Peer, testbed::halves};
use carrier::Carrier;
pub(crate) use case::Message;
use end::{EndReport, Job};
pub(crate) use end::{Orders, run as obey};
pub(crate) use overlap::OverlapContest;
pub(crate) use ping_pong::PingPongContest;
use rails_lab::Side;
use rails_topo::{CpuSet, Topology};
use rand::{SeedableRng, rngs::ChaCha8Rng, seq::SliceRandom};
use serde::Serialize;
use std::{collections::BTreeSet, io, net::SocketAddr, time::Duration};

/// One carrier in one round.
#[derive(Debug, Clone, Serialize)]
struct Sample {
    /// The round, from 1.
    round: usize,
    carrier: Carrier,
    sender: EndReport,
    receiver: EndReport,
}

/// Makes the link, runs the job of every carrier in each round, in random order, and takes the link
/// down again. Calls `progress` before each measurement. Returns the setting, and the samples that
/// count.
fn run_rounds(
    (link, terms): (Link, &Terms),
    topology: &Topology,
    mut carriers: Vec<Carrier>,
    mut job: impl FnMut(&mut ChaCha8Rng) -> Job,
    mut progress: impl FnMut(usize, Carrier),
) -> Result<(Setting, Vec<Sample>), ContestError> {
    let cpus = one_each(topology.allowed_cpus());
    let testbed = Testbed::build(&[link], cpus, Duration::ZERO, terms)?;
    let setting = Setting::of(topology, &testbed, Duration::ZERO, terms);
    let mut order = ChaCha8Rng::seed_from_u64(terms.seed);
    let mut samples = Vec::new();
    for round in 0..=terms.rounds {
        carriers.shuffle(&mut order);
        let job = job(&mut order);
        for carrier in carriers.iter().copied() {
            progress(round, carrier);
            let (sender, receiver) = run_both(&testbed, carrier, &job)?;
            samples.extend((round > 0).then_some(Sample { round, carrier, sender, receiver }));
        }
    }
    Ok((setting, samples))
}

/// One CPU for each end; the same one where there are not two.
fn one_each(allowed: &CpuSet) -> (CpuSet, CpuSet) {
    let (sender, receiver) = halves(allowed);
    let first = |cpus: CpuSet| cpus.first().map(CpuSet::single).unwrap_or_default();
    (first(sender), first(receiver))
}

/// Runs both ends, and returns the reports of the sender and the receiver. If one fails, the other
/// mostly fails too, and the error has both.
fn run_both(testbed: &Testbed, carrier: Carrier, job: &Job) -> Result<(EndReport, EndReport), ContestError> {
    let start = |side, remote| {
        let local = testbed.lab.address(side, 0);
        let orders = serde_json::to_string(&Orders { carrier, local, remote, job: job.clone() })?;
        let mut command = testbed.command(side, &testbed.program);
        command.args(["background-end", "--orders", &orders]);
        Peer::start(command, testbed.cpus(side))
    };
    let mut receiver = start(Side::B, None)?;
    let line = receiver.wait_for(LISTENING)?;
    let remote: Result<SocketAddr, _> = line.trim_start_matches(LISTENING).parse();
    let remote = remote.map_err(|error| ContestError::Transfer { source: io::Error::other(error) })?;
    let sender = start(Side::A, Some(remote))?.finish();
    match (sender, receiver.finish()) {
        (Ok(sender), Ok(receiver)) => Ok((serde_json::from_slice(&sender)?, serde_json::from_slice(&receiver)?)),
        (Err(sender), Err(receiver)) => Err(ContestError::Both { receiver: receiver.into(), sender: sender.into() }),
        (Err(error), Ok(_)) | (Ok(_), Err(error)) => Err(error),
    }
}

/// Congestion control, as read from the sockets of all ends.
fn congestion_control<'r>(reports: impl IntoIterator<Item = &'r EndReport>) -> String {
    let names: BTreeSet<&str> =
        reports.into_iter().flat_map(|report| &report.congestion_control).map(String::as_str).collect();
    names.into_iter().collect::<Vec<_>>().join(", ")
}

/// The middle value; `None` of none.
fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    Spread::of(values).map(|spread| spread.median)
}

/// A spread in one cell.
fn cell(spread: Spread, digits: usize) -> String {
    let Spread { median, min, max } = spread;
    format!("{median:.digits$} ({min:.digits$} to {max:.digits$})")
}

const LISTENING: &str = "listening on ";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_end_has_one_cpu() {
        let set = |text: &str| text.parse::<CpuSet>().unwrap();
        assert_eq!(one_each(&set("0-7")), (set("0"), set("4")));
        assert_eq!(one_each(&set("3")), (set("3"), set("3")));
    }
}
