//! A file over one stream, the stream over two rails.
//!
//! Run: `cargo run --release --example stripe_a_file`, or with `-- FILE`; without a file, 64 MiB
//! are made up.
//!
//! Expected: the number of bytes and their rate, the bytes of each lane, and the same BLAKE3 digest
//! at both ends; if the digests differ, the exit status is not 0. The time includes reading and
//! hashing at both ends, all on this machine; the loopback interface is not a NIC, so two lanes are
//! not faster than one here.

use anyhow::{Context, ensure};
use blake3::{Hash, Hasher};
use bytes::BytesMut;
use rails::{
    multirail::{
        MultiRailListener, MultiRailStream, RailRequest, Rails, Secret, StreamOptions, StreamStats, plan_rails,
    },
    topo::Topology,
};
use std::{
    io::Cursor,
    net::SocketAddr,
    time::{Duration, Instant},
};
use tokio::io::{AsyncRead, AsyncReadExt};

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let striped = match std::env::args_os().nth(1) {
        Some(path) => {
            let file = tokio::fs::File::open(&path).await;
            run(file.with_context(|| format!("cannot open {}", path.display()))?).await?
        }
        None => run(Cursor::new(made_up(64 << 20))).await?,
    };
    let bytes = striped.stats.bytes_read;
    let goodput = bytes as f64 * 8.0 / 1e9 / striped.elapsed.as_secs_f64();
    println!("{bytes} bytes arrived, {goodput:.2} Gbit/s, BLAKE3 {}", striped.digest);
    // An idle lane may send again the bytes that another holds up, so the lanes together can carry more
    // bytes than the file has.
    let carried: u64 = striped.stats.lanes.iter().map(|lane| lane.bytes_received).sum();
    println!("the lanes carried {carried} bytes, {} of them twice", striped.stats.bytes_duplicated);
    for lane in &striped.stats.lanes {
        let share = lane.bytes_received as f64 * 100.0 / carried.max(1) as f64;
        let (bytes, from, to) = (lane.bytes_received, lane.remote, lane.local);
        println!("lane {}: {share:.0} % ({bytes} bytes) from {from} to {to}", lane.lane);
    }
    Ok(())
}

/// The bytes that arrived.
pub(crate) struct Striped {
    /// The file's digest, the same at both ends.
    pub(crate) digest: Hash,
    /// The receiver's counters.
    pub(crate) stats: StreamStats,
    /// The time from the open stream to the closed one.
    pub(crate) elapsed: Duration,
}

/// Sends `source` to its end over two loopback rails, and fails if other bytes arrive.
pub(crate) async fn run(source: impl AsyncRead + Unpin) -> anyhow::Result<Striped> {
    let topology = Topology::detect()?;
    let rails = Rails::build(&plan_rails(&topology, &RailRequest::loopback(2))?)?;

    // Two programs would get the secret at their start.
    let mut secret = [0; 32];
    getrandom::fill(&mut secret)?;
    let options = StreamOptions::new(Secret::pre_shared(&secret)?);

    let addresses = rails.iter().map(|rail| Some(SocketAddr::new(rail.planned().address?, 0)));
    let addresses: Vec<SocketAddr> = addresses.collect::<Option<_>>().context("a rail has no address")?;
    let listener = MultiRailListener::bind(&rails, &addresses, &options).await?;
    let sender = MultiRailStream::connect(&rails, listener.local_addrs(), &options).await?;
    let receiver = listener.accept().await?;

    let start = Instant::now();
    let (sent, (digest, stats)) = tokio::try_join!(send(sender, source), receive(receiver))?;
    ensure!(sent == digest, "the bytes sent have the digest {sent}, those that arrived {digest}");
    Ok(Striped { digest, stats, elapsed: start.elapsed() })
}

async fn send(mut stream: MultiRailStream, mut source: impl AsyncRead + Unpin) -> anyhow::Result<Hash> {
    let mut hasher = Hasher::new();
    let mut buffer = BytesMut::new();
    loop {
        buffer.reserve(BLOCK);
        if source.read_buf(&mut buffer).await? == 0 {
            stream.close().await?;
            return Ok(hasher.finalize());
        }
        hasher.update(&buffer);
        stream.write_bytes(buffer.split().freeze()).await?;
    }
}

async fn receive(mut stream: MultiRailStream) -> anyhow::Result<(Hash, StreamStats)> {
    let mut hasher = Hasher::new();
    while let Some(bytes) = stream.read_bytes().await? {
        hasher.update(&bytes);
    }
    Ok((hasher.finalize(), stream.close().await?))
}

/// Bytes without a repeated pattern, so that the digest notices an exchange of two chunks.
pub(crate) fn made_up(length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    Hasher::new().finalize_xof().fill(&mut bytes);
    bytes
}

/// The bytes of one read of the source: a few chunks of a lane.
const BLOCK: usize = 1 << 20;
