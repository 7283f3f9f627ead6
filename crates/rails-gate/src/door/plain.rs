//! Why a connection goes plain.

use crate::wire::Refusal;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Why a connection goes plain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub enum Plain {
    /// No gate listens on this host, or it is stopped.
    NoGate,
    /// The gate's socket is not for this user.
    NotPermitted,
    /// The policy sends the destination through no peer.
    NotRouted,
    /// There is no session with the peer.
    NoSession,
    /// The peer refused.
    Refused(Refusal),
    /// This gate carries as many connections, or keeps as many bytes, as it may.
    Full,
    /// The answer took too long.
    Slow,
}

impl Plain {
    /// The reason as a label of metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::NoGate => "no-gate",
            Self::NotPermitted => "not-permitted",
            Self::NotRouted => "not-routed",
            Self::NoSession => "no-session",
            Self::Refused(Refusal::Service(_)) => "service",
            Self::Refused(_) => "refused",
            Self::Full => "full",
            Self::Slow => "slow",
        }
    }
}

impl fmt::Display for Plain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoGate => f.write_str("no gate answers on this host"),
            Self::NotPermitted => f.write_str("this user may not write to the gate's socket"),
            Self::NotRouted => f.write_str("the policy sends it through no peer"),
            Self::NoSession => f.write_str("there is no session with the peer's gate"),
            Self::Refused(refusal) => write!(f, "the peer's gate refused it: {refusal}"),
            Self::Full => f.write_str("this gate carries as much as it may"),
            Self::Slow => f.write_str("the peer's gate did not answer in time"),
        }
    }
}
