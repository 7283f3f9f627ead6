//! The encodings of blocks, and sets of them.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The encoding of a block on a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Encoding {
    /// The block as it is.
    None,
    /// LZ4 of the shuffled block.
    Lz4,
    /// Zstandard of the shuffled block.
    Zstd,
    /// Zstandard of integers: the numbers of the block are decimal fractions.
    Decimal,
}

/// A set of encodings. [`Encoding::None`] is in every set.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Encodings(u8);

impl Encoding {
    /// Every encoding.
    pub const ALL: [Self; 4] = [Self::None, Self::Lz4, Self::Zstd, Self::Decimal];

    /// The name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
            Self::Decimal => "decimal",
        }
    }

    /// The number in a header.
    pub(super) const fn number(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Lz4 => 1,
            Self::Zstd => 2,
            Self::Decimal => 3,
        }
    }
}

impl Encodings {
    /// The set of [`Encoding::None`] alone.
    pub const NONE: Self = Self(0);

    /// The set with one more encoding.
    pub const fn with(self, encoding: Encoding) -> Self {
        match encoding {
            Encoding::None => self,
            Encoding::Lz4 => Self(self.0 | 1),
            Encoding::Zstd => Self(self.0 | 2),
            Encoding::Decimal => Self(self.0 | 4),
        }
    }

    /// Whether an encoding is in the set.
    pub const fn contains(self, encoding: Encoding) -> bool {
        self.with(encoding).0 == self.0
    }

    /// The encodings that are in both sets.
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Debug for Encodings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(Encoding::ALL.into_iter().filter(|encoding| self.contains(*encoding))).finish()
    }
}
