//! How much a task receives before it yields its thread.

/// How much a task may still receive before it yields to the others: its lane's other direction, the other tasks of its rail, and the timers and
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

    /// Notes that one read gave so many bytes. Gives whether that used the budget up; the next budget begins then.
    pub(super) fn spend(&mut self, bytes: u64) -> bool {
        let left = self.left.checked_sub(bytes.max(LEAST));
        self.left = left.unwrap_or(LONGEST);
        left.is_none()
    }
}

/// The bytes of one budget. That is 2.6 ms at 50 MB/s; at 5 GB/s one more look at the sockets for each is less than 1 % of the time.
const LONGEST: u64 = 128 << 10;
/// A read counts as so many bytes at least, so that small ones use up this budget before they use up tokio's: a lane that has none left can neither send nor see
/// that a timeout has come.
const LEAST: u64 = 4 << 10;
