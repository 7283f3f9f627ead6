//! One end of a stream in figures: units in the key names, placement as it was read back.

use rails_bind::{Outcome, Unheld, affinity::AffinityReport, usage::ProcessUsage};
use rails_multirail::{LaneStats, RailId, Rails, runtime::Placement};
use rails_net::TransportStats;
use rails_topo::{CpuSet, NodeId, Topology};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// One of the two processes.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Side {
    /// Kernel release, if it is known.
    pub(crate) kernel: Option<String>,
    /// Version of this program.
    pub(crate) version: String,
    /// CPUs that the process was allowed to use.
    pub(crate) allowed_cpus: CpuSet,
    /// User and system time of the whole process while it measured.
    pub(crate) cpu_seconds: f64,
    /// Each rail, with the lanes that ran on it.
    pub(crate) rails: Vec<RailReport>,
    /// The properties of the rails' placements that do not hold.
    #[serde(default)]
    pub(crate) unheld: Vec<Unheld>,
}

/// One rail of a side, as read back.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct RailReport {
    /// The rail's number.
    pub(crate) rail: RailId,
    /// The interface of the rail's lane, if the plan has one.
    pub(crate) interface: Option<String>,
    /// The CPUs that the rail's thread may run on (`sched_getaffinity`, read after the
    /// measurement).
    pub(crate) cpus: Option<CpuSet>,
    /// The thread's memory policy, as read back by `get_mempolicy`.
    pub(crate) memory_policy: String,
    /// The node of the memory that the thread was the first to touch (`get_mempolicy`).
    pub(crate) memory_node: Option<NodeId>,
    /// CPU time of the rail's thread during the measurement; `None` if the kernel does not account
    /// for it.
    pub(crate) cpu_seconds: Option<f64>,
    /// The verdicts on the three affinities.
    pub(crate) affinity: AffinityReport,
    /// The rail's lanes.
    pub(crate) lanes: Vec<LaneReport>,
    /// Why the rail has no lane, if it could have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) unused: Option<String>,
}

/// One lane of a rail.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct LaneReport {
    /// The lane's address at this end.
    pub(crate) local: SocketAddr,
    /// The peer's address.
    pub(crate) remote: SocketAddr,
    /// Bytes of the stream that this end sent on the lane.
    pub(crate) bytes_sent: u64,
    /// Bytes of the stream that arrived on the lane.
    pub(crate) bytes_received: u64,
    /// Segments that TCP retransmitted, on all connections of the lane.
    pub(crate) retransmitted_segments: Option<u64>,
    /// The lane's smoothed round-trip time.
    pub(crate) rtt_us: Option<u64>,
    /// The lane's congestion control.
    pub(crate) congestion_control: Option<String>,
    /// The reason why the lane was lost, if it was.
    pub(crate) lost: Option<String>,
}

/// CPU time at a moment, as the baseline of a measurement.
#[derive(Debug)]
pub(crate) struct Baseline {
    process: Option<f64>,
    rails: Vec<Option<f64>>,
}

impl Baseline {
    /// The CPU time up to now.
    pub(crate) fn take(rails: &Rails) -> Self {
        Self { process: process_seconds(), rails: rails.iter().map(rail_seconds).collect() }
    }
}

impl Side {
    /// The report of this process since `baseline`.
    pub(crate) fn since(baseline: &Baseline, topology: &Topology, rails: &Rails, lanes: &[LaneReportOn]) -> Self {
        let cpu_seconds = process_seconds().zip(baseline.process).map_or(0.0, |(now, before)| now - before);
        let reports = rails.iter().zip(&baseline.rails).map(|(rail, before)| {
            let placement = rail.runtime().placement();
            let lanes: Vec<LaneReport> =
                lanes.iter().filter(|lane| lane.rail == rail.id()).map(|lane| lane.report.clone()).collect();
            let is_unused = lanes.is_empty() && rail.planned().end.is_some();
            RailReport {
                rail: rail.id(),
                interface: rail.planned().interface.clone(),
                cpus: rail.runtime().cpus_now().ok(),
                memory_policy: policy(&placement),
                memory_node: placement.memory_node.as_ref().ok().copied(),
                cpu_seconds: rail_seconds(rail).zip(*before).map(|(now, before)| now - before),
                affinity: rail.affinity(topology),
                lanes,
                unused: is_unused.then(|| "no lane was opened on it".to_owned()),
            }
        });
        Self {
            kernel: topology.machine().kernel.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            allowed_cpus: topology.allowed_cpus().clone(),
            cpu_seconds,
            rails: reports.collect(),
            unheld: rails.unheld(),
        }
    }

    /// This report with the reasons that are known for rails without a lane.
    pub(crate) fn explained(mut self, why_unused: impl Fn(RailId) -> Option<String>) -> Self {
        for rail in &mut self.rails {
            rail.unused = rail.unused.take().map(|unknown| why_unused(rail.rail).unwrap_or(unknown));
        }
        self
    }

    /// Every lane of every rail.
    pub(crate) fn lanes(&self) -> impl Iterator<Item = &LaneReport> {
        self.rails.iter().flat_map(|rail| &rail.lanes)
    }
}

impl LaneReport {
    /// The report of a lane between these addresses that was not lost, with its bytes and the
    /// transport's figures.
    pub(crate) fn new(
        (local, remote): (SocketAddr, SocketAddr),
        (bytes_sent, bytes_received): (u64, u64),
        transport: Option<&TransportStats>,
    ) -> Self {
        Self {
            local,
            remote,
            bytes_sent,
            bytes_received,
            retransmitted_segments: transport.and_then(|stats| stats.packets_retransmitted),
            rtt_us: transport.and_then(|stats| stats.rtt).map(|rtt| rtt.as_micros() as u64),
            congestion_control: transport.and_then(|stats| stats.congestion.clone()),
            lost: None,
        }
    }
}

/// A lane, and the rail that it ran on.
#[derive(Debug, Clone)]
pub(crate) struct LaneReportOn {
    /// The rail.
    pub(crate) rail: RailId,
    /// The lane.
    pub(crate) report: LaneReport,
}

impl From<&LaneStats> for LaneReportOn {
    fn from(lane: &LaneStats) -> Self {
        let carried = (lane.bytes_sent, lane.bytes_received);
        let report = LaneReport::new((lane.local, lane.remote), carried, lane.transport.as_ref());
        let retransmitted_segments = lane.segments_retransmitted;
        Self { rail: lane.rail, report: LaneReport { lost: lane.lost.clone(), retransmitted_segments, ..report } }
    }
}

fn policy(placement: &Placement) -> String {
    match &placement.memory {
        None => "none asked for".to_owned(),
        Some(Err(_)) => "not set".to_owned(),
        Some(Ok(Outcome::Applied(policy))) => policy.to_string(),
        Some(Ok(Outcome::Partial { wanted, got })) => format!("{got} ({wanted} was asked for)"),
    }
}

fn process_seconds() -> Option<f64> {
    ProcessUsage::current().ok().map(|usage| usage.total().as_secs_f64())
}

fn rail_seconds(rail: &rails_multirail::Rail) -> Option<f64> {
    rail.runtime().usage().ok()?.cpu_time.map(|time| time.as_secs_f64())
}
