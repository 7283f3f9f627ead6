//! Taking turns on a thread.

/// How much a task may still receive before others have their turn: its lane's other direction, the other tasks of its rail, and the timers and
/// sockets of its runtime.
///
/// A socket that always has something never makes its task wait. tokio's own budget counts calls, 128 of them, and on a busy CPU 128 reads can
/// take a tenth of a second, for which nothing that came in would be acknowledged.
#[derive(Debug)]
pub(super) struct YieldBudget {
    left: u64,
}

impl YieldBudget {
    pub(super) fn new() -> Self {
        Self { left: LONGEST }
    }

    /// Notes that one read gave so many bytes; whether the turn is over by that, and the next one begins.
    pub(super) fn spend(&mut self, bytes: u64) -> bool {
        let left = self.left.checked_sub(bytes.max(LEAST));
        self.left = left.unwrap_or(LONGEST);
        left.is_none()
    }
}

/// How many bytes are one turn. It is 2.6 ms at 50 MB/s; at 5 GB/s one more look at the sockets for each is less than 1 % of the time.
const LONGEST: u64 = 128 << 10;
/// A read counts as so many bytes at least, so that small ones use up the turn before they use up tokio's budget: a lane that has none left can neither send nor see
/// that a timeout has come.
const LEAST: u64 = 4 << 10;
