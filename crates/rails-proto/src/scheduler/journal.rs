//! The decisions, for the record and for the log.

use crate::{
    policy::{Policy, Traced},
    record::{Record, RecordedEvent, Recorder, Snapshot},
};
use std::time::Instant;

/// Keeps the decisions and the events between them, while they are recorded or logged.
#[derive(Debug, Default)]
pub(super) struct Journal {
    /// Keeps the decisions, if they are recorded.
    recorder: Option<Box<Recorder>>,
    /// The decisions for the log, while the driver asks for them.
    traced: Option<Vec<Traced>>,
}

impl Journal {
    /// Records the newest `capacity` decisions and events. `numbers` are those of the lanes in each
    /// slot.
    pub(super) fn record(&mut self, capacity: usize, numbers: Vec<Option<u16>>) {
        self.recorder = Some(Box::new(Recorder::new(capacity, numbers)));
    }

    /// Takes the record of decisions by `policy` since the last call. `None` if they are not
    /// recorded.
    pub(super) fn take_record(&mut self, policy: Option<Policy>) -> Option<Record> {
        self.recorder.as_mut().map(|recorder| recorder.take(policy))
    }

    /// Keeps the decisions for the log, until [`Journal::take_traced`] takes them.
    pub(super) fn trace(&mut self) {
        self.traced.get_or_insert_default();
    }

    /// Takes the decisions since [`Journal::trace`], and keeps no more.
    pub(super) fn take_traced(&mut self) -> Vec<Traced> {
        self.traced.take().unwrap_or_default()
    }

    /// Takes an event.
    pub(super) fn note(&mut self, now: Option<Instant>, event: RecordedEvent) {
        if let Some(recorder) = &mut self.recorder {
            recorder.add(now, event);
        }
    }

    /// Memory for the policy's view, for [`Journal::decided`]. `None` if the decisions are not
    /// recorded.
    pub(super) fn blank_view(&mut self) -> Option<Snapshot> {
        self.recorder.as_mut().map(|recorder| recorder.blank_view())
    }

    /// Takes a decision, and the view that it was made of.
    pub(super) fn decided(&mut self, now: Option<Instant>, decided: Traced, view: Option<Snapshot>) {
        if let (Some(recorder), Some(view)) = (&mut self.recorder, view) {
            recorder.decided(now, decided.slot, (decided.decision, decided.overruled), view);
        }
        if let Some(traced) = &mut self.traced {
            traced.push(decided);
        }
    }
}
