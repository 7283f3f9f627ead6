//! Netvideo, the application of the RTK paper (section III.B): frames from a source over a compute
//! stage and a striped stream to a display, with rails where they are planned, and with threads
//! where the scheduler puts them.
//!
//! Both ends are threads of this process, so that they read one clock. `ends` makes the rails and
//! the pipelines of both, `frames` has the format on the stream, `film` the file that frames may
//! come from, `table` shows the result.
//!
//! The ceiling is that of plain TCP flows over the same links in the same round, as in `compare`:
//! between two processes, each on its half of the CPUs. Planned rails have the same halves, the
//! scheduler's default has all CPUs.

mod ends;
mod film;
mod frames;
mod table;

use crate::{
    lab::compare::{Contender, ContestError, Link, Running, Setting, Spread, Terms, Testbed, own, testbed::halves},
    measure::report::Measurement,
};
use clap::ValueEnum;
pub(crate) use film::Film;
use rails_multirail::pipeline::PipelineStats;
use rails_topo::Topology;
use rand::{SeedableRng, seq::SliceRandom};
use serde::Serialize;
use std::{fmt, time::Duration};

/// The placement of the stages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Placing {
    /// On planned rails, each end on its half of the CPUs
    Rails,
    /// Where the scheduler puts them, on all CPUs
    Scheduler,
}

/// The device of the compute stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Device {
    /// The CPU of the stage
    Host,
    /// A GPU, through CUDA's driver: the first that CUDA_VISIBLE_DEVICES leaves
    #[cfg(feature = "cuda")]
    Cuda,
}

/// A contest to be run.
#[derive(Debug, Clone)]
pub(crate) struct NetvideoContest {
    /// The links, by number.
    pub(crate) links: Vec<Link>,
    /// The time that each measurement makes frames.
    pub(crate) time: Duration,
    /// Frames a second of the source, which drops those that find no room; `None` makes one as soon
    /// as there is room.
    pub(crate) fps: Option<u32>,
    /// Width and height of a frame, in pixels of four bytes.
    pub(crate) size: (u32, u32),
    /// Frames that are on their way at the sender at a time.
    pub(crate) buffers: usize,
    /// The device of the compute stage.
    pub(crate) device: Device,
    /// The file that frames are read from; made up without one.
    pub(crate) film: Option<Film>,
    /// The terms of the run.
    pub(crate) terms: Terms,
}

/// The result.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct NetvideoReport {
    /// The links, by number.
    pub(crate) links: Vec<Link>,
    /// The machine, and the terms of the run.
    pub(crate) setting: Setting,
    /// Width and height of a frame.
    pub(crate) size: (u32, u32),
    /// The bytes of a frame.
    pub(crate) frame_bytes: u64,
    /// The source's rate; `None` as fast as it goes.
    pub(crate) fps: Option<u32>,
    /// Frames at the sender at a time.
    pub(crate) buffers: usize,
    /// The device of the compute stage.
    pub(crate) device: Device,
    /// The file that frames are read from; made up without one.
    pub(crate) film: Option<Film>,
    /// All measurements that count, in order.
    pub(crate) samples: Vec<NetvideoSample>,
    /// Goodput of plain flows, by round: from the first connection to the last byte, so with their
    /// slow start.
    pub(crate) ceilings_bits_per_second: Vec<f64>,
    /// The spread of the ceilings, in frames a second.
    pub(crate) ceiling_fps: Option<Spread>,
    /// The figures by placing.
    pub(crate) results: Vec<NetvideoOutcome>,
}

/// One run.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct NetvideoSample {
    /// The round, from 1.
    pub(crate) round: usize,
    /// The placing.
    pub(crate) placing: Placing,
    /// CPUs that the threads of the sender's rails may use, as read back.
    pub(crate) sender_cpus: Vec<String>,
    /// CPUs that the threads of the receiver's rails may use, as read back.
    pub(crate) receiver_cpus: Vec<String>,
    /// CPUs of the rail that reads frames from a file, beside its disks; `None` if there is no such
    /// rail, and the first one reads.
    pub(crate) reader_cpus: Option<String>,
    /// Frames that were shown, whole and with the right checksum.
    pub(crate) frames: usize,
    /// Frames that the source dropped.
    pub(crate) dropped: u64,
    /// Frames shown a second, from the end of the first to the end of the last: without the start
    /// of the stream.
    pub(crate) fps: f64,
    /// The time of each frame from the source to the end of the display, in order.
    pub(crate) latency_us: Vec<u64>,
    /// Congestion control, as read from the sockets.
    pub(crate) congestion_control: Vec<String>,
    /// The sender's stages.
    pub(crate) sender: PipelineStats,
    /// The receiver's stages.
    pub(crate) receiver: PipelineStats,
}

/// One placing over all rounds.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct NetvideoOutcome {
    /// The placing.
    pub(crate) placing: Placing,
    /// Frames a second.
    pub(crate) fps: Spread,
    /// The median over that of the ceiling.
    pub(crate) share_of_ceiling: Option<f64>,
    /// Frames that were dropped, in all rounds.
    pub(crate) dropped: u64,
    /// Frames that were shown, in all rounds.
    pub(crate) frames: usize,
    /// Median of the latency of all frames of all rounds, in milliseconds.
    pub(crate) latency_p50_ms: f64,
    /// 95th percentile of that latency.
    pub(crate) latency_p95_ms: f64,
    /// 99th percentile of that latency.
    pub(crate) latency_p99_ms: f64,
}

impl NetvideoContest {
    /// Makes the links, runs every round, and takes the links down again. Calls `progress` before
    /// each measurement.
    ///
    /// # Errors
    /// [`ContestError`]. Links that were made are taken down.
    ///
    /// # Privileges
    /// Root, for the namespaces.
    pub(crate) fn run(
        &self,
        topology: &Topology,
        mut progress: impl FnMut(usize, &str),
    ) -> Result<NetvideoReport, ContestError> {
        let cpus = halves(topology.allowed_cpus());
        let testbed = Testbed::build(&self.links, cpus, self.time, &self.terms)?;
        let setting = Setting::of(topology, &testbed, self.time, &self.terms);
        // `None` is the ceiling.
        let mut turns = [Some(Placing::Rails), Some(Placing::Scheduler), None];
        let mut order = rand::rngs::ChaCha8Rng::seed_from_u64(self.terms.seed);
        let (mut samples, mut ceilings) = (Vec::new(), Vec::new());
        for round in 0..=self.terms.rounds {
            turns.shuffle(&mut order);
            for turn in turns {
                progress(round, &turn.map_or("the ceiling".to_owned(), |placing| placing.to_string()));
                match turn {
                    None => {
                        let goodput = ceiling(&testbed)?;
                        ceilings.extend((round > 0).then_some(goodput));
                    }
                    Some(placing) => {
                        let sample = ends::run(&testbed, topology, self, placing, round)?;
                        samples.extend((round > 0).then_some(sample));
                    }
                }
            }
        }
        Ok(NetvideoReport::new(self, setting, samples, ceilings))
    }

    /// The bytes of a frame.
    fn frame_bytes(&self) -> usize {
        frame_bytes(self.size)
    }
}

/// The bytes of a frame of that width and height.
pub(crate) fn frame_bytes((width, height): (u32, u32)) -> usize {
    width as usize * height as usize * 4
}

/// The goodput of a plain flow on each link.
fn ceiling(testbed: &Testbed) -> Result<f64, ContestError> {
    let flows = own(Contender::PlainFlows, testbed).expect("plain flows are of this program");
    let Running { receiver, sender } = flows.start(testbed, testbed.time, &[])?;
    let report = sender.finish()?;
    receiver.finish()?;
    let measured: Measurement = serde_json::from_slice(&report)?;
    Ok(measured.receiver_goodput_bits_per_second)
}

impl NetvideoReport {
    fn new(contest: &NetvideoContest, setting: Setting, samples: Vec<NetvideoSample>, ceilings: Vec<f64>) -> Self {
        let frame_bytes = contest.frame_bytes() as u64;
        let ceiling_fps = Spread::of(ceilings.iter().map(|goodput| goodput / (frame_bytes as f64 * 8.0)));
        let outcome = |placing: &Placing| {
            let of = || samples.iter().filter(|sample| sample.placing == *placing);
            let fps = Spread::of(of().map(|sample| sample.fps))?;
            let mut latency: Vec<u64> = of().flat_map(|sample| sample.latency_us.iter().copied()).collect();
            latency.sort_unstable();
            Some(NetvideoOutcome {
                placing: *placing,
                fps,
                share_of_ceiling: ceiling_fps.map(|ceiling| fps.median / ceiling.median),
                dropped: of().map(|sample| sample.dropped).sum(),
                frames: latency.len(),
                latency_p50_ms: percentile(&latency, 50)?,
                latency_p95_ms: percentile(&latency, 95)?,
                latency_p99_ms: percentile(&latency, 99)?,
            })
        };
        let results = Placing::value_variants().iter().filter_map(outcome).collect();
        let NetvideoContest { links, size, fps, buffers, device, film, .. } = contest.clone();
        let ceilings_bits_per_second = ceilings;
        Self {
            links,
            setting,
            size,
            frame_bytes,
            fps,
            buffers,
            device,
            film,
            samples,
            ceilings_bits_per_second,
            ceiling_fps,
            results,
        }
    }
}

/// The percentile by nearest rank of sorted microseconds, in milliseconds; `None` of none.
fn percentile(sorted: &[u64], percent: usize) -> Option<f64> {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    Some(*sorted.get(rank - 1)? as f64 / 1e3)
}

impl Device {
    /// Fails if the device is missing, before any link is made.
    pub(crate) fn check(self) -> anyhow::Result<()> {
        match self {
            Self::Host => Ok(()),
            #[cfg(feature = "cuda")]
            Self::Cuda => {
                rails_cuda::device_names()?;
                Ok(())
            }
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Host => "the stage's CPU",
            #[cfg(feature = "cuda")]
            Self::Cuda => "a GPU (CUDA)",
        })
    }
}

impl fmt::Display for Placing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Rails => "planned rails",
            Self::Scheduler => "scheduler's default",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_nearest_rank() {
        let sorted: Vec<u64> = (1..=100).map(|millis| millis * 1000).collect();
        assert_eq!([50, 95, 99].map(|percent| percentile(&sorted, percent)), [Some(50.0), Some(95.0), Some(99.0)]);
        assert_eq!(percentile(&[7000], 99), Some(7.0));
        assert_eq!(percentile(&[], 50), None);
    }
}
