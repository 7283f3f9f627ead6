//! The names and addresses of a lab's things.

use serde::{Deserialize, Serialize};
use std::{
    fmt,
    net::{IpAddr, Ipv4Addr},
    str::FromStr,
};

/// One end of a lab.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Side {
    /// The end whose addresses end in `.1`.
    A,
    /// The end whose addresses end in `.2`.
    B,
}

impl Side {
    /// Both ends.
    pub const BOTH: [Self; 2] = [Self::A, Self::B];

    /// The other end.
    pub const fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }

    const fn letter(self) -> char {
        match self {
            Self::A => 'a',
            Self::B => 'b',
        }
    }
}

/// Shows the letter of the side: `a` or `b`.
impl fmt::Display for Side {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.letter())
    }
}

/// The name of a lab's namespace: `rails-<pid>-<lab>-<side>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NamespaceName {
    /// The process that owns the lab. Never 0, which kill(2) would take for a process group.
    pub(crate) pid: u32,
    /// The lab's number within that process.
    pub(crate) lab: u32,
    pub(crate) side: Side,
}

impl fmt::Display for NamespaceName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "rails-{}-{}-{}", self.pid, self.lab, self.side)
    }
}

/// Reads exactly the form that [`fmt::Display`] writes, so that a sweep deletes no other namespace.
impl FromStr for NamespaceName {
    type Err = NotOurs;

    fn from_str(text: &str) -> Result<Self, NotOurs> {
        let mut parts = text.strip_prefix("rails-").ok_or(NotOurs)?.split('-');
        let (Some(pid), Some(lab), Some(side), None) = (parts.next(), parts.next(), parts.next(), parts.next()) else {
            return Err(NotOurs);
        };
        let side = match side {
            "a" => Side::A,
            "b" => Side::B,
            _ => return Err(NotOurs),
        };
        let name = Self { pid: pid.parse().map_err(|_| NotOurs)?, lab: lab.parse().map_err(|_| NotOurs)?, side };
        // Numbers have spellings that Display never writes ("+7", "007").
        if name.pid == 0 || name.to_string() != text { Err(NotOurs) } else { Ok(name) }
    }
}

/// The text is not the name of a lab's namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NotOurs;

/// The interface of a link's end, e.g. `rail0a`; at most 15 bytes, as `IFNAMSIZ` demands.
pub(crate) fn interface(side: Side, link: u8) -> String {
    format!("rail{link}{side}")
}

/// The port of a link's bridge that leads to this end.
pub(crate) fn port(side: Side, link: u8) -> String {
    format!("port{link}{side}")
}

/// The address of a link's end: every link is a subnet `10.77.<link>.0/24` of its own, so the route
/// picks the link.
pub(crate) fn address(side: Side, link: u8) -> IpAddr {
    let host = match side {
        Side::A => 1,
        Side::B => 2,
    };
    Ipv4Addr::new(10, 77, link, host).into()
}

/// The hardware address of an emulated link's end: locally administered, and the same in every lab,
/// so that it is known without ARP.
pub(crate) fn hardware_address(side: Side, link: u8) -> String {
    format!("02:72:61:69:{link:02x}:0{}", 1 + side as u8)
}

/// The octet of a link in its names and addresses.
pub(crate) fn octet(link: usize) -> u8 {
    u8::try_from(link).expect("a lab has at most MAX_LINKS links, one per value of an octet")
}

/// The maximum number of links of a lab: the link's number is one octet of its addresses.
pub const MAX_LINKS: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_that_a_lab_never_writes_are_not_ours() {
        for text in [
            "",
            "rails",
            "rails-",
            "rails-1-2",
            "rails-1-2-c",
            "rails-1-2-a-x",
            "rails-0-2-a",
            "rails-+1-2-a",
            "rails-01-2-a",
            "rails--1-2-a",
            "rails-1-2-A",
            "trails-1-2-a",
            "rails-4294967296-0-a",
        ] {
            assert_eq!(text.parse::<NamespaceName>(), Err(NotOurs), "{text}");
        }
    }

    #[test]
    fn addresses_and_interfaces_differ_by_link_and_side() {
        assert_eq!(address(Side::A, 0).to_string(), "10.77.0.1");
        assert_eq!(address(Side::B, 255).to_string(), "10.77.255.2");
        assert_eq!(interface(Side::B, 255), "rail255b");
        assert_eq!(hardware_address(Side::A, 0), "02:72:61:69:00:01");
        assert_eq!(hardware_address(Side::B, 255), "02:72:61:69:ff:02");
        assert_eq!(Side::A.other(), Side::B);
    }

    proptest! {
        #[test]
        fn a_name_reads_back_as_it_was_written(pid in 1u32.., lab: u32, a: bool) {
            let name = NamespaceName { pid, lab, side: if a { Side::A } else { Side::B } };
            prop_assert_eq!(name.to_string().parse(), Ok(name));
        }

        #[test]
        fn any_text_is_refused_or_written_back_unchanged(text in "(rails-)?[0-9a-c+-]{0,20}") {
            if let Ok(name) = text.parse::<NamespaceName>() {
                prop_assert_eq!(name.to_string(), text);
            }
        }
    }
}
