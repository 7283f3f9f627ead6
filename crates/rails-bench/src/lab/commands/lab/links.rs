//! `lab links`: veth pairs held to a rate.

use super::{explained, session};
use crate::{exit::Exit, lab::rate};
use anyhow::Result;
use rails_lab::{LinkLab, Shape};

/// Links of a rate, without delay: veth pairs with a token bucket at each end
#[derive(Debug, clap::Args)]
#[command(after_help = session::AFTER_HELP)]
pub(crate) struct Args {
    /// The rate of each link in Mbit/s, or `unshaped`; `400/128KiB` lets 128 KiB through at once
    /// instead of 64
    #[arg(long, value_name = "RATE[,RATE...]", value_delimiter = ',', required = true, value_parser = rate::shape)]
    rate: Vec<Shape>,
    #[command(flatten)]
    programs: session::Programs,
}

pub(crate) fn run(args: Args) -> Result<Exit> {
    let what = args.rate.iter().map(Shape::to_string).collect();
    session::run(args.programs, what, || LinkLab::builder().links(args.rate).build().map_err(explained))
}
