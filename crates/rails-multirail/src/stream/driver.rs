//! The choice of the runtime that drives a lane.

use crate::RailId;
use serde::{Deserialize, Serialize};

/// The threads that drive the lanes of a stream: one for each rail, or one for all. The state machines are the same.
///
/// The two are compared for RDMA in Jie Cai, Alistair P. Rendell and Peter E. Strazdins, *Non-threaded and Threaded Approaches to
/// MultiRail Communication with uDAPL*: a thread for each rail has its own core, one thread for all saves the switches between
/// them. The machine decides which is faster; `rails-bench compare` measures both. Each end chooses for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Driver {
    /// Threaded: each lane is driven by its own rail's runtime.
    #[default]
    PerRail,
    /// Non-threaded: the runtime of the first rail drives every lane. Sockets stay bound to their rails' addresses and devices.
    Single,
}

impl Driver {
    /// The rail whose runtime drives the lanes of `rail`.
    pub(crate) fn home(self, rail: RailId) -> RailId {
        match self {
            Self::PerRail => rail,
            Self::Single => RailId(0),
        }
    }
}
