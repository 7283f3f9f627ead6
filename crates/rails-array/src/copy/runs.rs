//! Loops over runs, and the runs one by one.

use smallvec::SmallVec;
use std::{iter::FusedIterator, num::NonZeroU64};

/// Bytes that are copied together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// The offset in the source, in bytes.
    pub source: u64,
    /// The offset in the destination, in bytes.
    pub destination: u64,
    /// The number of bytes.
    pub bytes: u64,
}

/// The runs of a plan, in the order of the result.
#[derive(Debug, Clone)]
pub struct Runs<'a> {
    loops: &'a [Loop],
    /// The turn of each loop.
    turns: SmallVec<[u64; 4]>,
    next: Run,
    remaining: u64,
}

/// Runs, or loops over them, at a distance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Loop {
    pub(super) count: u64,
    pub(super) source_step: u64,
    pub(super) destination_step: u64,
}

/// Bytes that are copied together, from one slot or into one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotRun {
    /// The number of the slot.
    pub slot: u64,
    /// The offset in the slot, in bytes.
    pub slot_offset: u64,
    /// The offset in the memory of the other side, in bytes.
    pub offset: u64,
    /// The number of bytes.
    pub bytes: u64,
}

/// The runs of a plan, cut where slots of one size meet.
#[derive(Debug, Clone)]
pub struct SlotRuns<'a> {
    runs: Runs<'a>,
    /// The rest of a run that was cut: its offset in the slots, that on the other side, its bytes.
    rest: (u64, u64, u64),
    is_source: bool,
    slot_bytes: NonZeroU64,
}

impl<'a> Runs<'a> {
    pub(super) fn new(loops: &'a [Loop], source: u64, destination: u64, bytes: u64, count: u64) -> Self {
        let turns = SmallVec::from_elem(0, loops.len());
        Self { loops, turns, next: Run { source, destination, bytes }, remaining: count }
    }

    fn advance(&mut self) {
        for (inner, turn) in self.loops.iter().zip(&mut self.turns).rev() {
            if *turn + 1 < inner.count {
                *turn += 1;
                self.next.source += inner.source_step;
                self.next.destination += inner.destination_step;
                return;
            }
            self.next.source -= *turn * inner.source_step;
            self.next.destination -= *turn * inner.destination_step;
            *turn = 0;
        }
    }
}

impl Iterator for Runs<'_> {
    type Item = Run;

    fn next(&mut self) -> Option<Run> {
        self.remaining = self.remaining.checked_sub(1)?;
        let run = self.next;
        self.advance();
        Some(run)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match usize::try_from(self.remaining) {
            Ok(remaining) => (remaining, Some(remaining)),
            Err(_) => (usize::MAX, None),
        }
    }
}

/// On machines whose `usize` is smaller, [`len`](Self::len) panics for more runs than it holds.
impl ExactSizeIterator for Runs<'_> {}

impl FusedIterator for Runs<'_> {}

impl<'a> SlotRuns<'a> {
    pub(super) fn of_source(runs: Runs<'a>, slot_bytes: NonZeroU64) -> Self {
        Self { runs, rest: (0, 0, 0), is_source: true, slot_bytes }
    }

    pub(super) fn of_destination(runs: Runs<'a>, slot_bytes: NonZeroU64) -> Self {
        Self { runs, rest: (0, 0, 0), is_source: false, slot_bytes }
    }
}

impl Iterator for SlotRuns<'_> {
    type Item = SlotRun;

    fn next(&mut self) -> Option<SlotRun> {
        if self.rest.2 == 0 {
            let Run { source, destination, bytes } = self.runs.next()?;
            let (in_slots, other) = if self.is_source { (source, destination) } else { (destination, source) };
            self.rest = (in_slots, other, bytes);
        }
        let (in_slots, offset, rest) = self.rest;
        let (slot, slot_offset) = (in_slots / self.slot_bytes, in_slots % self.slot_bytes);
        let bytes = rest.min(self.slot_bytes.get() - slot_offset);
        self.rest = (in_slots + bytes, offset + bytes, rest - bytes);
        Some(SlotRun { slot, slot_offset, offset, bytes })
    }
}

impl FusedIterator for SlotRuns<'_> {}
