//! Planning again, for rails that run while the machine changes.

use super::{
    Binding, PlanError, PlannedRail, RailRequest, Which,
    addresses::{has_address, next_end},
    cpus::{Candidate, place_rank},
    exclusive,
    nics::why_not,
    plan_rails::{Parts, Planner},
};
use rails_bind::claims::Resources;
use rails_topo::{CpuId, Nic, Topology};

/// A rail that runs, planned again.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Replanned {
    /// Its plan for the machine as it is now.
    pub planned: PlannedRail,
    /// Why it leaves its present place; empty if it stays.
    pub reasons: Vec<String>,
    /// Whether a part of its present place cannot be used any more; if not, the new place is only better.
    pub is_urgent: bool,
    /// The part of the request that cannot be met now. The rail keeps the part that it has.
    pub unmet: Option<String>,
}

/// Plans rails that run again, for the machine as it is now. Their number and their order stay. It is a pure function.
///
/// A rail keeps its NIC while that can be used, also if a faster one is there, since another NIC takes new connections.
/// In place of a NIC that cannot be used it gets the best one without a rail. A rail whose request names the NIC keeps
/// it in any case. A rail leaves its CPU if that cannot be used any more, or if another one is better by the criteria of
/// [`plan_rails`](super::plan_rails()), for the lane and its tasks together; among equals it stays. Rails are looked at
/// one by one, each beside the others as they are, so that no rail moves for the sake of another one. A rail may come to
/// a CPU that one before it leaves, so that one moves first. A move for a better place makes the rails as a whole better
/// placed by the same criteria, so rails that are planned again and again come to rest.
///
/// # Errors
/// [`PlanError`] if no CPU is left. A single rail that cannot be planned is not an error: [`Replanned::unmet`].
pub fn replan_rails(
    topology: &Topology,
    request: &RailRequest,
    present: &[PlannedRail],
) -> Result<Vec<Replanned>, PlanError> {
    let mut planner = Planner { present, ..Planner::new(topology, request)? };
    present.iter().for_each(|rail| planner.occupy(rail));
    // A lane and its tasks are one: a lane that moved away from its own tasks would have them follow it, again and again.
    let unmet: Vec<Option<String>> = present.iter().map(|rail| planner.replan_rail(rail)).collect();
    if request.exclusive {
        exclusive::add_interrupts_and_queues(topology, &mut planner.rails);
    }
    let planned = std::mem::take(&mut planner.rails);
    Ok(present.iter().zip(planned).zip(unmet).map(|((old, new), unmet)| planner.compare(old, new, unmet)).collect())
}

impl<'a> Parts<'a> {
    /// The parts, if a rail that runs can have them: it has its threads already.
    fn for_rail(self, present: &PlannedRail) -> Result<Self, String> {
        let has = 1 + present.task_cpus.len();
        if self.cores != has {
            return Err(format!("the request has {} cores for it, and it was built with {has}", self.cores));
        }
        if self.binding.is_bound() != present.bound_cpu().is_some() {
            return Err("the request binds it, and it was built unbound, or the other way round".to_owned());
        }
        Ok(self)
    }
}

impl<'a> Planner<'a> {
    /// Notes the CPUs of a rail that runs; one that nothing is bound for is on no core.
    fn occupy(&mut self, rail: &PlannedRail) {
        if rail.bound_cpu().is_some() {
            rail.cpus().iter().for_each(|cpu| self.cpus.take(cpu));
        }
    }

    /// Takes the note of its CPUs back.
    fn vacate(&mut self, rail: &PlannedRail) {
        if rail.bound_cpu().is_some() {
            rail.cpus().iter().for_each(|cpu| self.cpus.leave(cpu));
        }
    }

    /// Plans a rail again. Returns the part of the request that cannot be met.
    fn replan_rail(&mut self, present: &'a PlannedRail) -> Option<String> {
        self.vacate(present);
        let (parts, unmet) = match self.parts_again(present).and_then(|parts| parts.for_rail(present)) {
            Ok(parts) => {
                let down = parts.nic.filter(|nic| nic.up == Some(false));
                (parts, down.map(|nic| format!("the link of {} is down, and the request names it", nic.name)))
            }
            Err(unmet) => (self.present_parts(present), Some(unmet)),
        };
        self.keeps_cpus = true;
        let kept = self.planned_beside(parts.clone()).ok();
        self.keeps_cpus = false;
        let asked = parts.binding.cpus();
        let rank = |chosen: &[Candidate]| place_rank(chosen, asked);
        let place = match (self.planned_beside(parts), kept) {
            (Ok(other), Some(kept)) if rank(&kept.1) <= rank(&other.1) => Ok(kept),
            (Ok(place), _) | (Err(_), Some(place)) => Ok(place),
            (Err(error), None) => Err(error),
        };
        let (rail, unmet) = match place {
            Ok((rail, _)) => (rail, unmet),
            // It stays as a whole.
            Err(error) => (present.clone(), Some(unmet.unwrap_or_else(|| error.to_string()))),
        };
        self.occupy(&rail);
        self.cores.push(1 + rail.task_cpus.len());
        self.rails.push(rail);
        self.chosen.push(Vec::new());
        unmet
    }

    /// Plans a rail beside the others, without its being one of them. Returns the choices of its CPUs too.
    fn planned_beside(&mut self, parts: Parts<'_>) -> Result<(PlannedRail, Vec<Candidate>), PlanError> {
        let index = self.rails.len();
        let planned = self.add(parts).and_then(|()| self.add_task_cpus(index));
        self.cores.truncate(index);
        let (rail, chosen) = (self.rails.drain(index..).next(), self.chosen.drain(index..).next());
        rail.iter().for_each(|rail| self.vacate(rail));
        planned.map(|()| rail.zip(chosen).expect("a rail that was planned was added"))
    }

    /// The parts of the rail on the machine as it is now.
    fn parts_again(&mut self, present: &'a PlannedRail) -> Result<Parts<'a>, String> {
        let index = self.rails.len();
        match &self.request.which {
            Which::Loopback(_) => Ok(self.loopback(index)),
            Which::Listed(wishes) => {
                let wish = wishes.get(index).ok_or("the request has no such rail")?;
                self.wished(wish).map_err(|error| error.to_string())
            }
            Which::Auto | Which::Count(_) => {
                let nic = present.interface.as_deref().and_then(|name| self.topology.nic(name));
                let nic = nic.filter(|nic| why_not(nic).is_none()).or_else(|| self.spare_nic());
                let nic = nic.ok_or("no NIC without a rail can be used in place of its own")?;
                let keeps = present.interface.as_ref() == Some(&nic.name)
                    && present.address.is_none_or(|address| has_address(nic, address));
                let (address, end) = match &present.end {
                    Some(end) if keeps => (present.address, end.clone()),
                    _ => next_end(&self.rails, nic),
                };
                Ok(self.lane(Some(nic), address, end, &Binding::AFFINE))
            }
        }
    }

    /// The best NIC on which no rail is, or with the fewest rails if they may share it.
    fn spare_nic(&mut self) -> Option<&'a Nic> {
        let rails_on = |planner: &Self, nic: &Nic| {
            let rails = planner.rails.iter().chain(&planner.present[planner.rails.len()..]);
            rails.filter(|rail| rail.interface.as_ref() == Some(&nic.name)).count()
        };
        let nics = self.best_nics();
        let nic = nics.into_iter().min_by_key(|nic| rails_on(self, nic))?;
        (self.request.share_nics || rails_on(self, nic) == 0).then_some(nic)
    }

    /// The parts that the rail has.
    fn present_parts(&self, present: &'a PlannedRail) -> Parts<'a> {
        Parts {
            nic: present.interface.as_deref().and_then(|name| self.topology.nic(name)),
            address: present.address,
            end: present.end.clone(),
            devices: present.devices.clone(),
            cores: 1 + present.task_cpus.len(),
            binding: &present.binding,
        }
    }

    fn compare(&self, present: &PlannedRail, mut planned: PlannedRail, unmet: Option<String>) -> Replanned {
        let (mut reasons, mut is_urgent) = (Vec::new(), false);
        if planned.end != present.end {
            reasons.push(self.why_another_lane(present));
            is_urgent = true;
        }
        let is_bound = planned.binding.is_bound();
        if is_bound && (planned.cpu, &planned.task_cpus) != (present.cpu, &present.task_cpus) {
            for cpu in present.cpus().difference(&planned.cpus()).iter() {
                let unusable = self.why_unusable(cpu);
                is_urgent |= unusable.is_some();
                reasons.push(format!("CPU {cpu}: {}", unusable.unwrap_or_else(|| why_worse(&planned, cpu))));
            }
            if reasons.is_empty() {
                reasons.push(format!("CPU {}: {}", present.cpu, why_worse(&planned, present.cpu)));
            }
        } else if !present.exclusive_cpus.is_empty() {
            // The hardware threads of a core that are offline stay claimed: they may come back.
            planned.exclusive_cpus = planned.exclusive_cpus.union(&present.exclusive_cpus);
            if reasons.is_empty() && !planned.exclusive_resources().eq(present.exclusive_resources()) {
                let own: Resources = planned.exclusive_resources().collect();
                reasons.push(format!("has to itself now: {own}"));
            }
        }
        if is_bound && planned.node != present.node && reasons.is_empty() {
            let gone = present.node.filter(|node| !self.topology.allowed_nodes().contains(*node));
            is_urgent |= gone.is_some();
            reasons.push(match (gone, planned.node) {
                (Some(node), _) => format!("node {node}: may not be used here any more"),
                (None, Some(node)) => format!("node {node} is the nearest to CPU {} now", planned.cpu),
                (None, None) => "the machine shows no NUMA nodes any more".to_owned(),
            });
        }
        if reasons.is_empty() {
            planned.reasons.clone_from(&present.reasons);
        }
        Replanned { planned, reasons, is_urgent, unmet }
    }

    fn why_another_lane(&self, present: &PlannedRail) -> String {
        let Some(name) = &present.interface else { return "the request has another lane for it now".to_owned() };
        match self.topology.nic(name) {
            None => format!("{name}: is gone"),
            Some(nic) => match (why_not(nic), present.address) {
                (Some(reason), _) => format!("{name}: {reason}"),
                (None, Some(address)) if !has_address(nic, address) => {
                    format!("{name}: has lost the address {address}")
                }
                (None, _) => format!("{name}: its lane begins elsewhere now"),
            },
        }
    }

    /// Why no rail may be on the CPU any more.
    fn why_unusable(&self, cpu: CpuId) -> Option<String> {
        let reason = match () {
            () if !self.topology.online_cpus().contains(cpu) => "is offline",
            () if !self.topology.allowed_cpus().contains(cpu) => "may not be used here any more",
            () if !self.cpus.has(cpu) => "another owner has claimed its core",
            () => return None,
        };
        Some(reason.to_owned())
    }
}

/// Why a rail is not on that CPU.
fn why_worse(planned: &PlannedRail, cpu: CpuId) -> String {
    let rejected = planned.rejected_cpus.iter().find(|rejected| rejected.cpus.contains(cpu));
    rejected.map_or("another one is better for its tasks".to_owned(), |rejected| rejected.reason.clone())
}
