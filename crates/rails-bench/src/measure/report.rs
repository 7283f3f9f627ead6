//! The report of a measurement: one object, units in the key names.

use crate::side::Side;
use rails_multirail::{Driver, Policy, RailId};
use serde::{Deserialize, Serialize};

/// A whole measurement, as `stream --json` prints it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Measurement {
    /// The carrier of the bytes.
    pub(crate) transport: Transport,
    /// The security of the stream: `insecure`, `psk, encrypted`, `psk, not encrypted` or `tls`;
    /// `None` for plain flows.
    pub(crate) security: Option<String>,
    /// Bytes that the sending application wrote.
    pub(crate) bytes_written: u64,
    /// Bytes that the receiving application read.
    pub(crate) bytes: u64,
    /// The time from the source's turn to the last byte, by the receiver's clock.
    pub(crate) seconds: f64,
    /// Bytes over seconds, in bits; of several plain flows, over the time while all of them ran.
    pub(crate) receiver_goodput_bits_per_second: f64,
    /// The sending process.
    pub(crate) sender: Side,
    /// The receiving process.
    pub(crate) receiver: Side,
    /// The offset of the first wrong byte, if the receiver was told to check the bytes and found
    /// one.
    #[serde(default)]
    pub(crate) wrong_at: Option<u64>,
    /// The number of other callers that the receiver served meanwhile.
    #[serde(default)]
    pub(crate) served_beside: u64,
    /// Whether the peer was the sender (`stream --reverse`, `--both`).
    #[serde(default)]
    pub(crate) from_peer: bool,
    /// Whether a signal ended the sending early.
    #[serde(default)]
    pub(crate) interrupted: bool,
}

impl Measurement {
    /// This report with the reasons that the caller knows for rails of its own without a lane.
    pub(crate) fn explained(mut self, why_unused: impl Fn(RailId) -> Option<String>) -> Self {
        let own = if self.from_peer { &mut self.receiver } else { &mut self.sender };
        *own = own.clone().explained(why_unused);
        self
    }
}

/// The carrier of the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Transport {
    /// One striped stream.
    Rails {
        /// The policy that shared the bytes out.
        policy: Policy,
        /// The threads of the sender that drove the lanes.
        driver: Driver,
    },
    /// Independent tokio TCP flows, one per lane, with nothing of this project between the
    /// application and the socket.
    PlainTcp,
    /// One socket of the kernel's MPTCP.
    Mptcp,
}
