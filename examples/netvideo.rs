//! Frames of 4K video over a pipeline of rails: the application Netvideo of the RTK paper.
//!
//! Run: `cargo run --release --example netvideo`, or with `-- FILE`, raw RGBA frames of 3840 x 2160; without a file the
//! frames are made up. Between two machines: `... -- receive 10.0.1.2,10.0.2.2` on one, and then
//! `... -- send 10.0.1.2,10.0.2.2` on the other, each time with the receiver's addresses. `--device cuda` before all of
//! that has a GPU compute; without one it fails, and says so.
//!
//! Expected: the time in which each stage was busy, starved of items, and blocked by a later stage; the frames that
//! were shown, frames a second, and percentiles of the latency from the source to the display. The display is a
//! checksum of each frame, which is compared with that of the source. Between two machines, the latency is as good as
//! their clocks agree, and both ends take the secret from `RAILS_SECRET`.
//!
//! The stages are a source, a compute stage (RGBA to BGRA, in place), a striped stream, and a display. A frame's buffer
//! goes from stage to stage and into the stream without a copy, and comes back to the source when the peer has all of
//! it.

use anyhow::{Context, bail};
use bytes::Bytes;
use rails::{
    cuda::{self, CudaDevice, CudaOptions},
    multirail::{
        MultiRailListener, MultiRailStream, RailId, RailRequest, Rails, Secret, StreamOptions,
        pipeline::{Buffer, Input, Link, Output, Pipeline, PipelineStats, Side, StageStats, device},
        plan_rails,
        runtime::RailRuntime,
    },
    topo::Topology,
};
use std::{
    fmt,
    fs::File,
    io::{self, Read},
    net::SocketAddr,
    path::PathBuf,
    sync::mpsc,
    time::{Duration, SystemTime},
};
use tokio::io::AsyncWriteExt;

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (device, arguments) = match &arguments[..] {
        ["--device", "host", rest @ ..] => (Device::Host, rest),
        ["--device", "cuda", rest @ ..] => {
            // Before anything else, so that nobody waits for a stream that would end at once.
            println!("CUDA devices: {}", cuda::device_names()?.join(", "));
            (Device::Cuda, rest)
        }
        ["--device", ..] => bail!("--device takes `host` or `cuda`"),
        rest => (Device::Host, rest),
    };
    let video = |file: Option<PathBuf>| Video { frame_bytes: FRAME_BYTES, frames: 100, file, device };
    match arguments {
        ["receive", addresses] => {
            let rails = Rails::build(&plan_rails(&Topology::detect()?, &addresses.parse()?)?)?;
            let addresses: Vec<String> = addresses.split(',').map(|address| format!("{address}:{PORT}")).collect();
            let listener = MultiRailListener::bind(&rails, addresses, &options()?).await?;
            print!("{}", receive(&rails, listener.accept().await?, FRAME_BYTES).await?);
        }
        ["send", addresses] => {
            let wish: Vec<String> = addresses.split(',').map(|address| format!("peer:{address}")).collect();
            let rails = Rails::build(&plan_rails(&Topology::detect()?, &wish.join(",").parse()?)?)?;
            let addresses: Vec<String> = addresses.split(',').map(|address| format!("{address}:{PORT}")).collect();
            let stream = MultiRailStream::connect(&rails, addresses, &options()?).await?;
            print!("{}", shown(&send(&rails, stream, video(None)).await?));
        }
        _ => {
            let (sender, received) = run(video(arguments.first().map(PathBuf::from))).await?;
            print!("{}{received}", shown(&sender));
        }
    }
    Ok(())
}

/// The frames to send.
pub(crate) struct Video {
    pub(crate) frame_bytes: usize,
    /// At most so many.
    pub(crate) frames: u64,
    /// Where they are read from; made up without one.
    pub(crate) file: Option<PathBuf>,
    pub(crate) device: Device,
}

/// The device of the compute stage.
#[derive(Clone, Copy)]
pub(crate) enum Device {
    Host,
    Cuda,
}

/// The frames that arrived.
pub(crate) struct Received {
    pub(crate) stats: PipelineStats,
    /// The latency of each frame, in order.
    pub(crate) latency: Vec<Duration>,
}

/// Sends and receives in this process, over two loopback rails.
pub(crate) async fn run(video: Video) -> anyhow::Result<(PipelineStats, Received)> {
    let rails = Rails::build(&plan_rails(&Topology::detect()?, &RailRequest::loopback(2))?)?;
    let addresses = rails.iter().map(|rail| Some(SocketAddr::new(rail.planned().address?, 0)));
    let addresses: Vec<SocketAddr> = addresses.collect::<Option<_>>().context("a rail has no address")?;
    let options = options()?;
    let listener = MultiRailListener::bind(&rails, &addresses, &options).await?;
    let near = MultiRailStream::connect(&rails, listener.local_addrs(), &options).await?;
    let far = listener.accept().await?;
    let frame_bytes = video.frame_bytes;
    tokio::try_join!(send(&rails, near, video), receive(&rails, far, frame_bytes))
}

/// A frame at the sender.
struct Frame {
    number: u64,
    made: SystemTime,
    /// The sum of all pixels' bytes, which the compute stage does not change.
    sum: u64,
    pixels: Buffer,
}

impl AsMut<[u8]> for Frame {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.pixels
    }
}

async fn send(rails: &Rails, mut stream: MultiRailStream, video: Video) -> anyhow::Result<PipelineStats> {
    // The source is on the rail that the frames leave by, and its buffers are beside the stage that computes.
    let [first, last] = first_and_last(rails);
    let buffers = match video.device {
        Device::Host => 4,
        // As many more as the device has under way beside the first.
        Device::Cuda => 6,
    };
    let frames = Link::new(1).buffers(Side::Consumer, video.frame_bytes, buffers);
    let pipeline = Pipeline::builder("sender")
        .source("source", first, async move |mut output: Output<Frame>| {
            let mut file = video.file.map(File::open).transpose()?;
            for number in 0..video.frames {
                let mut pixels = output.buffer().await?;
                let made = SystemTime::now();
                if let Some(opened) = file.take() {
                    // A thread that may block reads, straight into the buffer.
                    let read = tokio::task::spawn_blocking(move || fill(opened, pixels)).await??;
                    let Some((opened, filled)) = read else { break };
                    (file, pixels) = (Some(opened), filled);
                } else {
                    pixels.fill(number as u8);
                }
                let sum = sum(&pixels);
                output.send(Frame { number, made, sum, pixels }).await?;
            }
            Ok(())
        })
        .stage("compute", last, frames, async move |input, output| match video.device {
            Device::Host => {
                let device = device::HostDevice::new(|frame: &mut Frame| device::swap_red_and_blue(frame.as_mut()));
                device::run(device, input, output).await
            }
            // On this thread, so that the device's memory at the host is on its node.
            Device::Cuda => {
                let device = CudaDevice::new(&CudaOptions::new(video.frame_bytes))?;
                device::run(device, input, output).await
            }
        })
        .sink("send", first, Link::new(1), async move |mut input: Input<Frame>| {
            while let Some(frame) = input.recv().await? {
                let made = frame.made.duration_since(SystemTime::UNIX_EPOCH)?.as_micros() as u64;
                for field in [frame.number, made, frame.sum] {
                    stream.write_u64(field).await?;
                }
                // The stream has the buffer until the peer has all of it, and drops it then.
                stream.write_bytes(Bytes::from_owner(frame.pixels)).await?;
            }
            stream.close().await?;
            Ok(())
        });
    Ok(pipeline.start()?.join().await?)
}

/// A part of a frame, as it came off the stream.
enum Part {
    Pixels(Bytes),
    /// After the last pixels.
    End {
        number: u64,
        made_us: u64,
        sum: u64,
    },
}

async fn receive(rails: &Rails, stream: MultiRailStream, frame_bytes: usize) -> anyhow::Result<Received> {
    let [first, last] = first_and_last(rails);
    let (shown, showing) = mpsc::channel();
    let pipeline = Pipeline::builder("receiver")
        .source("receive", first, async move |mut output: Output<Part>| {
            let mut arrivals = Arrivals { stream, rest: Bytes::new() };
            while let Some([number, made_us, sum]) = arrivals.head().await? {
                let mut missing = frame_bytes;
                while missing > 0 {
                    let pixels = arrivals.next(missing).await?.context("the stream ended within a frame")?;
                    missing -= pixels.len();
                    output.send(Part::Pixels(pixels)).await?;
                }
                output.send(Part::End { number, made_us, sum }).await?;
            }
            arrivals.stream.close().await?;
            Ok(())
        })
        .sink("display", last, Link::new(64), async move |mut input: Input<Part>| {
            let (mut total, mut expected) = (0, 0);
            while let Some(part) = input.recv().await? {
                match part {
                    Part::Pixels(pixels) => total += sum(&pixels),
                    Part::End { number, made_us, sum } => {
                        if (number, sum) != (expected, total) {
                            return Err(format!("frame {number} is not the one that was sent").into());
                        }
                        (total, expected) = (0, expected + 1);
                        let made = SystemTime::UNIX_EPOCH + Duration::from_micros(made_us);
                        shown.send(made.elapsed().unwrap_or_default())?;
                    }
                }
            }
            Ok(())
        });
    let stats = pipeline.start()?.join().await?;
    Ok(Received { stats, latency: showing.iter().collect() })
}

/// The bytes of a stream as they come, without a copy.
struct Arrivals {
    stream: MultiRailStream,
    /// Bytes that have come and were not taken.
    rest: Bytes,
}

impl Arrivals {
    /// The three numbers before the pixels; `None` at the end of the stream.
    async fn head(&mut self) -> anyhow::Result<Option<[u64; 3]>> {
        let mut head = Vec::with_capacity(HEAD_BYTES);
        while head.len() < HEAD_BYTES {
            match self.next(HEAD_BYTES - head.len()).await? {
                Some(bytes) => head.extend_from_slice(&bytes),
                None if head.is_empty() => return Ok(None),
                None => bail!("the stream ended within a head"),
            }
        }
        Ok(Some(std::array::from_fn(|field| u64::from_be_bytes(head.as_chunks::<8>().0[field]))))
    }

    /// The next bytes, at most so many; `None` at the end of the stream.
    async fn next(&mut self, at_most: usize) -> anyhow::Result<Option<Bytes>> {
        while self.rest.is_empty() {
            let Some(bytes) = self.stream.read_bytes().await? else { return Ok(None) };
            self.rest = bytes;
        }
        Ok(Some(self.rest.split_to(at_most.min(self.rest.len()))))
    }
}

/// Fills a buffer from the file; `None` if it has no whole frame any more.
fn fill(mut file: File, mut pixels: Buffer) -> io::Result<Option<(File, Buffer)>> {
    match file.read_exact(&mut pixels) {
        Ok(()) => Ok(Some((file, pixels))),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

/// The runtimes of the first and of the last rail: the stages beside them, and the lanes.
fn first_and_last(rails: &Rails) -> [&RailRuntime; 2] {
    [0, rails.len() - 1].map(|rail| rails[RailId(rail)].runtime())
}

/// The sum of the bytes of pixels.
fn sum(pixels: &[u8]) -> u64 {
    pixels.chunks(1 << 20).map(|block| u64::from(block.iter().map(|byte| u32::from(*byte)).sum::<u32>())).sum()
}

/// Both programs get the secret from the environment; a single one makes it up.
fn options() -> anyhow::Result<StreamOptions> {
    let mut secret = [0; 32];
    getrandom::fill(&mut secret)?;
    let secret = std::env::var("RAILS_SECRET").map_or(secret.to_vec(), String::into_bytes);
    Ok(StreamOptions::new(Secret::pre_shared(&secret)?))
}

/// The stages of a pipeline, a line for each.
fn shown(stats: &PipelineStats) -> String {
    let line = |stage: &StageStats| {
        let StageStats { stage, busy, starved, blocked, dropped, .. } = stage;
        format!("{stage:>8}: busy {busy:.1?}, starved {starved:.1?}, blocked {blocked:.1?}, {dropped} dropped\n")
    };
    stats.stages.iter().map(line).collect()
}

impl fmt::Display for Received {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut latency = self.latency.clone();
        latency.sort_unstable();
        let frames = latency.len();
        let per_second = frames as f64 / self.stats.elapsed.as_secs_f64();
        write!(f, "{}{frames} frames shown, {per_second:.1} a second", shown(&self.stats))?;
        if frames > 0 {
            let [p50, p95, p99] = [50, 95, 99].map(|percent| latency[(frames * percent).div_ceil(100) - 1]);
            write!(f, "; latency p50 {p50:.0?}, p95 {p95:.0?}, p99 {p99:.0?}")?;
        }
        writeln!(f)
    }
}

/// A frame of 4K in RGBA.
const FRAME_BYTES: usize = 3840 * 2160 * 4;
/// The bytes of the numbers before the pixels of a frame.
const HEAD_BYTES: usize = 24;
const PORT: u16 = 7575;
