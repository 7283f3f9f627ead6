//! The laboratory's commands. Each file has the arguments of one command and runs it.

pub(super) mod background_end;
pub(super) mod compare;
mod contest;
pub(super) mod disturb;
pub(super) mod lab;
pub(super) mod latency;
pub(super) mod netvideo;
pub(super) mod overlap;
pub(super) mod ping_pong;
pub(super) mod soak;
pub(super) mod wan;
