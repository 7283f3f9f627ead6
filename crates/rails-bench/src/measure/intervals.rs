//! Reports of a measurement under way, at intervals.

use crate::{
    document::{Contents, Document, Schema},
    print,
    report::scaled,
};
use rails_multirail::{MultiRailSession, RailId, StreamStats};
use rails_topo::DataSize;
use serde::Serialize;
use std::{
    convert::Infallible,
    fmt,
    future::pending,
    net::SocketAddr,
    time::{Duration, Instant},
};
use tokio::time::sleep_until;

/// The reports of a session at intervals, if anybody wants them.
#[derive(Debug)]
pub(crate) struct Intervals {
    every: Option<Duration>,
    as_json: bool,
    shown: Shown,
    begun: Instant,
    told: u32,
    last: Option<Seen>,
}

/// The parts of a report's line.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Shown {
    /// Whether this end sends.
    pub(crate) sent: bool,
    /// Whether the peer sends.
    pub(crate) received: bool,
    /// Whether there may be several peers.
    pub(crate) peer: bool,
}

/// The traffic of a session between two moments.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Interval {
    /// The address of the peer's first lane.
    peer: SocketAddr,
    /// The interval's beginning, since that of the measurement.
    start_seconds: f64,
    /// The interval's end.
    end_seconds: f64,
    /// Bytes that this end sent.
    bytes_sent: u64,
    /// Bytes that arrived.
    bytes_received: u64,
    /// The lanes.
    lanes: Vec<LaneInterval>,
    #[serde(skip)]
    shown: Shown,
}

impl Contents for Interval {
    const SCHEMA: Schema = Schema::INTERVAL;
}

/// The traffic of a lane in an interval.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct LaneInterval {
    /// The rail's number.
    rail: RailId,
    /// Bytes that this end sent on the lane.
    bytes_sent: u64,
    /// Bytes that arrived on the lane.
    bytes_received: u64,
    /// Segments that TCP retransmitted, if the transport counts them.
    retransmitted_segments: Option<u64>,
    /// The lane's smoothed round-trip time at the interval's end.
    rtt_us: Option<u64>,
}

/// The totals of a session at a moment.
#[derive(Debug, Clone)]
struct Seen {
    seconds: f64,
    lanes: Vec<LaneInterval>,
}

impl Intervals {
    /// A report every so often, as lines or as documents; none without a time.
    pub(crate) fn new(every: Option<Duration>, as_json: bool) -> Self {
        Self { every, as_json, shown: Shown::default(), begun: Instant::now(), told: 0, last: None }
    }

    /// Reports whose lines have these parts.
    pub(crate) fn showing(self, shown: Shown) -> Self {
        Self { shown, ..self }
    }

    /// Reports until it is dropped, and goes on where it was when it is called again. A reader that
    /// is gone ends the reports, and not the measurement.
    pub(crate) async fn tell(&mut self, session: &MultiRailSession) -> Infallible {
        let Some(every) = self.every else { return pending().await };
        loop {
            sleep_until((self.begun + every * (self.told + 1)).into()).await;
            self.told += 1;
            let seen = Seen::of(self.begun.elapsed(), &session.stats());
            let last = self.last.get_or_insert_with(|| seen.nothing());
            let interval = seen.since(last, session.peer_addr(), self.shown);
            self.last = Some(seen);
            let printed = match self.as_json {
                true => Document::of(interval).print_line(),
                false => print::text(format_args!("{interval}\n")),
            };
            if printed.is_err() {
                return pending().await;
            }
        }
    }
}

impl Seen {
    fn of(at: Duration, stats: &StreamStats) -> Self {
        let lane = |lane: &rails_multirail::LaneStats| LaneInterval {
            rail: lane.rail,
            bytes_sent: lane.bytes_sent,
            bytes_received: lane.bytes_received,
            retransmitted_segments: lane.segments_retransmitted,
            rtt_us: lane.transport.as_ref().and_then(|stats| stats.rtt).map(|rtt| rtt.as_micros() as u64),
        };
        Self { seconds: at.as_secs_f64(), lanes: stats.lanes.iter().map(lane).collect() }
    }

    /// The beginning, when there was no traffic.
    fn nothing(&self) -> Self {
        Self { seconds: 0.0, lanes: Vec::new() }
    }

    /// The traffic since an earlier moment. Lanes keep their places, and new ones come behind them.
    fn since(&self, earlier: &Self, peer: SocketAddr, shown: Shown) -> Interval {
        let lanes = self.lanes.iter().enumerate().map(|(index, now)| {
            let Some(before) = earlier.lanes.get(index) else { return now.clone() };
            let resent = |lane: &LaneInterval| lane.retransmitted_segments;
            LaneInterval {
                rail: now.rail,
                bytes_sent: now.bytes_sent.saturating_sub(before.bytes_sent),
                bytes_received: now.bytes_received.saturating_sub(before.bytes_received),
                retransmitted_segments: resent(now).map(|count| count.saturating_sub(resent(before).unwrap_or(0))),
                rtt_us: now.rtt_us,
            }
        });
        let lanes: Vec<LaneInterval> = lanes.collect();
        Interval {
            peer,
            start_seconds: earlier.seconds,
            end_seconds: self.seconds,
            bytes_sent: lanes.iter().map(|lane| lane.bytes_sent).sum(),
            bytes_received: lanes.iter().map(|lane| lane.bytes_received).sum(),
            lanes,
            shown,
        }
    }
}

impl Interval {
    /// Writes the traffic in one direction.
    fn write_way(
        &self,
        f: &mut fmt::Formatter<'_>,
        did: &str,
        bytes: u64,
        of_lane: fn(&LaneInterval) -> u64,
    ) -> fmt::Result {
        write!(f, "  {did} {}, {}", DataSize::bytes(bytes), self.rate(bytes))?;
        if self.lanes.len() > 1 {
            let lanes = self.lanes.iter().map(|lane| self.rate(of_lane(lane)));
            write!(f, " ({})", lanes.collect::<Vec<_>>().join(", "))?;
        }
        Ok(())
    }

    /// A rate over the interval.
    fn rate(&self, bytes: u64) -> String {
        scaled(bytes as f64 * 8.0 / (self.end_seconds - self.start_seconds).max(1e-9), "bit/s")
    }
}

/// A line: the interval, and for each direction the bytes, and the rates of all lanes and of each.
impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:6.1} to {:.1} s", self.start_seconds, self.end_seconds)?;
        if self.shown.peer {
            write!(f, "  {}", self.peer)?;
        }
        if self.shown.sent {
            self.write_way(f, "sent", self.bytes_sent, |lane| lane.bytes_sent)?;
        }
        if self.shown.received {
            self.write_way(f, "received", self.bytes_received, |lane| lane.bytes_received)?;
        }
        let resent: u64 = self.lanes.iter().filter_map(|lane| lane.retransmitted_segments).sum();
        if resent > 0 {
            write!(f, "  resent {resent}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(rail: usize, bytes_sent: u64, bytes_received: u64) -> LaneInterval {
        let (retransmitted_segments, rtt_us) = (Some(bytes_sent / 1000), None);
        LaneInterval { rail: RailId(rail), bytes_sent, bytes_received, retransmitted_segments, rtt_us }
    }

    #[test]
    fn interval_of_old_and_new_lanes() {
        let peer = SocketAddr::from(([10, 0, 1, 2], 7575));
        let earlier = Seen { seconds: 1.0, lanes: vec![lane(0, 1_000_000, 0)] };
        let now = Seen { seconds: 2.0, lanes: vec![lane(0, 126_000_000, 0), lane(1, 25_000, 0)] };
        let shown = Shown { sent: true, ..Shown::default() };
        let interval = now.since(&earlier, peer, shown);
        assert_eq!((interval.bytes_sent, interval.lanes[1].bytes_sent), (125_025_000, 25_000));
        let line = "   1.0 to 2.0 s  sent 119.2 MiB, 1.00 Gbit/s (1.00 Gbit/s, 200 kbit/s)  resent 125025";
        assert_eq!(interval.to_string(), line);
        let still = now.since(&now, peer, Shown { sent: false, received: true, peer: true });
        let line = "   2.0 to 2.0 s  10.0.1.2:7575  received 0 B, 0.00 bit/s (0.00 bit/s, 0.00 bit/s)";
        assert_eq!(still.to_string(), line);
    }
}
