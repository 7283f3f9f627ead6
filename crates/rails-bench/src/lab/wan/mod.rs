//! Celeritas beside TCP, RBUDP and QUIC, over one emulated path of long distance, with and without
//! loss.

mod chart;
mod ends;
#[cfg(feature = "quic")]
mod quic;
mod rbudp;
mod run;
mod table;

use super::compare::{ContestError, Spread};
pub(crate) use chart::draw;
use clap::ValueEnum;
pub(crate) use ends::MESSAGE;
use rails_lab::{EmulatedCounters, EmulatedLink, LinkLab, Side};
use rails_topo::{Bandwidth, Topology};
use rand::{SeedableRng, seq::SliceRandom};
use serde::{Serialize, Serializer};
use std::{fmt, time::Duration};

/// A transport that takes part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Transport {
    /// Celeritas at a fixed rate, just below the path's
    Celeritas,
    /// Celeritas at that rate, with sealed segments
    Sealed,
    /// Celeritas, which looks for the rate
    Adaptive,
    /// One TCP flow with CUBIC
    Cubic,
    /// One TCP flow with BBR
    Bbr,
    /// Eight TCP flows with CUBIC
    ParallelCubic,
    /// RBUDP's scheme at the rate of Celeritas, with messages of 20 MB
    Rbudp,
    /// QUIC of quinn with its BBR
    #[cfg(feature = "quic")]
    QuinnBbr,
    /// QUIC of quinn with its CUBIC
    #[cfg(feature = "quic")]
    QuinnCubic,
    /// QUIC of noq with its BBR3
    #[cfg(feature = "quic")]
    NoqBbr3,
}

/// A path of long distance.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct WanPath {
    /// The path's rate, which counts Ethernet frames.
    #[serde(rename = "rate_bits_per_second")]
    pub(crate) rate: Bandwidth,
    /// The path's round-trip time without a queue.
    #[serde(rename = "rtt_ms", serialize_with = "milliseconds")]
    pub(crate) rtt: Duration,
    /// The longest a frame waits in the path's queue.
    #[serde(rename = "queue_ms", serialize_with = "milliseconds")]
    pub(crate) queue: Duration,
}

/// Messages of an application that sends less than the path carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Messages {
    /// The bytes of each message.
    pub(crate) bytes: usize,
    /// The time from one to the next.
    #[serde(rename = "every_ms", serialize_with = "milliseconds")]
    pub(crate) every: Duration,
}

/// A contest to be run.
#[derive(Debug, Clone)]
pub(crate) struct WanContest {
    /// The path.
    pub(crate) path: WanPath,
    /// The probabilities that a frame is lost, each way; one case for each.
    pub(crate) losses: Vec<f64>,
    /// The transports that take part.
    pub(crate) transports: Vec<Transport>,
    /// A rival of each transport, over the same path at the same time.
    pub(crate) beside: Option<Transport>,
    /// The rate of Celeritas and RBUDP, which counts IP packets.
    pub(crate) celeritas: Bandwidth,
    /// The windows of QUIC in bytes; `None` derives them from the path.
    #[cfg(feature = "quic")]
    pub(crate) quic_window: Option<u32>,
    /// The time that each sends before the measured time.
    pub(crate) warm_up: Duration,
    /// The messages that Celeritas sends in that time; `None` sends without a pause.
    pub(crate) warm_up_messages: Option<Messages>,
    /// The time that each sends.
    pub(crate) time: Duration,
    /// Rounds of each case.
    pub(crate) rounds: usize,
    /// The seed of the order and of the losses.
    pub(crate) seed: u64,
}

/// The result.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct WanComparison {
    /// The path.
    pub(crate) path: WanPath,
    /// The rate of Celeritas and RBUDP.
    #[serde(rename = "celeritas_rate_bits_per_second")]
    pub(crate) celeritas: Bandwidth,
    /// The rival of each transport.
    pub(crate) beside: Option<Transport>,
    /// The time that each sent before the measured time.
    pub(crate) warm_up_seconds: f64,
    /// The messages that Celeritas sent in that time, if it paused.
    pub(crate) warm_up_messages: Option<Messages>,
    /// The time that each sent.
    pub(crate) seconds: f64,
    /// The seed of the order and of the losses.
    pub(crate) seed: u64,
    /// The settings of configurable transports.
    pub(crate) settings: Vec<String>,
    /// The kernel.
    pub(crate) kernel: Option<String>,
    /// The processor.
    pub(crate) cpu_model: Option<String>,
    /// All measurements, in order.
    pub(crate) samples: Vec<WanSample>,
    /// The results by loss and transport.
    pub(crate) results: Vec<WanOutcome>,
}

/// One transport in one round.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct WanSample {
    /// The round, from 1.
    pub(crate) round: usize,
    /// The loss.
    pub(crate) loss: f64,
    /// The transport.
    pub(crate) transport: Transport,
    /// Payload that arrived in the measured time.
    pub(crate) goodput_bits_per_second: f64,
    /// The rival's payload that arrived in that time.
    #[serde(rename = "beside_goodput_bits_per_second")]
    pub(crate) beside: Option<f64>,
    /// Retransmitted segments, from the beginning on; for TCP those of a TCP rival too; for QUIC,
    /// packets that the sender considered lost.
    pub(crate) retransmitted_segments: u64,
    /// CPU time of the threads of both ends, from the beginning on.
    pub(crate) cpu_seconds: f64,
    /// Payload that arrived, from the beginning on.
    pub(crate) bytes: u64,
    /// The path's own counts.
    pub(crate) emulated: EmulatedCounters,
}

/// One transport with one loss over all rounds.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct WanOutcome {
    /// The loss.
    pub(crate) loss: f64,
    /// The transport.
    pub(crate) transport: Transport,
    /// The transport's goodput.
    pub(crate) goodput_bits_per_second: Spread,
    /// The rival's goodput.
    #[serde(rename = "beside_goodput_bits_per_second")]
    pub(crate) beside: Option<Spread>,
    /// Retransmitted segments (for QUIC, packets that the sender considered lost), as a share of
    /// the frames that the transport and its rival sent.
    pub(crate) retransmitted_share: f64,
    /// Frames dropped by the path's full queue, as a share of the frames that the transport and its
    /// rival sent.
    pub(crate) queue_drop_share: f64,
    /// CPU time of both ends for each gigabyte that arrived.
    pub(crate) cpu_seconds_per_gigabyte: Option<f64>,
    /// Frames that the emulated path lost for a reason other than its settings: the figures are
    /// void unless this is 0.
    pub(crate) unplanned_drops: u64,
}

impl WanContest {
    /// Makes a path for each measurement, and runs every round. Calls `progress` before each
    /// measurement.
    ///
    /// # Errors
    /// [`ContestError`].
    ///
    /// # Privileges
    /// Root, for the namespaces.
    pub(crate) fn run(
        &self,
        topology: &Topology,
        mut progress: impl FnMut(usize, f64, Transport),
    ) -> Result<WanComparison, ContestError> {
        let mut order = rand::rngs::ChaCha8Rng::seed_from_u64(self.seed);
        let mut samples = Vec::new();
        for loss in self.losses.iter().copied() {
            for round in 1..=self.rounds {
                let mut transports = self.transports.clone();
                transports.shuffle(&mut order);
                for transport in transports {
                    progress(round, loss, transport);
                    samples.push(self.measure(round, loss, transport)?);
                }
            }
        }
        let machine = topology.machine();
        Ok(WanComparison {
            path: self.path,
            celeritas: self.celeritas,
            beside: self.beside,
            warm_up_seconds: self.warm_up.as_secs_f64(),
            warm_up_messages: self.warm_up_messages,
            seconds: self.time.as_secs_f64(),
            seed: self.seed,
            settings: self.settings(),
            kernel: machine.kernel.clone(),
            cpu_model: machine.cpu_model.clone(),
            results: self.results(&samples),
            samples,
        })
    }

    fn measure(&self, round: usize, loss: f64, transport: Transport) -> Result<WanSample, ContestError> {
        let WanPath { rate, rtt, queue } = self.path;
        let path = EmulatedLink::bits_per_second(rate.as_bits_per_second()).rtt(rtt).queue(queue).loss(loss);
        let path = path.seed(self.seed.wrapping_add(round as u64));
        let lab = LinkLab::builder().emulated(path).build()?;
        let (transfer, rival) = run::transfers(&lab, self, transport)?;
        let emulated = lab.emulated_counters(0)?;
        let retransmitted_segments = match transfer.retransmitted {
            Some(segments) => segments,
            None => lab.transport_counters(Side::A)?.retransmitted_segments,
        };
        Ok(WanSample {
            round,
            loss,
            transport,
            goodput_bits_per_second: transfer.goodput(),
            beside: rival.map(|rival| rival.goodput()),
            retransmitted_segments,
            cpu_seconds: transfer.cpu.as_secs_f64(),
            bytes: transfer.bytes,
            emulated,
        })
    }

    fn settings(&self) -> Vec<String> {
        let takes_part = |these: &[Transport]| self.transports.iter().any(|one| these.contains(one));
        let mut settings = Vec::new();
        if takes_part(&[Transport::Rbudp]) {
            settings.push(rbudp::SETTINGS.to_owned());
        }
        #[cfg(feature = "quic")]
        if takes_part(&[Transport::QuinnBbr, Transport::QuinnCubic, Transport::NoqBbr3]) {
            settings.push(quic::settings(self));
        }
        settings
    }

    fn results(&self, samples: &[WanSample]) -> Vec<WanOutcome> {
        let pairs =
            self.losses.iter().flat_map(|loss| self.transports.iter().map(move |transport| (*loss, *transport)));
        let outcome = |(loss, transport)| {
            let of = || samples.iter().filter(move |one| one.loss == loss && one.transport == transport);
            let sum = |count: fn(&WanSample) -> u64| of().map(count).sum::<u64>() as f64;
            let frames = sum(|one| {
                let path = &one.emulated.from_a;
                path.frames + path.lost + path.queue_full + path.under_way
            });
            let gigabytes = sum(|one| one.bytes) / 1e9;
            Some(WanOutcome {
                loss,
                transport,
                goodput_bits_per_second: Spread::of(of().map(|one| one.goodput_bits_per_second))?,
                beside: Spread::of(of().filter_map(|one| one.beside)),
                retransmitted_share: sum(|one| one.retransmitted_segments) / frames.max(1.0),
                queue_drop_share: sum(|one| one.emulated.from_a.queue_full) / frames.max(1.0),
                cpu_seconds_per_gigabyte: (gigabytes > 0.0)
                    .then(|| of().map(|one| one.cpu_seconds).sum::<f64>() / gigabytes),
                unplanned_drops: sum(|one| one.emulated.unplanned_drops()) as u64,
            })
        };
        pairs.filter_map(outcome).collect()
    }
}

impl Transport {
    /// Whether the transport's unit is the message.
    pub(crate) fn sends_messages(self) -> bool {
        matches!(self, Self::Celeritas | Self::Sealed | Self::Adaptive)
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Celeritas => "Celeritas, fixed rate",
            Self::Sealed => "Celeritas, sealed",
            Self::Adaptive => "Celeritas, adaptive",
            Self::Cubic => "TCP CUBIC",
            Self::Bbr => "TCP BBR",
            Self::ParallelCubic => "TCP CUBIC, 8 flows",
            Self::Rbudp => "RBUDP, fixed rate",
            #[cfg(feature = "quic")]
            Self::QuinnBbr => "QUIC, quinn BBR",
            #[cfg(feature = "quic")]
            Self::QuinnCubic => "QUIC, quinn CUBIC",
            #[cfg(feature = "quic")]
            Self::NoqBbr3 => "QUIC, noq BBR3",
        })
    }
}

fn milliseconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64() * 1e3)
}
