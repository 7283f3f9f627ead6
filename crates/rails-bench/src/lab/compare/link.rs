//! The links of a comparison.

use rails_lab::{EmulatedLink, LabError, LinkLab, Shape};
use rails_topo::DataSize;
use serde::{Serialize, Serializer};
use std::{fmt, time::Duration};

/// A link to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Link {
    /// A veth pair.
    Veth(Shape),
    /// An emulated link, with delay.
    Emulated {
        /// The rate in Mbit/s.
        mbit: u64,
        /// The round-trip time.
        rtt: Duration,
        /// The number of frames of a million that the link loses, each way.
        lost_per_million: u32,
    },
}

impl Link {
    /// The link's rate in Mbit/s; `None` where the link has no limit.
    pub(crate) fn mbit(self) -> Option<u64> {
        match self {
            Self::Veth(Shape::Unshaped) => None,
            Self::Veth(Shape::Rate { mbit, .. }) | Self::Emulated { mbit, .. } => Some(mbit),
        }
    }

    /// An emulated link of this rate and delay. The queue holds a round trip, as a router's would;
    /// 20 ms at the least.
    pub(crate) fn emulated(mbit: u64, rtt: Duration, lost_per_million: u32) -> EmulatedLink {
        let link = EmulatedLink::mbit(mbit).rtt(rtt).queue(rtt.max(Duration::from_millis(20)));
        link.loss(f64::from(lost_per_million) / 1e6)
    }

    fn rtt(self) -> Duration {
        match self {
            Self::Veth(_) => Duration::ZERO,
            Self::Emulated { rtt, .. } => rtt,
        }
    }
}

/// A link is serialized as its printed form.
impl Serialize for Link {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Veth(shape) => shape.fmt(f),
            Self::Emulated { mbit, rtt, lost_per_million } => Self::emulated(*mbit, *rtt, *lost_per_million).fmt(f),
        }
    }
}

/// A few words for a chart: `400`, `400@50ms`, `unshaped`.
pub(super) fn short(links: &[Link]) -> String {
    let short = |link: &Link| match link {
        Link::Veth(Shape::Unshaped) => "unshaped".to_owned(),
        Link::Veth(shape @ Shape::Rate { mbit, burst_bytes, .. }) if *shape != Shape::mbit(*mbit) => {
            format!("{mbit}/{}", DataSize::bytes((*burst_bytes).into()))
        }
        Link::Veth(Shape::Rate { mbit, .. }) => format!("{mbit}"),
        Link::Emulated { mbit, rtt, lost_per_million: 0 } => format!("{mbit}@{rtt:?}"),
        Link::Emulated { mbit, rtt, lost_per_million } => {
            format!("{mbit}@{rtt:?}@{}", f64::from(*lost_per_million) / 1e6)
        }
    };
    match links {
        [first, rest @ ..] if rest.len() > 1 && rest.iter().all(|link| link == first) => {
            format!("{} x {}", links.len(), short(first))
        }
        links => links.iter().map(short).collect::<Vec<_>>().join(" + "),
    }
}

/// Makes the links.
pub(super) fn build(links: &[Link]) -> Result<LinkLab, LabError> {
    let add = |lab: rails_lab::LinkLabBuilder, link: &Link| match *link {
        Link::Veth(shape) => lab.link(shape),
        Link::Emulated { mbit, rtt, lost_per_million } => lab.emulated(Link::emulated(mbit, rtt, lost_per_million)),
    };
    links.iter().fold(LinkLab::builder(), add).build()
}

/// The index of the link with the highest rate, and of equals the one with the shortest delay; the
/// first of those.
pub(crate) fn fastest(links: &[Link]) -> usize {
    let key = |link: &Link| (link.mbit().unwrap_or(u64::MAX), std::cmp::Reverse(link.rtt()));
    (0..links.len()).rev().max_by_key(|index| key(&links[*index])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn veth(mbit: u64) -> Link {
        Link::Veth(Shape::mbit(mbit))
    }

    #[test]
    fn fastest_link_by_rate_then_delay_then_number() {
        let emulated =
            |mbit, milliseconds| Link::Emulated { mbit, rtt: Duration::from_millis(milliseconds), lost_per_million: 0 };
        assert_eq!(fastest(&[veth(100), veth(400), veth(400)]), 1);
        assert_eq!(fastest(&[veth(100), Link::Veth(Shape::Unshaped)]), 1);
        assert_eq!(fastest(&[emulated(400, 50), emulated(400, 1)]), 1);
    }

    #[test]
    fn links_are_told_in_short() {
        assert_eq!(short(&[veth(400), veth(100)]), "400 + 100");
        assert_eq!(short(&[veth(100); 8]), "8 x 100");
        let whole = Shape::Rate { mbit: 400, burst_bytes: 128 << 10, latency: Duration::from_millis(20) };
        assert_eq!(short(&[Link::Veth(whole); 2]), "400/128 KiB + 400/128 KiB");
        let emulated =
            |lost_per_million| Link::Emulated { mbit: 400, rtt: Duration::from_millis(50), lost_per_million };
        assert_eq!(short(&[emulated(0), emulated(10_000)]), "400@50ms + 400@50ms@0.01");
    }
}
