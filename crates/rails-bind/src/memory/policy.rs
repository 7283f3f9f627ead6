//! Memory policies.

use crate::sys::mempolicy::RawPolicy;
use rails_topo::{NodeId, NodeSet};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The nodes that the pages of a thread are taken from when they are first touched.
///
/// A policy rules pages that are first touched after it was set, by the thread that has it; memory
/// that an allocator has handed out before stays where it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "mode", content = "nodes", rename_all = "snake_case")]
#[non_exhaustive]
pub enum MemoryPolicy {
    /// The system's policy, which is local allocation unless someone changed it (`MPOL_DEFAULT`).
    Default,
    /// The node of the CPU that touches the page first, others if it is full (`MPOL_LOCAL`).
    Local,
    /// This node, others if it is full (`MPOL_PREFERRED`).
    Preferred(NodeId),
    /// These nodes and no others, even if that means running out of memory (`MPOL_BIND`).
    Bind(NodeSet),
    /// Page by page round these nodes (`MPOL_INTERLEAVE`).
    Interleave(NodeSet),
    /// These nodes, others if they are full (`MPOL_PREFERRED_MANY`; Linux 5.15 and later).
    PreferredMany(NodeSet),
    /// Round these nodes as `Interleave`, but with the number of pages on each by its weight
    /// (`MPOL_WEIGHTED_INTERLEAVE`; Linux 6.9 and later). The weights are the machine's:
    /// [`interleave_weights`](super::interleave_weights).
    WeightedInterleave(NodeSet),
}

impl MemoryPolicy {
    /// The nodes that the policy names.
    pub fn nodes(&self) -> Option<NodeSet> {
        match self {
            Self::Default | Self::Local => None,
            Self::Preferred(node) => Some(NodeSet::single(*node)),
            Self::Bind(nodes)
            | Self::Interleave(nodes)
            | Self::PreferredMany(nodes)
            | Self::WeightedInterleave(nodes) => Some(nodes.clone()),
        }
    }

    pub(super) fn to_raw(&self) -> RawPolicy {
        let mode = match self {
            Self::Default => libc::MPOL_DEFAULT,
            Self::Local => libc::MPOL_LOCAL,
            Self::Preferred(_) => libc::MPOL_PREFERRED,
            Self::Bind(_) => libc::MPOL_BIND,
            Self::Interleave(_) => libc::MPOL_INTERLEAVE,
            Self::PreferredMany(_) => MPOL_PREFERRED_MANY,
            Self::WeightedInterleave(_) => MPOL_WEIGHTED_INTERLEAVE,
        };
        RawPolicy { mode, nodes: self.nodes().unwrap_or_default() }
    }

    pub(super) fn from_raw(raw: &RawPolicy) -> Option<Self> {
        match (raw.mode, raw.nodes.first()) {
            (libc::MPOL_DEFAULT, None) => Some(Self::Default),
            // Kernels before 5.14 keep local allocation as "preferred, of no node".
            (libc::MPOL_LOCAL | libc::MPOL_PREFERRED, None) => Some(Self::Local),
            (libc::MPOL_PREFERRED, Some(node)) if raw.nodes.len() == 1 => Some(Self::Preferred(node)),
            (libc::MPOL_BIND, Some(_)) => Some(Self::Bind(raw.nodes.clone())),
            (libc::MPOL_INTERLEAVE, Some(_)) => Some(Self::Interleave(raw.nodes.clone())),
            (MPOL_PREFERRED_MANY, Some(_)) => Some(Self::PreferredMany(raw.nodes.clone())),
            (MPOL_WEIGHTED_INTERLEAVE, Some(_)) => Some(Self::WeightedInterleave(raw.nodes.clone())),
            _ => None,
        }
    }
}

/// In the words of `numactl`: `local`, `bind 0-1`.
impl fmt::Display for MemoryPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => write!(f, "default"),
            Self::Local => write!(f, "local"),
            Self::Preferred(node) => write!(f, "preferred {node}"),
            Self::Bind(nodes) => write!(f, "bind {nodes}"),
            Self::Interleave(nodes) => write!(f, "interleave {nodes}"),
            Self::PreferredMany(nodes) => write!(f, "preferred-many {nodes}"),
            Self::WeightedInterleave(nodes) => write!(f, "weighted-interleave {nodes}"),
        }
    }
}

/// include/uapi/linux/mempolicy.h; libc does not name it.
pub(super) const MPOL_PREFERRED_MANY: libc::c_int = 5;

/// As `MPOL_PREFERRED_MANY`.
const MPOL_WEIGHTED_INTERLEAVE: libc::c_int = 6;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn set(text: &str) -> NodeSet {
        text.parse().expect("a list")
    }

    #[test]
    fn policy_reads_as_numactl_would_say_it() {
        assert_eq!(MemoryPolicy::Interleave(set("0-1")).to_string(), "interleave 0-1");
        let json = serde_json::to_string(&MemoryPolicy::Bind(set("0"))).expect("a policy serializes");
        assert_eq!(json, r#"{"mode":"bind","nodes":"0"}"#);
        assert_eq!(serde_json::to_string(&MemoryPolicy::Local).expect("likewise"), r#"{"mode":"local"}"#);
    }

    #[test]
    fn modes_with_flags_or_without_a_name() {
        for raw in [
            RawPolicy { mode: libc::MPOL_BIND | libc::MPOL_F_STATIC_NODES, nodes: set("0") },
            RawPolicy { mode: 7, nodes: set("0") },
            RawPolicy { mode: libc::MPOL_BIND, nodes: set("") },
            RawPolicy { mode: libc::MPOL_PREFERRED, nodes: set("0-1") },
        ] {
            assert_eq!(MemoryPolicy::from_raw(&raw), None, "{raw:?}");
        }
    }

    proptest! {
        #[test]
        fn policy_survives_the_kernels_terms(mode in 0..7, numbers in proptest::collection::vec(0_u32..1024, 1..9)) {
            let nodes: NodeSet = numbers.iter().copied().map(NodeId).collect();
            let policy = match mode {
                0 => MemoryPolicy::Default,
                1 => MemoryPolicy::Local,
                2 => MemoryPolicy::Preferred(NodeId(numbers[0])),
                3 => MemoryPolicy::Bind(nodes),
                4 => MemoryPolicy::Interleave(nodes),
                5 => MemoryPolicy::PreferredMany(nodes),
                _ => MemoryPolicy::WeightedInterleave(nodes),
            };
            prop_assert_eq!(MemoryPolicy::from_raw(&policy.to_raw()), Some(policy));
        }
    }
}
