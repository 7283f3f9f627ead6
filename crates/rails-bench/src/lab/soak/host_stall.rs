//! The stalls of this machine, during which a gap in the reading says nothing about the stream.

use crate::measure::series::Pause;
use anyhow::{Context, Result};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// A thread that sleeps, and measures how late it wakes.
pub(super) struct Watch {
    enough: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Pause>>,
}

impl Watch {
    pub(super) fn start(zero: Instant) -> Result<Self> {
        let enough = Arc::new(AtomicBool::new(false));
        let told = enough.clone();
        let watch = move || {
            let mut late = Vec::new();
            while !told.load(Ordering::Relaxed) {
                let from = Instant::now();
                thread::sleep(NAP);
                if from.elapsed() >= LATE {
                    late.push(Pause::since(from, zero));
                }
            }
            late
        };
        let thread = thread::Builder::new().name("soak-watch".to_owned()).spawn(watch).context("no thread")?;
        Ok(Self { enough, thread })
    }

    /// The stalls so far.
    pub(super) fn finish(self) -> Vec<Pause> {
        self.enough.store(true, Ordering::Relaxed);
        // A thread that only sleeps does not panic; if it did, the stalls would be unknown.
        self.thread.join().unwrap_or_default()
    }
}

impl Pause {
    /// The pause from a moment until now, counted from `zero`.
    pub(super) fn since(from: Instant, zero: Instant) -> Self {
        let start_seconds = from.saturating_duration_since(zero).as_secs_f64();
        Self { start_seconds, seconds: from.elapsed().as_secs_f64() }
    }

    /// The seconds that both pauses share.
    pub(super) fn overlap(&self, other: &Self) -> f64 {
        let end = |pause: &Self| pause.start_seconds + pause.seconds;
        (end(self).min(end(other)) - self.start_seconds.max(other.start_seconds)).max(0.0)
    }
}

/// The time of a sleep.
const NAP: Duration = Duration::from_millis(5);
/// A later wake-up is a stall.
const LATE: Duration = Duration::from_millis(30);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlap_of_two_pauses() {
        let pause = |start_seconds, seconds| Pause { start_seconds, seconds };
        let common = |start, seconds| pause(10.0, 10.0).overlap(&pause(start, seconds));
        let standstills = [(0.0, 5.0), (9.0, 2.0), (15.0, 3.0), (19.0, 50.0), (90.0, 1.0)];
        assert_eq!(standstills.map(|(start, seconds)| common(start, seconds)), [0.0, 1.0, 3.0, 1.0, 0.0]);
    }
}
