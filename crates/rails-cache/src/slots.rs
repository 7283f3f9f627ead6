//! A node's memory as slots of equal size, and the chains of them that blocks hold.

/// A pool of slots, of which a fixed number exists.
///
/// A chain links its slots through the same table as the free ones, so a slot costs four bytes,
/// whoever holds it.
#[derive(Debug, Clone)]
pub(crate) struct SlotPool {
    /// The slot after each slot, in its chain or among the free ones.
    next: Vec<u32>,
    first_free: u32,
    free: u32,
}

/// Slots that one block holds. Only the pool that lent them can tell their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct SlotChain {
    first: u32,
    count: u32,
}

impl SlotPool {
    pub(crate) fn new(slots: u32) -> Self {
        assert!(slots < END, "{slots} slots are more than a pool numbers");
        Self {
            next: (1..=slots).map(|slot| if slot == slots { END } else { slot }).collect(),
            first_free: 0,
            free: slots,
        }
    }

    pub(crate) fn total(&self) -> u32 {
        u32::try_from(self.next.len()).expect("the pool was made of fewer")
    }

    pub(crate) fn free(&self) -> u32 {
        self.free
    }

    /// Takes slots for a block, all or none.
    pub(crate) fn take(&mut self, count: u32) -> Option<SlotChain> {
        if count == 0 || count > self.free {
            return None;
        }
        let first = self.first_free;
        let mut last = first;
        for _ in 1..count {
            last = self.next[last as usize];
        }
        self.first_free = std::mem::replace(&mut self.next[last as usize], END);
        self.free -= count;
        Some(SlotChain { first, count })
    }

    pub(crate) fn give_back(&mut self, chain: SlotChain) {
        let Some(last) = self.slots(chain).last() else { return };
        self.next[last as usize] = self.first_free;
        self.first_free = chain.first;
        self.free += chain.count;
    }

    /// The numbers of a chain's slots, in the order of the block's bytes.
    pub(crate) fn slots(&self, chain: SlotChain) -> impl Iterator<Item = u32> + '_ {
        let after = |slot: &u32| Some(self.next[*slot as usize]);
        std::iter::successors(Some(chain.first), after).take(chain.count as usize)
    }
}

impl SlotChain {
    /// A chain of no slots.
    pub(crate) const NONE: Self = Self { first: END, count: 0 };

    pub(crate) fn count(self) -> u32 {
        self.count
    }
}

/// Stands behind the last slot of a chain.
const END: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn chains_are_taken_whole_or_not_at_all() {
        let mut pool = SlotPool::new(5);
        let three = pool.take(3).unwrap();
        assert_eq!((three.count(), pool.free(), pool.take(3)), (3, 2, None));
        assert_eq!(pool.slots(three).collect::<Vec<_>>(), [0, 1, 2]);
        pool.give_back(three);
        assert_eq!((pool.free(), pool.take(5).map(SlotChain::count)), (5, Some(5)));
        assert_eq!((pool.take(0), pool.take(1), pool.total()), (None, None, 5));
        pool.give_back(SlotChain::NONE);
        assert_eq!(pool.free(), 0);
    }

    proptest! {
        #[test]
        fn no_slot_is_lost_or_lent_twice(steps in proptest::collection::vec((any::<bool>(), 1_u32..6, any::<proptest::sample::Index>()), 0..200)) {
            let mut pool = SlotPool::new(32);
            let mut lent = Vec::new();
            for (takes, count, which) in steps {
                if takes {
                    lent.extend(pool.take(count));
                } else if !lent.is_empty() {
                    pool.give_back(lent.swap_remove(which.index(lent.len())));
                }
                let slots: Vec<u32> = lent.iter().flat_map(|chain| pool.slots(*chain)).collect();
                prop_assert_eq!(slots.iter().collect::<BTreeSet<_>>().len(), slots.len());
                prop_assert_eq!(slots.len() as u32 + pool.free(), 32);
            }
        }
    }
}
