//! `latency`: round trips over striped streams beside those over plain TCP.

use super::compare;
use crate::{
    ending::Ending,
    machine::this_machine,
    measure::latency::{Carrier, LONGEST, LatencyContest},
    print, size,
};
use anyhow::{Context, Result};
use std::path::PathBuf;

/// Compare the round trips of small messages over striped streams and plain TCP, over links made for it (needs root)
///
/// In each round every carrier runs once, in random order, with both ends as processes of their own.
///
/// Example: rails-bench latency --rates unshaped,unshaped --sizes 64,4KiB
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Links of one case: the rate of each in Mbit/s, or `unshaped`; repeat for more cases [default: unshaped,unshaped]
    #[arg(long, value_name = "RATE[,RATE...]")]
    rates: Vec<String>,
    /// Wires of one case, with delay: the rate and the round-trip time of each, as 400@1ms,400@50ms; repeat for more
    #[arg(long, value_name = "RATE@RTT[,...]")]
    wires: Vec<String>,
    /// Lengths of the messages
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "64,1KiB,4KiB,16KiB,64KiB", value_parser = message)]
    sizes: Vec<u32>,
    /// Round trips of each length in each round
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    round_trips: u32,
    /// Rounds of each case that count, after one that does not
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: u16,
    /// Draw the order of the carriers from this [default: a random one, which is printed]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Congestion control of all sockets
    #[arg(long, value_name = "NAME", default_value = "cubic")]
    congestion: String,
    /// Write every sample to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<Ending> {
    let default = ["unshaped,unshaped".to_owned()];
    let rates = if args.rates.is_empty() && args.wires.is_empty() { &default } else { args.rates.as_slice() };
    let topology = this_machine()?;
    let seed = args.seed.unwrap_or_else(rand::random);
    let program = std::env::current_exe().context("this program's own path")?;
    let mut comparisons = Vec::new();
    for links in compare::cases(rates, &args.wires)? {
        let contest = LatencyContest {
            links,
            sizes: args.sizes.clone(),
            count: args.round_trips,
            rounds: args.rounds.into(),
            seed,
            congestion: args.congestion.clone(),
            program: program.clone(),
        };
        let progress = |round, carrier: Carrier| match round {
            0 => print::note(format_args!("warm-up: {carrier}")),
            _ => print::note(format_args!("round {round} of {}: {carrier}", args.rounds)),
        };
        let comparison = contest.run(&topology, progress).map_err(compare::explained)?;
        print::result(format_args!("{comparison}\n"))?;
        comparisons.push(comparison);
    }
    if let Some(path) = &args.json {
        let json = serde_json::to_vec_pretty(&comparisons)?;
        std::fs::write(path, json).with_context(|| format!("--json {}", path.display()))?;
    }
    Ok(Ending::Done)
}

/// Reads the length of a message.
pub(super) fn message(text: &str) -> Result<u32, String> {
    let size = size::parse(text)?.as_bytes();
    let fitting = u32::try_from(size).ok().filter(|bytes| (1..=LONGEST).contains(bytes));
    fitting.ok_or_else(|| format!("a message has 1 to {LONGEST} bytes"))
}
