//! Decides when rails move. No I/O, no clock.

use super::FollowOptions;
use crate::{
    RailId,
    planner::{PlannedRail, RailRequest, replan_rails},
};
use rails_bind::claims::Resources;
use rails_topo::{
    CpuSet, Interrupt, Topology,
    monitor::{Change, Snapshot},
};
use std::{
    borrow::Cow,
    collections::{BTreeMap, VecDeque},
    time::Instant,
};

/// Plans the rails of a set again after each change of the machine, and decides when each of them
/// moves.
#[derive(Debug)]
pub(super) struct Follower {
    request: RailRequest,
    options: FollowOptions,
    rails: Vec<FollowedRail>,
    /// The CPUs of the interrupts of the rails' NICs, where they are to be put back: as they were
    /// found.
    interrupts: BTreeMap<u32, FollowedInterrupt>,
    steps: VecDeque<Step>,
}

#[derive(Debug)]
struct FollowedRail {
    present: PlannedRail,
    /// The move that the rail waits for.
    pending: Option<PendingMove>,
    /// No move to a better place before this time.
    rests_until: Option<Instant>,
    /// The latest reported reason for which the rail could not move.
    reported: Option<String>,
}

#[derive(Debug)]
struct PendingMove {
    to: PlannedRail,
    reasons: Vec<String>,
    due: Instant,
    /// Whether a move there has failed.
    has_failed: bool,
}

#[derive(Debug)]
struct FollowedInterrupt {
    cpus: CpuSet,
    effective: Option<CpuSet>,
    found: Option<CpuSet>,
    due: Option<Instant>,
    rests_until: Option<Instant>,
    /// Whether the last attempt to put the interrupt back failed.
    is_refused: bool,
}

/// The next thing to do.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Step {
    /// To move that rail, and to report the outcome by [`Follower::moved`].
    Move { to: Box<PlannedRail>, reasons: Vec<String> },
    /// To report that a part of the request of a rail cannot be met.
    Unmet { rail: RailId, reason: String },
    /// To let an interrupt be served on these CPUs again.
    PutBack { interrupt: u32, cpus: CpuSet, found: Option<CpuSet> },
}

impl Follower {
    /// Follows the rails of a set, as they were planned on this machine.
    pub(super) fn new(
        request: RailRequest,
        present: Vec<PlannedRail>,
        machine: &Topology,
        options: FollowOptions,
    ) -> Self {
        let rail = |present| FollowedRail { present, pending: None, rests_until: None, reported: None };
        let rails = present.into_iter().map(rail).collect();
        let mut follower = Self { request, options, rails, interrupts: BTreeMap::new(), steps: VecDeque::new() };
        follower.note_interrupts(machine);
        follower
    }

    /// Takes the present plans of the rails: other callers move them too.
    pub(super) fn update_rails(&mut self, present: impl IntoIterator<Item = PlannedRail>) {
        self.rails.iter_mut().zip(present).for_each(|(rail, present)| rail.present = present);
    }

    /// Takes the present machine. Other owners have `claimed` these resources, and the threads of
    /// the `unbound` rails may run elsewhere than on their CPUs.
    pub(super) fn update_machine(&mut self, now: Instant, machine: &Topology, claimed: Resources, unbound: &[RailId]) {
        self.request.claimed = claimed;
        let present: Vec<PlannedRail> = self.rails.iter().map(|rail| rail.present.clone()).collect();
        self.look_at_interrupts(now, machine);
        match replan_rails(&self.after_putting_back(machine), &self.request, &present) {
            Ok(planned) => {
                for (rail, again) in self.rails.iter_mut().zip(planned) {
                    if let Some(reason) = rail.unreported(again.unmet) {
                        self.steps.push_back(Step::Unmet { rail: again.planned.id, reason });
                    }
                    let wished = if !again.reasons.is_empty() {
                        Some((again.planned, again.reasons, again.is_urgent))
                    } else if unbound.contains(&rail.present.id) {
                        let reason = "its threads were not bound to its CPUs any more".to_owned();
                        Some((rail.present.clone(), vec![reason], true))
                    } else {
                        None
                    };
                    rail.pending = wished.map(|(to, reasons, is_urgent)| {
                        let due = rail.due(now, &to, is_urgent, &self.options);
                        let has_failed = rail.has_failed(&to);
                        PendingMove { to, reasons, due, has_failed }
                    });
                }
                self.make_way();
            }
            Err(error) => {
                for rail in &mut self.rails {
                    if let Some(reason) = rail.unreported(Some(error.to_string())) {
                        self.steps.push_back(Step::Unmet { rail: rail.present.id, reason });
                    }
                    rail.pending = None;
                }
            }
        }
    }

    /// Has rails whose CPUs others move to leave them no later. Such rails come first in the plan,
    /// and leave first.
    fn make_way(&mut self) {
        for later in (1..self.rails.len()).rev() {
            let (before, after) = self.rails.split_at_mut(later);
            let Some(pending) = &after[0].pending else { continue };
            for rail in before {
                let leaves = |to: &PlannedRail| rail.present.cpus().difference(&to.cpus());
                if let Some(own) = rail.pending.as_mut().filter(|own| !own.has_failed)
                    && leaves(&own.to).intersects(&pending.to.cpus())
                {
                    own.due = own.due.min(pending.due);
                }
            }
        }
    }

    /// The next step that is due.
    pub(super) fn poll(&mut self, now: Instant) -> Option<Step> {
        if let Some(step) = self.steps.pop_front() {
            return Some(step);
        }
        for rail in &mut self.rails {
            if let Some(pending) = rail.pending.take_if(|pending| pending.due <= now) {
                return Some(Step::Move { to: Box::new(pending.to), reasons: pending.reasons });
            }
        }
        let (number, interrupt) =
            self.interrupts.iter_mut().find(|(_, interrupt)| interrupt.due.is_some_and(|due| due <= now))?;
        // The interrupt is due again unless the machine is seen with it put back.
        interrupt.due = Some(now + self.options.dwell);
        interrupt.rests_until = interrupt.due;
        Some(Step::PutBack { interrupt: *number, cpus: interrupt.cpus.clone(), found: interrupt.found.clone() })
    }

    /// When [`poll`](Self::poll) has something next, if nothing changes before.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let moves = self.rails.iter().filter_map(|rail| Some(rail.pending.as_ref()?.due));
        moves.chain(self.interrupts.values().filter_map(|interrupt| interrupt.due)).min()
    }

    /// The outcome of a move. After one that failed, the rail waits before the next.
    pub(super) fn moved(&mut self, now: Instant, to: &PlannedRail, reasons: &[String], has_moved: bool) {
        let rail = &mut self.rails[to.id.0];
        rail.rests_until = Some(now + self.options.dwell);
        if has_moved {
            rail.present = to.clone();
            rail.reported = None;
        } else {
            let due = now + self.options.dwell;
            rail.pending = Some(PendingMove { to: to.clone(), reasons: reasons.to_vec(), due, has_failed: true });
        }
    }

    /// Whether an interrupt could be put back. If not, rails move after it.
    pub(super) fn put_back(&mut self, interrupt: u32, is_back: bool) {
        if let Some(interrupt) = self.interrupts.get_mut(&interrupt) {
            interrupt.is_refused = !is_back;
        }
    }

    /// The machine as it is once the interrupts are back.
    fn after_putting_back<'m>(&self, machine: &'m Topology) -> Cow<'m, Topology> {
        let mut away = self.interrupts.iter().filter(|(_, interrupt)| interrupt.due.is_some() && !interrupt.is_refused);
        let Some(first) = away.next() else { return Cow::Borrowed(machine) };
        let mut after = Snapshot { topology: machine.clone(), memory_blocks: None };
        for (number, interrupt) in std::iter::once(first).chain(away) {
            after.apply(&Change::InterruptMoved {
                number: *number,
                affinity: Some(interrupt.cpus.clone()),
                effective: interrupt.effective.clone(),
                expected: true,
            });
        }
        Cow::Owned(after.topology)
    }

    /// Notes where interrupts of the rails' NICs are to be, those of new NICs too.
    fn note_interrupts(&mut self, machine: &Topology) {
        if !self.options.puts_interrupts_back {
            return;
        }
        let names = self.rails.iter().filter_map(|rail| rail.present.interface.as_deref());
        for interrupt in names.filter_map(|name| machine.nic(name)).flat_map(|nic| &nic.interrupts) {
            if let Some(cpus) = interrupt.affinity.clone().filter(|cpus| !cpus.is_empty()) {
                self.interrupts.entry(interrupt.number).or_insert(FollowedInterrupt {
                    cpus,
                    effective: interrupt.effective.clone(),
                    found: None,
                    due: None,
                    rests_until: None,
                    is_refused: false,
                });
            }
        }
    }

    fn look_at_interrupts(&mut self, now: Instant, machine: &Topology) {
        let names = self.rails.iter().filter_map(|rail| rail.present.interface.as_deref());
        let seen: BTreeMap<u32, &Interrupt> = names
            .filter_map(|name| machine.nic(name))
            .flat_map(|nic| nic.interrupts.iter().map(|interrupt| (interrupt.number, interrupt)))
            .collect();
        for (number, followed) in &mut self.interrupts {
            let Some(interrupt) = seen.get(number) else {
                // The interrupt's NIC is gone, or has no rail any more.
                followed.due = None;
                continue;
            };
            // CPUs that are offline take no interrupt; the kernel has moved it away from them.
            let can_serve = followed.cpus.intersects(machine.online_cpus());
            let is_elsewhere = can_serve && interrupt.affinity.as_ref().is_some_and(|found| *found != followed.cpus);
            followed.found.clone_from(&interrupt.affinity);
            followed.due = is_elsewhere.then(|| {
                let due = followed.due.unwrap_or(now + self.options.settle);
                followed.rests_until.map_or(due, |rests_until| rests_until.max(due))
            });
        }
        self.note_interrupts(machine);
    }
}

impl FollowedRail {
    /// The time of the rail's move. A move that is wished for already keeps its time.
    fn due(&self, now: Instant, to: &PlannedRail, is_urgent: bool, options: &FollowOptions) -> Instant {
        if let Some(pending) = self.pending.as_ref().filter(|_| self.has_failed(to)) {
            return pending.due;
        }
        // A thread whose CPU is gone runs anywhere already. A link may be back in a moment.
        let wait = match () {
            () if is_urgent && to.end == self.present.end => return now,
            () if is_urgent => options.settle,
            () => options.dwell,
        };
        let due = now + wait;
        let rested = self.rests_until.filter(|_| !is_urgent).map_or(due, |rests_until| rests_until.max(due));
        match &self.pending {
            Some(pending) if is_urgent || is_same_place(&pending.to, to) => pending.due.min(rested),
            _ => rested,
        }
    }

    /// Whether a move there has failed, and waits to be tried again.
    fn has_failed(&self, to: &PlannedRail) -> bool {
        self.pending.as_ref().is_some_and(|pending| pending.has_failed && is_same_place(&pending.to, to))
    }

    /// The reason, unless it is the one reported last.
    fn unreported(&mut self, unmet: Option<String>) -> Option<String> {
        let is_news = unmet != self.reported;
        self.reported.clone_from(&unmet);
        unmet.filter(|_| is_news)
    }
}

fn is_same_place(a: &PlannedRail, b: &PlannedRail) -> bool {
    (a.cpu, &a.task_cpus, a.node, &a.end) == (b.cpu, &b.task_cpus, b.node, &b.end)
}
