//! The state machine: events become changes, and a list of facts to look at again. No I/O, no
//! clock.

use super::{
    Change, Snapshot,
    event::{Event, advance},
    facts::{Facts, Looks},
};
use crate::CpuSet;
use std::{
    collections::{BTreeMap, VecDeque},
    time::{Duration, Instant},
};

/// A look under way.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    /// The number of events handled before the look.
    since: u64,
    pub(crate) looks: Looks,
}

/// Follows the machine.
///
/// Events are handled as they come. A look takes a while, and its facts may be older than later
/// events: so events during a look are kept, and applied once more to the facts of the look, before
/// those are compared with the known ones.
#[derive(Debug)]
pub(crate) struct Tracker {
    snapshot: Snapshot,
    wanted: Looks,
    /// The looks that have failed; they come again with the slow look.
    missed: Looks,
    /// The whole machine is read again at this moment.
    machine_at: Option<Instant>,
    /// The next slow look.
    slow_at: Instant,
    slow_interval: Duration,
    /// Whether the slow look looks for interfaces: without rtnetlink no event reports them.
    seeks_nics: bool,
    in_flight: Vec<Looks>,
    /// The last events, kept while looks are under way.
    log: VecDeque<Event>,
    /// The number of events before those.
    before_log: u64,
    /// Interrupts that this process moves itself, and where to.
    expected: BTreeMap<u32, CpuSet>,
}

impl Tracker {
    pub(crate) fn new(now: Instant, snapshot: Snapshot, slow_interval: Duration) -> Self {
        Self {
            snapshot,
            wanted: Looks::default(),
            missed: Looks::default(),
            machine_at: None,
            slow_at: now + slow_interval,
            slow_interval,
            seeks_nics: false,
            in_flight: Vec::new(),
            log: VecDeque::new(),
            before_log: 0,
            expected: BTreeMap::new(),
        }
    }

    /// Has the slow look find changes of interfaces.
    pub(crate) fn look_for_nics(&mut self) {
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

    /// Handles the facts of a look; returns the changes. Facts of files that could not be read are
    /// missing.
    pub(crate) fn looked(&mut self, now: Instant, ticket: &Ticket, facts: Facts) -> Vec<Change> {
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
        let mut again = Looks::default();
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

    /// A look has failed: the machine counts as it was, and the slow look looks again.
    pub(crate) fn not_looked(&mut self, ticket: &Ticket) {
        self.end(ticket);
        self.missed.add(&ticket.looks);
    }

    /// The looks to begin now; they may run at the same time.
    pub(crate) fn due(&mut self, now: Instant) -> Vec<Ticket> {
        let (machine_is_free, small_is_free) = (self.is_free(true), self.is_free(false));
        let mut due = Vec::new();
        if machine_is_free && (self.wanted.machine || self.machine_at.is_some_and(|at| at <= now)) {
            self.wanted.machine = false;
            self.machine_at = None;
            due.push(Looks { machine: true, ..Looks::default() });
        }
        if small_is_free {
            if self.slow_at <= now {
                self.slow_at = now + self.slow_interval;
                self.wanted.cpus = true;
                self.wanted.nodes = true;
                self.wanted.interrupts = true;
                self.wanted.nics |= self.seeks_nics;
                self.wanted.add(&std::mem::take(&mut self.missed));
            }
            let machine = self.wanted.machine;
            let small = std::mem::replace(&mut self.wanted, Looks { machine, ..Looks::default() });
            let small = Looks { machine: false, ..small };
            if small != Looks::default() {
                due.push(small);
            }
        }
        let since = self.before_log + self.log.len() as u64;
        self.in_flight.extend(due.iter().cloned());
        due.into_iter().map(|looks| Ticket { since, looks }).collect()
    }

    /// The time of the next look without an event before; `None` while looks under way must end
    /// first.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let machine = self.machine_at.filter(|_| self.is_free(true));
        let slow = Some(self.slow_at).filter(|_| self.is_free(false));
        machine.into_iter().chain(slow).min()
    }

    /// The slow look took that long: a long one comes seldom, so that it costs at most a
    /// two-thousandth of one core.
    pub(crate) fn slow_look_took(&mut self, now: Instant, took: Duration) {
        self.slow_at = self.slow_at.max(now + took * 2000);
    }

    /// Whether no look at the machine, or no small one, is under way.
    fn is_free(&self, machine: bool) -> bool {
        !self.in_flight.iter().any(|looks| looks.machine == machine)
    }

    fn end(&mut self, ticket: &Ticket) {
        if let Some(index) = self.in_flight.iter().position(|looks| looks.machine == ticket.looks.machine) {
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

/// The most events that are kept while a look is under way; if more come, the look is repeated.
const LONGEST_LOG: usize = 1 << 14;

#[cfg(test)]
mod tests;
