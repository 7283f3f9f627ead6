//! The use of a node's slots, and counters of its blocks.

/// A node's slots, by their use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct MemoryUse {
    /// All of them.
    pub slots: u32,
    /// Those that nobody has, nor was promised.
    pub free: u32,
    /// Those of blocks that were asked for.
    pub in_transit: u32,
    /// Those of blocks that are cached.
    pub cached: u32,
    /// Those that were promised to upstreams.
    pub credited: u32,
}

/// Counters of a budget's blocks, which only grow.
///
/// Every block that a reader of the budget asks for is counted as one of `hits`, `ahead_hits`,
/// `late_ahead`, `joined` and `misses`, when the node finds out what it has of it. A block that is
/// reclaimed before its reader gets to it is asked for once more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct BudgetStats {
    /// Blocks that were cached, because a reader had asked for them before.
    pub hits: u64,
    /// Blocks that were cached ahead of time, at their first use.
    pub ahead_hits: u64,
    /// Blocks that were on their way ahead of time, at their first use.
    pub late_ahead: u64,
    /// Blocks that were on their way for another reader.
    pub joined: u64,
    /// Blocks that had to be fetched.
    pub misses: u64,
    /// Blocks that were fetched ahead of time.
    pub ahead_fetched: u64,
    /// Blocks that were sent to a downstream node before it asked.
    pub presented: u64,
    /// Blocks that an upstream pushed into its credit.
    pub pushed: u64,
    /// Pushed blocks that were dropped, because the node had them already.
    pub pushed_twice: u64,
    /// Blocks of this budget that came ahead of time, and were then used by a reader of any budget.
    pub used: u64,
    /// Blocks of this budget that came ahead of time, and went before anyone used them.
    pub unused: u64,
    /// Blocks of this budget that were reclaimed, for room or because their generation is past.
    pub reclaimed: u64,
    /// Blocks of this budget that could not be had.
    pub failed: u64,
}
