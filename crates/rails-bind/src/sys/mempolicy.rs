//! `set_mempolicy(2)`, `get_mempolicy(2)`, `mbind(2)` and `migrate_pages(2)`.
//!
//! # Safety
//! Neither libc nor nix nor rustix wraps these calls, so they go through `libc::syscall`. Each
//! block argues that the kernel touches only the integers and masks it is given, and no more of a
//! mask than its length.
#![allow(unsafe_code)]

use super::{FIRST_WORDS, with_growing_mask};
use rails_topo::NodeSet;
use std::{io, ptr};

/// `get_mempolicy`: "return the node ID of the node" instead of a mode
/// (include/uapi/linux/mempolicy.h).
const MPOL_F_NODE: libc::c_ulong = 1 << 0;

/// `get_mempolicy`: ask about the page at `addr` instead of the calling thread.
const MPOL_F_ADDR: libc::c_ulong = 1 << 1;

/// A memory policy in the kernel's own terms, so that it can be put back even if this crate has no
/// name for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RawPolicy {
    /// `MPOL_*`, with the mode flags (such as `MPOL_F_STATIC_NODES`) in the upper bits.
    pub(crate) mode: libc::c_int,
    /// The policy's nodes.
    pub(crate) nodes: NodeSet,
}

/// Sets the calling thread's policy.
pub(crate) fn set(policy: &RawPolicy) -> io::Result<()> {
    let (mask, max_node) = mask_of(policy.nodes.as_words());
    // SAFETY: "nodemask points to a bit mask of node IDs that contains up to maxnode bits": null with
    // zero bits, or a slice of which exactly all bits are announced, which outlives the call and is
    // only read.
    let result = unsafe { libc::syscall(libc::SYS_set_mempolicy, libc::c_long::from(policy.mode), mask, max_node) };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Sets the policy of the pages from `address` on, and moves none of them. `address` must begin a
/// page.
pub(crate) fn set_range(address: usize, bytes: usize, policy: &RawPolicy) -> io::Result<()> {
    let (mask, max_node) = mask_of(policy.nodes.as_words());
    let flags: libc::c_ulong = 0;
    // SAFETY: the mask is as in `set`; the range is only looked up, and a policy changes where later
    // pages come from but never what a page holds, so that no range can be a wrong one.
    let result = unsafe {
        libc::syscall(libc::SYS_mbind, address, bytes, libc::c_long::from(policy.mode), mask, max_node, flags)
    };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Moves the pages of process `pid` that lie on `from` to `to`, and returns the number of pages
/// that could not be moved.
pub(crate) fn migrate(pid: libc::pid_t, from: &NodeSet, to: &NodeSet) -> io::Result<u64> {
    let length = from.as_words().len().max(to.as_words().len());
    let padded = |nodes: &NodeSet| {
        let mut words = nodes.as_words().to_vec();
        words.resize(length, 0);
        words
    };
    let (from, to) = (padded(from), padded(to));
    let ((from, max_node), (to, _)) = (mask_of(&from), mask_of(&to));
    // SAFETY: "old_nodes" and "new_nodes" are masks of "maxnode" bits each: two vectors of the same
    // length, alive during the call and only read. Pages keep what they hold when they move.
    let result = unsafe { libc::syscall(libc::SYS_migrate_pages, libc::c_long::from(pid), max_node, from, to) };
    u64::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// A mask and its length as these calls want them; no mask at all for a policy that names no node.
fn mask_of(words: &[u64]) -> (*const u64, libc::c_ulong) {
    match words.len() {
        0 => (ptr::null(), 0),
        // The kernel reads one bit less than `maxnode` states (`get_nodes` in mm/mempolicy.c begins with `--maxnode`).
        count => (words.as_ptr(), count as libc::c_ulong * 64 + 1),
    }
}

/// The calling thread's policy.
pub(crate) fn get() -> io::Result<RawPolicy> {
    get_with(0, 0)
}

/// The policy of the page at `address`.
pub(crate) fn get_at(address: usize) -> io::Result<RawPolicy> {
    get_with(address, MPOL_F_ADDR)
}

fn get_with(address: usize, flags: libc::c_ulong) -> io::Result<RawPolicy> {
    let (mode, words) = with_growing_mask(FIRST_WORDS, |words| {
        let mut mode: libc::c_int = 0;
        // SAFETY: "mode" and "nodemask" point to exclusively borrowed memory that outlives the call;
        // "maxnode" is the number of bits in the slice, and the kernel writes no more than that
        // many, rounded up to whole longs (`copy_nodes_to_user`); the address is only looked up,
        // and "if flags is specified as 0 ... addr must be specified as NULL", which is what `get`
        // passes.
        let result = unsafe {
            libc::syscall(
                libc::SYS_get_mempolicy,
                ptr::from_mut(&mut mode),
                words.as_mut_ptr(),
                words.len() as libc::c_ulong * 64,
                address,
                flags,
            )
        };
        if result == -1 { Err(io::Error::last_os_error()) } else { Ok(mode) }
    })?;
    Ok(RawPolicy { mode, nodes: NodeSet::from_words(words) })
}

/// The number of the node that holds the page which `byte` lies on; faults the page in for reading
/// where it is absent.
pub(crate) fn node_of(byte: &u8) -> io::Result<libc::c_int> {
    let mut node: libc::c_int = -1;
    // SAFETY: "If flags specifies both MPOL_F_NODE and MPOL_F_ADDR, get_mempolicy() will return the
    // node ID of the node on which the address addr is allocated into the location pointed to by
    // mode": one int, exclusively borrowed; "nodemask" is null, so no mask is written; the address
    // is only looked up, and the reference keeps it mapped.
    let result = unsafe {
        libc::syscall(
            libc::SYS_get_mempolicy,
            ptr::from_mut(&mut node),
            ptr::null_mut::<u64>(),
            0 as libc::c_ulong,
            ptr::from_ref(byte),
            MPOL_F_NODE | MPOL_F_ADDR,
        )
    };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(node) }
}

/// The node of the CPU that the calling thread is on at this moment.
pub(crate) fn current_node() -> io::Result<u32> {
    let mut node: libc::c_uint = 0;
    // SAFETY: "node" points to one exclusively borrowed integer; "either may be NULL" (getcpu(2)), and
    // "tcache" is unused since Linux 2.6.24.
    let result = unsafe {
        libc::syscall(
            libc::SYS_getcpu,
            ptr::null_mut::<libc::c_uint>(),
            ptr::from_mut(&mut node),
            ptr::null_mut::<u8>(),
        )
    };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(node) }
}
