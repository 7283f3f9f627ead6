//! The memory policy of a thread: set, read back and put back by a guard.

use super::{MemoryPolicy, refusal::refused};
use crate::{
    BindError, Outcome, sys,
    sys::{
        mapping::{Mapping, Whole, page_bytes},
        mempolicy::RawPolicy,
    },
};
use rails_topo::NodeId;
use std::{io, marker::PhantomData};

/// A guard of a thread's memory policy.
///
/// The guard cannot leave its thread. Dropping it puts the former policy back, also while a panic
/// unwinds; pages that were touched before stay on their nodes.
#[derive(Debug)]
#[must_use = "dropping the guard puts the former memory policy back at once"]
pub struct MemoryGuard {
    outcome: Outcome<MemoryPolicy>,
    /// The policy to put back; `None` once it was put back or the new one is kept.
    previous: Option<RawPolicy>,
    /// Dropping acts on the calling thread, so it must be the thread of the policy.
    not_send: PhantomData<*const ()>,
}

/// Sets the calling thread's memory policy, and reads it back.
///
/// The kernel keeps the nodes that have memory and that the thread's cpuset allows, and drops the
/// rest without an error; the guard's [`outcome`](MemoryGuard::outcome) then is
/// [`Outcome::Partial`]. New threads inherit the policy.
///
/// # Privileges
/// None. Containers often forbid the call by a seccomp filter.
///
/// # Errors
/// [`BindError::EmptySet`] before any call; [`BindError::NodesUnusable`] if nodes do not exist,
/// have no memory, or are not allowed and nothing remains; [`BindError::Unsupported`] on a kernel
/// without NUMA, or without this policy; [`BindError::Denied`] under a seccomp filter. After an
/// error the thread has its former policy.
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
/// [`BindError::UnknownPolicy`] for a policy that has no name here; [`BindError::Unsupported`] on a
/// kernel without NUMA; [`BindError::Denied`] under a seccomp filter.
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
/// The page must have been *written* before: the query faults an absent page in for reading, which
/// maps the kernel's page of zeros for memory that was never written, and the node of that page is
/// not the node of the first write.
///
/// # Errors
/// [`BindError::EmptyBuffer`] for a buffer of no bytes; [`BindError::Unsupported`] on a kernel
/// without NUMA; [`BindError::Denied`] under a seccomp filter.
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

/// The node of a page that the calling thread is the first to touch, under its memory policy.
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

    /// Puts the former policy back, and fails if it does not read back as it was. Dropping does the
    /// same and can only log a failure.
    ///
    /// # Errors
    /// [`BindError::NotRestored`] if the kernel kept another policy; otherwise as
    /// [`set_thread_policy`].
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
