//! The decisions of a record, made again.

use super::{Decided, Entry, Record, RecordedEvent};
use crate::policy::{Decision, StripePolicy};
use std::{fmt, time::Duration};

/// A decision that is another when it is made again.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference<'a> {
    /// The number of the entry in its stream, from 0.
    pub number: u64,
    /// When it was made, since the first entry of the stream.
    pub at: Duration,
    /// What was recorded.
    pub recorded: &'a Decided,
    /// The decision now.
    pub decision: Decision,
}

impl Record {
    /// Makes every decision again under `policy`, and gives those that are others.
    ///
    /// The policy sees what the recorded one saw, and is told what had happened in the run that was recorded. So a different decision has no
    /// consequences for those after it. A policy with a memory of its own has to see a record from its beginning
    /// ([`dropped`](Self::dropped) is 0).
    pub fn replay(&self, policy: &mut dyn StripePolicy) -> Vec<Difference<'_>> {
        let mut differences = Vec::new();
        for (index, Entry { at, event }) in (0..).zip(&self.entries) {
            let number = self.dropped.saturating_add(index);
            match event {
                RecordedEvent::Decided(recorded) => {
                    let decision = policy.decide(&recorded.view.view(), recorded.lane);
                    if decision != recorded.decision {
                        differences.push(Difference { number, at: *at, recorded, decision });
                    }
                }
                RecordedEvent::Sent(sent) => policy.on_sent(sent),
                RecordedEvent::Acked { lane, bytes } => policy.on_ack(*lane, *bytes),
                RecordedEvent::Lost { lane } => policy.on_lost(*lane),
            }
        }
        differences
    }

    /// How many decisions it has.
    pub fn decisions(&self) -> usize {
        self.entries.iter().filter(|entry| matches!(entry.event, RecordedEvent::Decided(_))).count()
    }
}

/// With all that the policy saw.
impl fmt::Display for Difference<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, at, recorded: Decided { lane, decision: before, view, .. }, decision } = self;
        write!(
            f,
            "entry {number}, {at:?} after the first, lane {lane}: it was {before:?} and is {decision:?}, seeing {view:#?}"
        )
    }
}
