//! Why a request cannot be met.

use super::rail_request::MOST_RAILS;
use rails_topo::CpuSet;
use std::net::IpAddr;

/// A request that cannot be met.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// No NIC can carry a rail.
    #[error("this machine has no NIC that is up and has an address of its own; `loopback:2` plans rails without one")]
    NoNic,
    /// There is no such interface.
    #[error("there is no interface `{name}`; there are: {}", list(.known))]
    NoSuchInterface {
        /// The name.
        name: String,
        /// The known names.
        known: Vec<String>,
    },
    /// No interface has that address.
    #[error("no interface has the address {address}; there are: {}", list(.known))]
    NoSuchAddress {
        /// The address.
        address: IpAddr,
        /// The known addresses, each with its interface.
        known: Vec<String>,
    },
    /// A configuration file hides the interface of a lane.
    #[error("`{name}` is hidden: {reason} ({position})")]
    Hidden {
        /// The interface.
        name: String,
        /// The reason in the file.
        reason: String,
        /// The file and the line.
        position: String,
    },
    /// The process may not use the requested CPUs.
    #[error("CPUs {wanted} were asked for `{lane}`, and none of them may be used here (allowed: {allowed})")]
    CpusNotAllowed {
        /// The lane.
        lane: String,
        /// The requested CPUs.
        wanted: CpuSet,
        /// The allowed CPUs.
        allowed: CpuSet,
    },
    /// The model allows no CPU.
    #[error("the machine's model allows no CPU")]
    NoCpu,
    /// The request is for no rail.
    #[error("no rails were asked for")]
    NoRails,
    /// The request is for more rails than a stream has lanes.
    #[error("{count} rails were asked for, {MOST_RAILS} are the most")]
    TooMany {
        /// The number of rails.
        count: usize,
    },
}

fn list(known: &[String]) -> String {
    if known.is_empty() { "none".to_owned() } else { known.join(", ") }
}
