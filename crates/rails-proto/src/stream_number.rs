//! The number of a stream in its session.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The number of a stream in its session. The ends count streams as RFC 9000 does (section 2.1):
/// the lowest bit says which end opened the stream, the next one in which directions it runs, and
/// the others count the streams of that kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StreamNumber(pub u64);

/// An end of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The end that opened the session.
    Initiator,
    /// The end that accepted it.
    Responder,
}

/// The directions in which a stream runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// Both directions.
    Bi,
    /// From the end that opened it to the other.
    Uni,
}

impl StreamNumber {
    /// The first stream of the initiator in both directions: the only one of a session that is a
    /// single stream.
    pub const FIRST: Self = Self(0);

    /// Stream `index` of those that `side` opens in that direction, below 2^62.
    pub fn new(side: Side, direction: Direction, index: u64) -> Self {
        Self(index << 2 | (direction as u64) << 1 | side as u64)
    }

    /// The end that opened the stream.
    pub fn side(self) -> Side {
        if self.0 & 1 == 0 { Side::Initiator } else { Side::Responder }
    }

    /// The directions in which the stream runs.
    pub fn direction(self) -> Direction {
        if self.0 & 2 == 0 { Direction::Bi } else { Direction::Uni }
    }

    /// The number of streams of its kind that were opened before it.
    pub fn index(self) -> u64 {
        self.0 >> 2
    }
}

impl Side {
    /// The other end.
    pub fn peer(self) -> Self {
        match self {
            Self::Initiator => Self::Responder,
            Self::Responder => Self::Initiator,
        }
    }
}

impl Direction {
    /// Both kinds.
    pub const ALL: [Self; 2] = [Self::Bi, Self::Uni];
}

impl fmt::Display for StreamNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Table 1 of RFC 9000.
    #[test]
    fn numbers_are_those_of_quic() {
        let numbers = [
            (Side::Initiator, Direction::Bi, 0x00),
            (Side::Responder, Direction::Bi, 0x01),
            (Side::Initiator, Direction::Uni, 0x02),
            (Side::Responder, Direction::Uni, 0x03),
        ];
        for (side, direction, number) in numbers {
            let third = StreamNumber::new(side, direction, 2);
            assert_eq!(third, StreamNumber(8 + number));
            assert_eq!((third.side(), third.direction(), third.index()), (side, direction, 2));
        }
    }
}
