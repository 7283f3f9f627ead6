//! The contenders.

use clap::ValueEnum;
use serde::Serialize;
use std::fmt;

/// A carrier of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Contender {
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
    /// A stream under the adaptive policy, with one thread per CPU
    RailsAdaptive,
    /// A stream under the adaptive policy, with one thread for all rails
    RailsSingle,
    /// A stream under the weighted policy, told the links' rates (not by default)
    RailsWeighted,
    /// An adaptive stream, encrypted with a secret (not by default)
    RailsPsk,
    /// An adaptive stream, encrypted by TLS (not by default)
    RailsTls,
    /// An adaptive stream, four TCP connections on each lane (not by default)
    RailsParallel,
    /// An adaptive stream over Celeritas, a little slower on each lane than its link (not by
    /// default)
    RailsCeleritas,
}

impl Contender {
    /// All contenders, the ceiling first.
    pub(crate) const ALL: [Self; 13] = [
        Self::PlainFlows,
        Self::PlainBestLink,
        Self::Iperf3,
        Self::Mptcp,
        Self::Ucx,
        Self::RailsStatic,
        Self::RailsAdaptive,
        Self::RailsSingle,
        Self::RailsWeighted,
        Self::RailsPsk,
        Self::RailsTls,
        Self::RailsParallel,
        Self::RailsCeleritas,
    ];

    /// The contenders that take part where none is chosen. The others answer special questions, and
    /// would make a run half as long again.
    pub(crate) fn usual() -> Vec<Self> {
        Self::ALL[..8].to_vec()
    }

    /// Whether the contender adds information on that many links.
    pub(super) fn makes_sense_on(self, links: usize) -> bool {
        links > 1 || !matches!(self, Self::PlainBestLink | Self::RailsStatic | Self::RailsWeighted | Self::RailsSingle)
    }

    /// Whether the contender is a stream of this project.
    pub(super) fn is_ours(self) -> bool {
        match self {
            Self::PlainFlows | Self::PlainBestLink | Self::Iperf3 | Self::Mptcp | Self::Ucx => false,
            Self::RailsStatic | Self::RailsAdaptive | Self::RailsSingle | Self::RailsWeighted => true,
            Self::RailsPsk | Self::RailsTls | Self::RailsParallel | Self::RailsCeleritas => true,
        }
    }

    /// Whether the contender uses all links.
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
            Self::RailsWeighted => "rails, weighted by the links' rates",
            Self::RailsPsk => "rails, encrypted with a secret",
            Self::RailsTls => "rails, encrypted by TLS",
            Self::RailsParallel => "rails, several connections a lane",
            Self::RailsCeleritas => "rails over Celeritas",
        })
    }
}
