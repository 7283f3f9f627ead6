//! The rails that are built from a request, and the properties that they lack.

#[cfg(feature = "cli")]
mod flags;

use crate::exit::Help;
use anyhow::{Error, Result};
#[cfg(feature = "cli")]
pub(crate) use flags::{PlacementArgs, RailsArgs, plan_on};
use rails_bind::{
    Unheld,
    claims::{Claim, ClaimError, Claims, Holder, Resource, Resources},
};
use rails_multirail::{
    RailPlan, RailRequest, Rails,
    planner::{PlanError, PlannedRail, plan_rails},
    runtime::RuntimeError,
};
use rails_task::TaskQueues;
use rails_topo::{CpuSet, Topology};

/// Plans rails of this machine, around the CPUs that others have claimed. Errors name `flag`.
fn plan(topology: &Topology, request: &RailRequest, flag: &'static str) -> Result<RailPlan> {
    let mut request = request.clone();
    request.claimed = Claims::machine().taken().unwrap_or_else(|error| {
        let error = Error::new(error);
        tracing::warn!("rails are planned without regard to claims, which cannot be read: {error:#}");
        Resources::default()
    });
    let error = match plan_rails(topology, &request) {
        Ok(plan) => {
            warn_of_holders(topology, &plan, request.claimed.cpus());
            return Ok(plan);
        }
        Err(error) => error,
    };
    // Root takes cores that other users have claimed, where no others are left.
    let claimed = std::mem::replace(&mut request.claimed, Claims::machine().taken_for_good().unwrap_or_default());
    if request.claimed != claimed
        && let Ok(plan) = plan_rails(topology, &request)
    {
        warn_of_holders(topology, &plan, claimed.cpus());
        return Ok(plan);
    }
    request.claimed = Resources::default();
    let help = match error {
        // The claims are not the only obstacle.
        _ if plan_rails(topology, &request).is_err() => None,
        PlanError::NoNic { .. } | PlanError::TooFewNics { .. } => Some(CONFLICT.to_owned()),
        PlanError::TooFewCores { .. } | PlanError::CpusTaken { .. } => Some(claimed_by(&holders_on(topology))),
        _ => None,
    };
    let error = Error::new(error).context(flag);
    Err(match help {
        Some(help) => error.help(help),
        None => error,
    })
}

/// Builds rails of this machine, around the CPUs that others have claimed. Errors name `flag`.
pub(crate) fn build(topology: &Topology, request: &RailRequest, flag: &'static str) -> Result<(RailPlan, Rails)> {
    let mut tries = 1..TRIES;
    loop {
        let plan = plan(topology, request, flag)?;
        match build_with_tasks(topology, &plan) {
            Ok(rails) => return Ok((plan, rails)),
            // Another process has claimed a core since the plan was made; the next plan leaves that
            // core out.
            Err(error) if is_core_claimed(&error) && tries.next().is_some() => {}
            Err(error) => return Err(not_built(error).context(flag)),
        }
    }
}

/// Plans rails of this machine, and claims all that exclusive ones have to themselves, without
/// making the rails. Errors name `flag`.
pub(crate) fn claim(topology: &Topology, request: &RailRequest, flag: &'static str) -> Result<(RailPlan, Claim)> {
    let mut tries = 1..TRIES;
    loop {
        let plan = plan(topology, request, flag)?;
        match Claims::machine().claim(plan.rails.iter().flat_map(PlannedRail::exclusive_resources)) {
            Ok(claim) => return Ok((plan, claim)),
            Err(ClaimError::Held { resource: Resource::Cpu(_), .. }) if tries.next().is_some() => {}
            Err(error) => return Err(not_built(error.into()).context(flag)),
        }
    }
}

/// Builds the rails of a plan that was made before.
pub(crate) fn build_planned(plan: &RailPlan) -> Result<Rails> {
    Rails::build(plan).map_err(not_built)
}

/// The properties that this system refuses rails of that plan, by a trial.
///
/// # Errors
/// If the request requires them.
pub(crate) fn tried(plan: &RailPlan, request: &RailRequest) -> Result<Vec<Unheld>> {
    match Rails::try_placement(plan) {
        Err(error) if request.requires_placement => Err(error.into()),
        // The trial failed; building the plan reports the error.
        tried => Ok(tried.unwrap_or_default()),
    }
}

/// A property that does not hold, with the settings that allow it on the lines below.
pub(crate) fn with_remedies(unheld: &Unheld) -> String {
    let remedies = unheld.remedies().iter().map(|remedy| format!("          {remedy}\n"));
    std::iter::once(format!("{unheld}\n")).chain(remedies).collect()
}

/// Builds rails, with task queues if a rail has several cores, the further of which help the first.
fn build_with_tasks(topology: &Topology, plan: &RailPlan) -> Result<Rails, RuntimeError> {
    if plan.rails.iter().all(|rail| rail.task_cpus.is_empty()) {
        return Rails::build(plan);
    }
    let queues = TaskQueues::new(topology, TASKS);
    Rails::build_with(plan, |_, runtime| runtime.tasks(&queues))
}

fn is_core_claimed(error: &RuntimeError) -> bool {
    matches!(error, RuntimeError::Claim(ClaimError::Held { resource: Resource::Cpu(_), .. }))
}

/// Adds a remedy to a conflict of claims.
fn not_built(error: RuntimeError) -> Error {
    let is_conflict = matches!(error, RuntimeError::Claim(ClaimError::Held { .. }));
    let error = Error::new(error);
    if is_conflict {
        return error.help(CONFLICT);
    }
    error
}

/// Names the processes whose claimed cores the rails use, because there are no others.
fn warn_of_holders(topology: &Topology, plan: &RailPlan, claimed: &CpuSet) {
    let cores = |cpus: &CpuSet| {
        let cores = cpus.iter().filter_map(|cpu| topology.core_of_cpu(cpu));
        cores.fold(cpus.clone(), |all, core| all.union(&core.cpus))
    };
    let bound = plan.rails.iter().filter(|rail| rail.bound_cpu().is_some());
    let shared = bound.fold(CpuSet::new(), |all, rail| all.union(&cores(&rail.cpus()))).intersection(claimed);
    if !shared.is_empty() {
        let holders = holders_on(topology).into_iter().filter(|holder| holder.holds.cpus().intersects(&shared));
        let holders = named(&holders.collect::<Vec<_>>());
        tracing::warn!("rails share CPUs {shared} with {holders}, as there are no others for them");
    }
}

/// The holders of cores that this process could use otherwise.
fn holders_on(topology: &Topology) -> Vec<Holder> {
    let is_here = |cpus: &CpuSet| {
        let mut cores = cpus.iter().filter_map(|cpu| topology.core_of_cpu(cpu));
        cores.any(|core| core.cpus.intersects(topology.allowed_cpus()))
    };
    // The plan's error does not need the holders.
    let holders = Claims::machine().list().unwrap_or_default();
    holders.into_iter().filter(|holder| is_here(holder.holds.cpus())).collect()
}

/// The remedy if claims leave too few cores.
fn claimed_by(holders: &[Holder]) -> String {
    match holders.is_empty() {
        true => "the cores were claimed a moment ago and are free again: try once more".to_owned(),
        false => format!("cores are claimed by {}; wait until they are free, or ask for fewer", named(holders)),
    }
}

/// The first holders, and the number of the rest.
fn named(holders: &[Holder]) -> String {
    let named: Vec<String> = holders.iter().take(MAX_NAMED).map(Holder::to_string).collect();
    let more = match holders.len().saturating_sub(MAX_NAMED) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    named.join("; ") + &more
}

/// The remedy if another process has claimed resources of exclusive rails.
const CONFLICT: &str =
    "`rails-bench rails` lists all claims; wait until that process ends, or ask for other cores or another NIC";
/// The number of times that rails are planned: each further one takes a process that claims a core
/// in between.
const TRIES: usize = 16;
/// The room of each queue, for tasks by which cores help each other.
const TASKS: usize = 256;
/// The number of holders that an error names.
const MAX_NAMED: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holders_are_named_up_to_a_limit() {
        let holder = |cpu: u32| {
            let folder = tempfile::tempdir().unwrap();
            let claims = Claims::at(folder.path());
            let _claim = claims.claim([Resource::Cpu(rails_topo::CpuId(cpu))]).unwrap();
            claims.list().unwrap().remove(0)
        };
        let holders: Vec<Holder> = (0..6).map(holder).collect();
        assert_eq!(
            claimed_by(&holders[..2]),
            "cores are claimed by this process, which holds CPU 0; this process, which holds CPU 1; wait until they \
             are free, or ask for fewer"
        );
        assert!(claimed_by(&holders).contains("holds CPU 3; and 2 more; wait"), "{}", claimed_by(&holders));
        assert!(claimed_by(&[]).ends_with("try once more"));
    }
}
