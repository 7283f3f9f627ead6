//! The state machine: what was told becomes changes, and a list of what must be looked at again. No I/O, no clock.

use super::{
    Change, MemoryBlockId, Snapshot,
    differ::{self, one_nic},
    facts::Facts,
};
use crate::{CpuId, CpuSet, InterfaceAddress, Nic};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::{Duration, Instant},
};

/// Something that a source told. Each is a fact, and no difference: told twice it changes nothing the second time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    /// A CPU is on- or offline now.
    Cpu { cpu: CpuId, online: bool },
    /// A memory block is on- or offline now.
    MemoryBlock { block: MemoryBlockId, online: bool },
    /// Something about NUMA nodes.
    Nodes,
    /// An interface is there, in this state.
    Link(LinkState),
    /// An interface is gone.
    LinkGone { index: u32 },
    /// An interface has an address, or has it no more.
    Address { index: u32, address: InterfaceAddress, present: bool },
    /// A file was written that says what this process may use.
    Cpuset,
    /// The kernel had more to tell than there was room for.
    Lost,
    /// What was looked at.
    Facts(Box<Facts>),
}

/// What is told of an interface; what is not told is `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LinkState {
    pub(crate) index: u32,
    pub(crate) name: Option<String>,
    /// `Nic::up` and `Nic::carrier`.
    pub(crate) link: Option<(Option<bool>, Option<bool>)>,
    pub(crate) mtu: Option<u32>,
}

/// What is to be looked at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Looks {
    /// Everything.
    pub(crate) machine: bool,
    /// Which CPUs are online, and what may be used.
    pub(crate) cpus: bool,
    /// Which nodes there are, and how much memory they have.
    pub(crate) nodes: bool,
    /// Which interfaces there are.
    pub(crate) nics: bool,
    /// Where interrupts are served.
    pub(crate) interrupts: bool,
    /// The speeds of these interfaces.
    pub(crate) speeds: BTreeSet<u32>,
}

/// A look that was begun.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    /// How many events had been handled then.
    since: u64,
    pub(crate) looks: Looks,
}

/// Follows the machine.
///
/// Events are handled as they come. A look takes a while, and what it finds may be older than what was told meanwhile: so what is told while a look is
/// under way is kept, and told once more to what was found, before that is compared with what was known.
#[derive(Debug)]
pub(crate) struct Tracker {
    snapshot: Snapshot,
    wanted: Looks,
    /// The whole machine is read again at this moment.
    machine_at: Option<Instant>,
    /// The next slow look.
    slow_at: Instant,
    slow_interval: Duration,
    in_flight: Vec<Looks>,
    /// The events that were handled last, kept while looks are under way.
    log: VecDeque<Event>,
    /// How many events had been handled before those.
    before_log: u64,
    /// Interrupts that this process moves itself, and where to.
    expected: BTreeMap<u32, CpuSet>,
}

impl Tracker {
    pub(crate) fn new(now: Instant, snapshot: Snapshot, slow_interval: Duration) -> Self {
        Self {
            snapshot,
            wanted: Looks::default(),
            machine_at: None,
            slow_at: now + slow_interval,
            slow_interval,
            in_flight: Vec::new(),
            log: VecDeque::new(),
            before_log: 0,
            expected: BTreeMap::new(),
        }
    }

    pub(crate) fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// That interrupt will be moved there by this process.
    pub(crate) fn expect_interrupt(&mut self, number: u32, cpus: CpuSet) {
        self.expected.insert(number, cpus);
    }

    /// Takes what was told; gives what has changed by it.
    pub(crate) fn handle(&mut self, now: Instant, event: Event) -> Vec<Change> {
        let mut changes = advance(&mut self.snapshot, &event, &mut self.wanted);
        self.remember(event);
        self.settle(now, &changes);
        self.mark_expected(&mut changes);
        changes
    }

    /// Takes what a look found, or that it found nothing because the files could not be read; gives what has changed.
    pub(crate) fn looked(&mut self, now: Instant, ticket: &Ticket, facts: Facts) -> Vec<Change> {
        self.end(ticket);
        let Some(known) = ticket.since.checked_sub(self.before_log) else {
            // More was told since than is kept.
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

    /// When the next look is due if nothing is told before; `None` while those that are under way must end first.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let machine = self.machine_at.filter(|_| self.is_free(true));
        let slow = Some(self.slow_at).filter(|_| self.is_free(false));
        machine.into_iter().chain(slow).min()
    }

    /// The slow look took that long: where it takes long it comes seldom, so that it costs no more than a two-thousandth of one core.
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

    /// CPUs and nodes bring packages, cores and caches with them, or take them along: those are read once the last has come.
    fn settle(&mut self, now: Instant, changes: &[Change]) {
        let moves_structure = |change: &Change| {
            matches!(
                change,
                Change::CpuOffline { .. } | Change::CpuOnline { .. } | Change::NodeOffline { .. } | Change::NodeOnline { .. }
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

/// Takes the snapshot past the event.
fn advance(snapshot: &mut Snapshot, event: &Event, wanted: &mut Looks) -> Vec<Change> {
    let changes = match event {
        Event::Cpu { cpu, online } => {
            wanted.cpus = true;
            cpu_changes(snapshot, *cpu, *online)
        }
        Event::MemoryBlock { block, online } => {
            wanted.nodes = true;
            let was_online = snapshot.memory_blocks.as_ref().is_some_and(|blocks| blocks.contains(*block));
            match (was_online, *online) {
                (true, false) => vec![Change::MemoryBlockOffline { block: *block }],
                (false, true) => vec![Change::MemoryBlockOnline { block: *block }],
                _ => Vec::new(),
            }
        }
        Event::Nodes => {
            wanted.nodes = true;
            Vec::new()
        }
        Event::Link(state) => match with_index(snapshot, state.index) {
            Some(nic) => {
                wanted.speeds.insert(state.index);
                link_changes(snapshot, nic, state)
            }
            None => {
                wanted.nics = true;
                Vec::new()
            }
        },
        Event::LinkGone { index } => {
            let gone = with_index(snapshot, *index).map(|nic| Change::NicRemoved { nic: nic.name.clone() });
            gone.into_iter().collect()
        }
        Event::Address { index, address, present } => match with_index(snapshot, *index) {
            Some(nic) => address_change(nic, address, *present).into_iter().collect(),
            None => {
                wanted.nics |= *present;
                Vec::new()
            }
        },
        Event::Cpuset => {
            wanted.cpus = true;
            Vec::new()
        }
        Event::Lost => {
            wanted.machine = true;
            Vec::new()
        }
        Event::Facts(facts) => return facts.take_into(snapshot),
    };
    changes.iter().for_each(|change| snapshot.apply(change));
    changes
}

fn cpu_changes(snapshot: &Snapshot, cpu: CpuId, online: bool) -> Vec<Change> {
    let topology = &snapshot.topology;
    match (topology.online_cpus.contains(cpu), online) {
        (true, false) => {
            let lost = topology
                .allowed_cpus
                .contains(cpu)
                .then(|| Change::AllowedCpus { removed: CpuSet::single(cpu), added: CpuSet::new() });
            std::iter::once(Change::CpuOffline { cpu }).chain(lost).collect()
        }
        (false, true) => vec![Change::CpuOnline { cpu }],
        _ => Vec::new(),
    }
}

fn link_changes(snapshot: &Snapshot, nic: &Nic, state: &LinkState) -> Vec<Change> {
    let mut now = nic.clone();
    let mut changes = Vec::new();
    if let Some(name) = state.name.as_ref().filter(|name| **name != nic.name) {
        // Whoever had that name has it no more, whether or not that was told yet.
        if snapshot.topology.nic(name).is_some() {
            changes.push(Change::NicRemoved { nic: name.clone() });
        }
        changes.push(Change::NicRenamed { from: nic.name.clone(), to: name.clone() });
        now.name.clone_from(name);
    }
    if let Some((up, carrier)) = state.link {
        (now.up, now.carrier) = (up, carrier);
    }
    now.mtu = state.mtu.or(now.mtu);
    changes.extend(one_nic(nic, &now));
    changes
}

fn address_change(nic: &Nic, address: &InterfaceAddress, present: bool) -> Option<Change> {
    let (name, address) = (nic.name.clone(), address.clone());
    match (nic.addresses.contains(&address), present) {
        (false, true) => Some(Change::NicAddressAdded { nic: name, address }),
        (true, false) => Some(Change::NicAddressRemoved { nic: name, address }),
        _ => None,
    }
}

pub(super) fn with_index(snapshot: &Snapshot, index: u32) -> Option<&Nic> {
    snapshot.topology.nics.iter().find(|nic| nic.index == Some(index))
}

impl Facts {
    /// Puts what was found into the snapshot; gives what has changed by it.
    fn take_into(&self, snapshot: &mut Snapshot) -> Vec<Change> {
        if let Some(machine) = &self.machine {
            let later = Snapshot { topology: (**machine).clone(), memory_blocks: self.memory_blocks.clone() };
            let changes = snapshot.changes_to(&later);
            *snapshot = later;
            return changes;
        }
        let topology = &snapshot.topology;
        let mut changes = Vec::new();
        if let Some(online) = &self.online_cpus {
            changes.extend(differ::cpus(&topology.online_cpus, online));
        }
        if let Some(nodes) = &self.nodes {
            changes.extend(differ::nodes(&topology.nodes, nodes));
        }
        changes.extend(self.allowed_cpus.as_ref().and_then(|cpus| differ::allowed_cpus(&topology.allowed_cpus, cpus)));
        changes.extend(self.allowed_nodes.as_ref().and_then(|nodes| differ::allowed_nodes(&topology.allowed_nodes, nodes)));
        changes.extend(self.nics.iter().flat_map(|nics| differ::nics(&topology.nics, nics)));
        for (index, speed) in &self.speeds {
            if let Some(nic) = with_index(snapshot, *index).filter(|nic| nic.speed != *speed) {
                changes.push(Change::NicSpeed { nic: nic.name.clone(), speed: *speed });
            }
        }
        changes.extend(self.moved_interrupts(topology));
        changes.iter().for_each(|change| snapshot.apply(change));
        if let Some(nics) = &self.nics
            && !differ::same_but_addresses(&snapshot.topology.nics, nics)
        {
            snapshot.topology.nics.clone_from(nics);
            changes.push(Change::Structure);
        }
        changes
    }

    fn moved_interrupts(&self, topology: &crate::Topology) -> Vec<Change> {
        let mut moved = BTreeMap::new();
        for interrupt in topology.nics.iter().flat_map(|nic| &nic.interrupts) {
            if let Some((affinity, effective)) = self.interrupts.get(&interrupt.number)
                && (affinity, effective) != (&interrupt.affinity, &interrupt.effective)
            {
                moved.insert(interrupt.number, (affinity.clone(), effective.clone()));
            }
        }
        let change = |(number, (affinity, effective))| Change::InterruptMoved { number, affinity, effective, expected: false };
        moved.into_iter().map(change).collect()
    }
}

/// How long no CPU or node has come or gone before the machine is read again.
pub(super) const SETTLE: Duration = Duration::from_millis(500);

/// How many events are kept at most while a look is under way; where more come it is made again.
const LONGEST_LOG: usize = 1 << 14;

#[cfg(test)]
#[path = "tracker_tests.rs"]
mod tests;
