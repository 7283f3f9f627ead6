//! `disturb`: what streams make of links that change under them.

use super::{compare, seconds};
use crate::{
    ending::{Ending, Helped},
    machine::this_machine,
    measure::{
        compare::Contender,
        disturb::{DisturbContest, Scenario},
    },
    print,
};
use anyhow::{Context, Result};
use std::{path::PathBuf, time::Duration};

/// Change a link under streams, plain flows and MPTCP, and see how long they take to get over it (needs root)
///
/// In the middle third of each run the last link is slow, down or a black hole; the receiver writes down what arrives in every 20 ms.
///
/// Example: rails-bench disturb --scenarios black-hole --rounds 5
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The links: the rate of each in Mbit/s; the last is disturbed
    #[arg(long, value_name = "RATE[,RATE...]", default_value = "400,400", conflicts_with = "wires")]
    rates: String,
    /// Wires instead, with delay: the rate and the round-trip time of each, as 400@1ms,400@50ms
    #[arg(long, value_name = "RATE@RTT[,...]")]
    wires: Option<String>,
    /// What happens to it [default: each in turn]
    #[arg(long, value_name = "NAME", value_enum, value_delimiter = ',')]
    scenarios: Vec<Scenario>,
    /// Who takes part
    #[arg(
        long,
        value_name = "NAME",
        value_enum,
        value_delimiter = ',',
        default_value = "plain-flows,mptcp,rails-adaptive,rails-single"
    )]
    contenders: Vec<Contender>,
    /// Rounds of each scenario
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: u16,
    /// How long each run is; a third of it is disturbed
    #[arg(long, value_name = "S", default_value = "9", value_parser = seconds)]
    seconds: Duration,
    /// Draw the order of the contenders from this [default: a random one, which is printed]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Congestion control of all sockets
    #[arg(long, value_name = "NAME", default_value = "cubic")]
    congestion: String,
    /// Write every sample and all that was written down in it to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<Ending> {
    let links = match &args.wires {
        Some(wires) => compare::cases(&[], std::slice::from_ref(wires))?,
        None => compare::cases(std::slice::from_ref(&args.rates), &[])?,
    };
    let links = links.into_iter().next().context("no links")?;
    if links.iter().any(|link| link.mbit().is_none()) {
        return Err(Helped::usage(
            "--rates: a link without a rate",
            "what settles there is the machine; give each a rate",
        ));
    }
    let foreign = args.contenders.iter().find(|one| matches!(one, Contender::Iperf3 | Contender::Ucx));
    if let Some(foreign) = foreign {
        let error = format!("--contenders: {foreign} does not say what arrives when");
        return Err(Helped::usage(error, "choose among the others"));
    }
    let scenarios = if args.scenarios.is_empty() { Scenario::ALL.to_vec() } else { args.scenarios.clone() };
    let topology = this_machine()?;
    let seed = args.seed.unwrap_or_else(rand::random);
    let program = std::env::current_exe().context("this program's own path")?;
    let mut disturbances = Vec::new();
    for scenario in scenarios {
        let contest = DisturbContest {
            links: links.clone(),
            scenario,
            contenders: args.contenders.clone(),
            time: args.seconds,
            rounds: args.rounds.into(),
            seed,
            congestion: args.congestion.clone(),
            program: program.clone(),
        };
        let progress = |round, contender: Contender| {
            print::note(format_args!("{scenario}: round {round} of {}: {contender}", args.rounds));
        };
        let disturbance = contest.run(&topology, progress).map_err(compare::explained)?;
        print::result(format_args!("{disturbance}\n"))?;
        disturbances.push(disturbance);
    }
    if let Some(path) = &args.json {
        let json = serde_json::to_vec_pretty(&disturbances)?;
        std::fs::write(path, json).with_context(|| format!("--json {}", path.display()))?;
    }
    Ok(Ending::Done)
}
