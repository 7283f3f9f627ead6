//! A plan, and its text.

use crate::RailId;
use rails_net::LocalEnd;
use rails_topo::{Bandwidth, CpuId, InterfaceAddress, NodeId};
use serde::{Deserialize, Serialize};
use std::{fmt, net::IpAddr};

/// What would be placed where, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RailPlan {
    /// The rails, by number.
    pub rails: Vec<PlannedRail>,
    /// What is to be known of the plan as a whole.
    pub notes: Vec<String>,
}

/// One rail of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedRail {
    /// Its number.
    pub id: RailId,
    /// The interface that its lane uses; `None` where that is for the routing to say.
    pub interface: Option<String>,
    /// The local address of its lane; `None` where that is for the kernel to choose.
    pub address: Option<IpAddr>,
    /// What its lane's socket is bound to.
    pub end: LocalEnd,
    /// The addresses that its lane may begin at, with their prefixes, as far as they are known.
    #[serde(default)]
    pub addresses: Vec<InterfaceAddress>,
    /// Speed of its link; `None` is unknown.
    #[serde(default, rename = "speed_bits_per_second")]
    pub speed: Option<Bandwidth>,
    /// The CPU that its thread is bound to.
    pub cpu: CpuId,
    /// The node that its memory comes from; `None` where the machine has no nodes.
    pub node: Option<NodeId>,
    /// Why these.
    pub reasons: Vec<String>,
}

/// As `rails-bench plan` prints it.
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
