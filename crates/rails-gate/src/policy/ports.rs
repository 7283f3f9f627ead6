//! Sets of TCP ports.

use std::{fmt, str::FromStr};

/// The ports of a [`Target`](super::Target): `80,443`, `8000-8100`, or `*` for all from 1 to 65535.
///
/// Nothing connects to port 0, so no set contains it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ports(Ranges);

/// A run of ports, of which the last is not below the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortRange {
    first: u16,
    last: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Ranges {
    One([PortRange; 1]),
    /// In ascending order, with ports between them.
    Several(Vec<PortRange>),
}

/// The fault of a text that means no ports.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PortsError {
    /// A part of the text is no number of a port.
    #[error("`{text}` is no port; write numbers from 1 to 65535 and ranges, such as 80,8000-8100, or * for all")]
    Port {
        /// The part.
        text: String,
    },
    /// A range ends before it begins.
    #[error("the range `{first}-{last}` has no port; write {last}-{first}")]
    Reversed {
        /// The number in front.
        first: u16,
        /// The number behind.
        last: u16,
    },
}

impl Ports {
    /// Every port.
    pub const ALL: Self = Self(Ranges::One([PortRange::ALL]));

    /// The ports of these ranges; `None` if there is no range.
    pub fn new(ranges: impl IntoIterator<Item = PortRange>) -> Option<Self> {
        let mut ranges: Vec<PortRange> = ranges.into_iter().collect();
        ranges.sort_unstable();
        let mut merged: Vec<PortRange> = Vec::new();
        for range in ranges {
            match merged.last_mut() {
                Some(before) if u32::from(range.first) <= u32::from(before.last) + 1 => {
                    before.last = before.last.max(range.last);
                }
                _ => merged.push(range),
            }
        }
        match merged[..] {
            [] => None,
            [range] => Some(Self(Ranges::One([range]))),
            _ => Some(Self(Ranges::Several(merged))),
        }
    }

    /// The ranges in ascending order, with ports between them.
    pub fn ranges(&self) -> &[PortRange] {
        match &self.0 {
            Ranges::One(range) => range,
            Ranges::Several(ranges) => ranges,
        }
    }

    /// Whether a port is one of these.
    pub fn contain(&self, port: u16) -> bool {
        self.ranges().iter().any(|range| range.contains(port))
    }
}

impl PortRange {
    /// Every port.
    pub const ALL: Self = Self { first: 1, last: u16::MAX };

    /// The ports from `first` to `last`; `None` if there is none, or one is 0.
    pub fn new(first: u16, last: u16) -> Option<Self> {
        (1..=last).contains(&first).then_some(Self { first, last })
    }

    /// The first port.
    pub fn first(self) -> u16 {
        self.first
    }

    /// The last port.
    pub fn last(self) -> u16 {
        self.last
    }

    /// Whether a port is one of these.
    pub fn contains(self, port: u16) -> bool {
        (self.first..=self.last).contains(&port)
    }
}

impl FromStr for Ports {
    type Err = PortsError;

    fn from_str(text: &str) -> Result<Self, PortsError> {
        if text.trim() == "*" {
            return Ok(Self::ALL);
        }
        let ranges: Vec<PortRange> = text.split(',').map(str::parse).collect::<Result<_, _>>()?;
        Self::new(ranges).ok_or_else(|| PortsError::Port { text: text.to_owned() })
    }
}

impl FromStr for PortRange {
    type Err = PortsError;

    fn from_str(text: &str) -> Result<Self, PortsError> {
        let port = |text: &str| {
            let port = text.trim().parse().ok().filter(|port| *port != 0);
            port.ok_or_else(|| PortsError::Port { text: text.trim().to_owned() })
        };
        let (first, last) = match text.split_once('-') {
            Some((first, last)) => (port(first)?, port(last)?),
            None => (port(text)?, port(text)?),
        };
        Self::new(first, last).ok_or(PortsError::Reversed { first, last })
    }
}

impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::ALL {
            return f.write_str("*");
        }
        for (index, range) in self.ranges().iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{range}")?;
        }
        Ok(())
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.first, self.last) {
            (1, u16::MAX) => f.write_str("*"),
            (first, last) if first == last => write!(f, "{first}"),
            (first, last) => write!(f, "{first}-{last}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_set_has_the_ports_of_its_ranges(
            pairs in proptest::collection::vec((1_u16.., 0_u16..300), 1..6),
            port in any::<u16>(),
        ) {
            let range = |(first, more): &(u16, u16)| PortRange::new(*first, first.saturating_add(*more)).unwrap();
            let ranges: Vec<PortRange> = pairs.iter().map(range).collect();
            let ports = Ports::new(ranges.clone()).unwrap();
            let near = ranges.iter().flat_map(|range| [range.first - 1, range.first, range.last]);
            for port in near.chain([port, 0]) {
                prop_assert_eq!(ports.contain(port), ranges.iter().any(|range| range.contains(port)), "{}", port);
            }
            prop_assert!(ports.ranges().is_sorted_by(|one, next| u32::from(one.last) + 1 < u32::from(next.first)));
            prop_assert_eq!(ports.to_string().parse(), Ok(ports));
        }
    }
}
