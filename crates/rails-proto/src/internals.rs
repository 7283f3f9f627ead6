//! The scheduler, the reassembler and the inbox alone, for benches and fuzz targets, and faults for
//! the models.

pub use crate::{
    messages::inbox::Inbox,
    mutation::{Mutation, with as with_mutation},
    reassembler::Reassembler,
    scheduler::Scheduler,
};
