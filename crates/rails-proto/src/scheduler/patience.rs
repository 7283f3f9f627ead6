//! How long the policy may leave a stream standing.

use crate::policy::LONGEST_REFUSAL;
use std::time::Instant;

/// How long the policy has given no lane any of the waiting bytes.
#[derive(Debug, Default)]
pub(super) struct Patience {
    /// When the policy first refused a lane although bytes waited, since it last gave bytes to a
    /// lane.
    refused_since: Option<Instant>,
}

impl Patience {
    /// Whether the policy has refused a lane although bytes waited.
    pub(super) fn is_refusing(&self) -> bool {
        self.refused_since.is_some()
    }

    /// Notes that the policy has refused a lane although bytes wait. Returns whether it has done so
    /// for [`LONGEST_REFUSAL`].
    pub(super) fn note_refusal(&mut self, now: Instant) -> bool {
        now >= *self.refused_since.get_or_insert(now) + LONGEST_REFUSAL
    }

    /// Notes that a lane has taken bytes, or that none wait.
    pub(super) fn renew(&mut self) {
        self.refused_since = None;
    }
}
