//! Small writes that follow one another at once.

use std::time::{Duration, Instant};

/// Decides which small writes wait for the next ones, to leave in one chunk with them.
///
/// A task that has more requests at hand than the one it answers writes again at once. A chunk for
/// each answer would cost a system call and a wake of the peer for each. But a task that computes
/// between its writes must not delay them: a write waits only if the task has come back at once
/// from each of its last writes, from more of them after each delay.
#[derive(Debug)]
pub(super) struct Burst {
    /// The last write, unless the task has waited since.
    last: Option<Instant>,
    /// The number of writes in a row that followed the one before at once.
    quick: u32,
    /// The number of quick writes after which the next ones wait.
    needed: u32,
    waiting: Option<WaitingWrites>,
}

/// The writes that wait.
#[derive(Debug, Clone, Copy)]
struct WaitingWrites {
    /// When the first of them was written.
    since: Instant,
    bytes: usize,
}

impl Burst {
    pub(super) fn new() -> Self {
        Self { last: None, quick: 0, needed: MIN_QUICK, waiting: None }
    }

    /// Whether a write of `bytes` at `now` waits for the next one. If not, those that wait leave
    /// with it. `has_more` says whether the application has more arrivals at hand.
    pub(super) fn write(&mut self, now: Instant, bytes: usize, has_more: bool) -> bool {
        if let Some(last) = self.last.replace(now) {
            let is_quick = now.saturating_duration_since(last) <= AT_ONCE;
            self.quick = if is_quick { self.quick.saturating_add(1) } else { 0 };
        }
        let WaitingWrites { since, bytes: others } = self.waiting.unwrap_or(WaitingWrites { since: now, bytes: 0 });
        let bytes = others + bytes;
        let waits = has_more
            && self.quick >= self.needed
            && bytes <= MAX_BYTES
            && now.saturating_duration_since(since) <= MAX_WAIT;
        if waits {
            self.waiting = Some(WaitingWrites { since, bytes });
        } else {
            self.leave(|| now);
        }
        waits
    }

    /// Lets the waiting writes leave. The task may wait before its next write, which is no sign
    /// that it is slow.
    pub(super) fn end(&mut self, now: impl FnOnce() -> Instant) {
        self.leave(now);
        self.last = None;
    }

    fn leave(&mut self, now: impl FnOnce() -> Instant) {
        let Some(waiting) = self.waiting.take() else { return };
        if now().saturating_duration_since(waiting.since) > LATE {
            self.quick = 0;
            self.needed = (2 * self.needed).min(MAX_QUICK);
        } else {
            self.needed = (self.needed - 1).max(MIN_QUICK);
        }
    }
}

/// A task that writes within this time of its last write has come back at once. A chunk of its own
/// costs as much.
const AT_ONCE: Duration = Duration::from_micros(20);
/// The number of such writes in a row after which the next ones wait: at first, and at the most.
const MIN_QUICK: u32 = 8;
const MAX_QUICK: u32 = 4096;
/// The longest that a write waits while others follow it at once.
const MAX_WAIT: Duration = Duration::from_micros(50);
/// A write that has waited for longer was delayed.
const LATE: Duration = Duration::from_micros(100);
/// The most bytes that wait: a lane sends as many without asking its socket for room.
const MAX_BYTES: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    const US: Duration = Duration::from_micros(1);

    /// A burst whose task has shown that it comes back at once, and its time.
    fn of_a_quick_task() -> (Burst, Instant) {
        let (mut burst, mut now) = (Burst::new(), Instant::now());
        for _ in 0..=MIN_QUICK {
            now += US;
            assert!(!burst.write(now, 1, false));
        }
        (burst, now)
    }

    #[test]
    fn last_answer_takes_the_others_along() {
        let (mut burst, now) = of_a_quick_task();
        assert!(burst.write(now + US, 1, true));
        assert!(burst.write(now + 2 * US, 1, true));
        assert!(!burst.write(now + 3 * US, 1, false));
        burst.end(|| now + 4 * US);
        // However long the task has waited for its next request, it is still as quick.
        assert!(burst.write(now + 1_000_000 * US, 1, true));
    }

    #[test]
    fn task_that_computes_delays_no_second_write() {
        let (mut burst, mut now) = of_a_quick_task();
        assert!(burst.write(now + US, 1, true));
        for delays in 1..4 {
            now += 5_000 * US;
            for _ in 0..MIN_QUICK << delays {
                assert!(!burst.write(now, 1, true));
                now += US;
            }
            assert!(burst.write(now, 1, true));
        }
    }

    /// The reader's task waits in between, which the writer's does not.
    #[test]
    fn delay_that_another_task_ends_is_one_too() {
        let (mut burst, now) = of_a_quick_task();
        assert!(burst.write(now + US, 1, true));
        burst.end(|| now + 5_000 * US);
        assert!(!burst.write(now + 5_001 * US, 1, true));
    }

    #[test]
    fn writes_wait_neither_long_nor_in_number() {
        let (mut burst, now) = of_a_quick_task();
        let waited: Vec<bool> = (1..=5).map(|count| burst.write(now + count * AT_ONCE, 1, true)).collect();
        assert_eq!(waited, [true, true, true, false, true]);
        let (mut burst, now) = of_a_quick_task();
        let waited: Vec<bool> = (0..4).map(|_| burst.write(now, MAX_BYTES / 2, true)).collect();
        assert_eq!(waited, [true, true, false, true]);
    }
}
