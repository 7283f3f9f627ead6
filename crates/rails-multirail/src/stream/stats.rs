//! What a stream and its lanes have done.

use crate::{RailId, StreamId};
use rails_bind::{thread::Tid, usage::ThreadUsage};
use rails_net::TransportStats;
use rails_proto::{
    connection::{LaneTimes, Reordered, Stalls, WindowUse},
    scheduler::{ByteCount, Reissued},
};
use rails_topo::Bandwidth;
use serde::Serialize;
use serde_with::{As, DisplayFromStr, DurationMicroSeconds};
use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

/// What a stream has done up to now, as this end sees it.
///
/// Serialized names carry their units; what is not known is `None`. `docs/metrics.md` lists all of it, with what it is good for.
#[derive(Debug, Clone, Serialize)]
pub struct StreamStats {
    /// The stream's name.
    #[serde(serialize_with = "As::<DisplayFromStr>::serialize")]
    pub stream: StreamId,
    /// Time since this end of the stream was made.
    #[serde(rename = "age_us", serialize_with = "As::<DurationMicroSeconds>::serialize")]
    pub age: Duration,
    /// Bytes that this end wrote.
    pub bytes_written: u64,
    /// Bytes that the peer's application is known to have read of them.
    pub bytes_consumed_by_peer: u64,
    /// Bytes that this end sent more than once: those of lost and stalled lanes, those reinjected on a faster lane, and probes.
    pub bytes_sent_again: u64,
    /// The same by cause, with the chunks.
    pub sent_again: Reissued,
    /// Bytes that this end read.
    pub bytes_read: u64,
    /// Bytes that arrived more than once.
    pub bytes_duplicated: u64,
    /// Chunks with such bytes in them.
    pub chunks_duplicated: u64,
    /// Bytes that have arrived and wait for others before them; `None` of messages, whose bytes lie where they belong whatever the order.
    pub reordered: Option<Reordered>,
    /// How much of the peer's window is in use by what this end sends.
    pub send_window: WindowUse,
    /// How much of this end's window is in use by what has arrived.
    pub receive_window: WindowUse,
    /// What the stream waited for.
    pub stalls: Stalls,
    /// Each lane that the stream has or had, by number.
    pub lanes: Vec<LaneStats>,
    /// Each thread that drives lanes.
    pub threads: Vec<ThreadStats>,
}

/// What a lane has done up to now, through all the connections that it had.
#[derive(Debug, Clone, Serialize)]
pub struct LaneStats {
    /// The number that the initiator gave it.
    pub lane: u16,
    /// The rail that it runs on at this end.
    pub rail: RailId,
    /// The thread that drives it at this end: its rail's, or the first rail's ([`Driver`](super::Driver)). It may drive other lanes as well.
    pub thread: Tid,
    /// Its address at this end, that of its newest connection.
    pub local: SocketAddr,
    /// Its address at the peer.
    pub remote: SocketAddr,
    /// Whether it is up.
    pub up: bool,
    /// Bytes of the stream that were sent on it.
    pub bytes_sent: u64,
    /// Chunks that were sent on it.
    pub chunks_sent: u64,
    /// What it was given of that after another lane had been given it.
    pub sent_again: Reissued,
    /// Bytes of the stream that arrived on it.
    pub bytes_received: u64,
    /// Chunks that arrived on it.
    pub chunks_received: u64,
    /// What of that had arrived before: bytes, and chunks with such bytes in them.
    pub duplicated: ByteCount,
    /// Bytes that it was given and that are not acknowledged.
    pub bytes_in_flight: u64,
    /// What it was seen to carry lately while it was busy, with a half-life of [`HALF_LIFE`](rails_proto::policy::HALF_LIFE): what the
    /// scheduler goes by. `None` while it is down, and before anything was acknowledged.
    #[serde(rename = "rate_bits_per_second")]
    pub rate: Option<Bandwidth>,
    /// How long a chunk takes from being taken to being acknowledged; `None` as with the rate.
    #[serde(rename = "service_us", serialize_with = "As::<Option<DurationMicroSeconds>>::serialize")]
    pub service: Option<Duration>,
    /// Whether it is up and has been given nothing for two seconds in which the stream had work ([`EventKind::Unused`](rails_proto::connection::EventKind::Unused)).
    pub unused: bool,
    /// Smoothed round trip of its newest connection, by the transport; `None` where that does not say.
    #[serde(rename = "rtt_us", serialize_with = "As::<Option<DurationMicroSeconds>>::serialize")]
    pub rtt: Option<Duration>,
    /// Its least round trip.
    #[serde(rename = "least_rtt_us", serialize_with = "As::<Option<DurationMicroSeconds>>::serialize")]
    pub least_rtt: Option<Duration>,
    /// Bytes that the transport sent again below all of this, on all of its connections; `None` where it did not say of one.
    pub bytes_retransmitted: Option<u64>,
    /// Packets (TCP: segments) that the transport sent again; `None` as with the bytes.
    pub segments_retransmitted: Option<u64>,
    /// What it did with its time while it was up.
    pub times: LaneTimes,
    /// For how long it was down between its connections, and since.
    #[serde(rename = "down_us", serialize_with = "As::<DurationMicroSeconds>::serialize")]
    pub down: Duration,
    /// The transport's figures of its newest connection, now or at its end, with those that only this transport has; `None` where it did not say.
    pub transport: Option<TransportStats>,
    /// How often it came up: once, and once more for every time that it was dialled again.
    pub joined: u64,
    /// How often it was lost.
    pub losses: u64,
    /// How it was lost, where it is down now for that reason.
    pub lost: Option<String>,
}

/// What a thread that drives lanes has used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ThreadStats {
    /// The thread.
    pub thread: Tid,
    /// The lanes of this stream that it drives. What it used is not told apart by lane, nor by stream where it drives others'.
    pub lanes: Vec<u16>,
    /// Its time on a CPU since it began, for whatever it did; `None` where the kernel does not say.
    #[serde(rename = "cpu_us", serialize_with = "As::<Option<DurationMicroSeconds>>::serialize")]
    pub cpu: Option<Duration>,
}

impl ThreadStats {
    /// The threads that drive these lanes. Reads three small files of the kernel for each.
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
    /// The summary of a stream that has ended.
    pub(super) fn log(&self) {
        for lane in &self.lanes {
            tracing::debug!(
                stream = %self.stream, lane = lane.lane, rail = %lane.rail, bytes_sent = lane.bytes_sent, chunks_sent = lane.chunks_sent,
                bytes_sent_again = lane.sent_again.total().bytes, bytes_received = lane.bytes_received,
                chunks_received = lane.chunks_received, bytes_duplicated = lane.duplicated.bytes, rtt = ?lane.rtt, least_rtt = ?lane.least_rtt,
                segments_retransmitted = lane.segments_retransmitted, joined = lane.joined, losses = lane.losses,
                times = ?lane.times, down = ?lane.down, "what a lane did"
            );
        }
        tracing::debug!(
            stream = %self.stream, age = ?self.age, bytes_written = self.bytes_written, bytes_consumed_by_peer = self.bytes_consumed_by_peer,
            bytes_sent_again = self.bytes_sent_again, bytes_read = self.bytes_read, bytes_duplicated = self.bytes_duplicated,
            most_bytes_reordered = self.reordered.map(|reordered| reordered.most_bytes),
            send_window_most_used = self.send_window.most_share(), receive_window_most_used = self.receive_window.most_share(),
            stalls = ?self.stalls, threads = ?self.threads, "a stream has ended"
        );
    }
}
