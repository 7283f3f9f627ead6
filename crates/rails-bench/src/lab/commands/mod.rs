//! The laboratory's commands, one file each: arguments, and what is done with them.

pub(super) mod compare;
mod contest;
pub(super) mod disturb;
pub(super) mod lab;
pub(super) mod latency;
pub(super) mod soak;
