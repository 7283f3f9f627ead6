//! Memory on nodes: the policy of a thread, buffers with a policy of their own, and where pages lie.
//!
//! * [`set_thread_policy`]: what the calling thread touches first from now on, until a guard is dropped;
//! * [`NumaBuffer`]: memory with its own policy, pages and place, which can move while it is in use; in
//!   [parts](BufferPart) it is several threads';
//! * [`BufferPool`]: buffers of one size from one such memory, handed out without a system call;
//! * [`residency_of`]: on which node each page of any memory lies;
//! * [`process`]: the same, by node, for a process that is not ours.
//!
//! # Strict policies
//! [`MemoryPolicy::Bind`] allows no other node, and what Linux does when such memory is touched and the nodes are full
//! is to end a process: the OOM killer strikes, most likely whoever touches. `MADV_POPULATE_WRITE` is no way round it
//! (seen on Linux 6.1: killed, not `ENOMEM`). So a strict *buffer* is never left to be touched: its pages are made
//! under a policy that prefers the nodes, moved there where they are not, and looked at; moving ends in an error where
//! touching ends a process (`__GFP_THISNODE` allocations do not call the OOM killer, `__alloc_pages_may_oom` in
//! mm/page_alloc.c). Only when every page lies where it shall is the strict policy set. What spills over is on other
//! nodes for that moment. A strict policy of a *thread* has no such protection.

mod binding;
mod buffer;
mod error;
mod meminfo;
mod options;
mod part;
mod policy;
mod pool;
pub mod process;
mod range;
mod residency;
mod targets;
mod weights;

pub use binding::{MemoryBinding, Rebound};
pub use buffer::NumaBuffer;
pub use error::MemoryError;
pub use options::{BufferOptions, Pages};
pub use part::BufferPart;
pub use policy::{MemoryGuard, MemoryPolicy, node_of_page, set_thread_policy, thread_policy};
pub use pool::{BufferPool, PooledBuffer};
pub use residency::{PageState, Residency, residency_of};
pub use weights::interleave_weights;

/// For [`crate::fuzzing`].
#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz(text: &str) {
    buffer::fuzz(text);
    process::fuzz(text);
    meminfo::fuzz(text);
}
