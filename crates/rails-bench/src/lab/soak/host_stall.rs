//! When this machine itself stood still: what is not read then says nothing of the stream.

use super::ends::Gap;
use anyhow::{Context, Result};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// A thread that sleeps, and sees how late it wakes.
pub(super) struct Watch {
    enough: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Gap>>,
}

impl Watch {
    pub(super) fn start() -> Result<Self> {
        let enough = Arc::new(AtomicBool::new(false));
        let told = enough.clone();
        let watch = move || {
            let mut late = Vec::new();
            while !told.load(Ordering::Relaxed) {
                let from = Instant::now();
                thread::sleep(NAP);
                let length = from.elapsed();
                if length >= LATE {
                    late.push(Gap { from, length });
                }
            }
            late
        };
        let thread = thread::Builder::new().name("soak-watch".to_owned()).spawn(watch).context("no thread")?;
        Ok(Self { enough, thread })
    }

    /// When the machine stood still.
    pub(super) fn finish(self) -> Vec<Gap> {
        self.enough.store(true, Ordering::Relaxed);
        // A thread that only sleeps does not panic; without it nothing is known.
        self.thread.join().unwrap_or_default()
    }
}

/// How much of `gap` the machine stood still.
pub(super) fn during(gap: &Gap, standstills: &[Gap]) -> Duration {
    let common = |other: &Gap| {
        let end = (gap.from + gap.length).min(other.from + other.length);
        end.saturating_duration_since(gap.from.max(other.from))
    };
    standstills.iter().map(common).sum()
}

/// How long it sleeps.
const NAP: Duration = Duration::from_millis(5);
/// Later than this something kept it from running.
const LATE: Duration = Duration::from_millis(30);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_lies_within_a_gap_is_counted() {
        let begin = Instant::now();
        let gap =
            |from, length| Gap { from: begin + Duration::from_millis(from), length: Duration::from_millis(length) };
        let standstills = [gap(0, 50), gap(90, 20), gap(150, 30), gap(190, 500), gap(900, 10)];
        assert_eq!(during(&gap(100, 100), &standstills), Duration::from_millis(10 + 30 + 10));
        assert_eq!(during(&gap(60, 10), &standstills), Duration::ZERO);
    }
}
