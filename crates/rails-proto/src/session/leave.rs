//! How a lane leaves a stream: both ends close it when each has acknowledged all that the other
//! sent on it.

/// How far a lane has left the stream.
#[derive(Debug, Default)]
pub(super) struct Leave {
    has_begun: bool,
    /// Whether the last `Leave` on this lane said that the peer has acknowledged everything sent on
    /// it; `None` before the first.
    sent: Option<bool>,
    /// The peer said that this end has acknowledged everything that it sent on the lane.
    other_drained: bool,
}

impl Leave {
    /// The lane leaves the stream. Returns whether that is news.
    pub(super) fn begin(&mut self) -> bool {
        !std::mem::replace(&mut self.has_begun, true)
    }

    pub(super) fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// The peer said whether this end has acknowledged everything that it sent on the lane.
    pub(super) fn peer_says(&mut self, drained: bool) {
        self.other_drained |= drained;
    }

    /// Whether this end says `Leave` on the lane, which leaves: at first, and once more when the
    /// peer has acknowledged everything sent on the lane.
    pub(super) fn says(&mut self, drained: bool) -> bool {
        let says = self.sent != Some(drained) && self.sent != Some(true);
        if says {
            self.sent = Some(drained);
        }
        says
    }

    /// Whether both ends have said that everything is acknowledged.
    pub(super) fn is_agreed(&self) -> bool {
        self.sent == Some(true) && self.other_drained
    }
}
