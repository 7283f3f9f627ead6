//! Memory on nodes: a thread's policy set, read back and put back by a guard; and where a page lies.

mod policy;

pub use policy::{MemoryGuard, MemoryPolicy, node_of_page, set_thread_policy, thread_policy};
