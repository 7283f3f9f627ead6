//! `compare`: striped streams beside plain TCP, over links made for it.

use crate::{
    ending::{Ending, Help},
    machine::this_machine,
    measure::compare::{Contender, Contest, ContestError},
    print, rate,
};
use anyhow::{Context, Result, anyhow};
use rails_lab::{LabError, Shape};
use std::{path::PathBuf, time::Duration};

/// Compare striped streams with plain TCP flows, over links between two network namespaces (needs root)
///
/// Each case is measured in rounds; in each round every contender runs once, in random order, with both ends as processes of their own.
///
/// Example: rails-bench compare --rates 400,100 --rounds 5
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Links of one case: the rate of each in Mbit/s, or `unshaped`; repeat for more cases
    /// [default: 400,400 and 400,100 and unshaped]
    #[arg(long, value_name = "RATE[,RATE...]")]
    rates: Vec<String>,
    /// Rounds of each case that count, after one that does not
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: u16,
    /// How long each measurement sends
    #[arg(long, value_name = "S", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// Draw the order of the contenders from this [default: a random one, which is printed]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Congestion control of all sockets
    #[arg(long, value_name = "NAME", default_value = "cubic")]
    congestion: String,
    /// Write every sample and everything that is known of it to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<Ending> {
    let cases = match args.rates.as_slice() {
        [] => DEFAULT_CASES.map(str::to_owned).to_vec(),
        given => given.to_vec(),
    };
    let cases = cases.iter().map(|rates| links(rates)).collect::<Result<Vec<_>>>()?;
    let topology = this_machine()?;
    let seed = args.seed.unwrap_or_else(rand::random);
    let program = std::env::current_exe().context("this program's own path")?;
    let mut comparisons = Vec::new();
    for links in cases {
        let contest = Contest {
            links,
            time: Duration::from_secs(args.seconds),
            rounds: args.rounds.into(),
            seed,
            congestion: args.congestion.clone(),
            program: program.clone(),
        };
        let progress = |round, contender: Contender| match round {
            0 => print::note(format_args!("warm-up: {contender}")),
            _ => print::note(format_args!("round {round} of {}: {contender}", args.rounds)),
        };
        let comparison = contest.run(&topology, progress).map_err(explained)?;
        print::result(format_args!("{comparison}\n"))?;
        comparisons.push(comparison);
    }
    if let Some(path) = &args.json {
        let json = serde_json::to_vec_pretty(&comparisons)?;
        std::fs::write(path, json).with_context(|| format!("--json {}", path.display()))?;
    }
    Ok(Ending::Done)
}

/// The links of one case.
fn links(rates: &str) -> Result<Vec<Shape>> {
    let link = |rate| rate::shape(rate).map_err(|error| anyhow!("--rates {rates}: {error}"));
    rates.split(',').map(link).collect()
}

fn explained(error: ContestError) -> anyhow::Error {
    let not_root = matches!(error, ContestError::Lab(LabError::NotRoot { .. }));
    let error = anyhow::Error::from(error);
    if not_root { error.help("run it as root: it makes network namespaces, and removes them again") } else { error }
}

/// Equal rails, unequal rails, and one rail as fast as the machine copies.
const DEFAULT_CASES: [&str; 3] = ["400,400", "400,100", "unshaped"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_read_from_text() {
        assert_eq!(links("400,unshaped").unwrap(), [Shape::mbit(400), Shape::Unshaped]);
        for bad in ["", "400,", "fast", "0", "-1"] {
            assert!(links(bad).unwrap_err().to_string().contains("--rates"), "{bad}");
        }
    }
}
