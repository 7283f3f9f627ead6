//! Frames of 4K video over a pipeline of rails: the application Netvideo of the RTK paper.
//!
//! Run: `cargo run --release --example netvideo`, or with `-- FILE`, raw RGBA frames of 3840 x
//! 2160; without a file the frames are made up. Between two machines: `... -- receive
//! 10.0.1.2,10.0.2.2` on one, and then `... -- send 10.0.1.2,10.0.2.2 [FILE]` on the other, each
//! time with the receiver's addresses. `--help` tells the choices.
//!
//! `FILE` may be a block device (`/dev/nvme0n1`). A rail of its own, beside the disks that hold the
//! file, reads it. The first lines say which disks these are, or that there are none, and whether
//! it is read past the page cache (O_DIRECT). `--display window`, at the receiving end, shows the
//! frames in a window of the X server that `DISPLAY` names; `auto` does where there is one.
//! `--device cuda` has a GPU compute; without one it fails, and says so.
//!
//! Expected: the time in which each stage was busy, starved of items, and blocked by a later stage;
//! the frames that were shown, frames a second, and percentiles of the latency from the source to
//! the display. The display is a checksum of each frame, which is compared with that of the source,
//! and after it the window. Between two machines, the latency is as good as their clocks agree, and
//! both ends take the secret from `RAILS_SECRET`.
//!
//! The stages are a source, a compute stage (RGBA to BGRA, in place), a striped stream, and a
//! display. A frame's buffer goes from stage to stage and into the stream without a copy, and comes
//! back to the source when the peer has all of it.

use anyhow::{Context, bail};
use bytes::Bytes;
use clap::Parser;
use minifb::{ScaleMode, Window, WindowOptions};
use rails::{
    bind::memory::{BufferOptions, Pages},
    cuda::{self, CudaDevice, CudaOptions},
    multirail::{
        MultiRailListener, MultiRailStream, Rail, Rails, Secret, StreamOptions,
        pipeline::{Buffer, Input, Link, Output, Pipeline, PipelineStats, Side, StageStats, device, file::FileFrames},
        plan_rails,
        runtime::RailRuntime,
    },
    topo::{Storage, StorageError, Topology},
};
use std::{
    ffi::OsString,
    fmt,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::mpsc,
    time::{Duration, SystemTime},
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Sends frames of 3840 x 2160 from a source to a display, in this program or between two
#[derive(clap::Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Args {
    /// Raw RGBA frames: a file or a block device [default: made-up frames]
    file: Option<PathBuf>,
    #[command(subcommand)]
    end: Option<End>,
    /// The device that computes
    #[arg(long, value_enum, default_value_t = Device::Host, global = true)]
    device: Device,
    /// Where the frames are shown, besides the checksum
    #[arg(long, value_enum, default_value_t = Screens::Checksum, global = true)]
    display: Screens,
}

/// One end of two.
#[derive(clap::Subcommand)]
enum End {
    /// Take the frames
    Receive {
        /// This machine's addresses, one for each rail, separated by commas
        addresses: String,
    },
    /// Send the frames
    Send {
        /// The receiver's addresses, one for each rail, separated by commas
        addresses: String,
        /// Raw RGBA frames: a file or a block device [default: made-up frames]
        file: Option<PathBuf>,
    },
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let Args { file, end, device, display } = Args::parse();
    if device == Device::Cuda {
        // Before anything else, so that no end waits for a stream that would end at once.
        println!("CUDA devices: {}", cuda::device_names()?.join(", "));
    }
    let display = Display::of(display, std::env::var_os("DISPLAY"))?;
    let video = |file| Video { frame_bytes: FRAME_BYTES, frames: 100, file, device };
    let ports = |addresses: &str| addresses.split(',').map(|address| format!("{address}:{PORT}")).collect::<Vec<_>>();
    match end {
        Some(End::Receive { addresses }) => {
            let rails = planned(&addresses, None)?;
            let listener = MultiRailListener::bind(&rails, ports(&addresses), &options()?).await?;
            print!("{}", receive(&rails, listener.accept().await?, FRAME_BYTES, display).await?);
        }
        Some(End::Send { addresses, file }) => {
            let lanes: Vec<String> = addresses.split(',').map(|address| format!("peer:{address}")).collect();
            let rails = planned(&lanes.join(","), file.as_deref())?;
            let stream = MultiRailStream::connect(&rails, ports(&addresses), &options()?).await?;
            print!("{}", shown(&send(&rails, stream, video(file)).await?));
        }
        None => {
            let (sender, received) = run(video(file), display).await?;
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
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Device {
    /// The CPU of the stage
    Host,
    /// A GPU
    Cuda,
}

/// The wish for a window.
#[derive(Clone, Copy, clap::ValueEnum)]
pub(crate) enum Screens {
    /// Nowhere
    Checksum,
    /// In a window of the X server
    Window,
    /// In a window, if there is an X server
    Auto,
}

/// The end of the frames, after the checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Display {
    Checksum,
    /// A window of frames of that width and height.
    Window {
        width: usize,
        height: usize,
    },
}

impl Display {
    /// `x_server` is the variable `DISPLAY`.
    pub(crate) fn of(wish: Screens, x_server: Option<OsString>) -> anyhow::Result<Self> {
        let has_server = x_server.is_some_and(|name| !name.is_empty());
        match (wish, has_server) {
            (Screens::Checksum, _) => Ok(Self::Checksum),
            (Screens::Window | Screens::Auto, true) => Ok(Self::Window { width: WIDTH, height: HEIGHT }),
            (Screens::Auto, false) => {
                println!("display: a checksum alone, as DISPLAY names no X server for a window");
                Ok(Self::Checksum)
            }
            (Screens::Window, false) => {
                bail!("no window can be opened: DISPLAY names no X server (a Wayland session has one in Xwayland)")
            }
        }
    }
}

/// The frames that arrived.
pub(crate) struct Received {
    pub(crate) stats: PipelineStats,
    /// The latency of each frame, in order.
    pub(crate) latency: Vec<Duration>,
}

/// Sends and receives in this process, over two loopback rails.
pub(crate) async fn run(video: Video, display: Display) -> anyhow::Result<(PipelineStats, Received)> {
    let rails = planned("127.0.0.1,127.0.0.2", video.file.as_deref())?;
    let addresses = lanes(&rails).map(|rail| Some(SocketAddr::new(rail.planned().address?, 0)));
    let addresses: Vec<SocketAddr> = addresses.collect::<Option<_>>().context("a rail has no address")?;
    let options = options()?;
    let listener = MultiRailListener::bind(&rails, &addresses, &options).await?;
    let near = MultiRailStream::connect(&rails, listener.local_addrs(), &options).await?;
    let far = listener.accept().await?;
    let frame_bytes = video.frame_bytes;
    tokio::try_join!(send(&rails, near, video), receive(&rails, far, frame_bytes, display))
}

/// Rails with these lanes and, where a file is read, one without a lane beside its disks.
fn planned(lanes: &str, file: Option<&Path>) -> anyhow::Result<Rails> {
    let mut wishes = lanes.to_owned();
    match file.map(Storage::of) {
        None => {}
        Some(Ok(storage)) => {
            println!("source: a rail beside {storage}");
            wishes = format!("{wishes},{}", storage.disks.join("+"));
        }
        Some(Err(error @ StorageError::Call { .. })) => return Err(error.into()),
        Some(Err(nowhere)) => println!("source: beside no disk, as {nowhere}"),
    }
    Ok(Rails::build(&plan_rails(&Topology::detect()?, &wishes.parse()?)?)?)
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
    // The source is on the rail of the disks, or else on the one that the frames leave by. Its buffers
    // are beside the stage that computes.
    let [first, last] = first_and_last(rails);
    let buffers = match video.device {
        Device::Host => 4,
        // As many more as the device has under way beside the first.
        Device::Cuda => 6,
    };
    let source = rails.iter().find(|rail| !has_lane(rail)).map_or(first, Rail::runtime);
    let frames = Link::new(1).buffers(Side::Consumer, video.frame_bytes, buffers);
    // In huge pages, a frame is fewer requests to a disk.
    let frames = frames.buffer_options(BufferOptions::new().pages(Pages::TransparentHuge));
    let mut file = video.file.map(|path| FileFrames::open(path, video.frame_bytes)).transpose()?;
    if let Some(file) = &file {
        println!("source: {} frames, read {}", file.count(), file.reading());
        if file.rest_bytes() > 0 {
            println!("source: the last {} bytes are no whole frame, and are not sent", file.rest_bytes());
        }
    }
    let pipeline = Pipeline::builder("sender")
        .source("source", source, async move |mut output: Output<Frame>| {
            for number in 0..video.frames {
                let mut pixels = match &mut file {
                    Some(file) => match file.next(&mut output).await? {
                        Some(pixels) => pixels,
                        None => break,
                    },
                    None => output.buffer().await?,
                };
                let made = SystemTime::now();
                if file.is_none() {
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

async fn receive(
    rails: &Rails,
    mut stream: MultiRailStream,
    frame_bytes: usize,
    display: Display,
) -> anyhow::Result<Received> {
    let [first, last] = first_and_last(rails);
    let (shown, showing) = mpsc::channel();
    let pipeline = Pipeline::builder("receiver")
        .source("receive", first, async move |mut output: Output<Part>| {
            while let Some([number, made_us, sum]) = head(&mut stream).await? {
                let mut missing = frame_bytes;
                while missing > 0 {
                    let pixels = stream.read_bytes_up_to(missing).await?.context("the stream ended within a frame")?;
                    missing -= pixels.len();
                    output.send(Part::Pixels(pixels)).await?;
                }
                output.send(Part::End { number, made_us, sum }).await?;
            }
            stream.close().await?;
            Ok(())
        })
        .sink("display", last, Link::new(64), async move |mut input: Input<Part>| {
            let (mut total, mut expected) = (0, 0);
            let mut screen = match display {
                Display::Checksum => None,
                Display::Window { width, height } => Some(Screen::open(width, height)?),
            };
            while let Some(part) = input.recv().await? {
                match part {
                    Part::Pixels(pixels) => {
                        total += sum(&pixels);
                        if let Some(screen) = &mut screen {
                            screen.frame.extend_from_slice(&pixels);
                        }
                    }
                    Part::End { number, made_us, sum } => {
                        if (number, sum) != (expected, total) {
                            return Err(format!("frame {number} is not the one that was sent").into());
                        }
                        (total, expected) = (0, expected + 1);
                        if let Some(screen) = &mut screen {
                            screen.show()?;
                        }
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

/// The three numbers before the pixels; `None` at the end of the stream.
async fn head(stream: &mut MultiRailStream) -> anyhow::Result<Option<[u64; 3]>> {
    let mut head = [0; HEAD_BYTES];
    let first = stream.read(&mut head).await?;
    if first == 0 {
        return Ok(None);
    }
    stream.read_exact(&mut head[first..]).await.context("the stream ended within a head")?;
    Ok(Some(std::array::from_fn(|field| u64::from_be_bytes(head.as_chunks::<8>().0[field]))))
}

/// A window, and the frame that it shows next.
struct Screen {
    window: Window,
    size: [usize; 2],
    /// The pixels of the frame, as far as they have come.
    frame: Vec<u8>,
    /// These pixels as the window takes them.
    pixels: Vec<u32>,
}

impl Screen {
    fn open(width: usize, height: usize) -> anyhow::Result<Self> {
        let options = WindowOptions { resize: true, scale_mode: ScaleMode::AspectRatioStretch, ..Default::default() };
        // A frame is larger than most screens.
        let part = width.div_ceil(WINDOW_WIDTH).max(1);
        let mut window = Window::new("netvideo", width / part, height / part, options)
            .context("the X server that DISPLAY names opens no window")?;
        // The frames set the pace.
        window.set_target_fps(0);
        Ok(Self { window, size: [width, height], frame: Vec::new(), pixels: Vec::new() })
    }

    /// Shows the frame. A window that was closed stays closed, and the frames go on.
    fn show(&mut self) -> anyhow::Result<()> {
        if self.window.is_open() {
            // The compute stage made BGRA of it, which is what a display takes: 0xAARRGGBB in little endian.
            self.pixels.clear();
            self.pixels.extend(self.frame.as_chunks::<4>().0.iter().map(|pixel| u32::from_le_bytes(*pixel)));
            let [width, height] = self.size;
            self.window.update_with_buffer(&self.pixels, width, height).context("the window shows no frame")?;
        }
        self.frame.clear();
        Ok(())
    }
}

/// The rails with a lane, of which there is one at least.
fn lanes(rails: &Rails) -> impl Iterator<Item = &Rail> {
    rails.iter().filter(|rail| has_lane(rail))
}

fn has_lane(rail: &Rail) -> bool {
    rail.planned().end.is_some()
}

/// The runtimes of the first and of the last rail with a lane: the stages beside them, and the
/// lanes.
fn first_and_last(rails: &Rails) -> [&RailRuntime; 2] {
    [lanes(rails).next(), lanes(rails).last()].map(|rail| rail.expect("a lane was asked for").runtime())
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

const WIDTH: usize = 3840;
const HEIGHT: usize = 2160;
/// A frame of 4K in RGBA.
const FRAME_BYTES: usize = WIDTH * HEIGHT * 4;
/// The most pixels of a window's width.
const WINDOW_WIDTH: usize = 1280;
/// The bytes of the numbers before the pixels of a frame.
const HEAD_BYTES: usize = 24;
const PORT: u16 = 7575;
