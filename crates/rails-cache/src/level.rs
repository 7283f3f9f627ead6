//! How full a memory is, in the five levels of the thesis (Table 4).

/// A level from 0 (at most half is used) to 4 (more than 90 % is used).
///
/// The collector reclaims more the higher the level is. Speculation takes nothing that would raise
/// the level to 3; those who choose its depth should follow the table's last column:
///
/// | level | used | collector | speculation |
/// |---|---|---|---|
/// | 0 | at most 50 % | nothing | all of its depth |
/// | 1 | at most 65 % | partitions that were idle for a minute | 3/4 of it |
/// | 2 | at most 80 % | and blocks that nobody is expected to use again | 1/2 of it |
/// | 3 | at most 90 % | any, by policy, until the level falls to 2 | none |
/// | 4 | more | the same, before anything else | none |
///
/// A level falls only once the use is two points below its bound, so that no two bounds coincide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct MemoryLevel(u8);

impl MemoryLevel {
    /// Partitions that were idle go.
    pub(crate) const IDLE_GOES: Self = Self(1);
    /// Passed blocks go.
    pub(crate) const PASSED_GOES: Self = Self(2);
    /// Any block goes, by policy.
    pub(crate) const ANY_GOES: Self = Self(3);
    /// Any block goes, before anything else happens.
    pub(crate) const AT_ONCE: Self = Self(4);

    /// The level as a number, 0 to 4.
    pub fn number(self) -> u8 {
        self.0
    }

    /// The level after the use has changed.
    pub(crate) fn after(self, used: u32, limit: u32) -> Self {
        let above = |points: u64| {
            let is_above = |bound: &&u64| u64::from(used) * 100 > (**bound - points) * u64::from(limit);
            BOUNDS.iter().filter(is_above).count() as u8
        };
        Self(self.0.clamp(above(0), above(HYSTERESIS)))
    }
}

/// The highest use of levels 0 to 3, in per cent of the limit.
const BOUNDS: [u64; 4] = [50, 65, 80, 90];
/// How far below its bound a level is left, in points of per cent.
const HYSTERESIS: u64 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    fn levels(uses: impl IntoIterator<Item = u32>) -> Vec<u8> {
        let mut level = MemoryLevel::default();
        let step = |used| {
            level = level.after(used, 100);
            level.number()
        };
        uses.into_iter().map(step).collect()
    }

    #[test]
    fn a_level_begins_above_its_bound() {
        assert_eq!(levels([50, 51, 65, 66, 80, 81, 90, 91, 100]), [0, 1, 1, 2, 2, 3, 3, 4, 4]);
    }

    #[test]
    fn a_level_ends_two_points_below_its_bound() {
        assert_eq!(levels([100, 90, 89, 88, 79, 78, 64, 63, 49, 48, 0]), [4, 4, 4, 3, 3, 2, 2, 1, 1, 0, 0]);
        assert_eq!(levels([100, 0]), [4, 0]);
    }

    #[test]
    fn a_small_memory_has_levels_too() {
        assert_eq!(MemoryLevel::default().after(1, 2).number(), 0);
        assert_eq!(MemoryLevel::default().after(2, 2).number(), 4);
        assert_eq!(MemoryLevel::default().after(u32::MAX, u32::MAX).number(), 4);
    }
}
