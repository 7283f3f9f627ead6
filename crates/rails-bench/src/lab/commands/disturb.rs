//! `disturb`: streams over links that change under them.

use super::contest::{Chosen, ContestArgs, explained};
use crate::{
    commands::seconds,
    exit::{Exit, Helped},
    lab::{
        compare::Contender,
        disturb::{DisturbContest, Scenario},
        links,
    },
    machine::this_machine,
    print,
};
use anyhow::Result;
use std::time::Duration;

/// Change a link under streams, plain flows and MPTCP, and see how long they take to get over it
/// (needs root)
///
/// In the middle third of each run the last link is slow, down or a black hole; the receiver writes
/// down the arrivals in every 20 ms, and looks at every byte.
///
/// Example: rails-bench disturb --scenarios black-hole --rounds 5
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The links: the rate of each in Mbit/s; the last is disturbed
    #[arg(long, value_name = "RATE[,RATE...]", default_value = "400,400", conflicts_with = "emulated")]
    rates: String,
    /// Emulated links instead, with delay: the rate and the round-trip time of each, as
    /// 400@1ms,400@50ms
    #[arg(long, value_name = "RATE@RTT[,...]")]
    emulated: Option<String>,
    /// Disturbances of it [default: step,down,black-hole, each in turn]
    #[arg(long, value_name = "NAME", value_enum, value_delimiter = ',')]
    scenarios: Vec<Scenario>,
    /// Contenders that take part [default: plain-flows,mptcp,rails-adaptive,rails-single]
    #[arg(long, value_name = "NAME", value_parser = Chosen::parser(), value_delimiter = ',')]
    contenders: Vec<Chosen>,
    /// How long each run is; a third of it is disturbed
    #[arg(long, value_name = "S", default_value = "7.5", value_parser = seconds)]
    seconds: Duration,
    #[command(flatten)]
    contest: ContestArgs,
}

pub(crate) fn run(args: &Args) -> Result<Exit> {
    let links = match &args.emulated {
        Some(emulated) => links::emulated(emulated)?,
        None => links::veths(&args.rates)?,
    };
    if links.iter().any(|link| link.mbit().is_none()) {
        return Err(Helped::usage(
            "--rates: a link without a rate",
            "the machine alone sets their rate; give each a rate",
        ));
    }
    let contenders = Chosen::contenders(&args.contenders, USUAL.to_vec());
    let foreign = contenders.iter().find(|one| matches!(one, Contender::Iperf3 | Contender::Ucx));
    if let Some(foreign) = foreign {
        let error = format!("--contenders: {foreign} does not say when bytes arrive");
        return Err(Helped::usage(error, "choose among the others"));
    }
    let scenarios = if args.scenarios.is_empty() { Scenario::USUAL.to_vec() } else { args.scenarios.clone() };
    let topology = this_machine()?;
    let terms = args.contest.terms()?;
    let mut disturbances = Vec::new();
    for scenario in scenarios {
        let (links, contenders, terms) = (links.clone(), contenders.clone(), terms.clone());
        let contest = DisturbContest { links, scenario, contenders, time: args.seconds, terms };
        let progress = |round, contender| args.contest.say(round, format_args!("{scenario}: {contender}"));
        let disturbance = contest.run(&topology, progress).map_err(explained)?;
        print::text(format_args!("{disturbance}\n"))?;
        disturbances.push(disturbance);
    }
    args.contest.write(&disturbances)?;
    Ok(Exit::Done)
}

/// The ceiling, the kernel's own answer, and both of our drivers.
const USUAL: [Contender; 4] =
    [Contender::PlainFlows, Contender::Mptcp, Contender::RailsAdaptive, Contender::RailsSingle];
