//! Memory on nodes: the policy of a thread, buffers with a policy of their own, and the nodes of
//! pages.
//!
//! * [`set_thread_policy`]: the policy of pages that the calling thread touches first, until a
//!   guard is dropped;
//! * [`NumaBuffer`]: memory with its own policy, pages and nodes, which can move while it is in
//!   use; in [parts](BufferPart) it belongs to several threads;
//! * [`BufferPool`]: buffers of one size from one such memory, handed out without a system call;
//! * [`residency_of`]: the node of each page of any memory;
//! * [`process`]: the same, by node, for any process.
//!
//! # Strict policies
//! [`MemoryPolicy::Bind`] allows no other node, and if a thread touches such memory while the nodes
//! are full, Linux ends a process: the OOM killer strikes, most likely the toucher.
//! `MADV_POPULATE_WRITE` does not help (seen on Linux 6.1: killed, not `ENOMEM`). So no thread is
//! the first to touch a strict *buffer*: its pages are made under a policy that prefers the nodes,
//! moved there if they lie elsewhere, and verified; moving ends in an error where touching ends a
//! process (`__GFP_THISNODE` allocations do not call the OOM killer, `__alloc_pages_may_oom` in
//! mm/page_alloc.c). The strict policy is set when every page lies on its nodes. Until then some
//! pages may lie on other nodes. A strict policy of a *thread* has no such protection.

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
mod refusal;
mod residency;
mod targets;
mod thread_policy;
mod weights;

pub use binding::MemoryBinding;
pub use buffer::NumaBuffer;
pub use error::MemoryError;
pub use options::{BufferOptions, Pages};
pub use part::BufferPart;
pub use policy::MemoryPolicy;
pub use pool::{BufferPool, PooledBuffer};
pub use range::Rebound;
pub use residency::{PageState, Residency, residency_of};
pub use thread_policy::{MemoryGuard, node_of_first_touch, node_of_page, set_thread_policy, thread_policy};
pub use weights::interleave_weights;

/// For [`crate::fuzzing`].
#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz(text: &str) {
    buffer::fuzz(text);
    process::fuzz(text);
    meminfo::fuzz(text);
}
