//! `rails-bench recv`

use crate::{
    admission::{Admission, is_passed_over},
    batch,
    commands::block_on,
    endpoint::{Address, Endpoint, StreamArgs, addresses_of},
    exit::{Exit, explain},
    placement::RailsArgs,
    print,
    progress::Progress,
    purpose::{self, Purpose},
    report,
    stop::Stop,
    tls::ServerTls,
};
use anyhow::{Context, Result};
use rails_multirail::MultiRailStream;
use rails_transfer::ReceiveOptions;
use std::{path::PathBuf, sync::Arc};

/// Receive the files of `send`, batch after batch, and write it below a folder
#[derive(Debug, clap::Args)]
#[command(after_help = "\
ADDR is IP[:PORT], [IPv6]:PORT or NAME[:PORT]; the default port is 7575, and port 0 stands for a free one. There is a rail \
for each address; 0.0.0.0 and [::] stand for a rail on each NIC.

Examples:
  (umask 077; head -c 32 /dev/urandom | base64 > secret)
  rails-bench recv --listen 10.0.1.9,10.0.2.9 --into inbox --secret-file secret
  rails-bench recv --listen 0.0.0.0 --into inbox --secret-file secret --once

Batches are taken one at a time. What is cut is left as .NAME.rails-part, and the next `send` of the same file goes on from \
there. The bytes are encrypted with --encrypt or by TLS, and not otherwise.")]
pub(crate) struct Args {
    /// Listen on these addresses, a lane for each
    #[arg(long, required = true, value_delimiter = ',', value_name = "ADDR")]
    listen: Vec<Address>,
    /// Folder to write below; it is made if there is none
    #[arg(long, value_name = "DIR")]
    into: PathBuf,
    /// End after one batch, with exit code 0 if all of it is there
    #[arg(long)]
    once: bool,
    /// Fail a file where the file system refuses to lock it, to set its mode, or to write it to disk, instead of going
    /// on with a warning
    #[arg(long)]
    strict: bool,
    /// Show no progress
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    placement: RailsArgs,
    #[command(flatten)]
    stream: StreamArgs<ServerTls>,
}

pub(crate) fn run(args: Args, details: bool) -> Result<Exit> {
    block_on(recv(args, details))
}

async fn recv(args: Args, details: bool) -> Result<Exit> {
    let mut stop = Stop::on_signals()?;
    let options = args.stream.options()?;
    let addresses = addresses_of("--listen", &args.listen).await?;
    let end = Endpoint::listening(&addresses, &args.placement, options)?;
    rails_transfer::make_folder(&args.into).with_context(|| format!("--into {}", args.into.display()))?;
    let mut guests = Admission::of(end.listen(&addresses).await?, Purpose::Receive);
    let ended = batches(&args, &end, &mut guests, &mut stop, details).await;
    guests.dismiss().await;
    ended
}

/// Takes batch after batch, or one.
async fn batches(args: &Args, end: &Endpoint, guests: &mut Admission, stop: &mut Stop, details: bool) -> Result<Exit> {
    loop {
        let received = async {
            let stream = stop.or(guests.next()).await?;
            receive(args, end, stream, stop.clone(), details).await
        };
        let ending = match received.await {
            Ok(ending) => ending,
            Err(error) if is_passed_over(&error, args.once) => {
                explain(&error);
                continue;
            }
            Err(error) => return Err(error),
        };
        if args.once || matches!(ending, Exit::Signal(_)) {
            return Ok(ending);
        }
    }
}

/// Takes one batch.
async fn receive(args: &Args, end: &Endpoint, stream: MultiRailStream, mut stop: Stop, details: bool) -> Result<Exit> {
    let begin = async |stream: &mut MultiRailStream| Ok(purpose::give_turn(stream).await?);
    let ((), stream) = stop.unless(stream, begin).await?;
    let progress = Arc::new(Progress::new(args.quiet));
    let options = ReceiveOptions::new().strict(args.strict);
    let batch = batch::receive(end, stream, args.into.clone(), options, progress.clone(), stop).await;
    progress.clear();
    let unfinished = progress.unfinished();
    if !unfinished.is_empty() {
        let into = args.into.display();
        print::note(format_args!("left in {into} as .NAME.rails-part, to go on from: {}", unfinished.join(", ")));
    }
    let batch = batch?;
    match &batch.summary {
        Ok(summary) => {
            let complete = report::received(&batch, summary, details)?;
            Ok(if complete { Exit::Done } else { Exit::Failed })
        }
        Err(signal) => {
            print::note(format_args!("interrupted after {:.1} s", batch.seconds()));
            Ok(Exit::Signal(*signal))
        }
    }
}
