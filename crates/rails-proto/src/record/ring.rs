//! Keeps the newest decisions of a scheduler.

use super::{Decided, Entry, Record, RecordedEvent, Snapshot};
use crate::policy::{Decision, Policy};
use std::{collections::VecDeque, time::Instant};

/// A ring of entries. A full ring allocates no more memory: for a new entry it drops the oldest,
/// and reuses the memory of its view.
#[derive(Debug)]
pub(crate) struct Recorder {
    capacity: usize,
    start: Option<Instant>,
    dropped: u64,
    /// The number of the lane in each slot before the first entry in the ring.
    numbers: Vec<Option<u16>>,
    entries: VecDeque<Entry>,
    /// Views of dropped entries.
    spare: Vec<Snapshot>,
}

impl Recorder {
    /// Creates a ring that keeps the newest `capacity` entries, at least one. `numbers` are those
    /// of the lanes in each slot.
    pub(crate) fn new(capacity: usize, numbers: Vec<Option<u16>>) -> Self {
        let capacity = capacity.max(1);
        let entries = VecDeque::with_capacity(capacity);
        Self { capacity, start: None, dropped: 0, numbers, entries, spare: Vec::new() }
    }

    /// Memory for the policy's view, for [`decided`](Self::decided).
    pub(crate) fn blank_view(&mut self) -> Snapshot {
        self.spare.pop().unwrap_or_default()
    }

    /// Takes a decision about `lane`.
    pub(crate) fn decided(
        &mut self,
        now: Option<Instant>,
        lane: usize,
        (decision, overruled): (Decision, Option<Decision>),
        view: Snapshot,
    ) {
        self.add(now, RecordedEvent::Decided(Decided { lane, decision, overruled, view }));
    }

    /// Takes an event.
    pub(crate) fn add(&mut self, now: Option<Instant>, event: RecordedEvent) {
        if self.entries.len() == self.capacity {
            self.dropped += 1;
            if let Some(Entry { event, .. }) = self.entries.pop_front() {
                self.note_number(&event);
                if let RecordedEvent::Decided(decided) = event {
                    self.spare.push(decided.view);
                }
            }
        }
        self.start = self.start.or(now);
        let at = now.zip(self.start).map(|(now, start)| now.saturating_duration_since(start)).unwrap_or_default();
        self.entries.push_back(Entry { at, event });
    }

    /// Takes the record so far, and starts a new one.
    pub(crate) fn take(&mut self, policy: Option<Policy>) -> Record {
        let entries = std::mem::replace(&mut self.entries, VecDeque::with_capacity(self.capacity));
        let (dropped, numbers) = (self.dropped, self.numbers.clone());
        self.dropped += entries.len() as u64;
        entries.iter().for_each(|entry| self.note_number(&entry.event));
        Record { policy, dropped, numbers, entries: entries.into() }
    }

    /// Notes the number of a lane whose entry leaves the ring.
    fn note_number(&mut self, event: &RecordedEvent) {
        if let RecordedEvent::Joined { slot, number } = *event {
            if self.numbers.len() <= slot {
                self.numbers.resize(slot + 1, None);
            }
            self.numbers[slot] = Some(number);
        }
    }
}
