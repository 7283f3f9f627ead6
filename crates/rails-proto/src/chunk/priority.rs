//! The priority of a message.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The priority of a message. A more urgent message goes out before the rest of a less urgent one,
/// and may arrive before it. Messages of one priority keep their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub struct Priority(u8);

impl Priority {
    /// For messages that may wait.
    pub const LOWEST: Self = Self(0);
    /// For all other messages.
    pub const NORMAL: Self = Self(3);
    /// For messages that may not wait.
    pub const HIGHEST: Self = Self(7);
    /// The number of priorities.
    pub const LEVELS: usize = 8;

    /// The priority of that level, from 0 to 7; `None` above that.
    pub const fn new(level: u8) -> Option<Self> {
        if (level as usize) < Self::LEVELS { Some(Self(level)) } else { None }
    }

    /// The priority's level, from 0 to 7.
    pub const fn level(self) -> u8 {
        self.0
    }

    /// All priorities, the most urgent first.
    pub fn descending() -> impl Iterator<Item = Self> {
        (0..Self::LEVELS as u8).rev().map(Self)
    }

    /// The level as an index.
    pub fn index(self) -> usize {
        self.0.into()
    }
}

impl Default for Priority {
    fn default() -> Self {
        Self::NORMAL
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<Priority> for u8 {
    fn from(priority: Priority) -> Self {
        priority.0
    }
}

/// The number is no priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("priority {0}: the highest is 7")]
pub struct InvalidPriority(u8);

impl TryFrom<u8> for Priority {
    type Error = InvalidPriority;

    fn try_from(level: u8) -> Result<Self, InvalidPriority> {
        Self::new(level).ok_or(InvalidPriority(level))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_eight_priorities() {
        assert_eq!(Priority::new(7), Some(Priority::HIGHEST));
        assert_eq!(Priority::new(8), None);
        assert!(Priority::descending().is_sorted_by(|a, b| a > b));
    }
}
