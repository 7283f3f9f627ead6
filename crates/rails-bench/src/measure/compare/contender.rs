//! Who takes part.

use clap::ValueEnum;
use serde::Serialize;
use std::fmt;

/// Who carries the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Contender {
    /// One plain tokio TCP flow per link, at once: the ceiling
    PlainFlows,
    /// One plain tokio TCP flow on the fastest link
    PlainBestLink,
    /// iperf3, a pair of processes per link, at once
    Iperf3,
    /// One socket of the kernel's MPTCP
    Mptcp,
    /// `ucx_perftest` over TCP on all links
    Ucx,
    /// A stream under the static policy
    RailsStatic,
    /// A stream under the adaptive policy, with one thread per rail
    RailsAdaptive,
    /// A stream under the adaptive policy, with one thread for all rails
    RailsSingle,
}

impl Contender {
    /// All of them, the ceiling first.
    pub const ALL: [Self; 8] = [
        Self::PlainFlows,
        Self::PlainBestLink,
        Self::Iperf3,
        Self::Mptcp,
        Self::Ucx,
        Self::RailsStatic,
        Self::RailsAdaptive,
        Self::RailsSingle,
    ];

    /// Whether it says anything that another does not, on so many links.
    pub(super) fn makes_sense_on(self, links: usize) -> bool {
        links > 1 || !matches!(self, Self::PlainBestLink | Self::RailsStatic | Self::RailsSingle)
    }

    /// Whether all links are there for it.
    pub(super) fn has_all_links(self) -> bool {
        self != Self::PlainBestLink
    }
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::PlainFlows => "tokio TCP, a flow per link (ceiling)",
            Self::PlainBestLink => "tokio TCP, the fastest link alone",
            Self::Iperf3 => "iperf3, a pair per link",
            Self::Mptcp => "MPTCP, the kernel's",
            Self::Ucx => "UCX, ucx_perftest over TCP",
            Self::RailsStatic => "rails, static",
            Self::RailsAdaptive => "rails, adaptive",
            Self::RailsSingle => "rails, adaptive, single driver",
        })
    }
}
