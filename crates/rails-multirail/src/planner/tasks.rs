//! The third stage: further CPUs of each rail, for tasks of the application.

use super::{
    PlanError,
    cpus::{Candidate, CpuQuery, DevicePlace},
    lanes::{PlacedLane, Present, too_few_cores},
    occupancy::Occupancy,
    problem::Problem,
    requirements::keep_required,
};
use rails_topo::{CpuId, CpuSet};

/// A rail with all of its CPUs.
pub(super) struct PlacedRail<'a> {
    pub(super) lane: PlacedLane<'a>,
    /// The CPUs for tasks, the best one first.
    pub(super) tasks: Vec<Candidate>,
    /// The cores of all CPUs.
    pub(super) cores: CpuSet,
}

impl PlacedRail<'_> {
    /// The choices of the rail's CPUs, its lane's first.
    pub(super) fn chosen(&self) -> Vec<Candidate> {
        [&self.lane.chosen].into_iter().chain(&self.tasks).cloned().collect()
    }

    pub(super) fn task_cpus(&self) -> CpuSet {
        self.tasks.iter().map(|task| task.cpu).collect()
    }

    /// The CPUs that threads are bound to: none of a rail that is not bound.
    pub(super) fn bound_cpus(&self) -> impl Iterator<Item = CpuId> {
        let lane = self.lane.bound_cpu();
        let tasks = self.tasks.iter().filter(move |_| lane.is_some()).map(|task| task.cpu);
        lane.into_iter().chain(tasks)
    }
}

/// Places the tasks of new rails, one after the other, when all lanes have their places.
pub(super) fn place_tasks<'a>(
    problem: &Problem<'a>,
    lanes: Vec<PlacedLane<'a>>,
) -> Result<Vec<PlacedRail<'a>>, PlanError> {
    let mut occupancy = Occupancy::default();
    occupancy.add(lanes.iter().filter_map(PlacedLane::bound_cpu));
    let place = |lane: PlacedLane<'a>| {
        let bound_lane = lane.bound_cpu();
        let rail = place_tasks_of(problem, lane, &occupancy, Present::Nowhere)?;
        occupancy.add(rail.bound_cpus().filter(|cpu| Some(*cpu) != bound_lane));
        Ok(rail)
    };
    lanes.into_iter().map(place).collect()
}

/// Places the tasks of one rail beside the rails that occupy CPUs. The CPU of its own lane does not
/// matter there, since tasks are on other cores.
pub(super) fn place_tasks_of<'a>(
    problem: &Problem<'a>,
    lane: PlacedLane<'a>,
    occupancy: &Occupancy,
    present: Present<'_>,
) -> Result<PlacedRail<'a>, PlanError> {
    let sought = query_for_tasks(problem, &lane, present);
    let mut cores = problem.cpus().core_of(lane.chosen.cpu);
    let mut tasks = Vec::new();
    for _ in 1..lane.rail.cores {
        let mut candidates = problem.cpus().candidates(&sought, None, problem.request().exclusive, occupancy);
        candidates.retain(|candidate| !cores.contains(candidate.cpu) && present.allows(&sought, candidate));
        let chosen = choose(problem, &lane, candidates)?;
        cores = cores.union(&problem.cpus().core_of(chosen.cpu));
        tasks.push(chosen);
    }
    Ok(PlacedRail { lane, tasks, cores })
}

fn query_for_tasks(problem: &Problem<'_>, lane: &PlacedLane<'_>, present: Present<'_>) -> CpuQuery<'static> {
    let mut near = lane.rail.places.clone();
    // Among the CPUs that are as near to the devices, those on the lane's node come first.
    let own_node = problem.topology().node_of_cpu(lane.chosen.cpu).map(|node| node.cpus.clone());
    near.push(DevicePlace { device: "the lane".to_owned(), cpus: own_node });
    CpuQuery {
        near,
        serving: lane.rail.serving.clone(),
        nics: Vec::new(),
        nearness: None,
        beside: Some(lane.chosen.cpu),
        asked_elsewhere: CpuSet::new(),
        present: present.rail().map(|rail| rail.task_cpus.clone()).unwrap_or_default(),
        present_node: None,
        tasks: 0,
    }
}

/// The best candidate with the required affinities; CPUs that the request asks for come first.
fn choose(
    problem: &Problem<'_>,
    lane: &PlacedLane<'_>,
    mut candidates: Vec<Candidate>,
) -> Result<Candidate, PlanError> {
    if !candidates.is_empty() {
        keep_required(problem, &mut candidates, lane.memory.node()).map_err(|affinity| {
            let reason = "no further core that is free has it for the rail's tasks".to_owned();
            PlanError::AffinityMissing { rail: lane.rail.id, affinity, reason }
        })?;
    }
    let asked = lane.rail.binding.cpus();
    let is_elsewhere = |candidate: &Candidate| asked.is_some_and(|asked| !asked.contains(candidate.cpu));
    let best = candidates.into_iter().min_by(|a, b| is_elsewhere(a).cmp(&is_elsewhere(b)).then_with(|| a.cmp(b)));
    best.ok_or_else(|| too_few_cores(problem, lane.rail.cores))
}
