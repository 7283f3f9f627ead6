//! The record of sends whose memory the kernel may still read. No I/O, no clock.

use super::ZeroCopyStats;
use std::collections::VecDeque;

/// The sends without a copy whose memory is kept until the kernel is done with it.
///
/// "The kernel assigns each sendmsg call with data a counter, beginning with 0 and wrapping after
/// UINT_MAX calls; a notification carries a range of them, and notifications may come out of order"
/// (Documentation/networking/msg_zerocopy.rst, in short).
#[derive(Debug)]
pub(super) struct Ledger<K> {
    /// The number of the first send in `sends`.
    first: u32,
    /// `None` for a send that the kernel is done with, while an earlier one is outstanding.
    sends: VecDeque<Option<(K, u64)>>,
    copied_in_a_row: u32,
    pub(super) stats: ZeroCopyStats,
}

impl<K> Default for Ledger<K> {
    fn default() -> Self {
        Self { first: 0, sends: VecDeque::new(), copied_in_a_row: 0, stats: ZeroCopyStats::default() }
    }
}

impl<K> Ledger<K> {
    /// Whether the kernel is done with every send.
    pub(super) fn is_settled(&self) -> bool {
        self.sends.is_empty()
    }

    /// The number of sends, from the first that the kernel is not done with.
    pub(super) fn outstanding(&self) -> usize {
        self.sends.len()
    }

    /// Adds a send of `bytes`, which the kernel reads from `kept`.
    pub(super) fn add(&mut self, kept: K, bytes: u64) {
        self.sends.push_back(Some((kept, bytes)));
        self.stats.sends += 1;
        self.stats.bytes += bytes;
        self.stats.outstanding_bytes += bytes;
    }

    /// Notes that the kernel is done with the sends from number `low` to `high`, and whether it has
    /// `copied` them. Returns their memory.
    pub(super) fn complete(&mut self, low: u32, high: u32, copied: bool) -> Vec<K> {
        let mut released = Vec::new();
        // Numbers of completed sends, or of sends that do not exist yet, are ignored.
        let from = low.wrapping_sub(self.first) as usize;
        let to = from.saturating_add(high.wrapping_sub(low) as usize);
        for send in self.sends.iter_mut().take(to.saturating_add(1)).skip(from) {
            let Some((kept, bytes)) = send.take() else { continue };
            self.stats.outstanding_bytes -= bytes;
            self.stats.completed += 1;
            self.stats.copied += u64::from(copied);
            self.copied_in_a_row = if copied { self.copied_in_a_row.saturating_add(1) } else { 0 };
            released.push(kept);
        }
        while let Some(None) = self.sends.front() {
            self.sends.pop_front();
            self.first = self.first.wrapping_add(1);
        }
        // "A process can then choose to stop passing flag MSG_ZEROCOPY on subsequent requests on the same
        // socket."
        self.stats.stopped |= self.copied_in_a_row >= PATIENCE;
        released
    }
}

/// The number of copied sends in a row after which the lane stops requesting zero copy: one or two
/// copies may come from a packet tap, or from a shortage of memory.
const PATIENCE: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ledger(sends: u32) -> Ledger<u32> {
        let mut ledger = Ledger::default();
        (0..sends).for_each(|number| ledger.add(number, 100));
        ledger
    }

    #[test]
    fn release_of_memory_in_any_order_of_notices() {
        let mut ledger = ledger(4);
        assert_eq!(ledger.complete(2, 3, false), [2, 3]);
        assert_eq!(
            (ledger.outstanding(), ledger.stats.outstanding_bytes),
            (4, 200),
            "their places wait for the sends before"
        );
        assert_eq!(ledger.complete(0, 1, false), [0, 1]);
        assert!(ledger.is_settled());
        assert_eq!((ledger.stats.completed, ledger.stats.copied), (4, 0));
    }

    #[test]
    fn numbers_begin_again_after_the_last() {
        let mut ledger = Ledger { first: u32::MAX, ..Ledger::default() };
        ledger.add('a', 1);
        ledger.add('b', 1);
        assert_eq!(ledger.complete(u32::MAX, 0, false), ['a', 'b']);
        assert_eq!(ledger.first, 1);
    }

    #[test]
    fn zero_copy_stop_after_16_copied_sends() {
        let mut ledger = ledger(2 * PATIENCE);
        ledger.complete(0, PATIENCE - 2, true);
        ledger.complete(PATIENCE - 1, PATIENCE - 1, false);
        assert!(!ledger.stats.stopped);
        ledger.complete(PATIENCE, 2 * PATIENCE - 1, true);
        assert!(ledger.stats.stopped);
        assert_eq!(ledger.stats.copied, u64::from(2 * PATIENCE - 1));
    }

    proptest! {
        /// For every sequence of notices, memory is given back once and only if a notice names it, and the sums hold.
        #[test]
        fn nothing_is_given_back_that_was_not_named(first: u32, sends in 0..40_u32, said in prop::collection::vec((0..50_u32, 0..50_u32, any::<bool>()), 0..30)) {
            let mut ledger = Ledger { first, ..Ledger::default() };
            (0..sends).for_each(|number| ledger.add(number, 10));
            let mut back = std::collections::BTreeSet::new();
            for (low, length, copied) in said {
                let number = first.wrapping_add(low);
                for kept in ledger.complete(number, number.wrapping_add(length), copied) {
                    prop_assert!(kept >= low && kept <= low + length);
                    prop_assert!(back.insert(kept));
                }
            }
            prop_assert_eq!(ledger.stats.outstanding_bytes, 10 * u64::from(sends) - 10 * back.len() as u64);
            prop_assert_eq!(ledger.is_settled(), back.len() == sends as usize);
        }
    }
}
