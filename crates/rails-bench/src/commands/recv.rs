//! `rails-bench recv`

use crate::{
    batch::{self, Way},
    conversation::{Guest, Host, Reply, Request, Role, Terms},
    endpoint::{Address, Endpoint, StreamArgs, addresses_of, idle_timeout},
    exit::Exit,
    parting::{Parting, part},
    placement::RailsArgs,
    print,
    progress::Progress,
    report,
    stop::Stop,
    thread::block_on,
    tls::ServerTls,
    turn::GaveWay,
};
use anyhow::{Context, Result};
use rails_transfer::ReceiveOptions;
use std::{path::PathBuf, pin::pin, sync::Arc, time::Duration};
use tokio::{
    sync::oneshot,
    time::{sleep, timeout},
};

/// Receive the files of `send`, batch after batch, and write them below a folder
#[derive(Debug, clap::Args)]
#[command(after_help = "\
ADDR is IP[:PORT], [IPv6]:PORT or NAME[:PORT]; the default port is 7575, and port 0 stands for a free one. There is a rail \
for each address; 0.0.0.0 and [::] stand for a rail on each NIC, as `rails-bench plan --rails auto` chooses them.

Examples:
  (umask 077; head -c 32 /dev/urandom | base64 > secret)
  rails-bench recv --listen 10.0.1.9,10.0.2.9 --into inbox --secret-file secret
  rails-bench recv --listen 0.0.0.0 --into inbox --secret-file secret --once

Up to --parallel batches are taken at a time; further senders wait, and a batch whose sender stands still gives way to one \
that waits. The receiver keeps an unfinished file as .NAME.rails-part, and the next `send` of that file continues it. \
The bytes are encrypted, by TLS or with keys made of the secret, but with --no-encryption or --insecure.

A receiver that accepts files has not agreed to lose any: without --allow-delete it refuses a batch with --delete, \
a dry run too, which tells the sender the names that are here. Nor has it agreed to give rights away: what arrives \
belongs to the user who runs it, without set-user-ID and set-group-ID bits, access lists and attributes of security. and \
trusted., but for --allow-owners and --allow-xattrs. Attributes of user. are data, and are taken (send --xattrs).")]
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
    /// How many batches are taken at a time, 1 to 64
    #[arg(long, value_name = "N", default_value_t = 4, conflicts_with = "once", value_parser = clap::value_parser!(u8).range(1..=64))]
    parallel: u8,
    /// How long a batch may wait for its sender before it gives way to another that waits for its
    /// place; raise it where senders read long before they send, as to go on with a part of a
    /// terabyte
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = idle_timeout)]
    idle_timeout: Duration,
    /// Fail a file where the file system refuses to lock it, to set its mode, or to write it to
    /// disk, instead of going on with a warning
    #[arg(long)]
    strict: bool,
    /// Print the result of each batch as a JSON object on a line of its own (docs/json.md)
    #[arg(long)]
    json: bool,
    /// Let senders remove, in the folders that they send, what they do not have (`send --delete`).
    /// A sender that means harm may then remove all that is below --into, and nothing else
    #[arg(long)]
    allow_delete: bool,
    /// Let senders set owners, and set-user-ID and set-group-ID bits (`send --owner --group`), as
    /// far as this process may. A sender that means harm may then leave programs that run as
    /// any user
    #[arg(long)]
    allow_owners: bool,
    /// Let senders set access lists (`send --acls`), and as far as this process may attributes of
    /// security. and trusted. (`send --xattrs`), capabilities of programs among them
    #[arg(long)]
    allow_xattrs: bool,
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
    let mut stop = args.stream.stop()?;
    let options = args.stream.options(&args.listen)?;
    let addresses = addresses_of("--listen", &args.listen).await?;
    let end = Endpoint::listening("--listen", &addresses, &args.placement, options)?;
    rails_transfer::make_folder(&args.into).with_context(|| format!("--into {}", args.into.display()))?;
    let host = Host::of(end.listen(&addresses).await?, Role::Receive);
    let terms = Terms { places: if args.once { 1 } else { args.parallel.into() }, once: args.once };
    let asked = stop.clone();
    host.serve(terms, &mut stop, |guest| receive(&args, &end, guest, asked.clone(), details)).await
}

/// Takes one batch, which gives way if its sender stalls and another waits for its place.
async fn receive(args: &Args, end: &Endpoint, guest: Guest, stop: Stop, details: bool) -> Result<Exit> {
    let Guest { session, mut control, request, company, batches, .. } = guest;
    let Request::Files { batch: name } = request else {
        unreachable!("a host that receives hears senders of files alone")
    };
    // The successor is dropped after the claim: the next batch of this name has a claim of its own.
    let mut successor = None;
    let mut begun_again = batches.wait(name, 1);
    if let Err(left) = control.say(&Reply::Begin).await {
        drop(control);
        part(session, Parting::Failed).await;
        return Err(left.into());
    }
    let progress = Arc::new(Progress::new(args.quiet, details));
    let options = ReceiveOptions::new()
        .strict(args.strict)
        .allow_delete(args.allow_delete)
        .allow_owners(args.allow_owners)
        .allow_xattrs(args.allow_xattrs);
    let (peer, limit) = (session.peer_addr(), args.idle_timeout);
    let (end_turn, turn_ends) = oneshot::channel();
    let gives_way = async { turn_ends.await.unwrap_or_else(|_| unreachable!("the batch ends before its turn")) };
    let way = Way { session, control: control.into_stream() };
    let batch = batch::receive(end, way, args.into.clone(), options, progress.clone(), stop, gives_way);
    let mut batch = pin!(batch);
    let ended = tokio::select! {
        batch = &mut batch => Ok(batch),
        () = progress.waits.last(limit, || company.waiting() > 0) => Err(GaveWay::Stalled { peer, limit }),
        next = begun_again.next() => {
            successor = Some(next);
            Err(GaveWay::BegunAgain { peer })
        }
    };
    let batch = match ended {
        Ok(batch) => batch,
        Err(gave_way) => {
            // The send fails if the batch has just ended.
            let _ = end_turn.send(gave_way);
            batch.await
        }
    };
    if successor.is_some() {
        are_gone(&progress).await;
    }
    progress.clear();
    let unfinished = progress.unfinished();
    if !unfinished.is_empty() {
        let into = args.into.display();
        print::note(format_args!("left in {into} as .NAME.rails-part, to go on from: {}", unfinished.join(", ")));
    }
    let batch = batch?;
    match &batch.summary {
        Ok(summary) => {
            if args.json {
                report::documents::received(&batch, summary, peer).print_line()?;
            } else {
                report::received(&batch, summary, details)?;
            }
            Ok(if summary.is_complete() { Exit::Done } else { Exit::Failed })
        }
        Err(signal) => {
            print::note(format_args!("interrupted after {:.1} s", batch.seconds()));
            Ok(Exit::Signal(*signal))
        }
    }
}

/// Waits until the threads of a batch that was cut, which observe it too, have let its files go.
async fn are_gone(observer: &Arc<Progress>) {
    let gone = async {
        while Arc::strong_count(observer) > 1 {
            sleep(TICK).await;
        }
    };
    // A thread whose disk does not answer keeps the next batch waiting no longer.
    let _ = timeout(PATIENCE, gone).await;
}

const TICK: Duration = Duration::from_millis(5);
const PATIENCE: Duration = Duration::from_secs(10);
