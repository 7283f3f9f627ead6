//! Keeps the newest decisions of a scheduler.

use super::{Decided, Entry, Record, RecordedEvent, Snapshot};
use crate::policy::{Decision, Policy, SchedulerView};
use std::{collections::VecDeque, time::Instant};

/// A ring of entries. A full one allocates nothing more: it drops its oldest entry for a new one, and uses the memory of its view again.
#[derive(Debug)]
pub(crate) struct Recorder {
    capacity: usize,
    start: Option<Instant>,
    dropped: u64,
    entries: VecDeque<Entry>,
    /// Views of dropped entries.
    spare: Vec<Snapshot>,
}

impl Recorder {
    /// Keeps the newest `capacity` entries, one at least.
    pub(crate) fn new(capacity: usize) -> Self {
        let capacity = capacity.max(1);
        let entries = VecDeque::with_capacity(capacity);
        Self { capacity, start: None, dropped: 0, entries, spare: Vec::new() }
    }

    /// Keeps what the policy sees for `lane`, for [`decided`](Self::decided).
    pub(crate) fn keep(&mut self, view: &SchedulerView<'_>, lane: usize) -> Snapshot {
        let mut kept = self.spare.pop().unwrap_or_default();
        kept.keep(view, lane);
        kept
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

    /// Takes anything that happened.
    pub(crate) fn add(&mut self, now: Option<Instant>, event: RecordedEvent) {
        if self.entries.len() == self.capacity {
            self.dropped += 1;
            let oldest = self.entries.pop_front().map(|entry| entry.event);
            if let Some(RecordedEvent::Decided(decided)) = oldest {
                self.spare.push(decided.view);
            }
        }
        self.start = self.start.or(now);
        let at = now.zip(self.start).map(|(now, start)| now.saturating_duration_since(start)).unwrap_or_default();
        self.entries.push_back(Entry { at, event });
    }

    /// Hands out what it has, and begins anew.
    pub(crate) fn take(&mut self, policy: Option<Policy>) -> Record {
        let entries = std::mem::replace(&mut self.entries, VecDeque::with_capacity(self.capacity));
        let dropped = self.dropped;
        self.dropped += entries.len() as u64;
        Record { policy, dropped, entries: entries.into() }
    }
}
