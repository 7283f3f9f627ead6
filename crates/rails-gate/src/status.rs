//! The state of a gate, for people and programs.

use crate::{DoorKind, Plain};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The state of a gate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct GateStatus {
    /// The peers of the policy.
    pub peers: Vec<PeerStatus>,
    /// Connections by door, peer and destination.
    pub connections: Vec<ConnectionCounts>,
    /// Connections that went plain.
    pub plain: Vec<PlainCount>,
}

/// The state of a peer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct PeerStatus {
    /// The name in the policy.
    pub name: String,
    /// The sessions with the peer; there are two for a moment if both gates dial at once.
    pub sessions: usize,
    /// The lanes of these sessions.
    pub lanes: usize,
    /// The connections that they carry.
    pub connections: usize,
    /// How long the oldest session has been there.
    pub since: Option<Duration>,
    /// Why the peer was not reached the last time.
    pub last_error: Option<String>,
}

/// The connections of one door, peer and destination.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ConnectionCounts {
    /// The door by which they came; `None` for those that the peer asked for.
    pub door: Option<DoorKind>,
    /// The peer's name.
    pub peer: String,
    /// The destination; `other` for those beyond the number that is counted apart.
    pub destination: String,
    /// Connections that were carried, up to now.
    pub opened: u64,
    /// Those of them that go on.
    pub active: u64,
    /// Those that an end has reset.
    pub reset: u64,
    /// Questions of the peer that were refused.
    pub refused: u64,
    /// Bytes to the peer.
    pub sent_bytes: u64,
    /// Bytes from the peer.
    pub received_bytes: u64,
}

/// The connections of one door and peer that went plain for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct PlainCount {
    /// The door.
    pub door: DoorKind,
    /// The peer's name, if the policy names one for the destination.
    pub peer: Option<String>,
    /// The reason.
    pub why: Plain,
    /// The number of connections.
    pub count: u64,
}
