//! `ping-pong`: small exchanges over several streams.

use super::contest::{ContestArgs, all_different, explained, machine_of_two_cpus};
use crate::{
    exit::Exit,
    lab::{background::PingPongContest, compare::Link, rate},
    print,
};
use anyhow::Result;
use rails_lab::Shape;

/// Measure exchanges of four bytes over one and over several streams, on a rail and over plain TCP
/// (needs root)
///
/// The figure is that of PIOMan's paper (Trahay and Denis, figure 4). One task asks on one stream
/// after the other and waits for each answer, while the receiver has a task for every stream that
/// waits. Beside it stands the time of an exchange while every stream has one under way at a
/// time. The ends are processes on one CPU each. In each round both carriers run once, in random
/// order; the first round does not count.
///
/// Example: rails-bench ping-pong --streams 1,2,4,8,16 --rounds 5 --json ping-pong.json
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The link's rate in Mbit/s with the burst of its token bucket, or `unshaped`
    #[arg(long, value_name = "RATE", default_value = "1000/128KiB", value_parser = rate::shape)]
    rate: Shape,
    /// Numbers of streams
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1,2,4,8,16", value_parser = clap::value_parser!(u16).range(1..=256))]
    streams: Vec<u16>,
    /// Exchanges over each number of streams, in each round
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    count: u32,
    #[command(flatten)]
    contest: ContestArgs,
}

pub(crate) fn run(args: &Args) -> Result<Exit> {
    all_different("--streams", &args.streams)?;
    let contest = PingPongContest {
        link: Link::Veth(args.rate),
        streams: args.streams.clone(),
        count: args.count,
        terms: args.contest.terms()?,
    };
    let report = contest.run(&machine_of_two_cpus()?, |round, who| args.contest.say(round, who)).map_err(explained)?;
    print::text(&report)?;
    args.contest.write(&report)?;
    Ok(Exit::Done)
}
