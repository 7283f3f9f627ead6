//! The parts that programs of a room play.

use rails_lab::Side;

/// The part that a program plays, by which its CPU time is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The program that connects, at side A.
    Client,
    /// The program that listens, at side B.
    Service,
    /// A gate or another helper of a door, at either side.
    Door,
}

impl Part {
    /// Every part.
    pub const ALL: [Self; 3] = [Self::Client, Self::Service, Self::Door];

    /// The part's name in reports and folders.
    pub fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Service => "service",
            Self::Door => "door",
        }
    }

    /// The side of programs of this part.
    ///
    /// # Panics
    ///
    /// A door's programs are at both.
    pub(crate) fn side(self) -> Side {
        match self {
            Self::Client => Side::A,
            Self::Service => Side::B,
            Self::Door => panic!("a door's programs are at both sides"),
        }
    }
}
