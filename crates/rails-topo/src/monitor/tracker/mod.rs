//! The state machine: events become changes, and facts to read again. No I/O, no clock.

use super::{
    Change, Snapshot,
    event::{Event, advance},
    facts::{FactKinds, Facts},
};
use crate::CpuSet;
use std::{
    collections::{BTreeMap, VecDeque},
    time::{Duration, Instant},
};

/// A reading under way.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    /// The number of events handled before the reading.
    since: u64,
    pub(crate) kinds: FactKinds,
}

/// Follows the machine.
///
/// Events are handled as they come. A reading takes a while, and its facts may be older than later
/// events: so events during a reading are kept, and applied once more to its facts, before those
/// are compared with the known ones.
#[derive(Debug)]
pub(crate) struct Tracker {
    snapshot: Snapshot,
    wanted: FactKinds,
    /// The facts whose reading has failed; the next poll reads them.
    missed: FactKinds,
    /// The whole machine is read again at this moment.
    machine_at: Option<Instant>,
    /// The time of the next poll.
    poll_at: Instant,
    poll_interval: Duration,
    /// Whether the poll reads interfaces, because without rtnetlink no event reports them.
    seeks_nics: bool,
    in_flight: Vec<FactKinds>,
    /// The last events, kept while readings are under way.
    log: VecDeque<Event>,
    /// The number of events before those.
    before_log: u64,
    /// Interrupts that this process moves itself, and where to.
    expected: BTreeMap<u32, CpuSet>,
}

impl Tracker {
    pub(crate) fn new(now: Instant, snapshot: Snapshot, poll_interval: Duration) -> Self {
        Self {
            snapshot,
            wanted: FactKinds::default(),
            missed: FactKinds::default(),
            machine_at: None,
            poll_at: now + poll_interval,
            poll_interval,
            seeks_nics: false,
            in_flight: Vec::new(),
            log: VecDeque::new(),
            before_log: 0,
            expected: BTreeMap::new(),
        }
    }

    /// Makes the poll read interfaces too.
    pub(crate) fn poll_nics(&mut self) {
        self.seeks_nics = true;
    }

    pub(crate) fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Notes that this process will move the interrupt there.
    pub(crate) fn expect_interrupt(&mut self, number: u32, cpus: CpuSet) {
        self.expected.insert(number, cpus);
    }

    /// Handles an event; returns the changes.
    pub(crate) fn handle(&mut self, now: Instant, event: Event) -> Vec<Change> {
        let mut changes = advance(&mut self.snapshot, &event, &mut self.wanted);
        self.remember(event);
        self.settle(now, &changes);
        self.mark_expected(&mut changes);
        changes
    }

    /// Handles the facts of a reading; returns the changes. Facts of files that could not be read
    /// are missing.
    pub(crate) fn facts_read(&mut self, now: Instant, ticket: &Ticket, facts: Facts) -> Vec<Change> {
        self.end(ticket);
        let Some(known) = ticket.since.checked_sub(self.before_log) else {
            // More events have come since than are kept.
            self.wanted.machine = true;
            return Vec::new();
        };
        let event = Event::Facts(Box::new(facts));
        if known == self.log.len() as u64 {
            return self.handle(now, event);
        }
        let mut later = self.snapshot.clone();
        let mut again = FactKinds::default();
        advance(&mut later, &event, &mut again);
        for event in self.log.iter().skip(known as usize) {
            advance(&mut later, event, &mut again);
        }
        let mut changes = self.snapshot.changes_to(&later);
        self.snapshot = later;
        self.remember(event);
        self.settle(now, &changes);
        self.mark_expected(&mut changes);
        changes
    }

    /// A reading has failed: the known facts stay, and the next poll reads again.
    pub(crate) fn reading_failed(&mut self, ticket: &Ticket) {
        self.end(ticket);
        self.missed.add(&ticket.kinds);
    }

    /// The readings to begin now, which may run at the same time.
    pub(crate) fn due(&mut self, now: Instant) -> Vec<Ticket> {
        let (machine_is_free, small_is_free) = (self.is_free(true), self.is_free(false));
        let mut due = Vec::new();
        if machine_is_free && (self.wanted.machine || self.machine_at.is_some_and(|at| at <= now)) {
            self.wanted.machine = false;
            self.machine_at = None;
            due.push(FactKinds { machine: true, ..FactKinds::default() });
        }
        if small_is_free {
            if self.poll_at <= now {
                self.poll_at = now + self.poll_interval;
                self.wanted.cpus = true;
                self.wanted.nodes = true;
                self.wanted.interrupts = true;
                self.wanted.nics |= self.seeks_nics;
                self.wanted.add(&std::mem::take(&mut self.missed));
            }
            let machine = self.wanted.machine;
            let small = std::mem::replace(&mut self.wanted, FactKinds { machine, ..FactKinds::default() });
            let small = FactKinds { machine: false, ..small };
            if small != FactKinds::default() {
                due.push(small);
            }
        }
        let since = self.before_log + self.log.len() as u64;
        self.in_flight.extend(due.iter().cloned());
        due.into_iter().map(|kinds| Ticket { since, kinds }).collect()
    }

    /// The time of the next reading if no event comes before; `None` while readings under way must
    /// end first.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let machine = self.machine_at.filter(|_| self.is_free(true));
        let slow = Some(self.poll_at).filter(|_| self.is_free(false));
        machine.into_iter().chain(slow).min()
    }

    /// Notes the time that the poll took: long polls come seldom, so that they cost at most a
    /// two-thousandth of one core.
    pub(crate) fn poll_took(&mut self, now: Instant, took: Duration) {
        self.poll_at = self.poll_at.max(now + took * 2000);
    }

    /// Whether no reading of the whole machine, or no partial one, is under way.
    fn is_free(&self, machine: bool) -> bool {
        !self.in_flight.iter().any(|kinds| kinds.machine == machine)
    }

    fn end(&mut self, ticket: &Ticket) {
        if let Some(index) = self.in_flight.iter().position(|kinds| kinds.machine == ticket.kinds.machine) {
            self.in_flight.remove(index);
        }
    }

    fn remember(&mut self, event: Event) {
        if self.in_flight.is_empty() {
            self.before_log += self.log.len() as u64 + 1;
            self.log.clear();
            return;
        }
        if self.log.len() == LONGEST_LOG {
            self.log.pop_front();
            self.before_log += 1;
        }
        self.log.push_back(event);
    }

    /// CPUs and nodes come and go with packages, cores and caches: those are read after the last
    /// change.
    fn settle(&mut self, now: Instant, changes: &[Change]) {
        let moves_structure = |change: &Change| {
            matches!(
                change,
                Change::CpuOffline { .. }
                    | Change::CpuOnline { .. }
                    | Change::NodeOffline { .. }
                    | Change::NodeOnline { .. }
            )
        };
        if changes.iter().any(moves_structure) {
            self.machine_at = Some(now + SETTLE);
        }
    }

    fn mark_expected(&mut self, changes: &mut [Change]) {
        for change in changes {
            if let Change::InterruptMoved { number, affinity, expected, .. } = change {
                *expected = affinity.is_some() && self.expected.get(number) == affinity.as_ref();
                if !*expected {
                    self.expected.remove(number);
                }
            }
        }
    }
}

/// The time without a CPU or node that comes or goes before the machine is read again.
pub(super) const SETTLE: Duration = Duration::from_millis(500);

/// The number of events that are kept while a reading is under way; if more come, the reading is
/// repeated.
const LONGEST_LOG: usize = 1 << 14;

#[cfg(test)]
mod tests;
