//! The statistics of a stream and its lanes.

use crate::{RailId, StreamId};
use rails_bind::{thread::Tid, usage::ThreadUsage};
use rails_net::TransportStats;
use rails_proto::session::{ByteCount, LaneTimes, Reissued, Reordered, Stalls, WindowUse};
use rails_topo::Bandwidth;
use serde::Serialize;
use serde_with::{As, DisplayFromStr, DurationMicroSeconds};
use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

/// The statistics of a stream up to now, as this end sees them.
///
/// Serialized names carry their units; an unknown value is `None`. `docs/metrics.md` lists all
/// fields and their use.
#[derive(Debug, Clone, Serialize)]
pub struct StreamStats {
    /// The stream's name.
    #[serde(serialize_with = "As::<DisplayFromStr>::serialize")]
    pub stream: StreamId,
    /// Time since this end of the stream began.
    #[serde(rename = "age_us", serialize_with = "As::<DurationMicroSeconds>::serialize")]
    pub age: Duration,
    /// Bytes that this end wrote.
    pub bytes_written: u64,
    /// Written bytes that the peer has reported as read by its application.
    pub bytes_consumed_by_peer: u64,
    /// Bytes that this end sent more than once: those of lost and stalled lanes, those reinjected
    /// on a faster lane, and probes.
    pub bytes_sent_again: u64,
    /// The bytes sent again by cause, with the number of chunks.
    pub sent_again: Reissued,
    /// Bytes that this end read.
    pub bytes_read: u64,
    /// Bytes that arrived more than once.
    pub bytes_duplicated: u64,
    /// Chunks that contained repeated bytes.
    pub chunks_duplicated: u64,
    /// Bytes that have arrived and wait for missing ones before them; `None` of messages, whose
    /// bytes go straight to their place in any order.
    pub reordered: Option<Reordered>,
    /// The use of the peer's window by the bytes that this end sends.
    pub send_window: WindowUse,
    /// The use of this end's window by the bytes that have arrived.
    pub receive_window: WindowUse,
    /// The times that the stream waited, by cause.
    pub stalls: Stalls,
    /// Every present and past lane, by number.
    pub lanes: Vec<LaneStats>,
    /// Each thread that drives lanes.
    pub threads: Vec<ThreadStats>,
}

/// The statistics of a lane up to now, over all its connections.
#[derive(Debug, Clone, Serialize)]
pub struct LaneStats {
    /// The lane's number, which the initiator gave it.
    pub lane: u16,
    /// The lane's rail at this end.
    pub rail: RailId,
    /// The thread that drives the lane at this end: its rail's, or another rail's
    /// ([`Driver`](crate::Driver)). It may drive other lanes as well.
    pub thread: Tid,
    /// The local address of the lane's newest connection.
    pub local: SocketAddr,
    /// The lane's address at the peer.
    pub remote: SocketAddr,
    /// Whether the lane is up.
    pub up: bool,
    /// Bytes of the stream that this end sent on the lane.
    pub bytes_sent: u64,
    /// Chunks that this end sent on the lane.
    pub chunks_sent: u64,
    /// The chunks that another core of the rail has sealed or checked, and mostly sent too, because
    /// the rail was busy ([tasks](crate::runtime::RailRuntimeBuilder::tasks)).
    pub chunks_helped: u64,
    /// The part of the sent bytes and chunks that another lane had been given before.
    pub sent_again: Reissued,
    /// Bytes of the stream that arrived on the lane.
    pub bytes_received: u64,
    /// Chunks that arrived on the lane.
    pub chunks_received: u64,
    /// The received bytes that had arrived before, and the chunks that contained such bytes.
    pub duplicated: ByteCount,
    /// Bytes given to the lane and not acknowledged.
    pub bytes_in_flight: u64,
    /// The rate that the lane lately carried while it was busy, with a half-life of
    /// [`HALF_LIFE`](rails_proto::policy::HALF_LIFE). The scheduler uses this rate. `None` while
    /// the lane is down, and before the first acknowledgement.
    #[serde(rename = "rate_bits_per_second")]
    pub rate: Option<Bandwidth>,
    /// The time from taking a chunk to its acknowledgement; `None` as with the rate.
    #[serde(rename = "service_us", serialize_with = "As::<Option<DurationMicroSeconds>>::serialize")]
    pub service: Option<Duration>,
    /// Whether the lane is up and was given nothing for two seconds in which the stream had work
    /// ([`EventKind::Unused`](rails_proto::session::EventKind::Unused)).
    pub unused: bool,
    /// Smoothed round trip of the newest connection, as the transport reports it; `None` if the
    /// transport does not.
    #[serde(rename = "rtt_us", serialize_with = "As::<Option<DurationMicroSeconds>>::serialize")]
    pub rtt: Option<Duration>,
    /// Least round trip of the newest connection.
    #[serde(rename = "min_rtt_us", serialize_with = "As::<Option<DurationMicroSeconds>>::serialize")]
    pub min_rtt: Option<Duration>,
    /// Bytes that the transport retransmitted on all connections of the lane; `None` if it did not
    /// report them for one.
    pub bytes_retransmitted: Option<u64>,
    /// Packets (TCP: segments) that the transport retransmitted; `None` as with the bytes.
    pub segments_retransmitted: Option<u64>,
    /// The times that the lane spent in each state while it was up.
    pub times: LaneTimes,
    /// The time without a connection, between connections and since the last.
    #[serde(rename = "down_us", serialize_with = "As::<DurationMicroSeconds>::serialize")]
    pub down: Duration,
    /// The transport's figures of the newest connection, now or at its end, with those that only
    /// this transport has; `None` if it reported none.
    pub transport: Option<TransportStats>,
    /// How often the lane came up: once, and once more after each successful redial.
    pub joined: u64,
    /// How often the lane was lost.
    pub losses: u64,
    /// The error that lost the lane, if the lane is down because of it.
    pub lost: Option<String>,
}

/// The CPU time of a thread that drives lanes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ThreadStats {
    /// The thread.
    pub thread: Tid,
    /// The lanes of this stream that the thread drives. Its CPU time is not divided by lane or by
    /// stream.
    pub lanes: Vec<u16>,
    /// The thread's CPU time since it began, for all its work; `None` if the kernel does not report
    /// it.
    #[serde(rename = "cpu_us", serialize_with = "As::<Option<DurationMicroSeconds>>::serialize")]
    pub cpu: Option<Duration>,
}

impl ThreadStats {
    /// The threads that drive these lanes. Reads three small files in `/proc` for each.
    pub(super) fn of(lanes: &[LaneStats]) -> Vec<Self> {
        let mut threads = BTreeMap::<Tid, Vec<u16>>::new();
        lanes.iter().for_each(|lane| threads.entry(lane.thread).or_default().push(lane.lane));
        let stats = threads.into_iter().map(|(thread, lanes)| Self { thread, lanes, cpu: cpu(thread) });
        stats.collect()
    }
}

fn cpu(thread: Tid) -> Option<Duration> {
    ThreadUsage::of(thread).ok().map(|usage| usage.cpu_time.unwrap_or(usage.user + usage.system))
}

impl StreamStats {
    /// Logs the summary of a stream that has ended.
    pub(super) fn log(&self) {
        for lane in &self.lanes {
            tracing::debug!(
                stream = %self.stream, lane = lane.lane, rail = %lane.rail, bytes_sent = lane.bytes_sent, chunks_sent = lane.chunks_sent,
                bytes_sent_again = lane.sent_again.total().bytes, bytes_received = lane.bytes_received,
                chunks_received = lane.chunks_received, bytes_duplicated = lane.duplicated.bytes, rtt = ?lane.rtt, min_rtt = ?lane.min_rtt,
                segments_retransmitted = lane.segments_retransmitted, joined = lane.joined, losses = lane.losses,
                times = ?lane.times, down = ?lane.down, "the summary of a lane"
            );
        }
        tracing::debug!(
            stream = %self.stream, age = ?self.age, bytes_written = self.bytes_written, bytes_consumed_by_peer = self.bytes_consumed_by_peer,
            bytes_sent_again = self.bytes_sent_again, bytes_read = self.bytes_read, bytes_duplicated = self.bytes_duplicated,
            max_bytes_reordered = self.reordered.map(|reordered| reordered.max_bytes),
            send_window_max_used = self.send_window.max_share(), receive_window_max_used = self.receive_window.max_share(),
            stalls = ?self.stalls, threads = ?self.threads, "the summary of a stream"
        );
    }
}
