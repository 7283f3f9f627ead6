//! `lram ls`: the datasets at an address.

use crate::{
    site::{self, ReaderArgs},
    text::printable,
};
use anyhow::{Result, ensure};
use rails_cli::{exit::Exit, print, thread::block_on};
use rails_lambdaram::Site;
use rails_topo::DataSize;

/// List the datasets at an address
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The node: lram://HOST (or HOST:PORT), or the path of a file, a folder or a pattern
    address: String,
    /// Print a JSON list: `name`, `arrays`, and `bytes` of all elements
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    reader: ReaderArgs,
}

pub(crate) fn run(args: Args) -> Result<Exit> {
    let open = args.reader.open(&args.address, site::LITTLE_MEMORY);
    block_on(site::reading(open, async |site| list(&args, site).await))
}

async fn list(args: &Args, site: &Site) -> Result<Exit> {
    let mut datasets = site.datasets().await.map_err(|error| site::helped(error.into(), &args.address))?;
    datasets.retain(|dataset| site.address().dataset().is_none_or(|name| name == dataset.name));
    site::warn_of_left_out(site);
    ensure!(!datasets.is_empty(), "no dataset is at {}", args.address);
    if args.json {
        print::result(format_args!("{}\n", serde_json::to_string(&datasets)?))?;
        return Ok(Exit::Done);
    }
    let mut table = print::table(1, vec!["dataset", "arrays", "size"]);
    for dataset in &datasets {
        table.add_row(vec![
            printable(&dataset.name),
            dataset.arrays.to_string(),
            DataSize::bytes(dataset.bytes).to_string(),
        ]);
    }
    print::result(format_args!("{table}\n"))?;
    Ok(Exit::Done)
}
