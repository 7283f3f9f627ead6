//! The capacity of a path: the search tries rates, each twice the last, until less arrives than is
//! sent.
//!
//! No I/O: the command sends at the rates of the search, and passes the outcomes in.

use rails_topo::Bandwidth;
use serde::{Serialize, Serializer};
use std::time::Duration;

/// A rate that was tried.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Trial {
    /// The rate, which counts IP packets.
    #[serde(rename = "rate_bits_per_second")]
    pub(crate) rate: Bandwidth,
    /// The rate at which IP packets have arrived.
    #[serde(rename = "arrived_bits_per_second")]
    pub(crate) arrived: Bandwidth,
    /// The share of packets that were lost.
    pub(crate) loss: f64,
    /// The smoothed round trip at the end of the trial.
    #[serde(rename = "rtt_ms", serialize_with = "milliseconds")]
    #[cfg_attr(test, schemars(with = "f64"))]
    pub(crate) rtt: Duration,
}

/// The search for the capacity of a path.
#[derive(Debug)]
pub(crate) struct Search {
    max_rate: Bandwidth,
    next: Option<Bandwidth>,
    trials: Vec<Trial>,
    /// Whether a trial exceeded the path's capacity.
    is_exceeded: bool,
}

/// A path's figures.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct PathReport {
    /// The rate of IP packets that the path carries.
    #[serde(rename = "capacity_bits_per_second")]
    pub(crate) capacity: Bandwidth,
    /// Whether the path may carry more: the highest allowed rate arrived completely.
    pub(crate) may_carry_more: bool,
    /// The minimum round trip.
    #[serde(rename = "min_rtt_ms", serialize_with = "milliseconds")]
    #[cfg_attr(test, schemars(with = "f64"))]
    pub(crate) min_rtt: Duration,
    /// The smoothed round trip at the highest tried rate, which includes the path's queue.
    #[serde(rename = "busy_rtt_ms", serialize_with = "milliseconds")]
    #[cfg_attr(test, schemars(with = "f64"))]
    pub(crate) busy_rtt: Duration,
    /// The share of packets that were lost while the path was not full; that of the first trial, if
    /// all of them filled it.
    pub(crate) loss: f64,
    /// The largest IP packet that the path carries, up to the MTU of the interfaces.
    pub(crate) mtu_bytes: u32,
    /// All trials, in order.
    pub(crate) trials: Vec<Trial>,
}

impl Search {
    /// Tries no rate above `max_rate`.
    pub(crate) fn new(max_rate: Bandwidth) -> Self {
        Self { max_rate, next: Some(FIRST.min(max_rate)), trials: Vec::new(), is_exceeded: false }
    }

    /// The next rate to try; `None` at the end.
    pub(crate) fn next(&self) -> Option<Bandwidth> {
        self.next
    }

    /// Takes the outcome of a trial.
    pub(crate) fn take(&mut self, trial: Trial) {
        let usual = self.trials.first().map_or(trial.loss, |first| first.loss);
        self.trials.push(trial);
        let carries = trial.arrived.as_bits_per_second() as f64
            >= WHOLE * trial.rate.as_bits_per_second() as f64 * (1.0 - trial.loss.min(usual));
        let bits = trial.rate.as_bits_per_second();
        let tried = self.trials.iter().filter(|other| other.rate == trial.rate).count();
        self.is_exceeded = !carries;
        self.next = match carries {
            true if trial.rate < self.max_rate => {
                Some(Bandwidth::bits_per_second(bits.saturating_mul(2)).min(self.max_rate))
            }
            // Another program may have delayed this one, so the rate is tried again.
            false if tried < TRIES => Some(trial.rate),
            _ => None,
        };
    }

    /// The figures, once all rates are tried.
    pub(crate) fn report(self, min_rtt: Duration, mtu_bytes: u32) -> PathReport {
        let arrived = self.trials.iter().map(|trial| trial.arrived);
        let last = self.trials.last().map(|last| last.rate).filter(|_| self.is_exceeded);
        let whole = self.trials.iter().filter(|trial| Some(trial.rate) != last).map(|trial| trial.loss);
        PathReport {
            capacity: arrived.max().unwrap_or(Bandwidth::bits_per_second(0)),
            may_carry_more: !self.is_exceeded,
            min_rtt,
            busy_rtt: self.trials.last().map_or(min_rtt, |last| last.rtt),
            loss: whole.reduce(f64::min).or(self.trials.first().map(|first| first.loss)).unwrap_or(0.0),
            mtu_bytes,
            trials: self.trials,
        }
    }
}

fn milliseconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64() * 1e3)
}

/// The first rate: ten segments in a hundredth of a second.
const FIRST: Bandwidth = Bandwidth::mbps(12);
/// The number of trials of a rate that the path does not seem to carry.
const TRIES: usize = 2;
/// A path carries a rate if this share of it arrives, since bursts and timers are not exact.
const WHOLE: f64 = 0.93;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn run(capacity: u64, loss: f64, max_rate: u64) -> PathReport {
        let mut search = Search::new(Bandwidth::bits_per_second(max_rate));
        while let Some(rate) = search.next() {
            let sent = rate.as_bits_per_second();
            let passes = sent.min(capacity);
            let lost = 1.0 - passes as f64 / sent as f64 * (1.0 - loss);
            let arrived = Bandwidth::bits_per_second((passes as f64 * (1.0 - loss)) as u64);
            let rtt = Duration::from_millis(if sent > capacity { 39 } else { 19 });
            search.take(Trial { rate, arrived, loss: lost, rtt });
        }
        search.report(Duration::from_millis(19), 1500)
    }

    #[test]
    fn capacity_loss_and_queue_of_a_path() {
        let report = run(500_000_000, 0.01, 10_000_000_000);
        assert_eq!(report.capacity, Bandwidth::bits_per_second(495_000_000));
        assert!(!report.may_carry_more && (report.loss - 0.01).abs() < 1e-9, "{report:?}");
        assert_eq!((report.min_rtt.as_millis(), report.busy_rtt.as_millis()), (19, 39));
        let limited = run(500_000_000, 0.0, 100_000_000);
        assert!(limited.may_carry_more);
        assert_eq!(limited.capacity, Bandwidth::mbps(100));
    }

    proptest! {
        #[test]
        fn no_rate_is_above_the_limit(capacity in 100_000..10_000_000_000u64, loss in 0.0..0.5f64, max_rate in 1..20_000_000_000u64) {
            let report = run(capacity, loss, max_rate);
            prop_assert!(report.trials.len() <= 17);
            prop_assert!(report.trials.iter().all(|trial| trial.rate.as_bits_per_second() <= max_rate));
            let wanted = (capacity.min(max_rate) as f64 * (1.0 - loss)) as u64;
            prop_assert_eq!(report.capacity.as_bits_per_second(), wanted);
        }
    }
}
