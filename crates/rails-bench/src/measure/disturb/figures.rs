//! What came of a disturbance, worked out from what was written down.

use super::{DisturbContest, DisturbOutcome, DisturbSample, Disturbance, LinkLook};
use crate::measure::{
    compare::{Contender, Spread},
    series::Series,
};

impl Disturbance {
    pub(super) fn new(contest: &DisturbContest, samples: Vec<DisturbSample>) -> Self {
        let plain: Vec<&DisturbSample> = samples.iter().filter(|one| one.contender == Contender::PlainFlows).collect();
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
        let outcome = |contender: &Contender| {
            let of: Vec<&DisturbSample> = samples.iter().filter(|one| one.contender == *contender).collect();
            let whole = of.iter().filter(|sample| sample.series.is_some()).count();
            let all = |values: Vec<Option<f64>>| Spread::of(values.into_iter().collect::<Option<Vec<_>>>()?);
            let settled = |phase: usize| {
                let ceiling = *ceilings.get(phase)?;
                all(of.iter().map(|sample| settled_after(sample, phase, ceiling)).collect())
            };
            let mut warnings: Vec<String> = of.iter().flat_map(|sample| sample.warnings.clone()).collect();
            warnings.extend(of.iter().filter_map(|sample| sample.failed.clone()));
            warnings.sort();
            warnings.dedup();
            DisturbOutcome {
                contender: *contender,
                rounds: (whole, of.len()),
                settled_seconds: vec![settled(1), settled(2)],
                longest_pause_seconds: all(of.iter().map(|sample| longest_pause(sample)).collect()),
                used_again_seconds: all(of.iter().map(|sample| used_again(sample, last, rate?)).collect()),
                warnings,
            }
        };
        let taking_part =
            contest.contenders.iter().filter(|one| samples.iter().any(|sample| sample.contender == **one));
        Self {
            links: contest.links.clone(),
            scenario: contest.scenario,
            congestion_control: contest.congestion.clone(),
            seed: contest.seed,
            results: taking_part.map(outcome).collect(),
            ceilings_bits_per_second: ceilings,
            samples,
        }
    }
}

/// From one happening to the next.
fn phases(sample: &DisturbSample) -> Vec<(f64, f64)> {
    let course = &sample.course;
    let mut borders = vec![course.begun_unix_seconds];
    borders.extend(course.happenings.iter().map(|happened| happened.unix_seconds));
    borders.push(course.ended_unix_seconds);
    borders.windows(2).map(|pair| (pair[0], pair[1])).collect()
}

fn settled_after(sample: &DisturbSample, phase: usize, ceiling: f64) -> Option<f64> {
    let (from, to) = *phases(sample).get(phase)?;
    settled(sample.series.as_ref()?, from, to, ceiling)
}

/// The first time after `from` at which the rate is within 5 % of the ceiling, over the next 200 ms and over all that is left.
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

/// How long after the last happening a link carried a quarter of its rate, over 100 ms.
fn used_again(sample: &DisturbSample, link: usize, bits_per_second: f64) -> Option<f64> {
    let returned = sample.course.happenings.last()?.unix_seconds;
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

/// What counts as settled: 5 % below the ceiling at most.
const NEAR: f64 = 0.95;
/// Long enough that the 20 ms of queue of a shaped link do not show.
const WINDOW_SECONDS: f64 = 0.2;
const CARRIED_SECONDS: f64 = 0.1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_has_settled_when_it_is_near_the_ceiling_and_stays_there() {
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
    fn a_link_is_used_again_when_it_carries_a_share_of_its_rate() {
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
