//! All lanes of the scheduler, and the policy's view of them.

use super::{
    lane::{Lane, LaneTraits},
    outstanding::bit,
};
use crate::policy::LaneView;
use std::{
    ops::{Index, IndexMut},
    time::Instant,
};

/// The lanes by slot, with a view of each.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    lanes: Vec<Lane>,
    /// The lanes as the policy sees them: one for each lane, and as old as the last
    /// [refresh](Lanes::refresh_views).
    views: Vec<LaneView>,
}

impl Lanes {
    /// A lane has joined in this slot.
    pub(super) fn join(&mut self, slot: usize, traits: LaneTraits) {
        if self.lanes.len() <= slot {
            self.lanes.resize_with(slot + 1, Lane::default);
            self.views.resize_with(slot + 1, LaneView::default);
        }
        self.lanes[slot] = Lane::joined(traits);
    }

    /// The lane in this slot has ended.
    pub(super) fn leave(&mut self, slot: usize) {
        self.lanes[slot] = Lane::default();
    }

    /// The lanes with their slots.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, &Lane)> {
        self.lanes.iter().enumerate()
    }

    /// The lanes with their slots.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (usize, &mut Lane)> {
        self.lanes.iter_mut().enumerate()
    }

    /// The lanes that may answer for their chunks, as a set.
    pub(super) fn live(&self) -> u64 {
        self.those(Lane::is_live)
    }

    /// The lanes that may take chunks, as a set.
    pub(super) fn usable(&self) -> u64 {
        self.those(Lane::is_usable)
    }

    fn those(&self, are: impl Fn(&Lane) -> bool) -> u64 {
        self.iter().filter(|(_, lane)| are(lane)).fold(0, |lanes, (slot, _)| lanes | bit(slot))
    }

    /// Brings the views up to date.
    pub(super) fn refresh_views(&mut self, now: Option<Instant>) {
        for (view, lane) in self.views.iter_mut().zip(&self.lanes) {
            *view = lane.view(now);
        }
    }

    pub(super) fn views(&self) -> &[LaneView] {
        &self.views
    }
}

impl Index<usize> for Lanes {
    type Output = Lane;

    fn index(&self, slot: usize) -> &Lane {
        &self.lanes[slot]
    }
}

impl IndexMut<usize> for Lanes {
    fn index_mut(&mut self, slot: usize) -> &mut Lane {
        &mut self.lanes[slot]
    }
}
