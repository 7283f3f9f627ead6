//! The stages of planning, one after the other.

use super::{
    PlanError, PlannedRail, RailPlan, RailRequest,
    addresses::{UsedLane, own_addresses},
    capacity::expected,
    cpus::core_around,
    exclusive::divide_nics,
    explain::explain,
    lanes::place_lanes,
    notes::notes,
    problem::Problem,
    resolve::{RequestedRails, requested, resolve},
    tasks::{PlacedRail, place_tasks},
};
use rails_bind::claims::Resources;
use rails_topo::{CpuSet, Topology};

/// Plans rails for a machine. It is a pure function: the same arguments give the same plan.
///
/// Each rail gets one of the allowed CPUs without a claim. A request that is not exclusive and
/// cannot be met so shares claimed ones, and a note says which. Among these CPUs one is chosen by
/// these criteria in order: beside the rail's devices, or on the node nearest to them; with the
/// fewest rails on it; on the core with the fewest rails; not asked for by a later rail; as near to
/// the CPU that serves the NIC's interrupt as [`RailRequest::nearness`] says; on a core that serves
/// the fewest other NICs; on a node with room for the rail's tasks; of use to the fewest other
/// NICs; with the lowest number. Its memory comes from the node nearest to the CPU. The CPUs for
/// tasks are chosen alike, after those of all lanes, on further cores that share a cache with the
/// lane's CPU if there are any. A CPU that lacks a required affinity is not a candidate.
///
/// Under another numbering of the machine's CPUs a single rail is as well placed. Several rails are
/// planned one after the other, and are as well placed unless they compete for CPUs: a rail that
/// finds several equally good ones may take the only good one of a later rail.
///
/// The plan names the reason of each choice, and of each CPU and NIC that was not chosen.
///
/// # Errors
/// [`PlanError`] if the request cannot be met.
pub fn plan_rails(topology: &Topology, request: &RailRequest) -> Result<RailPlan, PlanError> {
    let planned = plan_unclaimed(topology, request);
    if planned.is_ok() || request.exclusive || request.claimed.cpus().is_empty() {
        return planned;
    }
    let sharing = RailRequest { claimed: Resources::default(), ..request.clone() };
    // Something else than the claims is in the way.
    let Ok(mut plan) = plan_unclaimed(topology, &sharing) else { return planned };
    let cores = |cpus: CpuSet| cpus.iter().fold(cpus.clone(), |all, cpu| all.union(&core_around(topology, cpu)));
    let bound = plan.rails.iter().filter(|rail| rail.bound_cpu().is_some());
    let bound = bound.fold(CpuSet::new(), |all, rail| all.union(&rail.cpus()));
    let shared: CpuSet = request.claimed.cpus().intersection(&cores(bound));
    plan.notes
        .push(format!("CPUs {shared} are claimed by other owners, and shared with them, as no plan does without"));
    Ok(plan)
}

/// A plan on CPUs without claims. A stage changes no value of an earlier one: it takes rails and
/// returns them with more parts.
fn plan_unclaimed(topology: &Topology, request: &RailRequest) -> Result<RailPlan, PlanError> {
    let problem = Problem::new(topology, request)?;
    let RequestedRails { rails, rejected_nics, notes: mut all_notes } = requested(&problem)?;
    let lanes = place_lanes(&problem, resolve(&problem, rails))?;
    let placed = place_tasks(&problem, lanes)?;
    let lanes: Vec<UsedLane<'_>> = placed.iter().map(|rail| rail.lane.rail.lane.as_ref().into()).collect();
    let shares = divide_nics(&problem, &lanes);
    let addresses: Vec<_> = lanes.iter().filter_map(|lane| lane.address()).collect();
    let plan = |(rail, share): (PlacedRail<'_>, _)| {
        let own = own_addresses(rail.lane.rail.lane.as_ref(), &addresses);
        explain(&problem, rail, own, share)
    };
    let rails: Vec<PlannedRail> = placed.into_iter().zip(shares).map(plan).collect();
    all_notes.extend(notes(&problem, &rails));
    Ok(RailPlan { expected: expected(problem.locality(), &rails), rails, rejected_nics, notes: all_notes })
}
