//! A plan, and its text.

use crate::RailId;
use rails_net::LocalEnd;
use rails_topo::{Bandwidth, CpuId, InterfaceAddress, NodeId};
use serde::{Deserialize, Serialize};
use std::{fmt, net::IpAddr};

/// The planned rails, with reasons.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RailPlan {
    /// The rails, by number.
    pub rails: Vec<PlannedRail>,
    /// Notes on the plan as a whole.
    pub notes: Vec<String>,
}

/// One rail of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PlannedRail {
    /// Its number.
    pub id: RailId,
    /// The interface of its lane; `None` leaves it to the routes.
    pub interface: Option<String>,
    /// The local address of its lane; `None` leaves it to the kernel.
    pub address: Option<IpAddr>,
    /// The local end of its lane's socket.
    pub end: LocalEnd,
    /// The addresses that its lane may begin at, with their prefixes, as far as they are known.
    #[serde(default)]
    pub addresses: Vec<InterfaceAddress>,
    /// Speed of its link; `None` is unknown.
    #[serde(default, rename = "speed_bits_per_second")]
    pub speed: Option<Bandwidth>,
    /// The CPU that its thread is bound to.
    pub cpu: CpuId,
    /// The node of its memory; `None` if the machine has no nodes.
    pub node: Option<NodeId>,
    /// The reasons for these.
    pub reasons: Vec<String>,
}

/// The text of `rails-bench plan`.
impl fmt::Display for RailPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for rail in &self.rails {
            let lane = match (&rail.interface, rail.address) {
                (Some(name), Some(address)) => format!("{name} {address}"),
                (Some(name), None) => name.clone(),
                (None, Some(address)) => address.to_string(),
                (None, None) => "any".to_owned(),
            };
            let node = rail.node.map_or("-".to_owned(), |node| node.to_string());
            writeln!(f, "rail {}  {lane:<24} cpu {:<4} node {node}", rail.id, rail.cpu.to_string())?;
            rail.reasons.iter().try_for_each(|reason| writeln!(f, "          {reason}"))?;
        }
        self.notes.iter().try_for_each(|note| writeln!(f, "note: {note}"))
    }
}
