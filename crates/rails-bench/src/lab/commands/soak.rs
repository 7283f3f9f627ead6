//! `rails-bench soak`

use crate::{exit::Exit, lab::soak, machine::this_machine, print, stop::Stop, thread::block_on};
use anyhow::{Result, ensure};
use std::time::Duration;

/// Stream both ways over links that fail in every way and come back, and compare every byte (needs
/// root)
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The links are made between two network namespaces. They change their rates, go down, become black holes in one direction or both, and \
have their connections reset; now and then all of them are down for up to 2 s, and else one is always as it should be. What happens is \
drawn from a seed, and printed with its time. The exit code is 0 if every byte arrived, once and in order, in both directions.

Examples:
  rails-bench soak --minutes 10
  rails-bench soak --minutes 0.5 --links 4 --seed 7")]
pub(crate) struct Args {
    /// How long, in minutes
    #[arg(long, value_name = "M", default_value = "10", value_parser = minutes)]
    minutes: Duration,
    /// How many links, each of 200 Mbit/s while nothing is wrong with it
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(2..=16))]
    links: u16,
    /// Draw the faults and the bytes from this [default: a random one, which is printed]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

pub(crate) fn run(args: &Args) -> Result<Exit> {
    block_on(async {
        let stop = Stop::on_signals()?;
        let seed = args.seed.unwrap_or_else(rand::random);
        let links = usize::from(args.links);
        print::note(format_args!("{links} links for {} s, seed {seed}", args.minutes.as_secs_f64()));
        let soaked = soak::run(&this_machine()?, links, args.minutes, seed, &stop).await?;
        print::text(&soaked)?;
        Ok(match (soaked.has_passed(), stop.so_far()) {
            (true, Some(signal)) => Exit::Signal(signal),
            (true, None) => Exit::Done,
            (false, _) => Exit::Failed,
        })
    })
}

fn minutes(text: &str) -> Result<Duration> {
    let minutes: f64 = text.parse()?;
    ensure!(minutes > 0.0 && minutes <= 10_080.0, "it is more than 0 and at most 10080, which is a week");
    Ok(Duration::from_secs_f64(minutes * 60.0))
}
