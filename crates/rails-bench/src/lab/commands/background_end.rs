//! `background-end`: one end of `overlap` and `ping-pong`, which start it.

use crate::{
    exit::Exit,
    lab::background::{self, Orders},
    print,
};
use anyhow::{Context, Result};

/// One end of `overlap` and `ping-pong`, which start it
#[derive(Debug, clap::Args)]
#[command(hide = true)]
pub(crate) struct Args {
    /// The orders, as JSON
    #[arg(long, value_name = "JSON")]
    orders: String,
}

pub(crate) fn run(args: &Args) -> Result<Exit> {
    let orders: Orders = serde_json::from_str(&args.orders).context("--orders")?;
    let report = background::obey(&orders)?;
    print::result(format_args!("{}\n", serde_json::to_string(&report)?))?;
    Ok(Exit::Done)
}
