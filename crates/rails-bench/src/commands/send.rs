//! `rails-bench send`

mod filter;

use crate::{
    batch::{self, Way},
    conversation::Request,
    endpoint::{Address, Endpoint, Remotes, StreamArgs, StripingArgs},
    exit::Exit,
    placement::RailsArgs,
    print,
    progress::Progress,
    report,
    stop::Stop,
    thread::block_on,
    tls::ClientTls,
};
use anyhow::{Context, Result};
use filter::FilterArgs;
use rails_multirail::RailRequest;
use rails_transfer::{Compare, SendOptions};
use std::{path::PathBuf, sync::Arc};

/// Send files and folders to a `recv`, over as many lanes as there are addresses or rails
#[derive(Debug, clap::Args)]
#[command(after_help = "\
ADDR is IP[:PORT], [IPv6]:PORT or NAME[:PORT]; the default port is 7575. All addresses of a name are called.

There are as many lanes as rails or as addresses, whichever are more. Without --from there is one rail towards each \
address, from where the routing table leads there. With one address and several rails the receiver is asked for its lanes, and \
the two ends' lanes are paired by subnet and speed; --explain says how.

Examples:
  rails-bench send data/ --to 10.0.1.9,10.0.2.9 --secret-file secret
  rails-bench send big.iso --to storage --from eth0,eth1@8-11 --secret-file secret
  rails-bench send big.iso --to storage --from auto --explain --secret-file secret

A copy keeps bytes, holes, names, symbolic links (as they are; one that is named is followed), times of modification, and \
permissions (a folder's sticky bit among them). It keeps no owners, set-user-id and set-group-id bits, hard links, extended \
attributes and access lists; special files are left out, named, and make exit code 3 (0 with --allow-skipped); a \
failed file makes exit code 1.

Patterns are matched against the path below the receiver's folder: one that begins with / from there on, one with a / \
inside against its end, any other against the name; one that ends in / matches folders alone. * and ? match no /, and ** any \
number of folders.

A file that the receiver has with the same size and time of modification is not read (--checksum reads it). Up to four files \
are sent at a time. What arrives is verified end to end. A transfer that is cut goes on where it was when it is started again. The bytes are \
encrypted with --encrypt or by TLS, and not otherwise.")]
pub(crate) struct Args {
    /// Files and folders; a folder arrives under its own name, and DIR/. stands for its contents
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Where the receiver listens: an address for each lane, or one of them all
    #[arg(long, required = true, value_delimiter = ',', value_name = "ADDR")]
    to: Vec<Address>,
    /// Send from these interfaces and local addresses, a rail for each; CPUs may follow an @.
    /// `auto`: from every NIC that is up
    #[arg(long, value_name = "ADDR_OR_IFACE,...")]
    from: Option<RailRequest>,
    /// Say which lanes are paired and why, and which did not connect
    #[arg(long)]
    explain: bool,
    /// End with exit code 0 where special files or reserved names were left out,
    /// and not with 3
    #[arg(long)]
    allow_skipped: bool,
    /// Compare the files that the receiver has by their BLAKE3, which both ends then read, and not
    /// by size and time
    #[arg(short, long)]
    checksum: bool,
    /// Show no progress
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    placement: RailsArgs,
    #[command(flatten)]
    striping: StripingArgs,
    #[command(flatten)]
    stream: StreamArgs<ClientTls>,
}

pub(crate) fn run(args: Args, details: bool) -> Result<Exit> {
    block_on(send(args, details))
}

async fn send(args: Args, details: bool) -> Result<Exit> {
    let mut stop = Stop::on_signals()?;
    let options = args.stream.options()?;
    // The transfer opens the files again; the check finds a typing error without a receiver.
    rails_transfer::check(&args.files).context("nothing was sent")?;
    let remotes = Remotes::of("--to", &args.to).await?.limited("--to", args.striping.max_addresses());
    let end = Endpoint::calling(&remotes, args.from.as_ref(), &args.placement, options)?.striping(&args.striping)?;
    let (call, paired) = end.call(&remotes, &Request::Files, &mut stop).await?;
    if args.explain {
        print::note(format_args!("{paired}"));
    }
    let progress = Arc::new(Progress::new(args.quiet, details));
    let way = Way { session: call.session, control: call.control.into_stream() };
    let compare = if args.checksum { Compare::Digests } else { Compare::Times };
    let options = SendOptions::new().compare(compare).filter(args.filter.0);
    let batch = batch::send(&end, way, args.files, options, progress.clone(), stop).await;
    progress.clear();
    let mut batch = batch?;
    batch.side = batch.side.explained(|rail| paired.why_unused(rail));
    match &batch.summary {
        Ok(summary) => {
            let complete = report::sent(&batch, summary, details)?;
            let left_out = !summary.skipped.is_empty() && !args.allow_skipped;
            Ok(match (complete, left_out) {
                (false, _) => Exit::Failed,
                (true, true) => Exit::LeftOut,
                (true, false) => Exit::Done,
            })
        }
        Err(signal) => {
            let unfinished = progress.unfinished();
            print::note(format_args!(
                "interrupted after {:.1} s{}; the receiver keeps the bytes it has, and the same command goes on from there",
                batch.seconds(),
                if unfinished.is_empty() { String::new() } else { format!(", in {}", unfinished.join(", ")) }
            ));
            Ok(Exit::Signal(*signal))
        }
    }
}
