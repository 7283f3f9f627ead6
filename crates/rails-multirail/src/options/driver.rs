//! The choice of the runtime that drives a lane.

use serde::{Deserialize, Serialize};

/// The threads that drive the lanes of a stream, with the same state machines.
///
/// Jie Cai, Alistair P. Rendell and Peter E. Strazdins compare the extremes for RDMA (*Non-threaded
/// and Threaded Approaches to MultiRail Communication with uDAPL*): with a thread for each rail,
/// each has its own core; one thread for all saves the switches between them. Threads that share a
/// CPU only switch. Each end of a stream makes its own choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Driver {
    /// One thread per CPU: the runtime of the first rail on a CPU drives the lanes of all rails
    /// there. A task on that runtime that computes for long holds all of them up. Lanes whose rails
    /// move apart stay with it as long as their stream lasts.
    #[default]
    PerCpu,
    /// Threaded: each lane is driven by its own rail's runtime.
    PerRail,
    /// Non-threaded: the runtime of the first rail drives every lane. Sockets stay bound to their
    /// rails' addresses and devices.
    Single,
}
