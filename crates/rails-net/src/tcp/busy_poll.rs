//! Busy polling: reading a socket repeatedly before the thread sleeps.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// The time that a lane polls its socket after a use, before its thread may sleep.
#[derive(Debug)]
pub(crate) struct BusyPoll {
    time: Duration,
    idle_since: Mutex<Option<Instant>>,
}

impl BusyPoll {
    pub(crate) fn new(time: Duration) -> Self {
        Self { time, idle_since: Mutex::new(None) }
    }

    /// Notes a use of the lane: the polling time begins anew at the next idle poll.
    pub(crate) fn note_use(&self) {
        *self.idle_since.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Whether a lane that has no bytes at `now` polls again at once.
    pub(crate) fn goes_on(&self, now: Instant) -> bool {
        let mut idle_since = self.idle_since.lock().unwrap_or_else(PoisonError::into_inner);
        now.saturating_duration_since(*idle_since.get_or_insert(now)) < self.time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_poll_end_and_restart_on_use() {
        let (start, time) = (Instant::now(), Duration::from_micros(50));
        let busy = BusyPoll::new(time);
        assert!(busy.goes_on(start));
        assert!(busy.goes_on(start + time - Duration::from_nanos(1)));
        assert!(!busy.goes_on(start + time));
        busy.note_use();
        assert!(busy.goes_on(start + 2 * time));
        assert!(!busy.goes_on(start + 3 * time));
    }
}
