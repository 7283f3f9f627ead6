//! Errors of planning.

use super::{RejectedNic, rail_request::MAX_RAILS};
use crate::RailId;
use rails_topo::{CpuSet, NodeId, NodeSet};
use std::net::IpAddr;

/// A request that cannot be met.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// No NIC can carry a rail.
    #[error("this machine has no NIC for a rail ({}); `loopback:2` plans rails without one", skipped(.rejected))]
    NoNic {
        /// All interfaces, with the reason for each.
        rejected: Vec<RejectedNic>,
    },
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
    /// None of the requested CPUs is one of the machine's.
    #[error("CPUs {wanted} were asked for `{lane}`, and the machine has CPUs {online}")]
    NoSuchCpus {
        /// The lane.
        lane: String,
        /// The requested CPUs.
        wanted: CpuSet,
        /// The online CPUs.
        online: CpuSet,
    },
    /// The machine has no such node, or the process may not use its memory.
    #[error("memory from node {node} was asked for, and the nodes that may be used are {}", nodes(.allowed))]
    NoSuchNode {
        /// The requested node.
        node: NodeId,
        /// The allowed nodes.
        allowed: NodeSet,
    },
    /// There is no interface, GPU or disk of that name.
    #[error("there is no interface, GPU or disk `{name}`; there are: {}", list(.known))]
    NoSuchDevice {
        /// The name.
        name: String,
        /// The known names.
        known: Vec<String>,
    },
    /// No NIC that is up has a network with that address.
    #[error("no NIC has a network with {peer}; name the interface instead")]
    NoWay {
        /// The address.
        peer: IpAddr,
    },
    /// A rail was asked for with several lanes.
    #[error("rail {rail} was asked for with several lanes; a rail has one lane, and a comma separates rails")]
    SeveralLanes {
        /// The rail.
        rail: RailId,
    },
    /// A rail was asked for with one GPU or disk twice, perhaps by two names.
    #[error("rail {rail} was asked for with {name} twice")]
    DeviceTwice {
        /// The rail.
        rail: RailId,
        /// The device's name in the machine's model.
        name: String,
    },
    /// The request is for more rails than usable NICs, and not for rails that share one.
    #[error(
        "{wanted} rails were asked for, and {} can carry one: {}; rails on one NIC add no bandwidth, and a NIC that \
         is named twice gets them", .usable.len(), list(.usable)
    )]
    TooFewNics {
        /// The number of rails.
        wanted: usize,
        /// The usable NICs, the best ones first.
        usable: Vec<String>,
    },
    /// A rail that nothing is bound for was asked for with cores of its own. Its threads run
    /// wherever the scheduler places them, so that it would keep others from cores that it does
    /// not use.
    #[error(
        "rail {rail} was asked for with cores of its own and with nothing bound (`@default`); leave out one of the two"
    )]
    UnboundCores {
        /// The rail.
        rail: RailId,
    },
    /// The requested CPUs are on cores that are claimed, or that other rails of the plan have to
    /// themselves.
    #[error(
        "CPUs {wanted} were asked for `{lane}`, and none of them is free: they are claimed, or on cores that other \
         rails have to themselves; `rails-bench rails` lists claims"
    )]
    CpusTaken {
        /// The lane.
        lane: String,
        /// The requested CPUs.
        wanted: CpuSet,
    },
    /// There are fewer free cores than a rail needs, or than all exclusive ones need together.
    #[error("too few cores: {wanted} needed, {usable} free; `rails-bench rails` lists claims")]
    TooFewCores {
        /// The number of cores.
        wanted: usize,
        /// The number of free ones.
        usable: usize,
    },
    /// A required affinity does not hold.
    #[error("rail {rail} lacks {affinity} affinity, which is required: {reason}; `rails-bench doctor` says more")]
    AffinityMissing {
        /// The rail.
        rail: RailId,
        /// `interrupt`, `thread` or `memory`.
        affinity: &'static str,
        /// The reason.
        reason: String,
    },
    /// The model allows no CPU.
    #[error("the machine's model allows no CPU")]
    NoCpu,
    /// The request is for no rail.
    #[error("no rails were asked for")]
    NoRails,
    /// The request is for more rails than a stream has lanes.
    #[error("{count} rails were asked for, {MAX_RAILS} are the most")]
    TooMany {
        /// The number of rails.
        count: usize,
    },
}

fn nodes(allowed: &NodeSet) -> String {
    if allowed.is_empty() { "none".to_owned() } else { allowed.to_string() }
}

/// `lo: ...; veth0, veth1: made in software`.
fn skipped(rejected: &[RejectedNic]) -> String {
    let skipped = RejectedNic::by_reason(rejected);
    if skipped.is_empty() { "it has no interface".to_owned() } else { skipped.join("; ") }
}

fn list(known: &[String]) -> String {
    if known.is_empty() { "none".to_owned() } else { known.join(", ") }
}
