//! Why a request cannot be met.

use super::rail_request::MOST_RAILS;
use rails_topo::CpuSet;
use std::net::IpAddr;

/// Why there is no plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// No NIC could carry a rail.
    #[error("this machine has no NIC that is up and has an address of its own; `loopback:2` plans rails without one")]
    NoNic,
    /// There is no such interface.
    #[error("there is no interface `{name}`; there are: {}", list(.known))]
    NoSuchInterface {
        /// The name.
        name: String,
        /// The names there are.
        known: Vec<String>,
    },
    /// No interface has that address.
    #[error("no interface has the address {address}; there are: {}", list(.known))]
    NoSuchAddress {
        /// The address.
        address: IpAddr,
        /// The addresses there are, and whose they are.
        known: Vec<String>,
    },
    /// The interface that a lane asks for is to be left alone.
    #[error("`{name}` is to be left alone: {reason} ({said})")]
    LeftAlone {
        /// The interface.
        name: String,
        /// Why.
        reason: String,
        /// Which file and line says so.
        said: String,
    },
    /// The CPUs that a lane asks for may not be used.
    #[error("CPUs {wanted} were asked for `{lane}`, and none of them may be used here (allowed: {allowed})")]
    CpusNotAllowed {
        /// The lane.
        lane: String,
        /// The CPUs asked for.
        wanted: CpuSet,
        /// The CPUs that may be used.
        allowed: CpuSet,
    },
    /// No CPU may be used at all.
    #[error("the machine's model allows no CPU")]
    NoCpu,
    /// Not one rail was asked for.
    #[error("no rails were asked for")]
    NoRails,
    /// More rails than a stream has lanes.
    #[error("{count} rails were asked for, {MOST_RAILS} are the most")]
    TooMany {
        /// How many were asked for.
        count: usize,
    },
}

fn list(known: &[String]) -> String {
    if known.is_empty() { "none".to_owned() } else { known.join(", ") }
}
