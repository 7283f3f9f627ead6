//! The laboratory's commands. Each file has the arguments of one command and runs it.

pub(super) mod compare;
mod contest;
pub(super) mod disturb;
pub(super) mod lab;
pub(super) mod latency;
pub(super) mod netvideo;
pub(super) mod soak;
pub(super) mod wan;
