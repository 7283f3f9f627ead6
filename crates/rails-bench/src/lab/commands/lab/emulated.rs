//! `lab emulated`: long-distance links.

use super::{explained, session};
use crate::{duration, exit::Exit};
use anyhow::Result;
use rails_lab::{EmulatedLink, LinkLab, LinkLabBuilder};
use std::time::Duration;

/// Long-distance links: a rate, a round-trip time, random loss and a queue that ends, carried by a
/// thread in user space
///
/// Runs with one seed lose the same frames. Unplanned drops of an emulated link are counted apart,
/// and printed at the end; the figures of a run in which there was any are worthless.
#[derive(Debug, clap::Args)]
#[command(after_help = session::AFTER_HELP)]
pub(crate) struct Args {
    /// The rate in Mbit/s, each way
    #[arg(long, value_name = "MBIT", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    rate: u64,
    /// The round-trip time, such as 19ms; each way delays by half of it
    #[arg(long, value_name = "TIME", default_value = "19ms", value_parser = duration::parse)]
    rtt: Duration,
    /// The probability that a frame is lost, each way: 0 to 1
    #[arg(long, value_name = "P", default_value = "0", value_parser = probability)]
    loss: f64,
    /// The longest a frame waits for its turn; a frame that would wait longer is dropped
    #[arg(long, value_name = "TIME", default_value = "20ms", value_parser = duration::parse)]
    queue: Duration,
    /// Draw the losses from this [default: a random one, which is printed]
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
    /// How many such links; each has a seed that is one above the one before
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    links: u16,
    #[command(flatten)]
    programs: session::Programs,
}

pub(crate) fn run(args: Args) -> Result<Exit> {
    let seed = args.seed.unwrap_or_else(|| rand::random::<u32>().into());
    let links: Vec<EmulatedLink> = (0..args.links)
        .map(|link| {
            EmulatedLink::mbit(args.rate)
                .rtt(args.rtt)
                .queue(args.queue)
                .loss(args.loss)
                .seed(seed.wrapping_add(link.into()))
        })
        .collect();
    let what = links.iter().map(EmulatedLink::to_string).collect();
    session::run(args.programs, what, || {
        links.into_iter().fold(LinkLab::builder(), LinkLabBuilder::emulated).build().map_err(explained)
    })
}

pub(in crate::lab::commands) fn probability(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(probability) if (0.0..=1.0).contains(&probability) => Ok(probability),
        _ => Err(format!("`{text}` is no number from 0 to 1")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probability_is_from_0_to_1() {
        assert_eq!(probability("0.001"), Ok(0.001));
        assert_eq!(probability("1"), Ok(1.0));
        for text in ["1.1", "-0.1", "NaN", "inf", "", "often"] {
            assert!(probability(text).is_err(), "{text}");
        }
    }
}
