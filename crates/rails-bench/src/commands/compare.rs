//! `compare`: striped streams beside what else could carry the bytes, over links made for it.

use super::seconds;
use crate::{
    ending::{Ending, Help},
    links,
    machine::this_machine,
    measure::compare::{Contender, Contest, ContestError, Link, draw},
    print,
};
use anyhow::{Context, Result};
use rails_lab::LabError;
use std::{path::PathBuf, time::Duration};

/// Compare striped streams with plain TCP, iperf3, MPTCP and UCX, over links between two network namespaces (needs root)
///
/// Each case is measured in rounds; in each round every contender runs once, in random order, with both ends as processes of their own.
/// Contenders that are not installed are named, with the reason.
///
/// Example: rails-bench compare --rates 400,100 --rounds 5 --svg chart.svg
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Links of one case: the rate of each in Mbit/s, or `unshaped`; `100x8` is eight of 100; repeat for more cases
    /// [default: 400,400 and 400,100 and unshaped]
    #[arg(long, value_name = "RATE[,RATE...]")]
    rates: Vec<String>,
    /// Wires of one case, in user space with delay: the rate and the round-trip time of each, as 400@1ms,400@50ms; repeat for more
    #[arg(long, value_name = "RATE@RTT[,...]")]
    wires: Vec<String>,
    /// Who takes part [default: all]
    #[arg(long, value_name = "NAME", value_enum, value_delimiter = ',')]
    contenders: Vec<Contender>,
    /// Where `ucx_perftest` is, if not along PATH; libraries in ../lib beside it are used with it
    #[arg(long, value_name = "FILE")]
    ucx: Option<PathBuf>,
    /// Rounds of each case that count, after one that does not
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: u16,
    /// How long each measurement sends
    #[arg(long, value_name = "S", default_value = "4", value_parser = seconds)]
    seconds: Duration,
    /// Draw the order of the contenders from this [default: a random one, which is printed]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Congestion control of all sockets
    #[arg(long, value_name = "NAME", default_value = "cubic")]
    congestion: String,
    /// Write every sample and everything that is known of it to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw a bar chart of each case into this file, as SVG
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<Ending> {
    let cases = cases(&args.rates, &args.wires)?;
    let contenders = match args.contenders.as_slice() {
        [] => Contender::ALL.to_vec(),
        chosen => Contender::ALL.into_iter().filter(|contender| chosen.contains(contender)).collect(),
    };
    let topology = this_machine()?;
    let seed = args.seed.unwrap_or_else(rand::random);
    let program = std::env::current_exe().context("this program's own path")?;
    let mut comparisons = Vec::new();
    for links in cases {
        let contest = Contest {
            links,
            contenders: contenders.clone(),
            time: args.seconds,
            rounds: args.rounds.into(),
            seed,
            congestion: args.congestion.clone(),
            program: program.clone(),
            ucx: args.ucx.clone(),
        };
        let absent = |contender, reason: &str| print::note(format_args!("NOT MEASURED: {contender}: {reason}"));
        let progress = |round, contender: Contender| match round {
            0 => print::note(format_args!("warm-up: {contender}")),
            _ => print::note(format_args!("round {round} of {}: {contender}", args.rounds)),
        };
        let comparison = contest.run(&topology, absent, progress).map_err(explained)?;
        print::result(format_args!("{comparison}\n"))?;
        comparisons.push(comparison);
    }
    if let Some(path) = &args.json {
        let json = serde_json::to_vec_pretty(&comparisons)?;
        std::fs::write(path, json).with_context(|| format!("--json {}", path.display()))?;
    }
    if let Some(path) = &args.svg {
        draw(&comparisons, path).context("--svg")?;
    }
    Ok(Ending::Done)
}

/// The links of every case.
pub(super) fn cases(rates: &[String], wires: &[String]) -> Result<Vec<Vec<Link>>> {
    if rates.is_empty() && wires.is_empty() {
        return DEFAULT_CASES.iter().map(|rates| links::veths(rates)).collect();
    }
    rates.iter().map(|rates| links::veths(rates)).chain(wires.iter().map(|wires| links::wires(wires))).collect()
}

pub(super) fn explained(error: ContestError) -> anyhow::Error {
    let not_root = matches!(error, ContestError::Lab(LabError::NotRoot { .. }));
    let error = anyhow::Error::from(error);
    if not_root { error.help("run it as root: it makes network namespaces, and removes them again") } else { error }
}

/// Equal rails, unequal rails, and one rail as fast as the machine copies.
const DEFAULT_CASES: [&str; 3] = ["400,400", "400,100", "unshaped"];
