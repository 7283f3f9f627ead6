//! The replay of the decisions of a record.

use super::{Decided, Entry, Record, RecordedEvent};
use crate::policy::{Decision, StripePolicy};
use std::{fmt, time::Duration};

/// A decision that differs when it is made again.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference<'a> {
    /// The number of the entry in its stream, from 0.
    pub number: u64,
    /// The time of the decision since the first entry of the stream.
    pub at: Duration,
    /// The recorded decision.
    pub recorded: &'a Decided,
    /// The decision now.
    pub decision: Decision,
}

impl Record {
    /// Makes every decision again under `policy`, and returns those that differ.
    ///
    /// The policy gets the views of the recorded one, and its callbacks get the events of the
    /// recorded run. So a different decision has no consequences for later decisions. A policy
    /// with a memory of its own has to see a record from its beginning
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
                RecordedEvent::Joined { .. } => {}
                RecordedEvent::Sent(sent) => policy.on_sent(sent),
                RecordedEvent::Acked { lane, bytes } => policy.on_ack(*lane, *bytes),
                RecordedEvent::Lost { lane } => policy.on_lost(*lane),
            }
        }
        differences
    }

    /// The number of decisions in the record.
    pub fn decisions(&self) -> usize {
        self.entries.iter().filter(|entry| matches!(entry.event, RecordedEvent::Decided(_))).count()
    }
}

/// Prints the decision with the policy's whole view.
impl fmt::Display for Difference<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, at, recorded: Decided { lane, decision: before, view, .. }, decision } = self;
        write!(
            f,
            "entry {number}, {at:?} after the first, slot {lane}: it was {before:?} and is {decision:?}, seeing {view:#?}"
        )
    }
}
