//! Goals, and whether figures reach them.

use super::outcome::Outcome;
use serde::Serialize;
use std::fmt;

/// A goal of a contender.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Goal {
    who: &'static str,
    measure: Measure,
}

/// A figure with its limit.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Measure {
    /// The time of the fastest of others is at least `ratio` times as long.
    Faster {
        /// The others.
        than: Vec<&'static str>,
        /// The ratio.
        ratio: f64,
    },
    /// The time is longer than the other's by this share at most.
    Within {
        /// The other.
        than: &'static str,
        /// The share.
        share: f64,
    },
    /// The waits are at most this share of another's.
    Waits {
        /// The other.
        than: &'static str,
        /// The share.
        ratio: f64,
    },
    /// The waits are at most this share of the time.
    Stall(f64),
    /// The time is at most so many seconds.
    Seconds(f64),
    /// Of the blocks that were asked for after the first two steps, at least this share was there
    /// or on its way.
    Hits(f64),
    /// The share of blocks that the node in the middle had is the other's but for so many points.
    HitsNear {
        /// The other.
        than: &'static str,
        /// The points, as a share.
        points: f64,
    },
    /// The application never had less than its `min`, in any round, after the first pass.
    MinKept,
    /// Of the blocks that came ahead of time, at most this share was given up unused.
    Waste(f64),
}

/// A goal beside its figure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Verdict {
    /// The goal in words.
    pub(crate) goal: String,
    /// The figure in words.
    pub(crate) found: String,
    /// Whether the goal is met; `None` where a contender is missing.
    pub(crate) met: Option<bool>,
}

impl Goal {
    pub(crate) fn new(who: &'static str, measure: Measure) -> Self {
        Self { who, measure }
    }

    /// The contender whose goal it is.
    pub(crate) fn who(&self) -> &'static str {
        self.who
    }

    /// The contenders that the goal names.
    #[cfg(test)]
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        let others = match &self.measure {
            Measure::Faster { than, .. } => than.clone(),
            Measure::Within { than, .. } | Measure::Waits { than, .. } | Measure::HitsNear { than, .. } => vec![*than],
            _ => Vec::new(),
        };
        std::iter::once(self.who).chain(others)
    }

    /// Compares the figures with the goal.
    pub(crate) fn judge(&self, outcomes: &[Outcome]) -> Verdict {
        let outcome = |name: &str| outcomes.iter().find(|outcome| outcome.name == name);
        let goal = self.to_string();
        let found = outcome(self.who).and_then(|ours| {
            let (figure, met) = match &self.measure {
                Measure::Faster { than, ratio } => {
                    let others = than.iter().filter_map(|name| outcome(name)).map(|other| other.seconds.median);
                    let figure = others.min_by(f64::total_cmp)? / ours.seconds.median;
                    (format!("{figure:.2} x"), figure >= *ratio)
                }
                Measure::Within { than, share } => {
                    let more = ours.seconds.median / outcome(than)?.seconds.median - 1.0;
                    (format!("{:+.1} %", more * 100.0), more <= *share)
                }
                Measure::Waits { than, ratio } => {
                    let figure = ours.waited?.median / outcome(than)?.waited?.median;
                    (format!("{figure:.2} x"), figure <= *ratio)
                }
                Measure::Stall(share) => {
                    let figure = ours.stall?.median;
                    (format!("{:.1} %", figure * 100.0), figure <= *share)
                }
                Measure::Seconds(limit) => {
                    (format!("{:.1} ms", ours.seconds.median * 1e3), ours.seconds.median <= *limit)
                }
                Measure::Hits(share) => {
                    let figure = ours.hits?.median;
                    (format!("{figure:.3}"), figure >= *share)
                }
                Measure::HitsNear { than, points } => {
                    let hits = ours.node_hits?.median;
                    let change = hits - outcome(than)?.node_hits?.median;
                    (format!("{:+.1} points to {hits:.3}", change * 100.0), change.abs() <= *points)
                }
                Measure::MinKept => {
                    let least = ours.min_share?.min;
                    (format!("{:.0} %", least * 100.0), least >= 1.0)
                }
                Measure::Waste(share) => {
                    let figure = ours.waste?.median;
                    (format!("{:.1} %", figure * 100.0), figure <= *share)
                }
            };
            Some((figure, met))
        });
        let (found, met) = found.map_or_else(|| ("not measured".into(), None), |(found, met)| (found, Some(met)));
        Verdict { goal, found, met }
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.measure {
            Measure::Faster { than, ratio } => write!(f, "≥ {ratio} x {}", than.join(" or ")),
            Measure::Within { than, share } => write!(f, "within {:.0} % of {than}", share * 100.0),
            Measure::Waits { than, ratio } => write!(f, "waits ≤ {ratio} x {than}"),
            Measure::Stall(share) => write!(f, "waits ≤ {:.0} % of the run", share * 100.0),
            Measure::Seconds(limit) => write!(f, "≤ {:.1} ms", limit * 1e3),
            Measure::Hits(share) => write!(f, "hits after two steps ≥ {share}"),
            Measure::HitsNear { than, points } => {
                write!(f, "hits within {:.0} points of {than}", points * 100.0)
            }
            Measure::MinKept => write!(f, "memory ≥ 100 % of min"),
            Measure::Waste(share) => write!(f, "unused ≤ {:.0} %", share * 100.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rails_cli::spread::Spread;

    fn outcome(name: &'static str, seconds: f64) -> Outcome {
        let seconds = Spread::of([seconds]).unwrap();
        Outcome {
            name,
            seconds,
            waited: None,
            stall: None,
            hits: None,
            waste: None,
            node_hits: None,
            min_share: None,
            version: None,
        }
    }

    #[test]
    fn goals_are_met_at_their_limit() {
        let goal = Goal::new("a", Measure::Faster { than: vec!["b", "c"], ratio: 2.0 });
        let verdict = |a, b, c| goal.judge(&[outcome("a", a), outcome("b", b), outcome("c", c)]).met;
        assert_eq!(verdict(1.0, 2.0, 9.0), Some(true));
        assert_eq!(verdict(1.0, 9.0, 1.9), Some(false), "the fastest counts");
        assert_eq!(goal.judge(&[outcome("a", 1.0)]).met, None);
        let goal = Goal::new("a", Measure::Within { than: "b", share: 0.5 });
        assert_eq!(goal.judge(&[outcome("a", 1.5), outcome("b", 1.0)]).met, Some(true));
        assert_eq!(goal.judge(&[outcome("a", 1.6), outcome("b", 1.0)]).met, Some(false));
    }
}
