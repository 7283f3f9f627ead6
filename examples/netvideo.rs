//! Frames of 4K video over a pipeline of rails: the application Netvideo of the RTK paper.
//!
//! Run: `cargo run --release --example netvideo`, or with `-- FILE`, raw RGBA frames of 3840 x
//! 2160, which a rail beside the file's disks reads. `--cuda` has a GPU compute. `--display PATH`
//! writes the frames to a file or a pipe too, so that bash has a window of them:
//! `--display >(ffplay -f rawvideo -pixel_format bgra -video_size 3840x2160 -)`.
//!
//! Expected: the time in which each stage was busy, starved of items, and blocked by a later stage;
//! the frames that were shown, each with the checksum that the source took, and their latency.
//!
//! The stages are a source, a compute stage (RGBA to BGRA, in place), a sender, and at the other
//! end of the stream a receiver and a display. A frame's buffer goes from stage to stage and into
//! the stream without a copy, and comes back to the source when the peer has all of it.

use anyhow::Result;
use bytes::Bytes;
use clap::Parser;
use rails::{
    cuda::{self, CudaDevice, CudaOptions},
    multirail::{
        MultiRailListener, MultiRailStream, Priority, RailId, Rails, Secret, StreamOptions,
        pipeline::{Buffer, Input, Link, Output, Pipeline, PipelineStats, Side, device, file::FileFrames},
        plan_rails,
    },
    topo::{Storage, Topology},
};
use std::{
    fs::File,
    io::Write,
    path::PathBuf,
    sync::mpsc,
    time::{Duration, Instant},
};

/// Sends frames of 3840 x 2160 from a source to a display, over two rails of loopback
#[derive(Parser)]
pub(crate) struct Video {
    /// Raw RGBA frames: a file or a block device [default: 100 made-up frames]
    pub(crate) file: Option<PathBuf>,
    /// Have a GPU compute
    #[arg(long)]
    pub(crate) cuda: bool,
    /// A file or a pipe that takes the frames as BGRA
    #[arg(long)]
    pub(crate) display: Option<PathBuf>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let ([sender, receiver], mut latency) = run(Video::parse(), 100, 3840 * 2160 * 4).await?;
    latency.sort_unstable();
    let (frames, seconds) = (latency.len(), receiver.elapsed.as_secs_f64());
    print!("{sender}{receiver}{frames} frames shown, {:.1} a second", frames as f64 / seconds);
    println!("; latency: median {:.0?}, longest {:.0?}", latency.get(frames / 2), latency.last());
    Ok(())
}

/// Shows so many frames at most. Returns the figures of both ends, and the latency of each frame.
pub(crate) async fn run(video: Video, frames: u64, frame_bytes: usize) -> Result<([PipelineStats; 2], Vec<Duration>)> {
    if video.cuda {
        println!("CUDA devices: {}", cuda::device_names()?.join(", "));
    }
    let mut wishes = "127.0.0.1,127.0.0.2".to_owned();
    match video.file.as_deref().map(Storage::of) {
        Some(Ok(storage)) => wishes.extend([",", &storage.disks.join("+")]),
        Some(Err(nowhere)) => println!("the source is beside no disk, as {nowhere}"),
        None => {}
    }
    let rails = Rails::build(&plan_rails(&Topology::detect()?, &wishes.parse()?)?)?;
    let [first, last] = [0, 1].map(|rail| rails[RailId(rail)].runtime());
    let reader = rails.get(RailId(2)).map_or(first, |rail| rail.runtime());
    // Two programs would get the secret at their start.
    let mut secret = [0; 32];
    getrandom::fill(&mut secret)?;
    // A message has at most three quarters of the window.
    let options = StreamOptions::new(Secret::pre_shared(&secret)?).window(64 << 20);
    let listener = MultiRailListener::bind(&rails, ["127.0.0.1:0", "127.0.0.2:0"], &options).await?;
    let mut near = MultiRailStream::connect(&rails, listener.local_addrs(), &options).await?.into_messages()?;
    let mut far = listener.accept().await?.into_messages()?;

    let mut file = video.file.map(|path| FileFrames::open(path, frame_bytes)).transpose()?;
    if let Some(file) = &file {
        println!("{} frames, read {}; {} bytes behind them", file.count(), file.reading(), file.rest_bytes());
    }
    let link = Link::new(1).buffers(Side::Consumer, frame_bytes, 6);
    // The time and the checksum of each frame, from the source to the display.
    let (made, making) = mpsc::channel();
    let sender = Pipeline::builder("sender")
        .source("source", reader, async move |mut output: Output<Buffer>| {
            for number in 0..frames {
                let next = match &mut file {
                    Some(file) => file.next(&mut output).await?,
                    None => Some(output.buffer().await?),
                };
                let Some(mut pixels) = next else { break };
                let begun = Instant::now();
                if file.is_none() {
                    pixels.fill(number as u8);
                }
                made.send((begun, sum(&pixels)))?;
                output.send(pixels).await?;
            }
            Ok(())
        })
        .stage("compute", last, link, async move |input, output| match video.cuda {
            true => device::run(CudaDevice::new(&CudaOptions::new(frame_bytes))?, input, output).await,
            false => {
                let host = device::HostDevice::new(|pixels: &mut Buffer| device::swap_red_and_blue(pixels));
                device::run(host, input, output).await
            }
        })
        .sink("send", first, Link::new(1), async move |mut input: Input<Buffer>| {
            while let Some(pixels) = input.recv().await? {
                near.send(Bytes::from_owner(pixels), Priority::LOWEST).await?;
            }
            near.close().await?;
            Ok(())
        });
    let (shown, showing) = mpsc::channel();
    let receiver = Pipeline::builder("receiver")
        .source("receive", first, async move |mut output| {
            while let Some(frame) = far.recv().await? {
                output.send(frame.payload).await?;
            }
            far.close().await?;
            Ok(())
        })
        .sink("display", last, Link::new(1), async move |mut input: Input<Bytes>| {
            let mut display = video.display.map(File::create).transpose()?;
            while let Some(pixels) = input.recv().await? {
                let (made, total): (Instant, u64) = making.recv()?;
                if sum(&pixels) != total {
                    return Err("a frame is not the one that was sent".into());
                }
                display.iter_mut().try_for_each(|display| display.write_all(&pixels))?;
                shown.send(made.elapsed())?;
            }
            Ok(())
        });
    let (sender, receiver) = (sender.start()?, receiver.start()?);
    let (sender, receiver) = tokio::try_join!(sender.join(), receiver.join())?;
    Ok(([sender, receiver], showing.iter().collect()))
}

/// The sum of the bytes of pixels, which the compute stage does not change.
fn sum(pixels: &[u8]) -> u64 {
    pixels.iter().map(|byte| u64::from(*byte)).sum()
}
