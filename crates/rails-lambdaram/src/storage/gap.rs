//! The gap between wanted bytes over which a source reads in the time of one more request.

use std::time::Duration;

/// Measures what a request to a source costs, and how fast its bytes come, out of the lengths and
/// the times of reads.
///
/// The time of a read is taken for a fixed cost and a time for each byte, and both are fitted to
/// the reads by least squares; older reads count less and less. Two pieces that lie nearer to each
/// other than the bytes that come in the fixed cost are read sooner together.
#[derive(Debug, Clone, Default)]
pub struct GapMeter {
    /// The sums over all reads, each weighted by its age: the number, lengths, times in
    /// nanoseconds, and products.
    weight: f64,
    bytes: f64,
    ns: f64,
    bytes_bytes: f64,
    bytes_ns: f64,
    fit: Option<Fit>,
}

#[derive(Debug, Clone, Copy)]
struct Fit {
    request_ns: f64,
    /// At least a thousandth, which is a terabyte per second.
    ns_per_byte: f64,
}

impl GapMeter {
    /// The gap before anything is measured, in bytes: what a disk of this decade is known to read
    /// faster than it begins a request.
    pub const START_BYTES: u64 = 4 << 10;

    /// The largest gap, in bytes.
    pub const MAX_BYTES: u64 = 256 << 10;

    /// A meter that has seen no read.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes a read of so many bytes at once.
    pub fn record(&mut self, bytes: u64, took: Duration) {
        let bytes = bytes as f64;
        let mut ns = took.as_nanos() as f64;
        if let Some(fit) = self.fit {
            // A read that waited for another program says nothing about the next one.
            ns = ns.min((fit.request_ns + fit.ns_per_byte * bytes) * MAX_TIMES_EXPECTED);
        }
        for sum in [&mut self.weight, &mut self.bytes, &mut self.ns, &mut self.bytes_bytes, &mut self.bytes_ns] {
            *sum *= KEPT;
        }
        self.weight += 1.0;
        self.bytes += bytes;
        self.ns += ns;
        self.bytes_bytes += bytes * bytes;
        self.bytes_ns += bytes * ns;
        if let Some(fit) = self.fitted() {
            self.fit = Some(fit);
        }
    }

    /// The gap to read over, in bytes: [`START_BYTES`](Self::START_BYTES) until reads of different
    /// lengths have been seen, and at most [`MAX_BYTES`](Self::MAX_BYTES).
    pub fn gap_bytes(&self) -> u64 {
        let Some(Fit { request_ns, ns_per_byte }) = self.fit else { return Self::START_BYTES };
        ((request_ns / ns_per_byte) as u64).min(Self::MAX_BYTES)
    }

    /// The fixed cost of a read, if it is known.
    pub fn request_cost(&self) -> Option<Duration> {
        self.fit.map(|fit| Duration::from_nanos(fit.request_ns as u64))
    }

    /// The rate at which the bytes of a read come, if it is known.
    pub fn bytes_per_second(&self) -> Option<u64> {
        self.fit.map(|fit| (1e9 / fit.ns_per_byte) as u64)
    }

    /// The fit, if the reads differ enough in length to tell the cost of a request from that of
    /// its bytes.
    fn fitted(&self) -> Option<Fit> {
        let (bytes, ns) = (self.bytes / self.weight, self.ns / self.weight);
        let variance = self.bytes_bytes / self.weight - bytes * bytes;
        if self.weight < MIN_READS || variance < MIN_DEVIATION_BYTES * MIN_DEVIATION_BYTES {
            return None;
        }
        let covariance = self.bytes_ns / self.weight - bytes * ns;
        let ns_per_byte = (covariance / variance).max(MIN_NS_PER_BYTE);
        let request_ns = ns - ns_per_byte * bytes;
        // Longer reads that take less time, and requests that take none, are reads of two kinds: from a
        // disk and from memory.
        (covariance > 0.0 && request_ns > 0.0).then_some(Fit { request_ns, ns_per_byte })
    }
}

/// A read counts half as much as the newest one after 350 others. Folklore.
const KEPT: f64 = 1.0 - 1.0 / 512.0;
const MIN_READS: f64 = 16.0;
const MIN_DEVIATION_BYTES: f64 = 4096.0;
const MAX_TIMES_EXPECTED: f64 = 4.0;
const MIN_NS_PER_BYTE: f64 = 1e-3;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::vec, prelude::*};

    /// A meter of a source with that cost of a request and that rate.
    fn measured(request_us: u64, bytes_per_us: u64, lengths: &[u64]) -> GapMeter {
        let mut meter = GapMeter::new();
        for bytes in lengths.iter().cycle().take(200) {
            meter.record(*bytes, Duration::from_nanos(request_us * 1000 + bytes * 1000 / bytes_per_us));
        }
        meter
    }

    fn is_near(found: u64, expected: u64) -> bool {
        found.abs_diff(expected) <= expected / 50
    }

    #[test]
    fn the_gap_is_the_bytes_of_a_request() {
        let lengths = [600, 4096, 100_000, 262_144];
        // A page cache, a fast disk, a slow one.
        for (request_us, bytes_per_us) in [(2, 4000), (80, 2000), (20, 100)] {
            let meter = measured(request_us, bytes_per_us, &lengths);
            let gap = meter.gap_bytes();
            assert!(is_near(gap, request_us * bytes_per_us), "{gap}");
            assert!(is_near(meter.request_cost().unwrap().as_nanos() as u64, request_us * 1000));
            assert!(is_near(meter.bytes_per_second().unwrap(), bytes_per_us * 1_000_000));
        }
        assert_eq!(measured(5000, 100, &lengths).gap_bytes(), GapMeter::MAX_BYTES);
        assert!(measured(1, 10, &lengths).gap_bytes() < 12);
    }

    #[test]
    fn reads_of_one_length_tell_nothing() {
        let meter = measured(100, 1000, &[262_144]);
        assert_eq!((meter.gap_bytes(), meter.request_cost()), (GapMeter::START_BYTES, None));
        assert_eq!(GapMeter::new().gap_bytes(), GapMeter::START_BYTES);
    }

    #[test]
    fn reads_of_two_kinds_tell_nothing() {
        // Long reads from a disk, short ones from memory; and the other way round.
        for [long_us, short_us] in [[1200, 2], [30, 100]] {
            let mut meter = GapMeter::new();
            for _ in 0..100 {
                meter.record(262_144, Duration::from_micros(long_us));
                meter.record(4096, Duration::from_micros(short_us));
            }
            assert_eq!((meter.gap_bytes(), meter.request_cost()), (GapMeter::START_BYTES, None));
        }
    }

    #[test]
    fn a_stall_changes_little() {
        let mut meter = measured(80, 2000, &[600, 262_144]);
        let before = meter.gap_bytes();
        meter.record(600, Duration::from_secs(5));
        assert!(meter.gap_bytes().abs_diff(before) < before / 10, "{} and {before}", meter.gap_bytes());
    }

    #[test]
    fn a_source_that_changes_is_measured_anew() {
        let mut meter = measured(80, 2000, &[600, 262_144]);
        for number in 0..4000 {
            let bytes = [600, 262_144][number % 2];
            meter.record(bytes, Duration::from_nanos(2_000 + bytes / 4));
        }
        assert!(is_near(meter.gap_bytes(), 8000), "{}", meter.gap_bytes());
    }

    proptest! {
        #[test]
        fn any_times_give_a_gap_within_the_limits(reads in vec((any::<u64>(), any::<u64>()), 0..100)) {
            let mut meter = GapMeter::new();
            for (bytes, ns) in reads {
                meter.record(bytes, Duration::from_nanos(ns));
                prop_assert!(meter.gap_bytes() <= GapMeter::MAX_BYTES);
            }
        }
    }
}
