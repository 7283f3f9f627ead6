//! Policies that the kernel refuses.

use super::MemoryPolicy;
use crate::{BindError, kernel_files};
use rails_topo::NodeSet;
use std::io;

/// The error of a policy that `call` refused.
pub(super) fn refused(call: &'static str, policy: &MemoryPolicy, source: io::Error) -> BindError {
    refused_here(call, policy, source, kernel_files::nodes_with_memory(), kernel_files::allowed_nodes())
}

/// `EINVAL`: no node of the policy has memory and is allowed, a number is beyond all nodes, or the
/// kernel does not know the mode (`mpol_set_nodemask`, `get_nodes` and `sanitize_mpol_flags` in
/// mm/mempolicy.c).
fn refused_here(
    call: &'static str,
    policy: &MemoryPolicy,
    source: io::Error,
    with_memory: Option<NodeSet>,
    allowed: Option<NodeSet>,
) -> BindError {
    let subject = format!("the policy `{policy}`");
    let nodes = match policy.nodes() {
        Some(nodes) if source.raw_os_error() == Some(libc::EINVAL) => nodes,
        _ => return BindError::of_call(call, subject, source),
    };
    let without_memory = with_memory.as_ref().map(|with_memory| nodes.difference(with_memory));
    let not_allowed = with_memory.zip(allowed).map(|(with, allowed)| nodes.intersection(&with).difference(&allowed));
    let all_usable = [&without_memory, &not_allowed].iter().all(|set| set.as_ref().is_some_and(NodeSet::is_empty));
    if all_usable {
        // The nodes are usable, so this kernel does not know the mode.
        return BindError::Unsupported { call, subject, source };
    }
    BindError::NodesUnusable { policy: policy.clone(), without_memory, not_allowed }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(text: &str) -> NodeSet {
        text.parse().expect("a list")
    }

    #[test]
    fn refusal_of_the_nodes_or_of_the_mode() {
        let invalid = || io::Error::from_raw_os_error(libc::EINVAL);
        let policy = MemoryPolicy::Bind(set("1-2,7"));
        match refused_here("set_mempolicy", &policy, invalid(), Some(set("0-2")), Some(set("0-1"))) {
            BindError::NodesUnusable { without_memory, not_allowed, .. } => {
                assert_eq!((without_memory, not_allowed), (Some(set("7")), Some(set("2"))));
            }
            other => panic!("{other}"),
        }
        let policy = MemoryPolicy::PreferredMany(set("0"));
        assert!(matches!(
            refused_here("set_mempolicy", &policy, invalid(), Some(set("0")), Some(set("0"))),
            BindError::Unsupported { call: "set_mempolicy", .. }
        ));
    }
}
