//! `set_mempolicy(2)` and `get_mempolicy(2)`.
//!
//! # Safety
//! Neither libc nor nix nor rustix wraps these calls, so they go through `libc::syscall`. Each block argues that the
//! kernel touches only the integers and masks it is given, and no more of a mask than its length.
#![allow(unsafe_code)]

use super::{FIRST_WORDS, with_growing_mask};
use rails_topo::NodeSet;
use std::{io, ptr};

/// `get_mempolicy`: "return the node ID of the node" instead of a mode (include/uapi/linux/mempolicy.h).
const MPOL_F_NODE: libc::c_ulong = 1 << 0;

/// `get_mempolicy`: ask about the page at `addr` instead of the calling thread.
const MPOL_F_ADDR: libc::c_ulong = 1 << 1;

/// A memory policy in the kernel's own terms, so that what was found can be put back even if this crate has no name for
/// it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RawPolicy {
    /// `MPOL_*`, with the mode flags (`MPOL_F_STATIC_NODES` and its like) in the upper bits.
    pub(crate) mode: libc::c_int,
    /// The nodes it speaks of.
    pub(crate) nodes: NodeSet,
}

/// Sets the calling thread's policy.
pub(crate) fn set(policy: &RawPolicy) -> io::Result<()> {
    let words = policy.nodes.as_words();
    let (mask, max_node) = match words.len() {
        0 => (ptr::null(), 0),
        // The kernel reads one bit less than `maxnode` says (`get_nodes` in mm/mempolicy.c begins with `--maxnode`).
        count => (words.as_ptr(), count as libc::c_ulong * 64 + 1),
    };
    // SAFETY: "nodemask points to a bit mask of node IDs that contains up to maxnode bits": null with zero bits, or a
    // slice of which exactly all bits are announced, which outlives the call and is only read.
    let result = unsafe { libc::syscall(libc::SYS_set_mempolicy, libc::c_long::from(policy.mode), mask, max_node) };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The calling thread's policy.
pub(crate) fn get() -> io::Result<RawPolicy> {
    let (mode, words) = with_growing_mask(FIRST_WORDS, |words| {
        let mut mode: libc::c_int = 0;
        let (address, flags) = (ptr::null::<u8>(), 0 as libc::c_ulong);
        // SAFETY: "mode" and "nodemask" point to exclusively borrowed memory that outlives the call; "maxnode" is the
        // number of bits in the slice, and the kernel writes no more than that many, rounded up to whole longs
        // (`copy_nodes_to_user`); "if flags is specified as 0 ... addr must be specified as NULL".
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

/// The number of the node that holds the page which `byte` lies on; faults the page in for reading where it is absent.
pub(crate) fn node_of(byte: &u8) -> io::Result<libc::c_int> {
    let mut node: libc::c_int = -1;
    // SAFETY: "If flags specifies both MPOL_F_NODE and MPOL_F_ADDR, get_mempolicy() will return the node ID of the node
    // on which the address addr is allocated into the location pointed to by mode": one int, exclusively borrowed;
    // "nodemask" is null, so no mask is written; the address is only looked up, and the reference keeps it mapped.
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
