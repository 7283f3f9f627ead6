//! Memory policies, and the policy of a thread: set, read back and put back by a guard.

use crate::{
    BindError, Outcome, kernel_files, sys,
    sys::{
        mapping::{Mapping, Whole, page_bytes},
        mempolicy::RawPolicy,
    },
};
use rails_topo::{NodeId, NodeSet};
use serde::{Deserialize, Serialize};
use std::{fmt, io, marker::PhantomData};

/// The nodes that the pages of a thread are taken from when they are first touched.
///
/// A policy rules pages that are first touched after it was set, by the thread that has it; memory that an allocator
/// has handed out before stays where it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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

/// A thread's memory policy, until this is dropped.
///
/// The guard belongs to its thread and cannot leave it. Dropping it puts the former policy back, also while a panic
/// unwinds; pages that were touched before stay on their nodes.
#[derive(Debug)]
#[must_use = "dropping the guard puts the former memory policy back at once"]
pub struct MemoryGuard {
    outcome: Outcome<MemoryPolicy>,
    /// The policy to put back; `None` once it is back or the new one is kept.
    previous: Option<RawPolicy>,
    /// Dropping acts on the calling thread, so it must be the thread of the policy.
    not_send: PhantomData<*const ()>,
}

/// Sets the calling thread's memory policy, and reads it back.
///
/// The kernel keeps the nodes that have memory and that the thread's cpuset allows, and drops the rest without an
/// error; the guard's [`outcome`](MemoryGuard::outcome) then is [`Outcome::Partial`]. New threads inherit the policy.
///
/// # Privileges
/// None. Containers often forbid the call by a seccomp filter.
///
/// # Errors
/// [`BindError::EmptySet`] before any call; [`BindError::NodesUnusable`] if nodes do not exist, have no memory, or are
/// not allowed and nothing remains; [`BindError::Unsupported`] on a kernel without NUMA, or without this policy;
/// [`BindError::Denied`] under a seccomp filter. After an error the thread has the policy it had.
///
/// # Examples
/// ```
/// use rails_bind::memory::{self, MemoryPolicy};
///
/// let guard = memory::set_thread_policy(&MemoryPolicy::Local)?;
/// let mut buffer = vec![0_u8; 1 << 20];
/// buffer.fill(1); // The first touch decides where the pages lie.
/// println!("the buffer begins on node {}", memory::node_of_page(&buffer)?);
/// # Ok::<(), rails_bind::BindError>(())
/// ```
///
/// # References
/// [set_mempolicy(2)](https://man7.org/linux/man-pages/man2/set_mempolicy.2.html)
#[doc(alias = "set_mempolicy")]
pub fn set_thread_policy(policy: &MemoryPolicy) -> Result<MemoryGuard, BindError> {
    if policy.nodes().is_some_and(|nodes| nodes.is_empty()) {
        return Err(BindError::EmptySet { what: "memory" });
    }
    let previous = read_policy()?;
    sys::mempolicy::set(&policy.to_raw()).map_err(|source| refused("set_mempolicy", policy, source))?;
    // From here on a failure drops the guard, which puts the former policy back.
    let mut guard =
        MemoryGuard { outcome: Outcome::Applied(policy.clone()), previous: Some(previous), not_send: PhantomData };
    guard.outcome = Outcome::compare(policy.clone(), thread_policy()?);
    Ok(guard)
}

/// The calling thread's memory policy.
///
/// # Errors
/// [`BindError::UnknownPolicy`] for a policy that has no name here; [`BindError::Unsupported`] on a kernel without
/// NUMA; [`BindError::Denied`] under a seccomp filter.
///
/// # References
/// [get_mempolicy(2)](https://man7.org/linux/man-pages/man2/get_mempolicy.2.html)
#[doc(alias = "get_mempolicy")]
pub fn thread_policy() -> Result<MemoryPolicy, BindError> {
    let raw = read_policy()?;
    MemoryPolicy::from_raw(&raw).ok_or(BindError::UnknownPolicy { mode: raw.mode, nodes: raw.nodes })
}

/// The node that holds the first page of `buffer`.
///
/// The page must have been *written* before: the query faults an absent page in for reading, which maps the kernel's
/// page of zeros for memory that was never written, and the node of that page is not the node of the first write.
///
/// # Errors
/// [`BindError::EmptyBuffer`] for a buffer of no bytes; [`BindError::Unsupported`] on a kernel without NUMA;
/// [`BindError::Denied`] under a seccomp filter.
///
/// # References
/// [get_mempolicy(2)](https://man7.org/linux/man-pages/man2/get_mempolicy.2.html), `MPOL_F_NODE | MPOL_F_ADDR`
#[doc(alias = "get_mempolicy")]
pub fn node_of_page(buffer: &[u8]) -> Result<NodeId, BindError> {
    let byte = buffer.first().ok_or(BindError::EmptyBuffer)?;
    let failed = |source| BindError::of_call("get_mempolicy", format_args!("the page at {byte:p}"), source);
    let node = sys::mempolicy::node_of(byte).map_err(failed)?;
    u32::try_from(node).map(NodeId).map_err(|_| failed(io::Error::other(format!("the kernel answered node {node}"))))
}

/// The node of a page that the calling thread is the first to touch: the one that its memory policy leads to.
///
/// # Errors
/// As [`node_of_page`]; [`BindError::Call`] if the kernel gives no page.
pub fn node_of_first_touch() -> Result<NodeId, BindError> {
    // A page of the heap may have been touched by another thread, and a buffer has a policy of its own.
    let bytes = page_bytes();
    let page = Mapping::new(bytes, bytes).map_err(|source| BindError::of_call("mmap", "a page", source))?;
    let mut page = Whole::new(page);
    page.fill(1);
    node_of_page(&page)
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

impl MemoryGuard {
    /// The policy that was set, as read back.
    pub fn outcome(&self) -> &Outcome<MemoryPolicy> {
        &self.outcome
    }

    /// Leaves the policy set.
    pub fn keep(mut self) -> Outcome<MemoryPolicy> {
        self.previous = None;
        self.outcome.clone()
    }

    /// Puts the former policy back, and fails if it does not read back as it was. Dropping does the same and can only
    /// log a failure.
    ///
    /// # Errors
    /// [`BindError::NotRestored`] if the kernel kept another policy; otherwise as [`set_thread_policy`].
    pub fn restore(mut self) -> Result<(), BindError> {
        let previous = self.previous.take().expect("only `keep` and `restore` take it, and both consume the guard");
        put_back(&previous)
    }
}

impl Drop for MemoryGuard {
    fn drop(&mut self) {
        if let Some(previous) = self.previous.take()
            && let Err(error) = put_back(&previous)
        {
            tracing::warn!(%error, "a thread did not get its former memory policy back");
        }
    }
}

/// include/uapi/linux/mempolicy.h; libc does not name it.
pub(super) const MPOL_PREFERRED_MANY: libc::c_int = 5;

/// As `MPOL_PREFERRED_MANY`.
const MPOL_WEIGHTED_INTERLEAVE: libc::c_int = 6;

fn read_policy() -> Result<RawPolicy, BindError> {
    sys::mempolicy::get().map_err(|source| BindError::of_call("get_mempolicy", "the calling thread", source))
}

fn put_back(previous: &RawPolicy) -> Result<(), BindError> {
    let failed = |source| {
        let subject = format!("the former policy (mode {:#x}, nodes `{}`)", previous.mode, previous.nodes);
        BindError::of_call("set_mempolicy", subject, source)
    };
    sys::mempolicy::set(previous).map_err(failed)?;
    let now = read_policy()?;
    if now == *previous {
        return Ok(());
    }
    let in_words = |raw: &RawPolicy| format!("mode {:#x}, nodes `{}`", raw.mode, raw.nodes);
    Err(BindError::NotRestored { what: "memory policy", former: in_words(previous), now: in_words(&now) })
}

/// The error of a policy that `call` refused.
pub(super) fn refused(call: &'static str, policy: &MemoryPolicy, source: io::Error) -> BindError {
    refused_here(call, policy, source, kernel_files::nodes_with_memory(), kernel_files::allowed_nodes())
}

/// `EINVAL`: no node of the policy has memory and is allowed, a number is beyond all nodes, or the kernel does not know
/// the mode (`mpol_set_nodemask`, `get_nodes` and `sanitize_mpol_flags` in mm/mempolicy.c).
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
        // Nothing is wrong with the nodes, so it is the mode that this kernel does not know.
        return BindError::Unsupported { call, subject, source };
    }
    BindError::NodesUnusable { policy: policy.clone(), without_memory, not_allowed }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
