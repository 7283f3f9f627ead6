//! `rails-bench send`

mod filter;
mod keep;
mod list;

use crate::{
    batch::{self, Batch, Way},
    conversation::{Request, Token},
    endpoint::{Address, Endpoint, Remotes, StreamArgs, StripingArgs, seconds},
    exit::{Exit, Signal},
    placement::RailsArgs,
    print,
    progress::Progress,
    rate, report,
    retry::{Retry, Tally},
    stop::{Stop, Stopped},
    thread::block_on,
    tls::ClientTls,
};
use anyhow::{Context, Result};
use filter::FilterArgs;
use keep::KeepArgs;
use list::ListArgs;
use rails_multirail::RailRequest;
use rails_topo::Bandwidth;
use rails_transfer::{Compare, FileList, SendOptions, SendSummary};
use std::{
    num::NonZeroU64,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::time::sleep;

/// Send files and folders to a `recv`, over as many lanes as there are addresses or rails
#[derive(Debug, clap::Args)]
#[command(after_help = "\
ADDR is IP[:PORT], [IPv6]:PORT or NAME[:PORT]; the default port is 7575. All addresses of a name are called. PEER: alone, \
also as the last FILE, is a peer of ~/.config/rails/config.toml or /etc/rails/config.toml (docs/configuration.md).

There are as many lanes as rails or as addresses, whichever are more. Without --from there is one rail towards each \
address, from where the routing table leads there. With one address and several rails the receiver is asked for its lanes, and \
the two ends' lanes are paired by subnet and speed; --explain says how.

Examples:
  rails-bench send data/ --to 10.0.1.9,10.0.2.9 --secret-file secret
  rails-bench send big.iso --to storage --from eth0,eth1@8-11 --secret-file secret
  rails-bench send big.iso --to storage --from auto --explain --secret-file secret
  rails-bench send data/ storage:

A copy keeps bytes, holes, names, symbolic links (as they are; one that is named is followed), times of modification, and \
permissions (a folder's sticky bit among them). With options it keeps hard links (-H), owners (-o, -g) and with them \
set-user-ID and set-group-ID bits, extended attributes (-X) and access lists (-A); all -HogXA, as rsync's. What the receiver \
does not allow or its file system refuses is said once, and the copy goes on. Hard links and set-ID bits that no option \
keeps are counted in the summary. It never keeps times of access and creation, or the attributes of links.

Special files and names that the receiver keeps for itself (.NAME.rails-part) are left out, named, and make exit code 3, as do \
attributes that have no room: a file's have 8000 bytes in all (0 with --allow-skipped). A failed file makes exit code 1.

Patterns are matched against the path below the receiver's folder: one that begins with / from there on, one with a / \
inside against its end, any other against the name; one that ends in / matches folders alone. * and ? match no /, and ** any \
number of folders.

A file that the receiver has with the same size and time of modification is not read (--checksum reads it). Of a \
changed one, blocks of 256 KiB are compared at their place, and only those are sent that differ. Up to four files are sent \
at a time. What arrives is verified end to end. The bytes are encrypted, by TLS or with keys made of the secret, \
but with --no-encryption or --insecure.

With --files-from one FILE, a folder, has only the entries of a list, with the folders above them; they arrive as they \
would without the list. A listed folder comes without its contents. Entries that are missing are named, and make exit \
code 1.

With --delete the receiver's copies of the folders that are sent lose the entries that are not here (DIR/. stands for \
the receiver's folder itself), links unfollowed. What --exclude leaves out stays there, with the folders around it, \
and so do special files that are here. If anything failed, nothing is removed (exit code 1): it might be what could \
not be read. A folder that is empty here, as the place of a disk that is not mounted, empties its copy: --dry-run tells \
before. A file in the place of a folder, or the other way round, fails its entry and is not removed either.

With --dry-run nothing changes at either end: a line names each entry that would change (a folder's mode and time are \
not compared), and the summary what would be sent. Parts are not locked, so that another transfer may change them \
meanwhile.

A transfer that has begun waits for a receiver that is started again or cannot be reached, and goes on (--retry); a first \
call that fails, another secret or a refusal end it at once. One that has ended goes on where it was when it is started again.")]
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
    /// End with exit code 0 where special files, reserved names or attributes were left out,
    /// and not with 3
    #[arg(long)]
    allow_skipped: bool,
    /// Compare the files that the receiver has by their BLAKE3, which both ends then read, and not
    /// by size and time
    #[arg(short, long)]
    checksum: bool,
    /// Remove the files and links that the receiver has, when the batch is complete; folders stay,
    /// and so do files that the receiver would write into their own folder on this machine
    #[arg(long)]
    remove_source_files: bool,
    /// Send files at this rate at most, such as 50mbit: their bytes, over all lanes together. A
    /// burst has 100 ms of them
    #[arg(long, value_name = "RATE", value_parser = rate::parse)]
    bwlimit: Option<Bandwidth>,
    /// How long to try again where a receiver that was there is gone, without progress: when it is
    /// started again, the batch goes on. 0 ends at once
    #[arg(long, value_name = "SECONDS", default_value = "120", value_parser = seconds)]
    retry: Duration,
    /// Print the result as one JSON object (docs/json.md)
    #[arg(long)]
    json: bool,
    /// Remove, in the folders that are sent, what the receiver has there and this end has not, when
    /// all else has arrived; `recv --allow-delete` allows it
    #[arg(long, conflicts_with_all = ["files_from", "remove_source_files"])]
    delete: bool,
    /// Compare alone: say which files would be sent and which entries would change, and change
    /// nothing at either end
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Show no progress
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    keep: KeepArgs,
    #[command(flatten)]
    list: ListArgs,
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
    let options = args.stream.options(&args.to)?;
    // The transfer opens the files again; the check finds a typing error without a receiver.
    rails_transfer::check(&args.files).context("nothing was sent")?;
    let list = args.list.read(&args.files)?;
    let remotes = Remotes::of("--to", &args.to).await?.limited("--to", args.striping.max_addresses());
    let end = Endpoint::calling(&remotes, args.from.as_ref(), &args.placement, options)?.striping(&args.striping)?;
    let progress = Arc::new(Progress::new(args.quiet, details));
    let tally = Arc::new(Tally::new(progress.clone()));
    let sending = Sending { args: &args, options: args.options(list), end: &end, remotes: &remotes, tally: &tally };
    let sent = sending.until_through(&mut stop).await;
    progress.clear();
    let interrupted = |signal: Signal| {
        let unfinished = progress.unfinished();
        print::note(format_args!(
            "interrupted after {:.1} s{}; the receiver keeps the bytes it has, and the same command goes on from there",
            tally.time().as_secs_f64(),
            if unfinished.is_empty() { String::new() } else { format!(", in {}", unfinished.join(", ")) }
        ));
        Ok(Exit::Signal(signal))
    };
    let batch = match sent {
        Ok(batch) => batch,
        Err(error) => match error.downcast_ref() {
            Some(Stopped(signal)) if tally.has_begun() => return interrupted(*signal),
            _ => return Err(error),
        },
    };
    match &batch.summary {
        Ok(summary) => {
            match (args.json, args.dry_run) {
                (true, _) => {
                    report::documents::sent(&batch, summary, args.dry_run, tally.begun_again()).print_line()?
                }
                (false, true) => report::compared(summary)?,
                (false, false) => report::sent(&batch, summary, tally.begun_again(), details)?,
            }
            let complete = summary.is_complete();
            let left_out = !summary.skipped.is_empty() && !args.allow_skipped;
            Ok(match (complete, left_out) {
                (false, _) => Exit::Failed,
                (true, true) => Exit::LeftOut,
                (true, false) => Exit::Done,
            })
        }
        Err(signal) => interrupted(*signal),
    }
}

impl Args {
    fn options(&self, list: Option<FileList>) -> SendOptions {
        let compare = if self.checksum { Compare::Digests } else { Compare::Times };
        let options = SendOptions::new()
            .compare(compare)
            .filter(self.filter.0.clone())
            .remove_sources(self.remove_source_files)
            .dry_run(self.dry_run)
            .delete(self.delete);
        let options = self.keep.add_to(options);
        let options = match list {
            Some(list) => options.files(list),
            None => options,
        };
        // The parser takes no rate of 0.
        match self.bwlimit.and_then(|rate| NonZeroU64::new(rate.as_bits_per_second())) {
            Some(rate) => options.max_rate(rate),
            None => options,
        }
    }
}

/// A batch, as it is tried.
struct Sending<'a> {
    args: &'a Args,
    options: SendOptions,
    end: &'a Endpoint,
    remotes: &'a Remotes,
    tally: &'a Arc<Tally>,
}

impl Sending<'_> {
    /// Sends the batch, and sends it again as long as `--retry` lets it when its receiver goes
    /// away.
    async fn until_through(&self, stop: &mut Stop) -> Result<Batch<SendSummary>> {
        let request = Request::Files { batch: Token::random().context("no random numbers")? };
        let mut retry = Retry::new(self.args.retry);
        loop {
            let error = match self.once(&request, &mut retry, stop).await {
                Ok(mut batch) => {
                    self.tally.complete(&mut batch);
                    return Ok(batch);
                }
                Err(error) => error,
            };
            let pause = retry.failed(Instant::now(), error, self.tally.take_progress())?;
            stop.or(async {
                sleep(pause).await;
                Ok(())
            })
            .await?;
        }
    }

    /// Tries once to send the batch.
    async fn once(&self, request: &Request, retry: &mut Retry, stop: &mut Stop) -> Result<Batch<SendSummary>> {
        let (call, paired) = self.end.call(self.remotes, request, stop).await?;
        if self.args.explain {
            print::note(format_args!("{paired}"));
        }
        retry.begun();
        self.tally.begin();
        let way = Way { session: call.session, control: call.control.into_stream() };
        let (sources, options) = (self.args.files.clone(), self.options.clone());
        let mut batch = batch::send(self.end, way, sources, options, self.tally.clone(), stop.clone()).await?;
        batch.side = batch.side.explained(|rail| paired.why_unused(rail));
        Ok(batch)
    }
}
