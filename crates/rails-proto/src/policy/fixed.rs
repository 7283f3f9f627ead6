//! Static striping: shares that do not follow the lanes' rates.

use super::{Decision, LaneView, Policy, SchedulerView, StripePolicy, Wait};

/// Stripes in turn: of equal length, or by the lanes' weights.
///
/// If the application has not written a whole stripe, its lane may send it in several chunks. The
/// turn skips a lane that is not usable. Requeued bytes have no turn: the next lane with room takes
/// them. The policy never reinjects.
#[derive(Debug, Clone, Copy)]
pub struct Static {
    weighted: bool,
}

impl Static {
    /// Gives each lane the same share.
    pub fn equal() -> Self {
        Self { weighted: false }
    }

    /// Gives shares by [`LaneView::weight`]: the heaviest lane's stripe is the longest chunk, and
    /// the others' stripes are shorter. A weight of 0 counts as the least weight above 0.
    pub fn weighted() -> Self {
        Self { weighted: true }
    }

    /// The lane whose turn it is, and the rest of its stripe in bytes.
    fn turn(&self, view: &SchedulerView<'_>) -> Option<(usize, usize)> {
        let count = view.lanes.len();
        let last = view.streak.unwrap_or_default();
        let is_over = last.bytes >= self.stripe(view, last.lane) as u64;
        let from = if is_over { last.lane + 1 } else { last.lane };
        let lane = (0..count).map(|step| (from + step) % count).find(|lane| view.lanes[*lane].usable)?;
        let had = if lane == last.lane && !is_over { last.bytes as usize } else { 0 };
        Some((lane, self.stripe(view, lane) - had))
    }

    /// The length of `lane`'s stripe.
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
    fn decide(&self, view: &SchedulerView<'_>, lane: usize) -> Decision {
        if view.requeued.is_some() {
            return Decision::Requeue(view.longest_chunk);
        }
        if view.waiting.is_none() {
            return Decision::Wait(Wait::NothingToSend);
        }
        match self.turn(view) {
            Some((whose, left)) if whose == lane => Decision::New(left),
            _ => Decision::Wait(Wait::OutOfTurn),
        }
    }

    fn built_in(&self) -> Option<Policy> {
        Some(if self.weighted { Policy::Weighted } else { Policy::Static })
    }
}
