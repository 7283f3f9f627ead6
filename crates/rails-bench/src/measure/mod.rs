//! Memory-to-memory measurements: a source that sends as fast as it can, a sink that counts, and
//! the reports of both.
//!
//! The receiver's figures are the ones reported: bytes that its application read, from when it told
//! the source to begin to the last of them, by its own clock. So no byte counts that was under way
//! before. The receiver sends its figures back over the conversation, after the last byte.

pub(crate) mod flows;
pub(crate) mod intervals;
pub(crate) mod latency;
pub(crate) mod neighbour;
pub(crate) mod path;
pub(crate) mod pattern;
pub(crate) mod report;
pub(crate) mod series;
pub(crate) mod striped;
pub(crate) mod tasks;
pub(crate) mod work;

use crate::{side::Side, turn::Waits};
use bytes::Bytes;
use pattern::{Checker, Pattern};
use serde::{Deserialize, Serialize};
use series::{Recorder, Series};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

/// The amount to send.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Amount {
    /// Bytes for this time.
    Time(Duration),
    /// This many bytes.
    Bytes(u64),
}

/// The counts of a sink.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Count {
    /// The number of bytes that were read.
    pub(crate) bytes: u64,
    /// The time at which the source was told to begin, since the sink's zero.
    pub(crate) first_seconds: f64,
    /// The time at which the last byte was read, since the sink's zero.
    pub(crate) last_seconds: f64,
    /// The offset of the first wrong byte, if the bytes were checked; of several flows, that of any
    /// of them.
    pub(crate) wrong_at: Option<u64>,
}

/// Hands out blocks to send until the amount is reached.
#[derive(Debug)]
pub(crate) struct Supply {
    pattern: Pattern,
    amount: Amount,
    start: Instant,
    dealt: u64,
    enough: Enough,
}

/// A word that ends supplies before their amounts are reached.
#[derive(Debug, Clone, Default)]
pub(crate) struct Enough(Arc<AtomicBool>);

impl Enough {
    /// Ends them.
    pub(crate) fn say(&self) {
        self.0.store(true, Relaxed);
    }

    fn is_said(&self) -> bool {
        self.0.load(Relaxed)
    }
}

impl Supply {
    /// A supply of incompressible bytes, whose time starts now.
    pub(crate) fn start(amount: Amount) -> Self {
        Self { pattern: Pattern::new(b""), amount, start: Instant::now(), dealt: 0, enough: Enough::default() }
    }

    /// A supply that also ends at a word.
    pub(crate) fn until(self, enough: Enough) -> Self {
        Self { enough, ..self }
    }

    /// The next block; `None` when the amount is reached.
    pub(crate) fn next(&mut self) -> Option<Bytes> {
        if self.enough.is_said() {
            return None;
        }
        let length = match self.amount {
            Amount::Time(time) if self.start.elapsed() >= time => return None,
            Amount::Time(_) => BLOCK,
            Amount::Bytes(bytes) if self.dealt >= bytes => return None,
            Amount::Bytes(bytes) => (bytes - self.dealt).min(BLOCK as u64) as usize,
        };
        let block = self.pattern.block(self.dealt / BLOCK as u64).slice(..length);
        self.dealt += length as u64;
        Some(block)
    }

    /// The number of bytes handed out.
    pub(crate) fn dealt(&self) -> u64 {
        self.dealt
    }
}

/// The report of a receiver to the source, after the last byte.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Receipt {
    count: Count,
    /// The rate of arrival; of several flows, while all of them ran.
    goodput_bits_per_second: f64,
    side: Side,
    served_beside: u64,
}

impl Receipt {
    /// The report of a receiver of one stream.
    fn of(counter: &Counter, side: Side, served_beside: u64) -> Self {
        let count = counter.count();
        Self { count, goodput_bits_per_second: count.bits_per_second(), side, served_beside }
    }
}

/// A receiver's report of a measurement.
#[derive(Debug)]
pub(crate) struct Received {
    /// The bytes that arrived.
    pub(crate) count: Count,
    /// The rate of arrival; of several flows, while all of them ran.
    pub(crate) goodput_bits_per_second: f64,
    /// The work of this end.
    pub(crate) side: Side,
    /// The arrivals over time, if they were recorded.
    pub(crate) series: Option<Series>,
    /// The security of the stream; `None` for plain flows.
    pub(crate) security: Option<String>,
    /// The number of other callers that this end served meanwhile.
    pub(crate) served_beside: u64,
    /// Whether a signal ended it before the last byte.
    pub(crate) interrupted: bool,
}

/// Counts the arriving bytes.
#[derive(Debug)]
pub(crate) struct Counter {
    zero: Instant,
    count: Count,
    recorder: Option<Recorder>,
    checker: Option<Checker>,
    waits: Option<Arc<Waits>>,
    meter: Arc<Meter>,
}

/// The count so far, for those who do not have the counter.
#[derive(Debug)]
pub(crate) struct Meter {
    first_seconds: f64,
    bytes: AtomicU64,
    /// The bits of a float.
    last_seconds: AtomicU64,
}

impl Meter {
    /// The bytes so far; they were not compared with the ones that were sent.
    pub(crate) fn count(&self) -> Count {
        Count {
            bytes: self.bytes.load(Relaxed),
            first_seconds: self.first_seconds,
            last_seconds: f64::from_bits(self.last_seconds.load(Relaxed)).max(self.first_seconds),
            wrong_at: None,
        }
    }
}

impl Counter {
    /// A counter of no bytes; the source may begin. Times count from `zero`.
    pub(crate) fn start(zero: Instant) -> Self {
        let count = Count::none(zero.elapsed().as_secs_f64());
        let meter = Meter { first_seconds: count.first_seconds, bytes: 0.into(), last_seconds: 0.into() };
        Self { zero, count, recorder: None, checker: None, waits: None, meter: Arc::new(meter) }
    }

    /// The count so far, while the counter counts on.
    pub(crate) fn meter(&self) -> Arc<Meter> {
        self.meter.clone()
    }

    /// Also records the arrivals over time.
    pub(crate) fn recorded(self, recorder: Option<Recorder>) -> Self {
        Self { recorder, ..self }
    }

    /// Also checks the bytes.
    pub(crate) fn checked(self, check: bool) -> Self {
        Self { checker: check.then(|| Checker::new(b"")), ..self }
    }

    /// Also tells of each wait for more.
    pub(crate) fn telling(self, waits: Arc<Waits>) -> Self {
        Self { waits: Some(waits), ..self }
    }

    /// The recorded arrivals.
    pub(crate) fn series(self) -> Option<Series> {
        self.recorder.map(Recorder::finish)
    }

    pub(crate) fn add(&mut self, received: &[u8]) {
        let bytes = received.len();
        if let Some(checker) = &mut self.checker {
            checker.add(received);
        }
        let now = self.zero.elapsed().as_secs_f64();
        self.count.bytes += bytes as u64;
        self.count.last_seconds = now;
        self.meter.bytes.store(self.count.bytes, Relaxed);
        self.meter.last_seconds.store(now.to_bits(), Relaxed);
        if let Some(recorder) = &mut self.recorder {
            recorder.add(bytes);
        }
        if let Some(waits) = &self.waits {
            waits.tell(true);
        }
    }

    pub(crate) fn count(&self) -> Count {
        let wrong_at = self.checker.as_ref().and_then(Checker::wrong_at);
        Count { wrong_at, ..self.count }
    }
}

impl Count {
    /// The counts of several flows together: all bytes, from the first turn to the last byte.
    pub(crate) fn together(counts: &[Self]) -> Self {
        Self {
            bytes: counts.iter().map(|count| count.bytes).sum(),
            first_seconds: counts.iter().map(|count| count.first_seconds).fold(f64::INFINITY, f64::min),
            last_seconds: counts.iter().map(|count| count.last_seconds).fold(0.0, f64::max),
            wrong_at: counts.iter().find_map(|count| count.wrong_at),
        }
    }

    fn none(now: f64) -> Self {
        Self { bytes: 0, first_seconds: now, last_seconds: now, wrong_at: None }
    }

    /// The time from the source's turn to the last byte.
    pub(crate) fn seconds(&self) -> f64 {
        self.last_seconds - self.first_seconds
    }

    /// Bytes over time; 0 without a time between the first and the last.
    pub(crate) fn bits_per_second(&self) -> f64 {
        if self.seconds() > 0.0 { self.bytes as f64 * 8.0 / self.seconds() } else { 0.0 }
    }
}

/// The limit on a receiver's report: a few hundred bytes for each of at most 64 rails and lanes.
const LONGEST_RECEIPT: usize = 1 << 20;

/// The bytes that the application writes and reads at a time, striped or plain.
pub(crate) const BLOCK: usize = 256 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_supply_of_bytes_deals_exactly_that_many() {
        let mut supply = Supply::start(Amount::Bytes(3 * BLOCK as u64 + 5));
        let dealt: Vec<usize> = std::iter::from_fn(|| supply.next()).map(|block| block.len()).collect();
        assert_eq!(dealt, [BLOCK, BLOCK, BLOCK, 5]);
        assert_eq!(Supply::start(Amount::Time(Duration::ZERO)).next(), None);
    }

    #[test]
    fn span_of_several_flows() {
        let flow = |bytes, first_seconds, last_seconds| Count { bytes, first_seconds, last_seconds, wrong_at: None };
        let together = Count::together(&[flow(100, 1.0, 3.0), flow(300, 2.0, 5.0)]);
        assert_eq!(together, flow(400, 1.0, 5.0));
        assert_eq!(together.bits_per_second(), 800.0);
    }
}
