//! The two ends: their rails, and their pipelines.

use super::{
    Device, NetvideoContest, NetvideoSample, Placing,
    frames::{Frame, Header, Part, sum},
};
use crate::lab::compare::{ContestError, Testbed};
use bytes::Bytes;
use rails_bind::memory::{BufferOptions, Pages};
use rails_lab::{LinkLab, Side};
use rails_multirail::{
    MultiRailListener, MultiRailStream, Rail, RailId, RailRequest, Rails, Security, StreamOptions,
    pipeline::{
        Input, Link, Output, Pipeline, Side as Beside, device,
        file::{FileError, FileFrames},
    },
    plan_rails,
    planner::{BindingKind, Part as RailPart, RailWish, Which},
    runtime::RailRuntime,
};
use rails_topo::{CpuSet, InterfaceAddress, Nic, NicKind, Topology};
use std::{
    error::Error,
    io,
    net::SocketAddr,
    sync::mpsc,
    time::{Duration, Instant},
};
use tokio::{
    io::AsyncWriteExt,
    time::{MissedTickBehavior, interval},
};

/// Runs both ends once.
pub(super) fn run(
    testbed: &Testbed,
    topology: &Topology,
    contest: &NetvideoContest,
    placing: Placing,
    round: usize,
) -> Result<NetvideoSample, ContestError> {
    let beside = contest.film.as_ref().and_then(|film| film.cpus_beside(topology));
    let near = rails(testbed, topology, Side::A, placing, beside.as_ref())?;
    let far = rails(testbed, topology, Side::B, placing, None)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let zero = Instant::now();
    let ran = runtime.block_on(async {
        let (near_stream, far_stream) = connect(&near, &far).await?;
        let (shown, showing) = mpsc::channel();
        let (closed, closing) = mpsc::channel();
        let receiver = receiver(&far, contest, far_stream, zero, shown).start()?;
        let sender = sender(&near, contest, near_stream, zero, closed)?.start()?;
        let (sender, receiver) = tokio::try_join!(sender.join(), receiver.join())?;
        let shown: Vec<Shown> = showing.iter().collect();
        let congestion = closing.recv()?;
        Ok::<_, Box<dyn Error + Send + Sync>>((sender, receiver, shown, congestion))
    });
    let (sender, receiver, shown, congestion_control) = ran.map_err(failed)?;
    let (sent, arrived) = (sender.stages[0].items_out, shown.len());
    if sent != arrived as u64 {
        return Err(failed(format!("{sent} frames were sent, and {arrived} shown")));
    }
    let cpus_of = |rail: &Rail| rail.runtime().cpus_now().map(|cpus| cpus.to_string()).map_err(failed);
    let cpus = |rails: &Rails| rails.iter().map(cpus_of).collect::<Result<_, _>>();
    Ok(NetvideoSample {
        round,
        placing,
        sender_cpus: cpus(&near)?,
        receiver_cpus: cpus(&far)?,
        reader_cpus: reader(&near).map(cpus_of).transpose()?,
        frames: shown.len(),
        dropped: sender.stages[0].dropped,
        fps: fps(&shown),
        latency_us: shown.iter().map(|frame| frame.latency.as_micros() as u64).collect(),
        congestion_control,
        sender,
        receiver,
    })
}

/// A frame that was shown.
struct Shown {
    at: Instant,
    latency: Duration,
}

/// Frames a second from the first to the last; 0 where there are not two.
fn fps(shown: &[Shown]) -> f64 {
    match shown {
        [first, .., last] if last.at > first.at => (shown.len() - 1) as f64 / (last.at - first.at).as_secs_f64(),
        _ => 0.0,
    }
}

/// A rail on each link, with its threads in the end's namespace, and one without a lane on those of
/// the CPUs `reader` that the end has.
fn rails(
    testbed: &Testbed,
    machine: &Topology,
    side: Side,
    placing: Placing,
    reader: Option<&CpuSet>,
) -> Result<Rails, ContestError> {
    let lab: &LinkLab = &testbed.lab;
    let nic = |link| Nic {
        kind: NicKind::Virtual,
        up: Some(true),
        addresses: vec![InterfaceAddress { ip: lab.address(side, link), prefix_len: 24 }],
        ..Nic::named(lab.interface(side, link))
    };
    // The machine's model lacks the interfaces of the namespace, so a described machine with the
    // same CPUs has them.
    let cpus = machine.online_cpus().last().map_or(1, |cpu| cpu.0 + 1);
    let nics = (0..lab.link_count()).map(nic).collect();
    let described = Topology::synthetic(&format!("core:{cpus} pu:1"), nics).map_err(failed)?;
    let allowed = match placing {
        Placing::Rails => testbed.cpus(side),
        Placing::Scheduler => machine.allowed_cpus(),
    };
    let bound = match placing {
        Placing::Rails => "",
        Placing::Scheduler => "@default",
    };
    let names: Vec<String> =
        (0..lab.link_count()).map(|link| format!("{}{bound}", lab.interface(side, link))).collect();
    let mut request: RailRequest = names.join(",").parse().map_err(failed)?;
    let reader = reader.map(|cpus| cpus.intersection(allowed)).filter(|cpus| !cpus.is_empty());
    if let (Which::Listed(wishes), Some(cpus)) = (&mut request.which, reader) {
        let binding = match placing {
            Placing::Rails => BindingKind::Explicit { cpus: Some(cpus), node: None },
            Placing::Scheduler => BindingKind::Default,
        };
        wishes.push(RailWish { parts: vec![RailPart::Cores(1)], binding: binding.into() });
    }
    // A core for computing beside that of the lane, if there are enough.
    request.cores = if allowed.len() >= 2 * lab.link_count() { 2 } else { 1 };
    let plan = plan_rails(&described.with_allowed(allowed.clone()), &request).map_err(failed)?;
    let _inside = lab.enter(side)?;
    Rails::build(&plan).map_err(failed)
}

async fn connect(
    near: &Rails,
    far: &Rails,
) -> Result<(MultiRailStream, MultiRailStream), Box<dyn Error + Send + Sync>> {
    let options = StreamOptions::new(Security::insecure());
    let addresses = far.iter().filter_map(|rail| Some(SocketAddr::new(rail.planned().address?, 0)));
    let listener = MultiRailListener::bind(far, &addresses.collect::<Vec<_>>(), &options).await?;
    let connected = MultiRailStream::connect(near, listener.local_addrs(), &options).await?;
    Ok((connected, listener.accept().await?))
}

/// Source, compute stage and network.
fn sender<'r>(
    rails: &'r Rails,
    contest: &NetvideoContest,
    mut stream: MultiRailStream,
    zero: Instant,
    closed: mpsc::Sender<Vec<String>>,
) -> Result<Pipeline<'r>, FileError> {
    let film = contest.film.as_ref().map(|film| FileFrames::open(&film.path, contest.frame_bytes())).transpose()?;
    let film = film.map(FileFrames::repeated);
    // With huge pages, reading a frame takes fewer disk requests.
    let pages = if film.is_some() { Pages::TransparentHuge } else { Pages::Small };
    let source = reader(rails).unwrap_or(&rails[RailId(0)]);
    let pixels = Link::new(1).buffers(Beside::Consumer, contest.frame_bytes(), contest.buffers);
    let pixels = pixels.buffer_options(BufferOptions::new().pages(pages));
    let (time, fps, device) = (contest.time, contest.fps, contest.device);
    #[cfg(feature = "cuda")]
    let cuda = rails_cuda::CudaOptions::new(contest.frame_bytes());
    let pipeline = Pipeline::builder("sender")
        .source("source", compute(source), async move |output| generate(output, film, zero, time, fps).await)
        .stage("compute", compute(last(rails)), pixels, async move |input, output| match device {
            Device::Host => {
                let device = device::HostDevice::new(|frame: &mut Frame| device::swap_red_and_blue(frame.as_mut()));
                device::run(device, input, output).await
            }
            // The device is made on this thread, so that its host memory is on the thread's node.
            #[cfg(feature = "cuda")]
            Device::Cuda => device::run(rails_cuda::CudaDevice::new(&cuda)?, input, output).await,
        })
        .sink("send", rails[RailId(0)].runtime(), Link::new(1), async move |mut input: Input<Frame>| {
            while let Some(frame) = input.recv().await? {
                stream.write_all(&frame.header.to_bytes()).await?;
                stream.write_bytes(Bytes::from_owner(frame.pixels)).await?;
            }
            let stats = stream.close().await?;
            let transports = stats.lanes.into_iter().filter_map(|lane| lane.transport?.congestion);
            closed.send(transports.collect())?;
            Ok(())
        });
    Ok(pipeline)
}

/// Makes frames for that time, or takes them from a file.
async fn generate(
    mut output: Output<Frame>,
    mut film: Option<FileFrames>,
    zero: Instant,
    time: Duration,
    fps: Option<u32>,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let start = Instant::now();
    let mut ticks = fps.map(|fps| {
        let mut ticks = interval(Duration::from_secs(1) / fps);
        // A camera does not catch up on frames.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        ticks
    });
    // Dropped frames get no number, because the display expects every number.
    let mut number = 0;
    while start.elapsed() < time {
        let mut pixels = match (&mut film, &mut ticks) {
            (Some(film), _) => match film.next(&mut output).await? {
                Some(pixels) => pixels,
                None => break,
            },
            (None, None) => output.buffer().await?,
            (None, Some(ticks)) => {
                ticks.tick().await;
                let Some(pixels) = output.try_buffer()? else {
                    output.count_dropped();
                    continue;
                };
                pixels
            }
        };
        let made_us = zero.elapsed().as_micros() as u64;
        if film.is_none() {
            // A pattern that moves from frame to frame, as cheap as memory is.
            for (line, place) in pixels.chunks_mut(LINE).enumerate() {
                place.fill((line as u64 + number) as u8);
            }
        }
        let header = Header { number, made_us, sum: sum(&pixels) };
        let frame = Frame { pixels, header };
        match &ticks {
            None => {
                output.send(frame).await?;
                number += 1;
            }
            Some(_) => number += u64::from(output.offer(frame)?),
        }
    }
    Ok(())
}

/// Network and display.
fn receiver<'r>(
    rails: &'r Rails,
    contest: &NetvideoContest,
    mut stream: MultiRailStream,
    zero: Instant,
    shown: mpsc::Sender<Shown>,
) -> Pipeline<'r> {
    let frame_bytes = contest.frame_bytes();
    Pipeline::builder("receiver")
        .source("receive", rails[RailId(0)].runtime(), async move |mut output: Output<Part>| {
            while let Some(header) = Header::read(&mut stream).await? {
                let mut missing = frame_bytes;
                while missing > 0 {
                    let pixels = stream.read_bytes_up_to(missing).await?.ok_or("the stream ended within a frame")?;
                    missing -= pixels.len();
                    output.send(Part { header, pixels, is_last: missing == 0 }).await?;
                }
            }
            stream.close().await?;
            Ok(())
        })
        .sink("display", compute(last(rails)), Link::new(PARTS), async move |mut input: Input<Part>| {
            let (mut total, mut expected) = (0, 0);
            while let Some(part) = input.recv().await? {
                total += sum(&part.pixels);
                if !part.is_last {
                    continue;
                }
                let Header { number, made_us, sum } = part.header;
                if (total, number) != (sum, expected) {
                    return Err(format!("frame {number} arrived with other pixels, or in another place").into());
                }
                (total, expected) = (0, number + 1);
                let at = Instant::now();
                shown.send(Shown { at, latency: (at - zero).saturating_sub(Duration::from_micros(made_us)) })?;
            }
            Ok(())
        })
}

/// The runtime for computing: that of a core without lanes if the rail has one.
fn compute(rail: &Rail) -> &RailRuntime {
    rail.task_runtimes().first().unwrap_or(rail.runtime())
}

/// The rail beside the disks that frames are read from, if there is one: it has no lane.
fn reader(rails: &Rails) -> Option<&Rail> {
    rails.iter().find(|rail| rail.planned().end.is_none())
}

/// The last rail with a lane.
fn last(rails: &Rails) -> &Rail {
    rails.iter().filter(|rail| rail.planned().end.is_some()).last().expect("there is a link")
}

fn failed(error: impl Into<Box<dyn Error + Send + Sync>>) -> ContestError {
    ContestError::Transfer { source: io::Error::other(error) }
}

/// The bytes of the source's pattern before it changes.
const LINE: usize = 4096 * 4;
/// Parts of frames between the network and the display: chunks of a stream have up to 1 MiB.
const PARTS: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    /// The buffers outnumber the channel's room, so frames are dropped for want of either.
    #[test]
    fn dropped_frames_have_no_number() {
        let topology = Topology::detect().unwrap();
        let rails = Rails::build(&plan_rails(&topology, &RailRequest::loopback(2)).unwrap()).unwrap();
        let [near, far] = [0, 1].map(|rail| rails[RailId(rail)].runtime());
        let link = Link::new(1).buffers(Beside::Consumer, 64, 4);
        let time = Duration::from_secs(1);
        let pipeline = Pipeline::builder("p")
            .source("source", near, async move |output| generate(output, None, Instant::now(), time, Some(1000)).await)
            .sink("display", far, link, async |mut input: Input<Frame>| {
                let mut expected = 0;
                while let Some(frame) = input.recv().await? {
                    assert_eq!(frame.header.number, expected);
                    expected += 1;
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                Ok(())
            });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let stats = runtime.block_on(async { pipeline.start().unwrap().join().await }).unwrap();
        assert!(stats.stages[0].dropped > 0, "{stats:?}");
    }
}
