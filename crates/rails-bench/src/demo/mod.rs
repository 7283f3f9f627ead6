//! The demo: a first look at rails, which needs no privilege and no second machine.

mod file;

use crate::{
    batch::{self, Batch, Way},
    endpoint::Endpoint,
    exit::{Exit, Help},
    machine::{Brief, this_machine},
    print,
    progress::Progress,
    report::{Column, Goodput, Part, lost, table, unheld, unused, verdicts},
    stop::Stop,
    thread::block_on,
};
use anyhow::{Context, Result, ensure};
use file::{Source, digest_of};
use rails_multirail::{MultiRailListener, MultiRailSession, Secret, StreamOptions};
use rails_topo::DataSize;
use rails_transfer::{ReceiveOptions, ReceiveSummary, SendOptions, SendSummary};
use std::{future::pending, net::SocketAddr, path::PathBuf, sync::Arc};
use tokio::io::join;

/// A demo. It moves a file over this machine's loopback, both ends in this process, and checks
/// everything.
#[derive(Debug, Default)]
pub(crate) struct Demo {
    /// The file to send, instead of a made-up one.
    pub(crate) file: Option<PathBuf>,
    /// The size of the made-up file; [`SIZE`] by default.
    pub(crate) size: Option<DataSize>,
    /// The rails of each end; one for each core that may be used by default, and at least 2.
    pub(crate) rails: Option<usize>,
    /// The seed of the made-up file; a random one by default.
    pub(crate) seed: Option<u64>,
    /// Whether no progress is shown.
    pub(crate) quiet: bool,
}

/// Runs the demo as `rails-bench demo` without a flag does.
///
/// # Errors
/// The cause of the failure, for [`explain`](crate::explain).
pub fn demo() -> Result<Exit> {
    Demo::default().run()
}

impl Demo {
    pub(crate) fn run(self) -> Result<Exit> {
        block_on(async {
            let stop = Stop::on_signals()?;
            let done = self.carry_out(stop.clone()).await?;
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
    async fn carry_out(self, stop: Stop) -> Result<Option<()>> {
        let topology = this_machine()?;
        print::text(Brief(&topology))?;

        // Removed with all that is in it when this function ends, however it ends.
        let folder = tempfile::Builder::new().prefix("rails-demo-").tempdir().context("no temporary folder");
        let folder = folder.map_err(|error| error.help("let TMPDIR name a folder that may be written to"))?;
        let made = match &self.file {
            Some(path) => Source::given(path, folder.path(), self.quiet, stop.clone()).await?,
            None => {
                let size = self.size.unwrap_or(SIZE);
                let seed = self.seed.map_or_else(getrandom::u64, Ok)?;
                Source::made(size, seed, folder.path(), self.quiet, stop.clone()).await?
            }
        };
        let Some(source) = made else { return Ok(None) };

        let mut secret = [0; 32];
        getrandom::fill(&mut secret)?;
        let secret = Secret::pre_shared(&secret)?;
        let options = StreamOptions::new(secret);
        let sender = Endpoint::on_loopback(topology.clone(), self.rails, options.clone())?;
        let receiver = Endpoint::on_loopback(topology, self.rails, options)?;
        let (near, far) = connect(&sender, &receiver).await?;
        print::text(format_args!(
            "rails      {} to send and {} to receive, each a thread of its own, joined by a random secret\n",
            sender.rails.len(),
            receiver.rails.len(),
        ))?;
        receiver.notes.iter().try_for_each(|note| print::text(format_args!("           note: {note}\n")))?;

        let progress = Arc::new(Progress::bar_only(self.quiet));
        let inbox = folder.path().join("received");
        let receiving = async {
            let (into, options) = (inbox.clone(), ReceiveOptions::new());
            batch::receive(&receiver, far.await?, into, options, progress.clone(), stop.clone(), pending()).await
        };
        let sources = vec![source.path.clone()];
        let sending = batch::send(&sender, near, sources, SendOptions::new(), Arc::new(()), stop.clone());
        let (sent, received) = tokio::join!(sending, receiving);
        progress.clear();
        let (sent, received) = (sent?, received?);
        let (Ok(sent_files), Ok(received_files)) = (&sent.summary, &received.summary) else {
            return Ok(None);
        };
        ensure!(
            sent_files.is_complete() && received_files.is_complete(),
            "the file did not arrive: {}",
            why(sent_files)
        );
        tell(&sent, &received)?;

        let name = source.path.file_name().context("the source has no name")?;
        let Some(arrived) = digest_of(&inbox.join(name), "checking", self.quiet, stop).await? else {
            return Ok(None);
        };
        let agreed = sent_files.files.first().and_then(|file| Some(*file.digest?.as_bytes()));
        ensure!(
            arrived == source.digest && agreed == Some(*source.digest.as_bytes()),
            "the file that arrived is not the one that was sent: BLAKE3 {arrived} here, {} there",
            source.digest
        );
        print::text(format_args!(
            "\nverified   BLAKE3 {arrived}\n           by the receiver as it arrived, and again from the file read back\n"
        ))?;
        Ok(Some(()))
    }
}

/// The way of the batch between the two, a lane for each pair of rails.
async fn connect(sender: &Endpoint, receiver: &Endpoint) -> Result<(Way, impl Future<Output = Result<Way>>)> {
    let addresses: Option<Vec<SocketAddr>> =
        receiver.rails.iter().map(|rail| Some(SocketAddr::new(rail.planned().address?, 0))).collect();
    let addresses = addresses.context("a loopback rail has no address")?;
    let listener = MultiRailListener::bind(&receiver.rails, &addresses, &receiver.options).await?;
    let near = MultiRailSession::connect(&sender.rails, listener.local_addrs(), &sender.options).await?;
    let far = listener.accept_session().await?;
    let (writing, reading) = near.open_bi().await?;
    let far = async move {
        // The listener takes lanes back that were lost.
        let _listener = listener;
        let (writing, reading) = far.accept_bi().await?;
        Ok(Way { session: far, control: join(reading, writing) })
    };
    Ok((Way { session: near, control: join(reading, writing) }, far))
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
    print::text(format_args!(
        "\nPlacement, as read back from the kernel\n{placement}\n{}{}\nTraffic\n{traffic}{}{}\n\
         received   {}\n\
         CPU        {of_process:.2} s in all: {of_rails:.2} s on the rails' threads, the rest for files and hashing\n",
        verdicts(&parts),
        unheld(&parts),
        unused(&parts),
        lost(&parts),
        Goodput::new(bytes, received.time),
    ))?;
    Ok(())
}

fn why(summary: &SendSummary) -> String {
    summary.failures.iter().map(|failure| failure.reason.to_string()).collect::<Vec<_>>().join("; ")
}

/// The size of a made-up file.
const SIZE: DataSize = DataSize::bytes(1 << 30);
