//! A case of overlap: a message, the work beside it, and the ends that compute.

use serde::{Deserialize, Serialize};

/// A message, and the work beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Message {
    /// The message's length.
    pub(crate) bytes: u32,
    /// The approximate time of the work alone.
    pub(crate) work_us: u64,
}

/// The ends that compute beside a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Computes {
    Nobody,
    Sender,
    Receiver,
    Both,
}

impl Computes {
    pub(super) const ALL: [Self; 4] = [Self::Nobody, Self::Sender, Self::Receiver, Self::Both];

    /// Whether the sender computes.
    pub(super) fn sender(self) -> bool {
        matches!(self, Self::Sender | Self::Both)
    }

    /// Whether the receiver computes.
    pub(super) fn receiver(self) -> bool {
        matches!(self, Self::Receiver | Self::Both)
    }
}
