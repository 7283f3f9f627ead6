//! `latency`: round trips over striped streams beside those over plain TCP and MPTCP.

use super::contest::{CaseArgs, ContestArgs, explained};
use crate::{
    commands::{message, ping::Application},
    exit::Exit,
    lab::latency::LatencyContest,
    machine::this_machine,
    print,
};
use anyhow::Result;

/// Compare round trips of small messages over striped streams, plain TCP and MPTCP, over links made
/// for it (needs root)
///
/// In each round every carrier runs once, in random order, with both ends as processes of their
/// own; the first round does not count. Without --rates and --emulated there is one case,
/// unshaped,unshaped.
///
/// Example: rails-bench latency --rates unshaped,unshaped --sizes 64,4KiB
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    cases: CaseArgs,
    #[command(flatten)]
    contest: ContestArgs,
    /// Lengths of the messages
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "64,1KiB,4KiB,16KiB,64KiB", value_parser = message)]
    sizes: Vec<u32>,
    /// The runtimes of the application's task at both ends, one after the other
    #[arg(long, value_name = "RUNTIME", value_delimiter = ',', default_value = "rail")]
    application: Vec<Application>,
    /// Let both ends use all CPUs; by default each has a half of them for itself
    #[arg(long)]
    unconfined: bool,
    /// Round trips of each length in each round
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    round_trips: u32,
}

pub(crate) fn run(args: &Args) -> Result<Exit> {
    let cases = args.cases.cases(&["unshaped,unshaped"])?;
    let topology = this_machine()?;
    let terms = args.contest.terms()?;
    let mut comparisons = Vec::new();
    for (links, application) in cases.iter().flat_map(|links| args.application.iter().map(move |on| (links, *on))) {
        let contest = LatencyContest {
            links: links.clone(),
            sizes: args.sizes.clone(),
            count: args.round_trips,
            application,
            confined: !args.unconfined,
            terms: terms.clone(),
        };
        let progress = |round, carrier| args.contest.say(round, carrier);
        let absent = |carrier, reason: &str| print::note(format_args!("NOT MEASURED: {carrier}: {reason}"));
        let comparison = contest.run(&topology, absent, progress).map_err(explained)?;
        print::text(format_args!("{comparison}\n"))?;
        comparisons.push(comparison);
    }
    args.contest.write(&comparisons)?;
    Ok(Exit::Done)
}
