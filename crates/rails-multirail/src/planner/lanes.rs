//! The second stage: a CPU and memory for the lane of each rail.

use super::{
    BindingKind, Need, PlanError, PlannedRail, RejectedCpus, Which,
    cpus::{self, Candidate, CpuQuery, DevicePlace},
    nics::choosable,
    occupancy::Occupancy,
    problem::Problem,
    rail_request::MAX_RAILS,
    requirements::{check_affinities, keep_required},
    resolve::ResolvedRail,
};
use crate::RailId;
use rails_topo::{CpuId, CpuSet, Nic, NodeId};

/// A rail with the CPU and the memory of its lane.
pub(super) struct PlacedLane<'a> {
    pub(super) rail: ResolvedRail<'a>,
    pub(super) chosen: Candidate,
    /// The criteria by which the CPU was sought.
    pub(super) sought: CpuQuery<'a>,
    /// The number of CPUs among which it was chosen.
    pub(super) usable: usize,
    /// The CPUs that may be used of those that the request asks for, if it does.
    pub(super) asked: Option<CpuSet>,
    pub(super) memory: MemoryChoice,
    /// The CPUs that the rail did not get; empty for one that is bound to none.
    pub(super) rejected: Vec<RejectedCpus>,
}

/// The memory of a rail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MemoryChoice {
    /// The request binds nothing.
    Unbound,
    /// The request names the node.
    Asked(NodeId),
    /// The request wants no memory affinity.
    Unwanted,
    /// The node nearest to the CPU; `None` if it is not known.
    Nearest(Option<NodeId>),
}

/// The place that a rail has while it is planned again.
#[derive(Clone, Copy)]
pub(super) enum Present<'p> {
    /// The rail runs nowhere yet.
    Nowhere,
    /// The rail leaves the place for a better one.
    Left(&'p PlannedRail),
    /// The rail keeps its CPUs.
    Kept(&'p PlannedRail),
}

impl<'a> PlacedLane<'a> {
    /// The CPU that the rail's thread is bound to; `None` if it is not bound.
    pub(super) fn bound_cpu(&self) -> Option<CpuId> {
        self.rail.binding.is_bound().then_some(self.chosen.cpu)
    }
}

impl MemoryChoice {
    /// The node that the memory is bound to.
    pub(super) fn node(self) -> Option<NodeId> {
        match self {
            Self::Asked(node) => Some(node),
            Self::Nearest(node) => node,
            Self::Unbound | Self::Unwanted => None,
        }
    }
}

impl<'p> Present<'p> {
    pub(super) fn rail(self) -> Option<&'p PlannedRail> {
        match self {
            Self::Nowhere => None,
            Self::Left(rail) | Self::Kept(rail) => Some(rail),
        }
    }

    /// Whether the rail may have the CPU.
    pub(super) fn allows(self, sought: &CpuQuery<'_>, candidate: &Candidate) -> bool {
        !matches!(self, Self::Kept(_)) || sought.present.contains(candidate.cpu)
    }
}

/// Places the lanes of new rails, one after the other.
pub(super) fn place_lanes<'a>(
    problem: &Problem<'a>,
    rails: impl Iterator<Item = Result<ResolvedRail<'a>, PlanError>>,
) -> Result<Vec<PlacedLane<'a>>, PlanError> {
    let mut occupancy = Occupancy::default();
    let place = |rail: Result<ResolvedRail<'a>, PlanError>| {
        let lane = place_lane(problem, rail?, &occupancy, Present::Nowhere)?;
        if let Some(cpu) = lane.bound_cpu() {
            occupancy.add([cpu]);
            occupancy.expect_tasks(cpu, lane.rail.cores - 1);
        }
        Ok(lane)
    };
    rails.map(place).collect()
}

/// Places one lane beside the rails that occupy CPUs.
pub(super) fn place_lane<'a>(
    problem: &Problem<'a>,
    rail: ResolvedRail<'a>,
    occupancy: &Occupancy,
    present: Present<'_>,
) -> Result<PlacedLane<'a>, PlanError> {
    check_request(problem, &rail)?;
    let sought = query_for_lane(problem, &rail, present);
    let asked = asked_cpus(problem, &rail)?;
    let mut candidates = problem.cpus().candidates(&sought, asked.as_ref(), problem.request().exclusive, occupancy);
    // An affinity that no candidate has is refused below.
    let lacking = keep_required(problem, &mut candidates, asked_node(&rail)).unwrap_or_default();
    let Some(chosen) = candidates.iter().filter(|candidate| present.allows(&sought, candidate)).min().cloned() else {
        return Err(match rail.binding.cpus() {
            Some(wanted) => PlanError::CpusTaken { lane: lane_name(&rail), wanted: wanted.clone() },
            None => too_few_cores(problem, rail.cores),
        });
    };
    let nearest = problem.locality().nearest_node(chosen.cpu);
    let memory = memory(problem, &rail, nearest)?;
    check_affinities(problem, rail.id, &sought, &chosen, memory.node().filter(|node| Some(*node) == nearest))?;
    let mut rejected = Vec::new();
    if rail.binding.is_bound() {
        rejected = rejected_beforehand(problem, asked.as_ref(), occupancy);
        rejected.extend(cpus::rejected(&chosen, &candidates));
        rejected.extend(lacking);
    }
    Ok(PlacedLane { usable: candidates.len(), rail, chosen, sought, asked, memory, rejected })
}

/// The error for a rail of `cores` cores: rails that share cores need the cores of each alone.
pub(super) fn too_few_cores(problem: &Problem<'_>, cores: usize) -> PlanError {
    let request = problem.request();
    let all = |rails: usize| rails.saturating_mul(request.cores.max(1));
    let usable_nics = || choosable(problem.topology()).filter(|(_, reason)| reason.is_none()).count();
    let wanted = match &request.which {
        _ if !request.exclusive => cores,
        Which::Auto => all(usable_nics().min(MAX_RAILS)),
        Which::Count(count) | Which::Loopback(Some(count)) => all(*count),
        Which::Loopback(None) => all(problem.loopback_rails()),
        Which::Listed(wishes) => wishes.iter().map(|wish| request.cores_of(wish)).fold(0, usize::saturating_add),
    };
    PlanError::TooFewCores { wanted, usable: problem.cpus().cores() }
}

/// Refuses a rail that no CPU can meet the request for.
fn check_request(problem: &Problem<'_>, rail: &ResolvedRail<'_>) -> Result<(), PlanError> {
    if let Some((nic, reason)) = rail.nic().and_then(|nic| Some((nic, nic.hidden.as_ref()?))) {
        return Err(hidden(problem, nic, reason));
    }
    if rail.binding.is_bound() {
        return Ok(());
    }
    if problem.request().exclusive {
        return Err(PlanError::UnboundCores { rail: rail.id });
    }
    if problem.request().affinities.thread == Need::Required {
        let reason = "its thread is bound to no CPU".to_owned();
        return Err(PlanError::AffinityMissing { rail: rail.id, affinity: "thread", reason });
    }
    Ok(())
}

/// The error of a hidden interface.
fn hidden(problem: &Problem<'_>, nic: &Nic, reason: &str) -> PlanError {
    let told = problem.topology().overrides_of(&["nic", &nic.name, "hide"]).next_back();
    let position = told.map_or("by its model".to_owned(), |told| format!("{}:{}", told.file.display(), told.line));
    PlanError::Hidden { name: nic.name.clone(), reason: reason.to_owned(), position }
}

fn query_for_lane<'a>(problem: &Problem<'_>, rail: &ResolvedRail<'a>, present: Present<'_>) -> CpuQuery<'a> {
    let request = problem.request();
    let mut near = rail.places.clone();
    if let Some(asked) = asked_node(rail)
        && near.iter().all(|place| place.cpus.is_none())
    {
        let nodes = problem.topology().nodes();
        let node = nodes.iter().find(|node| node.id == asked && !node.cpus.is_empty());
        near.extend(node.map(|node| DevicePlace { device: format!("node {asked}"), cpus: Some(node.cpus.clone()) }));
    }
    CpuQuery {
        near,
        serving: rail.serving.clone(),
        nics: rail.carriers.iter().map(|nic| nic.name.as_str()).collect(),
        nearness: (request.affinities.thread != Need::Unwanted).then_some(request.nearness),
        beside: None,
        asked_elsewhere: asked_by_later_rails(&request.which, rail.id),
        present: present.rail().map(|rail| CpuSet::single(rail.cpu)).unwrap_or_default(),
        present_node: present.rail().and_then(|rail| rail.node),
        tasks: rail.cores - 1,
    }
}

/// The CPUs that were asked for by rails after this one.
fn asked_by_later_rails(which: &Which, rail: RailId) -> CpuSet {
    let Which::Listed(wishes) = which else { return CpuSet::new() };
    let asked = wishes.iter().skip(rail.0 + 1).filter_map(|wish| wish.binding.cpus());
    asked.fold(CpuSet::new(), |all, cpus| all.union(cpus))
}

/// The CPUs that a wish allows, of those that may be used; `None` for all.
fn asked_cpus(problem: &Problem<'_>, rail: &ResolvedRail<'_>) -> Result<Option<CpuSet>, PlanError> {
    let Some(wanted) = rail.binding.cpus() else { return Ok(None) };
    let (online, allowed) = (problem.topology().online_cpus(), problem.topology().allowed_cpus());
    let (lane, wanted) = (lane_name(rail), wanted.clone());
    if !wanted.intersects(online) {
        return Err(PlanError::NoSuchCpus { lane, wanted, online: online.clone() });
    }
    let usable = wanted.intersection(allowed);
    if usable.is_empty() {
        return Err(PlanError::CpusNotAllowed { lane, wanted, allowed: allowed.clone() });
    }
    Ok(Some(usable))
}

/// The node that the request names for the memory.
fn asked_node(rail: &ResolvedRail<'_>) -> Option<NodeId> {
    match rail.binding.kind {
        BindingKind::Explicit { node, .. } => node,
        BindingKind::Affine | BindingKind::Default => None,
    }
}

/// The name of a rail's lane in errors.
fn lane_name(rail: &ResolvedRail<'_>) -> String {
    let address = || rail.lane.as_ref().and_then(|lane| lane.address).map(|address| address.to_string());
    let name = rail.nic().map(|nic| nic.name.clone()).or_else(address);
    name.unwrap_or_else(|| format!("rail {}", rail.id))
}

fn memory(problem: &Problem<'_>, rail: &ResolvedRail<'_>, nearest: Option<NodeId>) -> Result<MemoryChoice, PlanError> {
    if !rail.binding.is_bound() {
        return Ok(MemoryChoice::Unbound);
    }
    if let Some(node) = asked_node(rail) {
        let topology = problem.topology();
        let is_known = topology.nodes().iter().any(|known| known.id == node);
        if !(is_known && topology.allowed_nodes().contains(node)) {
            return Err(PlanError::NoSuchNode { node, allowed: topology.allowed_nodes().clone() });
        }
        return Ok(MemoryChoice::Asked(node));
    }
    let is_unwanted = problem.request().affinities.memory == Need::Unwanted;
    Ok(if is_unwanted { MemoryChoice::Unwanted } else { MemoryChoice::Nearest(nearest) })
}

/// The CPUs that were no candidates.
fn rejected_beforehand(problem: &Problem<'_>, asked: Option<&CpuSet>, occupancy: &Occupancy) -> Vec<RejectedCpus> {
    let (online, allowed) = (problem.topology().online_cpus(), problem.topology().allowed_cpus());
    let claimed: CpuSet = allowed.iter().filter(|cpu| !problem.cpus().has(*cpu)).collect();
    let not_asked = asked.map(|asked| allowed.difference(asked)).unwrap_or_default();
    let is_taken = |cpu: &CpuId| occupancy.rails_on_core(&problem.cpus().core_of(*cpu)) > 0;
    let taken: CpuSet = allowed.iter().filter(|_| problem.request().exclusive).filter(is_taken).collect();
    let mut rejected = Vec::new();
    let mut left = online.clone();
    // Each CPU stands with the first of its reasons.
    for (cpus, reason) in [
        (online.difference(allowed), "may not be used here (cpuset or CPU affinity of the process)"),
        (claimed, "claimed by another owner, or on a core that is"),
        (not_asked, "not asked for"),
        (taken, "on the core of another rail, which has it to itself"),
    ] {
        let cpus = cpus.intersection(&left);
        left = left.difference(&cpus);
        rejected.extend((!cpus.is_empty()).then(|| RejectedCpus { cpus, reason: reason.to_owned() }));
    }
    rejected
}
