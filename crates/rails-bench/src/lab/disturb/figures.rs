//! The figures of a disturbance, computed from the samples.

use super::{DisturbContest, DisturbOutcome, DisturbSample, Disturbance, Figure, LinkLook, Measure};
use crate::{
    lab::compare::{Contender, Spread},
    measure::series::{Pause, Series},
};

impl Disturbance {
    pub(super) fn new(contest: &DisturbContest, samples: Vec<DisturbSample>) -> Self {
        let is_plain = |sample: &&DisturbSample| sample.contender == Contender::PlainFlows && is_whole(sample);
        let plain: Vec<&DisturbSample> = samples.iter().filter(is_plain).collect();
        let ceiling = |phase: usize| {
            let rates = plain.iter().filter_map(|sample| {
                let (from, to) = *phases(sample).get(phase)?;
                sample.series.as_ref()?.bits_per_second((from + to) / 2.0, to)
            });
            Spread::of(rates).map(|spread| spread.median)
        };
        let ceilings: Vec<f64> = (0..3).map_while(ceiling).collect();
        let last = contest.links.len() - 1;
        let rate = contest.links[last].mbit().map(|mbit| mbit as f64 * 1e6);
        let reached = |measure: Measure, sample: &DisturbSample| match measure {
            Measure::SettledAfterChange => settled_after(sample, 1, *ceilings.get(1)?),
            Measure::SettledAfterReturn => settled_after(sample, 2, *ceilings.get(2)?),
            Measure::LongestGap => Some(longest_pause(sample)),
            Measure::UsedAgain => Some(used_again(sample, last, rate?)),
            Measure::LostOrDoubled => Some(lost_or_doubled(sample).map(|bytes| bytes as f64)),
        };
        let outcome = |contender: &Contender| {
            let of: Vec<&DisturbSample> = samples.iter().filter(|one| one.contender == *contender).collect();
            let whole: Vec<&DisturbSample> = of.iter().copied().filter(|sample| is_whole(sample)).collect();
            let figure = |measure: Measure| {
                let values = whole.iter().map(|sample| reached(measure, sample)).collect::<Option<Vec<_>>>();
                let values = values.unwrap_or_default();
                Figure::new(measure, measure.target(contest.scenario), &values)
            };
            let mut warnings: Vec<String> = of.iter().flat_map(|sample| sample.warnings.clone()).collect();
            warnings.extend(of.iter().filter_map(|sample| sample.failed.clone()));
            warnings.sort();
            warnings.dedup();
            DisturbOutcome {
                contender: *contender,
                rounds: (whole.len(), of.len()),
                figures: Measure::ALL.map(figure).to_vec(),
                warnings,
            }
        };
        let taking_part =
            contest.contenders.iter().filter(|one| samples.iter().any(|sample| sample.contender == **one));
        Self {
            links: contest.links.clone(),
            scenario: contest.scenario,
            congestion_control: contest.terms.congestion.clone(),
            seed: contest.terms.seed,
            results: taking_part.map(outcome).collect(),
            ceilings_bits_per_second: ceilings,
            samples,
        }
    }
}

impl Series {
    /// The mean rate between two times of the wall clock, from the intervals that lie wholly
    /// between; `None` where there are none.
    pub(crate) fn bits_per_second(&self, from_unix: f64, to_unix: f64) -> Option<f64> {
        let first = ((from_unix - self.start_unix_seconds) / self.interval_seconds).ceil().max(0.0) as usize;
        let last = ((to_unix - self.start_unix_seconds) / self.interval_seconds).floor().max(0.0) as usize;
        let bytes: u64 = self.bytes.get(first..last.max(first))?.iter().sum();
        (last > first).then(|| bytes as f64 * 8.0 / ((last - first) as f64 * self.interval_seconds))
    }

    /// The longest pause that overlaps the time between two moments; 0 if no pause was longer than
    /// an interval.
    pub(crate) fn longest_pause_seconds(&self, from_unix: f64, to_unix: f64) -> f64 {
        let within = |pause: &&Pause| {
            let start = self.start_unix_seconds + pause.start_seconds;
            start + pause.seconds > from_unix && start < to_unix
        };
        self.pauses.iter().filter(within).map(|pause| pause.seconds).fold(0.0, f64::max)
    }
}

impl Figure {
    /// The figure of the rounds' values; `None` for an event that never happened, which counts as
    /// later than any time.
    fn new(measure: Measure, target: Option<f64>, values: &[Option<f64>]) -> Self {
        let never = values.iter().filter(|value| value.is_none()).count();
        let spread = Spread::of(values.iter().map(|value| value.unwrap_or(f64::INFINITY)));
        let finite = |pick: fn(&Spread) -> f64| spread.as_ref().map(pick).filter(|value| value.is_finite());
        let median = finite(|spread| spread.median);
        Self {
            measure,
            target,
            median,
            min: finite(|spread| spread.min),
            max: finite(|spread| spread.max),
            never,
            is_met: target.filter(|_| !values.is_empty()).map(|target| median.is_some_and(|median| median <= target)),
        }
    }
}

/// Whether every event happened in time, and the receiver reported: an event that came late leaves
/// too little time for its effect.
fn is_whole(sample: &DisturbSample) -> bool {
    sample.series.is_some() && sample.course.was_in_time()
}

fn lost_or_doubled(sample: &DisturbSample) -> Option<u64> {
    let (written, read) = (sample.bytes_written?, sample.bytes?);
    // After the first wrong byte, no byte counts as arrived.
    Some(written.abs_diff(read).max(sample.wrong_at.map_or(0, |at| read.saturating_sub(at))))
}

/// The times from one event to the next.
fn phases(sample: &DisturbSample) -> Vec<(f64, f64)> {
    let course = &sample.course;
    let mut borders = vec![course.begun_unix_seconds];
    borders.extend(course.happenings.iter().map(|happened| happened.unix_seconds));
    borders.push(course.ended_unix_seconds);
    borders.windows(2).map(|pair| (pair[0], pair[1])).collect()
}

/// `None` if it is unknown, or never happened.
fn settled_after(sample: &DisturbSample, phase: usize, ceiling: f64) -> Option<Option<f64>> {
    let (from, to) = *phases(sample).get(phase)?;
    Some(settled(sample.series.as_ref()?, from, to, ceiling))
}

/// The first time after `from` at which the rate is within 5 % of the ceiling, over the next 200 ms
/// and over all that is left.
fn settled(series: &Series, from: f64, to: f64, ceiling: f64) -> Option<f64> {
    let enough = |start: f64, end: f64| series.bits_per_second(start, end).is_some_and(|rate| rate >= NEAR * ceiling);
    let starts = (0..).map(|step| from + f64::from(step) * series.interval_seconds);
    let mut starts = starts.take_while(|start| start + WINDOW_SECONDS <= to);
    let start = starts.find(|start| enough(*start, start + WINDOW_SECONDS) && enough(*start, to))?;
    Some(start - from)
}

fn longest_pause(sample: &DisturbSample) -> Option<f64> {
    let first = sample.course.happenings.first()?.unix_seconds;
    Some(sample.series.as_ref()?.longest_pause_seconds(first, sample.course.ended_unix_seconds))
}

/// The time from the last event until a link carried a quarter of its rate, over 100 ms.
fn used_again(sample: &DisturbSample, link: usize, bits_per_second: f64) -> Option<f64> {
    let returned = sample.course.happenings.get(1)?.unix_seconds;
    carried_after(&sample.course.links, returned, link, bits_per_second / 4.0).map(|at| at - returned)
}

fn carried_after(looks: &[LinkLook], after: f64, link: usize, bits_per_second: f64) -> Option<f64> {
    let after: Vec<&LinkLook> = looks.iter().filter(|look| look.unix_seconds >= after).collect();
    let mut pairs = after.iter().filter_map(|end| {
        let start = after.iter().rev().find(|start| end.unix_seconds - start.unix_seconds >= CARRIED_SECONDS)?;
        let bits = (end.tx_bytes[link] - start.tx_bytes[link]) as f64 * 8.0;
        Some((end.unix_seconds, bits / (end.unix_seconds - start.unix_seconds)))
    });
    pairs.find(|(_, rate)| *rate >= bits_per_second).map(|(at, _)| at)
}

/// A settled rate is at least this share of the ceiling.
const NEAR: f64 = 0.95;
/// Long enough that the 20 ms of queue of a shaped link do not show.
const WINDOW_SECONDS: f64 = 0.2;
const CARRIED_SECONDS: f64 = 0.1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_and_pause_between_two_times() {
        let pauses = vec![Pause { start_seconds: 0.02, seconds: 0.075 }];
        let series = Series { start_unix_seconds: 100.0, interval_seconds: 0.02, bytes: vec![11, 7, 0, 0, 2], pauses };
        assert_eq!(series.longest_pause_seconds(100.05, 101.0), 0.075, "it reached into that time");
        assert_eq!(series.longest_pause_seconds(100.2, 101.0), 0.0);
        assert_eq!(series.bits_per_second(100.0, 100.04), Some(18.0 * 8.0 / 0.04));
        assert_eq!(series.bits_per_second(100.01, 100.02), None, "no interval lies within");
        assert_eq!(series.bits_per_second(100.0, 200.0), None, "beyond the end");
    }

    #[test]
    fn settled_rates_stay_near_the_ceiling() {
        let series =
            |bytes: Vec<u64>| Series { start_unix_seconds: 10.0, interval_seconds: 0.1, bytes, pauses: vec![] };
        // 80 bits in 0.1 s are the ceiling.
        let late = series([vec![2; 5], vec![10; 25]].concat());
        let after = settled(&late, 10.0, 12.9, 800.0).unwrap();
        assert!((0.4..=0.6).contains(&after), "{after}");
        assert_eq!(settled(&series(vec![9; 30]), 10.0, 12.9, 800.0), None, "a tenth is missing");
        assert_eq!(settled(&series([vec![10; 5], vec![2; 25]].concat()), 10.0, 12.9, 800.0), None, "it did not last");
    }

    #[test]
    fn never_ranks_behind_every_time() {
        let figure = |values: &[Option<f64>]| Figure::new(Measure::UsedAgain, Some(2.0), values);
        let once = figure(&[Some(1.0), None, Some(0.5)]);
        assert_eq!((once.median, once.max, once.never, once.is_met), (Some(1.0), None, 1, Some(true)));
        let mostly = figure(&[None, Some(0.5), None]);
        assert_eq!((mostly.median, mostly.min, mostly.is_met), (None, Some(0.5), Some(false)));
        assert_eq!(figure(&[]).is_met, None, "nothing is known");
    }

    #[test]
    fn link_used_again_by_a_share_of_its_rate() {
        let looks: Vec<LinkLook> = (0..100_u32)
            .map(|step| LinkLook {
                unix_seconds: f64::from(step) * 0.02,
                tx_bytes: vec![0, u64::from(step.saturating_sub(50)) * 1000],
            })
            .collect();
        // 50 kB/s from 1 s on.
        let at = carried_after(&looks, 0.5, 1, 300_000.0).unwrap();
        assert!((1.05..1.15).contains(&at), "{at}");
        assert_eq!(carried_after(&looks, 0.5, 0, 1.0), None);
        assert_eq!(carried_after(&looks, 0.5, 1, 500_000.0), None);
    }
}
