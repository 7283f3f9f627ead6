//! `lram warm`: blocks in the memory of the nodes that serve.

use crate::{
    commands::get::select,
    site::{DatasetArgs, LITTLE_MEMORY},
};
use anyhow::{Result, bail};
use rails_cli::{
    exit::{Exit, Helped},
    print,
    thread::block_on,
};
use rails_lambdaram::{Site, SiteAddress, wire::NodeStatus};
use rails_topo::DataSize;
use std::time::Duration;
use tokio::time::sleep;

/// Have the nodes that serve read a box into their memory
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Nothing travels to this machine. A box larger than the nodes' memory drives out what they had before, and then its own beginning.

Example: lram warm lram://host/merra --box 'ozone[0:64, 3]'")]
pub(crate) struct Args {
    #[command(flatten)]
    dataset: DatasetArgs,
    /// The box, such as 'ozone[0:64, 3]' [default: all of the only array]; of a stride, all between
    #[arg(long = "box", value_name = "BOX", value_parser = super::get::is_box)]
    selection: Option<String>,
    /// Do not wait until the nodes have read it
    #[arg(long)]
    no_wait: bool,
}

pub(crate) fn run(args: Args) -> Result<Exit> {
    let address = &args.dataset.address;
    if matches!(address.parse(), Ok(SiteAddress::Files(_))) {
        return Err(Helped::usage(
            format_args!("{address}: files of this machine have no node whose memory could be filled"),
            "the address of a node is lram://HOST[:PORT]/DATASET",
        ));
    }
    block_on(args.dataset.reading(LITTLE_MEMORY, async |site, dataset| {
        let (array, selection) = select(&dataset, args.selection.as_deref())?;
        let blocks = array.warm(selection.bounds())?;
        let bytes = selection.bounds().elements().saturating_mul(array.description().dtype.bytes());
        print::note(format_args!("asked for {blocks} blocks, for {}", DataSize::bytes(bytes)));
        // An answer shows that the nodes have what was asked before.
        let statuses = answers(site).await?;
        let memory: u64 = statuses.iter().map(memory_of).sum();
        if bytes > memory {
            print::note(format_args!(
                "warning: the nodes have {} of memory, less than the box",
                DataSize::bytes(memory)
            ));
        }
        if !args.no_wait {
            wait(site).await?;
        }
        Ok(Exit::Done)
    }))
}

/// Waits until no block is on its way to a node, and none has come for a while.
async fn wait(site: &Site) -> Result<()> {
    let (mut quiet, mut before) = (0, None);
    while quiet < QUIET_ROUNDS {
        sleep(ROUND).await;
        let statuses = answers(site).await?;
        let now: Vec<(u32, u32)> = statuses.iter().map(|status| (status.in_transit, status.cached)).collect();
        let is_quiet = now.iter().all(|(in_transit, _)| *in_transit == 0) && before.as_ref() == Some(&now);
        quiet = if is_quiet { quiet + 1 } else { 0 };
        before = Some(now);
    }
    for (node, status) in site.upstream_status().await {
        if let Ok(status) = status {
            let cached = u64::from(status.cached) * u64::from(status.slot_bytes);
            print::result(format_args!(
                "{node} keeps {} of {}\n",
                DataSize::bytes(cached),
                DataSize::bytes(memory_of(&status))
            ))?;
        }
    }
    Ok(())
}

/// The figures of the nodes that answer.
async fn answers(site: &Site) -> Result<Vec<NodeStatus>> {
    let all = site.upstream_status().await;
    let answered: Vec<NodeStatus> = all.iter().filter_map(|(_, answer)| answer.clone().ok()).collect();
    match all.into_iter().next() {
        Some((_, Err(error))) if answered.is_empty() => Err(error.into()),
        None => bail!("no node is there"),
        _ => Ok(answered),
    }
}

fn memory_of(status: &NodeStatus) -> u64 {
    u64::from(status.slots) * u64::from(status.slot_bytes)
}

/// Folklore: a disk that is busy with others answers within a few of these.
const ROUND: Duration = Duration::from_millis(100);
const QUIET_ROUNDS: u32 = 3;
