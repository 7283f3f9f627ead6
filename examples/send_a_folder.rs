//! A folder over the streams of one session, several files at a time.
//!
//! Run: `cargo run --release --example send_a_folder`, or with `-- FOLDER`; without a folder, 12
//! files of 8 MiB are made up. What arrives is written below a temporary folder, and removed.
//!
//! Expected: the number of files and bytes, their rate, and how many were under way at a time, from
//! their first byte to the receiver's word; if a file does not arrive as it was sent, the exit
//! status is not 0. A session opens a stream without a round trip, and each of the four has a
//! thread at either end that reads or writes, and hashes.

use anyhow::{Context, ensure};
use rails::{
    multirail::{
        MultiRailListener, MultiRailSession, RailRequest, Rails, RecvStream, Secret, SendStream, StreamOptions,
        plan_rails,
    },
    topo::Topology,
};
use rails_transfer::{
    AcceptStreams, Observer, OpenStreams, Outcome, ReceiveOptions, ReceiveSummary, RelPath, SendOptions, SendSummary,
};
use std::{
    fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};
use tokio::io::join;

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let source = match std::env::args_os().nth(1) {
        Some(path) => PathBuf::from(path),
        None => made_up(folder.path(), 12, 8 << 20)?,
    };
    let sent = run(&source, &folder.path().join("received")).await?;
    let bytes = sent.summary.bytes_sent;
    let goodput = bytes as f64 * 8.0 / 1e9 / sent.elapsed.as_secs_f64();
    println!("{} files, {bytes} bytes, {goodput:.2} Gbit/s", sent.summary.files.len());
    println!("up to {} files were under way at a time", sent.at_a_time);
    Ok(())
}

/// The folder that arrived.
pub(crate) struct Sent {
    pub(crate) summary: SendSummary,
    /// The most files that were under way at a time.
    pub(crate) at_a_time: usize,
    pub(crate) elapsed: Duration,
}

/// Sends the folder over two loopback rails, and writes it below another.
pub(crate) async fn run(source: &Path, into: &Path) -> anyhow::Result<Sent> {
    let topology = Topology::detect()?;
    let rails = Rails::build(&plan_rails(&topology, &RailRequest::loopback(2))?)?;

    // Two programs would get the secret at their start.
    let mut secret = [0; 32];
    getrandom::fill(&mut secret)?;
    let options = StreamOptions::new(Secret::pre_shared(&secret)?);

    let addresses = rails.iter().map(|rail| Some(SocketAddr::new(rail.planned().address?, 0)));
    let addresses: Vec<SocketAddr> = addresses.collect::<Option<_>>().context("a rail has no address")?;
    let listener = MultiRailListener::bind(&rails, &addresses, &options).await?;
    let near = MultiRailSession::connect(&rails, listener.local_addrs(), &options).await?;
    let far = listener.accept_session().await?;

    let start = Instant::now();
    let under_way = Arc::new(UnderWay::default());
    let (sent, received) = tokio::join!(send(near, source, Arc::clone(&under_way)), receive(far, into));
    let (summary, received) = (sent?, received?);
    ensure!(summary.is_complete() && received.is_complete(), "{:?}", summary.failures);
    Ok(Sent { summary, at_a_time: under_way.most.load(Relaxed), elapsed: start.elapsed() })
}

async fn send(session: MultiRailSession, source: &Path, observer: Arc<UnderWay>) -> anyhow::Result<SendSummary> {
    // The messages of the transfer have a stream in both directions, and its files streams in one.
    let (writing, reading) = session.open_bi().await?;
    let control = join(reading, writing);
    Ok(SendOptions::new().streams(4).send_over(control, Streams(session), &[source.to_owned()], observer).await?)
}

async fn receive(session: MultiRailSession, into: &Path) -> anyhow::Result<ReceiveSummary> {
    let (writing, reading) = session.accept_bi().await?;
    let control = join(reading, writing);
    Ok(ReceiveOptions::new().streams(4).receive_over(control, Streams(session), into, Arc::new(())).await?)
}

/// The streams of a session in one direction.
struct Streams(MultiRailSession);

impl OpenStreams for Streams {
    type Stream = SendStream;

    async fn open(&mut self) -> io::Result<SendStream> {
        Ok(self.0.open_uni().await?)
    }
}

impl AcceptStreams for Streams {
    type Stream = RecvStream;

    async fn accept(&mut self) -> io::Result<RecvStream> {
        Ok(self.0.accept_uni().await?)
    }
}

/// Counts the files under way. Several threads tell it.
#[derive(Debug, Default)]
struct UnderWay {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Observer for UnderWay {
    fn started(&self, _: &RelPath, _: u64, _: u64) {
        let now = self.now.fetch_add(1, Relaxed) + 1;
        self.most.fetch_max(now, Relaxed);
    }

    fn finished(&self, _: &RelPath, _: u64, outcome: Outcome<'_>) {
        if matches!(outcome, Outcome::Stored(_)) {
            self.now.fetch_sub(1, Relaxed);
        }
    }
}

/// A folder of files without a repeated pattern.
pub(crate) fn made_up(below: &Path, files: u32, length: usize) -> anyhow::Result<PathBuf> {
    let folder = below.join("photos");
    fs::create_dir(&folder)?;
    for file in 0..files {
        let mut bytes = vec![0; length];
        blake3::Hasher::new().update(&file.to_le_bytes()).finalize_xof().fill(&mut bytes);
        fs::write(folder.join(format!("{file}.raw")), bytes)?;
    }
    Ok(folder)
}
