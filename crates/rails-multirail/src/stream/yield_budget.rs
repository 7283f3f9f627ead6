//! The budget of a task that receives, before it yields its thread.

/// The bytes that a task may still receive before it yields: to its lane's other direction, to the
/// other tasks of its rail, and to the timers and sockets of its runtime.
///
/// A socket that always has bytes never makes its task wait. tokio's own budget is 128 calls, and
/// on a busy CPU 128 reads can take a tenth of a second, in which the lane would acknowledge
/// nothing.
#[derive(Debug)]
pub(super) struct YieldBudget {
    left: u64,
}

impl YieldBudget {
    pub(super) fn new() -> Self {
        Self { left: LONGEST }
    }

    /// Subtracts the bytes of one read. Returns whether the budget is used up, and then begins the
    /// next one.
    pub(super) fn spend(&mut self, bytes: u64) -> bool {
        let left = self.left.checked_sub(bytes.max(MIN));
        self.left = left.unwrap_or(LONGEST);
        left.is_none()
    }
}

/// The bytes of one budget: 2.6 ms at 50 MB/s. At 5 GB/s one more poll of the sockets per budget
/// takes less than 1 % of the time.
const LONGEST: u64 = 128 << 10;
/// The least that a read counts, in bytes, so that small reads use up this budget before tokio's: a
/// lane without tokio budget can neither send nor notice a timeout.
const MIN: u64 = 4 << 10;
