//! `compare`: striped streams beside their rivals, over links made for it.

use super::contest::{CaseArgs, Chosen, ContestArgs, explained};
use crate::{
    commands::seconds,
    exit::Exit,
    lab::compare::{Contender, Contest, draw},
    machine::this_machine,
    print,
};
use anyhow::{Context, Result};
use std::{path::PathBuf, time::Duration};

/// Compare striped streams with plain TCP, iperf3, MPTCP and UCX, over links between two network
/// namespaces (needs root)
///
/// Each case is measured in rounds, after one that does not count; in each round every contender
/// runs once, in random order, with both ends as processes of their own. Contenders that are not
/// installed are named, with the reason. Without --rates and --emulated the cases are 400,400 and
/// 400,100 and unshaped.
///
/// Example: rails-bench compare --rates 400,100 --rounds 5 --svg chart.svg
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    cases: CaseArgs,
    #[command(flatten)]
    contest: ContestArgs,
    /// Contenders that take part [default: those that are not marked otherwise]
    #[arg(long, value_name = "NAME", value_parser = Chosen::parser(), value_delimiter = ',')]
    contenders: Vec<Chosen>,
    /// Where `ucx_perftest` is, if not along PATH; libraries in ../lib beside it are used with it
    #[arg(long, value_name = "FILE")]
    ucx: Option<PathBuf>,
    /// How long each measurement sends
    #[arg(long, value_name = "S", default_value = "4", value_parser = seconds)]
    seconds: Duration,
    /// Draw a bar chart of each case into this file, as SVG
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<Exit> {
    let cases = args.cases.cases(&DEFAULT_CASES)?;
    let contenders = Chosen::contenders(&args.contenders, Contender::usual());
    let topology = this_machine()?;
    let terms = args.contest.terms()?;
    let mut comparisons = Vec::new();
    for links in cases {
        let contest = Contest {
            links,
            contenders: contenders.clone(),
            time: args.seconds,
            terms: terms.clone(),
            ucx: args.ucx.clone(),
        };
        let absent = |contender, reason: &str| print::note(format_args!("NOT MEASURED: {contender}: {reason}"));
        let progress = |round, contender| args.contest.say(round, contender);
        let comparison = contest.run(&topology, absent, progress).map_err(explained)?;
        print::text(format_args!("{comparison}\n"))?;
        comparisons.push(comparison);
    }
    args.contest.write(&comparisons)?;
    if let Some(path) = &args.svg {
        draw(&comparisons, path).context("--svg")?;
    }
    Ok(Exit::Done)
}

/// Equal rails, unequal rails, and one rail as fast as the machine copies.
const DEFAULT_CASES: [&str; 3] = ["400,400", "400,100", "unshaped"];
