//! Arrivals over time.

use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Bytes that the receiving application read in each interval, and the pauses between its reads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Series {
    /// The start of the first interval, by the receiver's wall clock.
    pub(crate) start_unix_seconds: f64,
    /// The length of each interval.
    pub(crate) interval_seconds: f64,
    /// The bytes of each interval.
    pub(crate) bytes: Vec<u64>,
    /// All times longer than an interval between two reads.
    pub(crate) pauses: Vec<Pause>,
}

/// A time without a read.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Pause {
    /// The start of the pause, since the first interval began.
    pub(crate) start_seconds: f64,
    /// The length of the pause.
    pub(crate) seconds: f64,
}

/// Records a series.
#[derive(Debug, Clone)]
pub(crate) struct Recorder {
    zero: Instant,
    interval: Duration,
    last: Option<Duration>,
    series: Series,
}

impl Recorder {
    /// A record that starts now.
    pub(crate) fn start(interval: Duration) -> Self {
        // A clock before 1970 is wrong; then only differences of times mean anything.
        let start = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let series = Series {
            start_unix_seconds: start.as_secs_f64(),
            interval_seconds: interval.as_secs_f64(),
            bytes: Vec::new(),
            pauses: Vec::new(),
        };
        Self { zero: Instant::now(), interval, last: None, series }
    }

    /// Counts the bytes read now.
    pub(crate) fn add(&mut self, bytes: usize) {
        self.add_at(self.zero.elapsed(), bytes as u64);
    }

    /// The record.
    pub(crate) fn finish(self) -> Series {
        self.series
    }

    fn add_at(&mut self, now: Duration, bytes: u64) {
        let index = loop {
            let index = now.as_nanos() / self.interval.as_nanos().max(1);
            match usize::try_from(index).ok().filter(|index| *index < MAX_INTERVALS) {
                Some(index) => break index,
                None => {
                    self.series.coarsen(2);
                    self.interval *= 2;
                }
            }
        };
        if self.series.bytes.len() <= index {
            self.series.bytes.resize(index + 1, 0);
        }
        self.series.bytes[index] += bytes;
        if let Some(last) = self.last.replace(now)
            && now - last > self.interval
        {
            let pause = Pause { start_seconds: last.as_secs_f64(), seconds: (now - last).as_secs_f64() };
            self.series.pauses.push(pause);
        }
    }
}

impl Series {
    /// Makes one interval of each `count` intervals. Pauses that are no longer than an interval are
    /// left out.
    fn coarsen(&mut self, count: usize) {
        self.bytes = self.bytes.chunks(count).map(|bytes| bytes.iter().sum()).collect();
        self.interval_seconds *= count as f64;
        self.pauses.retain(|pause| pause.seconds > self.interval_seconds);
    }

    /// Series with the longest interval of them all. The intervals are multiples of each other.
    pub(crate) fn aligned(mut all: Vec<Self>) -> Vec<Self> {
        let longest = all.iter().map(|series| series.interval_seconds).fold(0.0, f64::max);
        for series in &mut all {
            let times = (longest / series.interval_seconds).round() as usize;
            if times > 1 {
                series.coarsen(times);
            }
        }
        all
    }

    /// The series of independent flows together, all counted from one time. A pause of one flow is
    /// none of all, so the pauses are the whole intervals without any read.
    pub(crate) fn together(all: Vec<Self>) -> Option<Self> {
        let mut all = all.into_iter();
        let mut sum = all.next()?;
        for series in all {
            sum.bytes.resize(sum.bytes.len().max(series.bytes.len()), 0);
            sum.bytes.iter_mut().zip(&series.bytes).for_each(|(sum, bytes)| *sum += bytes);
        }
        sum.pauses.clear();
        let mut run = 0;
        let mut begun = false;
        for (index, bytes) in sum.bytes.iter().enumerate() {
            if *bytes == 0 {
                run += 1;
                continue;
            }
            if begun && run > 0 {
                let start_seconds = (index - run) as f64 * sum.interval_seconds;
                sum.pauses.push(Pause { start_seconds, seconds: run as f64 * sum.interval_seconds });
            }
            (run, begun) = (0, true);
        }
        Some(sum)
    }

    /// The rate of independent flows, all counted from the same time, while all of them ran: bytes
    /// of the intervals after the one in which the last began and before the one in which the first
    /// ended. `None` without such intervals.
    pub(crate) fn bits_per_second_together(all: &[Self]) -> Option<f64> {
        let busy = |bytes: &u64| *bytes > 0;
        let begun = all.iter().map(|series| series.bytes.iter().position(busy)).max()??;
        let ended = all.iter().map(|series| series.bytes.iter().rposition(busy)).min()??;
        let bytes: u64 = all.iter().flat_map(|series| series.bytes.get(begun + 1..ended)).flatten().sum();
        (ended > begun + 1).then(|| bytes as f64 * 8.0 / ((ended - begun - 1) as f64 * all[0].interval_seconds))
    }
}

/// The limit on the intervals of a record: a longer one has its intervals doubled.
const MAX_INTERVALS: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_record_stays_short() {
        let mut recorder = Recorder::start(Duration::from_millis(1));
        (0..100_000_u64).for_each(|read| recorder.add_at(Duration::from_millis(read * 1000), 7));
        let series = recorder.finish();
        assert_eq!(series.bytes.iter().sum::<u64>(), 700_000);
        assert!(series.bytes.len() <= MAX_INTERVALS && series.pauses.len() <= MAX_INTERVALS);
        assert_eq!(series.interval_seconds, 2.048);
        let fine = recorded(&[(0, 1), (2100, 2)]);
        let aligned = Series::aligned(vec![Series { interval_seconds: 2.048, ..series.clone() }, fine]);
        assert_eq!((aligned[1].interval_seconds.round(), aligned[1].bytes.len()), (2.0, 2));
    }

    fn recorded(reads: &[(u64, u64)]) -> Series {
        let mut recorder = Recorder::start(Duration::from_millis(20));
        reads.iter().for_each(|(at, bytes)| recorder.add_at(Duration::from_millis(*at), *bytes));
        Series { start_unix_seconds: 100.0, ..recorder.finish() }
    }

    #[test]
    fn bytes_are_counted_by_interval_and_pauses_noted() {
        let series = recorded(&[(5, 10), (19, 1), (20, 7), (95, 2)]);
        assert_eq!(series.bytes, [11, 7, 0, 0, 2]);
        assert_eq!(series.pauses, [Pause { start_seconds: 0.02, seconds: 0.075 }]);
    }

    #[test]
    fn rate_of_flows_while_all_of_them_ran() {
        let steady =
            |from: u64, to: u64, bytes| recorded(&(from..to).map(|step| (step * 20, bytes)).collect::<Vec<_>>());
        // The slow one began later and drags on; the bytes it carries alone do not count.
        let rate = Series::bits_per_second_together(&[steady(0, 50, 100), steady(10, 500, 1)]).unwrap();
        assert!((rate - 101.0 * 8.0 / 0.02).abs() < 1e-6, "{rate}");
        assert_eq!(Series::bits_per_second_together(&[steady(0, 5, 1), steady(6, 9, 1)]), None, "never at once");
        assert_eq!(Series::bits_per_second_together(&[steady(0, 5, 1), steady(0, 0, 1)]), None, "one carried nothing");
        assert_eq!(Series::bits_per_second_together(&[]), None);
    }

    #[test]
    fn flows_together_pause_only_when_all_do() {
        let together = Series::together(vec![recorded(&[(5, 1), (85, 1)]), recorded(&[(5, 1), (25, 1)])]).unwrap();
        assert_eq!(together.bytes, [2, 1, 0, 0, 1]);
        assert_eq!(together.pauses, [Pause { start_seconds: 0.04, seconds: 0.04 }]);
        assert_eq!(Series::together(vec![]), None);
    }
}
