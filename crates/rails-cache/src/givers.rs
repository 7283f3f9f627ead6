//! The budgets that may have something to give or to fetch, so that decisions do not look at all of
//! them.

use crate::{budget::Budget, level::MemoryLevel};
use std::collections::BTreeSet;

/// Sets of budgets, by their seats. They are kept with every change of a budget.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Givers {
    traits: Vec<Traits>,
    pressed: BTreeSet<usize>,
    passed: BTreeSet<usize>,
    leaving: BTreeSet<usize>,
    waiting: BTreeSet<usize>,
    /// By the last access to the partition that was idle for longest.
    idle: BTreeSet<(u32, usize)>,
}

/// Why a budget is in the sets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Traits {
    is_pressed: bool,
    has_passed: bool,
    is_leaving: bool,
    is_waiting: bool,
    oldest_access: Option<u32>,
}

impl Givers {
    /// Takes the budget of a seat as it is now, in a share of that level.
    pub(crate) fn update(&mut self, seat: usize, budget: &Budget, level: MemoryLevel) {
        let new = Traits::of(budget, level);
        if self.traits.len() <= seat {
            self.traits.resize(seat + 1, Traits::default());
        }
        let old = std::mem::replace(&mut self.traits[seat], new);
        if old == new {
            return;
        }
        let put = |set: &mut BTreeSet<usize>, is_in: bool| if is_in { set.insert(seat) } else { set.remove(&seat) };
        put(&mut self.pressed, new.is_pressed);
        put(&mut self.passed, new.has_passed);
        put(&mut self.leaving, new.is_leaving);
        put(&mut self.waiting, new.is_waiting);
        if let Some(access) = old.oldest_access {
            self.idle.remove(&(access, seat));
        }
        self.idle.extend(new.oldest_access.map(|access| (access, seat)));
    }

    /// Those that are at a level at which something goes.
    pub(crate) fn pressed(&self) -> impl Iterator<Item = usize> + '_ {
        self.pressed.iter().copied()
    }

    /// Those with a block that nobody is expected to use again.
    pub(crate) fn passed(&self) -> impl Iterator<Item = usize> + '_ {
        self.passed.iter().copied()
    }

    /// Those that have ended and hold slots, or have blocks of past generations.
    pub(crate) fn leaving(&self) -> impl Iterator<Item = usize> + '_ {
        self.leaving.iter().copied()
    }

    /// Those with blocks to fetch ahead of time.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = usize> + '_ {
        self.waiting.iter().copied()
    }

    /// Those with partitions, the one that has the longest idle first.
    pub(crate) fn idle(&self) -> impl Iterator<Item = usize> + '_ {
        self.idle.iter().map(|(_, seat)| *seat)
    }
}

impl Traits {
    fn of(budget: &Budget, level: MemoryLevel) -> Self {
        Self {
            is_pressed: level >= MemoryLevel::IDLE_GOES && !budget.is_over(),
            has_passed: budget.order.passed_victim().is_some(),
            is_leaving: budget.is_ended && !budget.is_over() || !budget.stale.is_empty(),
            is_waiting: !budget.ahead.is_empty(),
            oldest_access: budget.order.oldest_access(),
        }
    }
}
