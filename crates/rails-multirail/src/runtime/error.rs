//! The errors of a rail's runtime.

use crate::RailId;
use rails_bind::{
    BindError,
    claims::{ClaimError, Resource},
};
use rails_task::AttachError;
use std::io;

/// Why a rail's runtime could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RuntimeError {
    /// The operating system gave no thread. The cause names the limits that it may have met.
    #[error("no thread for rail `{name}`")]
    Spawn {
        /// The rail's name.
        name: String,
        /// The cause.
        source: io::Error,
    },
    /// The thread could not be placed: its CPUs cannot be used, or the system refused a placement
    /// that is [required](super::RailRuntimeBuilder::required).
    #[error("rail `{name}` could not be placed")]
    Bind {
        /// The rail's name.
        name: String,
        /// The cause.
        source: BindError,
    },
    /// The thread could not become one that runs tasks.
    #[error("rail `{name}` cannot run the tasks of its queues")]
    Tasks {
        /// The rail's name.
        name: String,
        /// The cause.
        source: AttachError,
    },
    /// The cores of exclusive rails, or the interrupts or queues of their NICs, could not be
    /// claimed.
    #[error("the rails cannot have their cores and NICs to themselves")]
    Claim(#[from] ClaimError),
    /// The rails of the plan are not numbered from 0 on, as after an edit by hand.
    #[error("the plan's rail at place {index}, counted from 0, has the number {rail}")]
    Number {
        /// The rail's number.
        rail: RailId,
        /// The rail's place in the plan.
        index: usize,
    },
    /// Two rails of the plan have the same thing to themselves, as after an edit by hand.
    #[error("rail {rail} of the plan has {resource} to itself, and so has a rail before it")]
    NotExclusive {
        /// The later rail.
        rail: RailId,
        /// The CPU, the interrupt or the queue.
        resource: Resource,
    },
    /// tokio gave no runtime.
    #[error("no tokio runtime for rail `{name}`")]
    Runtime {
        /// The rail's name.
        name: String,
        /// The cause.
        source: io::Error,
    },
}

/// Why a rail's thread could not be moved.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MoveError {
    /// The thread could not be placed, as with [`RuntimeError::Bind`].
    #[error("rail `{name}` could not be moved")]
    Bind {
        /// The rail's name.
        name: String,
        /// The cause.
        source: BindError,
    },
    /// The cores of an exclusive rail could not be claimed. The rail keeps those that it has.
    #[error("the rail cannot have its new cores to itself")]
    Claim(#[from] ClaimError),
    /// The runtime has stopped.
    #[error("rail `{name}` has stopped")]
    Stopped {
        /// The rail's name.
        name: String,
    },
}
