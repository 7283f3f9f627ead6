//! Static striping: shares that do not follow what the lanes can carry.

use super::{LaneView, SchedulerView, StripePolicy};

/// Stripes in turn: of equal length, or by the lanes' weights.
///
/// A stripe that was not written whole may go out in several chunks, all of them on the one lane. A lane that is not usable is left out.
#[derive(Debug, Clone)]
pub struct Static {
    weighted: bool,
    /// Whose turn it is, and how many bytes of its stripe it has had.
    turn: usize,
    had: usize,
}

impl Static {
    /// The same share for each lane.
    pub fn equal() -> Self {
        Self { weighted: false, turn: 0, had: 0 }
    }

    /// Shares by [`LaneView::weight`]: the heaviest lane's stripe is the longest chunk, the others' are shorter. A weight of 0 counts as the
    /// least that is above it.
    pub fn weighted() -> Self {
        Self { weighted: true, turn: 0, had: 0 }
    }

    /// The lane whose turn it is, and what is left of its stripe.
    fn current(&self, view: &SchedulerView<'_>) -> Option<(usize, usize)> {
        let count = view.lanes.len();
        let stripe = self.stripe(view, self.turn % count.max(1));
        let from = if self.had >= stripe { self.turn + 1 } else { self.turn };
        let lane = (0..count).map(|step| (from + step) % count).find(|lane| view.lanes[*lane].usable)?;
        let had = if lane == self.turn && self.had < stripe { self.had } else { 0 };
        Some((lane, self.stripe(view, lane) - had))
    }

    fn stripe(&self, view: &SchedulerView<'_>, lane: usize) -> usize {
        if !self.weighted {
            return view.longest_chunk;
        }
        let weight = |lane: &LaneView| u64::from(lane.weight.max(1));
        let heaviest = view.lanes.iter().filter(|lane| lane.usable).map(weight).max().unwrap_or(1);
        let own = view.lanes.get(lane).map_or(1, weight).min(heaviest);
        (view.longest_chunk as u64 * own / heaviest).max(1) as usize
    }
}

impl StripePolicy for Static {
    fn share(&self, view: &SchedulerView<'_>, lane: usize) -> Option<usize> {
        self.current(view).filter(|(whose, _)| *whose == lane).map(|(_, left)| left)
    }

    fn took(&mut self, lane: usize, bytes: usize) {
        if lane != self.turn {
            (self.turn, self.had) = (lane, 0);
        }
        self.had += bytes;
    }

    fn reinjects(&self) -> bool {
        false
    }
}
