//! The scheduler, the reassembler and the inbox alone, for benches and fuzz targets.

pub use crate::{messages::inbox::Inbox, reassembler::Reassembler, scheduler::Scheduler};
