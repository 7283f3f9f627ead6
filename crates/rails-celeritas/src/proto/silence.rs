//! How long nothing was heard of a path on which segments were under way.

use std::time::{Duration, Instant};

/// The time without news. It passes while segments are under way, also those that are given up in the end.
#[derive(Debug)]
pub struct Silence {
    /// When the last news came, or this end began to wait for some, less the time that it has waited in vain before.
    since: Instant,
    /// When this end began to wait.
    began_at: Instant,
    /// The time that it has waited in vain before.
    before: Duration,
    /// When it stopped to wait in vain.
    ended_at: Instant,
    /// How often the rate was halved since the last news.
    halvings: u32,
}

impl Silence {
    /// There is nothing to wait for yet.
    pub fn new(now: Instant) -> Self {
        Self { since: now, began_at: now, before: Duration::ZERO, ended_at: now, halvings: 0 }
    }

    /// The sender has segments under way again. The peer gets a `pause` at least to tell of them, however long it was silent
    /// before.
    pub fn begin(&mut self, now: Instant, pause: Duration) {
        if now.saturating_duration_since(self.ended_at) > MOST_SILENCE {
            // The path may have come back long ago.
            self.before = Duration::ZERO;
        }
        let before = self.before.min(MOST_SILENCE.saturating_sub(pause));
        (self.began_at, self.since) = (now, now.checked_sub(before).unwrap_or(now));
    }

    /// No segment is under way any more: they were given up.
    pub fn end(&mut self, now: Instant) {
        self.before += now.saturating_duration_since(self.began_at);
        self.ended_at = now;
    }

    /// Segments have arrived.
    pub fn hear(&mut self, now: Instant) {
        self.hear_of_path(now);
        self.halvings = 0;
    }

    /// Segments would arrive: it is silent no more, and the rate stays as it is.
    pub fn hear_of_path(&mut self, now: Instant) {
        (self.since, self.began_at, self.before) = (now, now, Duration::ZERO);
    }

    /// The time without news, if it has been too long.
    pub fn is_too_long(&self, now: Instant, is_waiting: bool) -> Option<Duration> {
        let time = if is_waiting { now.saturating_duration_since(self.since) } else { self.before };
        (time >= MOST_SILENCE).then_some(time)
    }

    /// When the rate is to be halved once more, or the silence is too long, while this end waits.
    pub fn next_at(&self, pause: Duration) -> Instant {
        self.since + (pause * (self.halvings + 1)).min(MOST_SILENCE)
    }

    /// The rate is halved once more.
    pub fn halve(&mut self) {
        self.halvings += 1;
    }

    /// How often the rate was halved since the last news.
    pub fn halvings(&self) -> u32 {
        self.halvings
    }

    /// When the last news came, or this end began to wait for some.
    pub fn since(&self) -> Instant {
        self.since
    }
}

/// The time without news after which a connection fails.
pub const MOST_SILENCE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const PAUSE: Duration = Duration::from_millis(300);

    #[test]
    fn waits_in_vain_add_up() {
        let mut now = Instant::now();
        let mut silence = Silence::new(now);
        for _ in 0..50 {
            assert_eq!(silence.is_too_long(now, false), None);
            silence.begin(now, PAUSE);
            now += 100 * MS;
            silence.end(now);
            now += 1_000 * MS;
        }
        assert_eq!(silence.is_too_long(now, false), Some(MOST_SILENCE));
        silence.hear(now);
        assert_eq!(silence.is_too_long(now, false), None);
    }

    #[test]
    fn old_waits_are_forgotten() {
        let begin = Instant::now();
        for (idle, left) in [(4_000 * MS, PAUSE), (3_600_000 * MS, MOST_SILENCE)] {
            let mut silence = Silence::new(begin);
            silence.begin(begin, PAUSE);
            silence.end(begin + 4_990 * MS);
            let now = begin + 4_990 * MS + idle;
            silence.begin(now, PAUSE);
            assert_eq!(silence.is_too_long(now + left - MS, true), None);
            assert!(silence.is_too_long(now + left, true).is_some());
        }
    }
}
