//! `rails-bench demo`

mod file;

use crate::{
    batch::{self, Batch},
    commands::block_on,
    endpoint::Endpoint,
    exit::{Exit, Help},
    machine::{Brief, this_machine},
    print,
    progress::Progress,
    report::{Column, Goodput, Part, lost, table, unheld, verdicts},
    size,
    stop::Stop,
};
use anyhow::{Context, Result, ensure};
use file::{Source, digest_of};
use rails_multirail::{MultiRailListener, MultiRailStream, Secret, StreamOptions};
use rails_topo::DataSize;
use rails_transfer::{ReceiveOptions, ReceiveSummary, SendSummary};
use std::{future::pending, net::SocketAddr, path::PathBuf, sync::Arc};

/// Move a file over this machine's loopback, both ends in this process, and check everything
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Needs no privilege and no second machine. The file is made up (incompressible, from a seed) unless --file is given, and is sent \
by the same code as `send` and `recv`. It is written below $TMPDIR or /tmp, and removed at the end. The loopback raises no \
interrupts, so that a demo shows two of a rail's three affinities at most.

Examples:
  rails-bench demo
  rails-bench demo --size 8MiB --rails 3
  rails-bench demo --file big.iso")]
pub(crate) struct Args {
    /// Send this file instead of a made-up one
    #[arg(long, value_name = "PATH", conflicts_with_all = ["size", "seed"])]
    file: Option<PathBuf>,
    /// Size of the made-up file, such as 64MiB or 1.5GB
    #[arg(long, value_name = "BYTES", default_value = "1GiB", value_parser = size::parse)]
    size: DataSize,
    /// Rails of each end [default: one for each core that may be used, and at least 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    rails: Option<u16>,
    /// Seed of the made-up file [default: a random one]
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
    /// Show no progress
    #[arg(short, long)]
    quiet: bool,
}

pub(crate) fn run(args: Args) -> Result<Exit> {
    block_on(async {
        let stop = Stop::on_signals()?;
        let done = demo(args, stop.clone()).await?;
        Ok(match (done, stop.so_far()) {
            (None, Some(signal)) => {
                print::note("interrupted; the temporary folder is removed");
                Exit::Signal(signal)
            }
            _ => Exit::Done,
        })
    })
}

/// `None` if the user ended it.
async fn demo(args: Args, stop: Stop) -> Result<Option<()>> {
    let topology = this_machine()?;
    print::result(Brief(&topology))?;

    // The folder is removed with its contents on every return.
    let folder = tempfile::Builder::new().prefix("rails-demo-").tempdir().context("no temporary folder");
    let folder = folder.map_err(|error| error.help("let TMPDIR name a folder that may be written to"))?;
    let made = match &args.file {
        Some(path) => Source::given(path, folder.path(), args.quiet, stop.clone()).await?,
        None => {
            let seed = args.seed.unwrap_or_else(rand::random);
            Source::made(args.size, seed, folder.path(), args.quiet, stop.clone()).await?
        }
    };
    let Some(source) = made else { return Ok(None) };

    let secret = Secret::pre_shared(&rand::random::<[u8; 32]>())?;
    let options = StreamOptions::new(secret);
    let rails = args.rails.map(usize::from);
    let sender = Endpoint::on_loopback(topology.clone(), rails, options.clone())?;
    let receiver = Endpoint::on_loopback(topology, rails, options)?;
    let (near, far) = connect(&sender, &receiver).await?;
    print::result(format_args!(
        "rails      {} to send and {} to receive, each a thread of its own, joined by a random secret\n",
        sender.rails.len(),
        receiver.rails.len(),
    ))?;
    receiver.notes.iter().try_for_each(|note| print::result(format_args!("           note: {note}\n")))?;

    let progress = Arc::new(Progress::bar_only(args.quiet));
    let inbox = folder.path().join("received");
    let (sent, received) = tokio::join!(
        batch::send(&sender, near, vec![source.path.clone()], Arc::new(()), stop.clone()),
        batch::receive(&receiver, far, inbox.clone(), ReceiveOptions::new(), progress.clone(), stop.clone(), pending()),
    );
    progress.clear();
    let (sent, received) = (sent?, received?);
    let (Ok(sent_files), Ok(received_files)) = (&sent.summary, &received.summary) else {
        return Ok(None);
    };
    ensure!(sent_files.is_complete() && received_files.is_complete(), "the file did not arrive: {}", why(sent_files));
    tell(&sent, &received)?;

    let name = source.path.file_name().context("the source has no name")?;
    let Some(arrived) = digest_of(&inbox.join(name), "checking", args.quiet, stop).await? else {
        return Ok(None);
    };
    let agreed = sent_files.files.first().map(|file| *file.digest.as_bytes());
    ensure!(
        arrived == source.digest && agreed == Some(*source.digest.as_bytes()),
        "the file that arrived is not the one that was sent: BLAKE3 {arrived} here, {} there",
        source.digest
    );
    print::result(format_args!(
        "\nverified   BLAKE3 {arrived}\n           by the receiver as it arrived, and again from the file read back\n"
    ))?;
    Ok(Some(()))
}

/// A stream between the two, a lane for each pair of rails.
async fn connect(sender: &Endpoint, receiver: &Endpoint) -> Result<(MultiRailStream, MultiRailStream)> {
    let addresses: Option<Vec<SocketAddr>> =
        receiver.rails.iter().map(|rail| Some(SocketAddr::new(rail.planned().address?, 0))).collect();
    let addresses = addresses.context("a loopback rail has no address")?;
    let listener = MultiRailListener::bind(&receiver.rails, &addresses, &receiver.options).await?;
    let near = MultiRailStream::connect(&sender.rails, listener.local_addrs(), &sender.options).await?;
    let far = listener.accept().await?;
    Ok((near, far))
}

/// Prints the placement and the figures.
fn tell(sent: &Batch<SendSummary>, received: &Batch<ReceiveSummary>) -> Result<()> {
    use Column::*;
    let parts = [
        Part { name: "send", sends: true, side: &sent.side },
        Part { name: "receive", sends: false, side: &received.side },
    ];
    let bytes = received.summary.as_ref().map_or(0, |summary| summary.bytes_received);
    let placement = table(&[Side, Rail, Cpus, Policy, Node, Interrupt, Thread, Memory], &parts);
    let traffic = table(&[Side, Rail, Lane, Bytes, Share, Resent, Seconds], &parts);
    let of_rails: f64 = parts.iter().flat_map(|part| &part.side.rails).filter_map(|rail| rail.cpu_seconds).sum();
    // The two ends share one process, and each counted its time.
    let of_process = sent.side.cpu_seconds.max(received.side.cpu_seconds);
    print::result(format_args!(
        "\nPlacement, as read back from the kernel\n{placement}\n{}{}\nTraffic\n{traffic}{}\n\
         received   {}\n\
         CPU        {of_process:.2} s in all: {of_rails:.2} s on the rails' threads, the rest for files and hashing\n",
        verdicts(&parts),
        unheld(&parts),
        lost(&parts),
        Goodput::new(bytes, received.time),
    ))?;
    Ok(())
}

fn why(summary: &SendSummary) -> String {
    summary.failures.iter().map(|failure| failure.reason.to_string()).collect::<Vec<_>>().join("; ")
}
