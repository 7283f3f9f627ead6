//! Ranges of a file that lie near each other become one read.

use std::ops::Range;

/// The limits within which ranges are merged.
///
/// On a local disk a read over a gap costs less than a second read; from far away the bytes of the
/// gap cost more. So the gap is a property of the source, to be measured there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MergeLimits {
    max_gap_bytes: u64,
    max_over_read_percent: u32,
    max_read_bytes: u64,
}

/// Bytes to be read at once, and the ranges that they hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergedRead {
    /// The bytes.
    pub range: Range<u64>,
    /// The numbers of the ranges, by their first byte.
    pub parts: Vec<usize>,
}

impl MergeLimits {
    /// The largest gap that is read over, in bytes. Default: 0, so only ranges that touch or
    /// overlap are merged. A larger one saves reads and costs the bytes of the gaps.
    pub fn max_gap_bytes(mut self, bytes: u64) -> Self {
        self.max_gap_bytes = bytes;
        self
    }

    /// The largest share of bytes in gaps, in percent of the wanted bytes of a read. Default: 100.
    pub fn max_over_read_percent(mut self, percent: u32) -> Self {
        self.max_over_read_percent = percent;
        self
    }

    /// The longest read that merging makes, in bytes. Default: 8 MiB. A range that is longer stays
    /// one read. The reader holds one merged read in memory beside the goal.
    pub fn max_read_bytes(mut self, bytes: u64) -> Self {
        self.max_read_bytes = bytes;
        self
    }

    fn allow(&self, range: &Range<u64>, gap: u64, wanted: u64) -> bool {
        let length = range.end - range.start;
        let allowed = u128::from(wanted) * u128::from(self.max_over_read_percent) / 100;
        gap <= self.max_gap_bytes && length <= self.max_read_bytes && u128::from(length - wanted) <= allowed
    }
}

impl Default for MergeLimits {
    fn default() -> Self {
        Self { max_gap_bytes: 0, max_over_read_percent: 100, max_read_bytes: 8 << 20 }
    }
}

/// Merges ranges, in the order of their first bytes. Every range that is not empty is in one read,
/// all of it.
///
/// The merging is greedy: a range joins the read before it, if the limits allow that.
pub fn merge(ranges: &[Range<u64>], limits: &MergeLimits) -> Vec<MergedRead> {
    let mut order: Vec<usize> = (0..ranges.len()).filter(|number| !ranges[*number].is_empty()).collect();
    order.sort_by_key(|number| (ranges[*number].start, ranges[*number].end));
    let mut reads: Vec<MergedRead> = Vec::new();
    // The bytes of the last read that a range has.
    let mut wanted = 0;
    for number in order {
        let next = &ranges[number];
        if let Some(read) = reads.last_mut() {
            let gap = next.start.saturating_sub(read.range.end);
            let new = next.end.saturating_sub(next.start.max(read.range.end));
            let both = read.range.start..read.range.end.max(next.end);
            if limits.allow(&both, gap, wanted + new) {
                (read.range, wanted) = (both, wanted + new);
                read.parts.push(number);
                continue;
            }
        }
        wanted = next.end - next.start;
        reads.push(MergedRead { range: next.clone(), parts: vec![number] });
    }
    reads
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::vec, prelude::*};

    fn ranges(reads: &[MergedRead]) -> Vec<Range<u64>> {
        reads.iter().map(|read| read.range.clone()).collect()
    }

    #[test]
    fn a_gap_is_limited_on_both_sides() {
        let rows = [0..10, 15..25];
        let limits = MergeLimits::default();
        assert_eq!(ranges(&merge(&rows, &limits.max_gap_bytes(4))), rows);
        assert_eq!(merge(&rows, &limits.max_gap_bytes(5)), [MergedRead { range: 0..25, parts: vec![0, 1] }]);
    }

    #[test]
    fn the_over_read_is_limited_on_both_sides() {
        let rows = [0..10, 15..25];
        let limits = MergeLimits::default().max_gap_bytes(5);
        assert_eq!(merge(&rows, &limits.max_over_read_percent(24)).len(), 2);
        assert_eq!(merge(&rows, &limits.max_over_read_percent(25)).len(), 1);
    }

    #[test]
    fn a_read_is_limited_on_both_sides() {
        let rows = [0..10, 10..20, 20..100];
        let limits = MergeLimits::default();
        assert_eq!(ranges(&merge(&rows, &limits.max_read_bytes(19))), rows);
        assert_eq!(ranges(&merge(&rows, &limits.max_read_bytes(20))), [0..20, 20..100]);
    }

    #[test]
    fn numbers_at_the_end_do_not_overflow() {
        let rows = [u64::MAX - 2..u64::MAX, 0..1];
        let limits = MergeLimits::default().max_gap_bytes(u64::MAX).max_over_read_percent(u32::MAX);
        assert_eq!(merge(&rows, &limits.max_read_bytes(u64::MAX)).len(), 2);
    }

    proptest! {
        #[test]
        fn every_range_is_in_one_read(
            starts in vec((0_u64..500, 0_u64..40), 0..20),
            (gap, percent, longest) in (0_u64..60, 0_u32..300, 1_u64..200),
        ) {
            let wanted: Vec<Range<u64>> = starts.iter().map(|(start, length)| *start..start + length).collect();
            let limits = MergeLimits::default()
                .max_gap_bytes(gap).max_over_read_percent(percent).max_read_bytes(longest);
            let reads = merge(&wanted, &limits);
            let mut seen = vec![0; wanted.len()];
            for read in &reads {
                let mut is_wanted = vec![false; 600];
                for part in &read.parts {
                    let range = &wanted[*part];
                    prop_assert!(read.range.start <= range.start && range.end <= read.range.end);
                    seen[*part] += 1;
                    is_wanted[range.start as usize..range.end as usize].fill(true);
                }
                let length = read.range.end - read.range.start;
                let within = &is_wanted[read.range.start as usize..read.range.end as usize];
                let over = within.iter().filter(|is_wanted| !**is_wanted).count() as u64;
                prop_assert!(over * 100 <= (length - over) * u64::from(percent));
                prop_assert!(within.split(|is_wanted| *is_wanted).all(|hole| hole.len() as u64 <= gap));
                prop_assert!(read.parts.len() == 1 || length <= longest);
                prop_assert!(within[0] && within[within.len() - 1]);
            }
            for (range, seen) in wanted.iter().zip(seen) {
                prop_assert_eq!(seen, u32::from(!range.is_empty()));
            }
            prop_assert!(reads.is_sorted_by_key(|read| read.range.start));
        }
    }
}
