//! The placement of rails: the flags, the request that they make, and the rails that are built from
//! it.

use crate::{config, exit::Help, machine::MachineArgs};
use anyhow::{Context, Error, Result};
use rails_bind::{
    Unheld,
    claims::{ClaimError, Claims, Holder, Resource, Resources},
};
use rails_multirail::{
    FollowOptions, RailPlan, RailRequest, Rails,
    planner::{Affinities, Nearness, Need, PlanError, plan_rails},
    runtime::RuntimeError,
};
use rails_task::TaskQueues;
use rails_topo::{CpuSet, Topology};
use std::sync::{Mutex, PoisonError};

/// The placement of all rails.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct PlacementArgs {
    /// Give each rail its cores, and the interrupts and receive queues of its NIC, for itself: no
    /// other process that asks gets them while the rails are there. Not with `@default`, which
    /// binds nothing
    #[arg(long)]
    exclusive: bool,
    /// Where threads are, seen from the CPU that serves the NIC's interrupt [default: shared-cache,
    /// which suits TCP]
    #[arg(long, value_name = "PLACE")]
    near: Option<Near>,
    /// Refuse rails that lack these affinities
    #[arg(long, value_name = "AFFINITY", value_delimiter = ',')]
    require: Vec<Affinity>,
    /// Refuse rails whose threads this system does not let bind, or whose memory policy it does not
    /// let set, as the filters of containers may. Without it rails run without that, and say so
    #[arg(long)]
    require_placement: bool,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Near {
    /// On the same CPU
    SameCpu,
    /// On another core that shares a cache with it
    SharedCache,
    /// Anywhere in its package
    Package,
}

#[derive(Debug, Clone, Copy, PartialEq, clap::ValueEnum)]
enum Affinity {
    /// The NIC's interrupts are served beside it
    Interrupt,
    /// The thread shares a cache with the CPU that serves them
    Thread,
    /// The memory comes from the nearest node
    Memory,
}

/// The placement of rails that run, now and when the machine changes.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct RailsArgs {
    #[command(flatten)]
    placement: PlacementArgs,
    /// Leave the rails where they are when a CPU goes offline, a link goes down or an interrupt
    /// moves
    #[arg(long)]
    no_follow: bool,
    /// Put interrupts of the rails' NICs back that another program moves (needs root), instead of
    /// moving rails after them
    #[arg(long, conflicts_with = "no_follow")]
    put_interrupts_back: bool,
}

impl RailsArgs {
    /// The request for these rails, with the placement of the flags.
    pub(crate) fn of(&self, rails: &RailRequest) -> RailRequest {
        self.placement.of(rails)
    }

    /// Makes the rails follow the machine, unless the flags forbid it. If the system refuses the
    /// thread, the rails stay where they are, which is an error only if interrupts should be put
    /// back.
    pub(crate) fn follow(&self, rails: &Rails, request: &RailRequest) -> Result<()> {
        if self.no_follow {
            return Ok(());
        }
        let options = FollowOptions::new().describe(with_facts());
        let options = if self.put_interrupts_back { options.put_interrupts_back() } else { options };
        match rails.follow(request, options) {
            Err(error) if self.put_interrupts_back => Err(Error::new(error).context("--put-interrupts-back")),
            Err(error) => {
                tracing::warn!("rails stay where they are when the machine changes: {:#}", Error::new(error));
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }
}

/// Adds the user's facts to a machine. If they do not fit it, the result is the last one.
fn with_facts() -> impl Fn(Topology) -> Topology {
    let last: Mutex<Option<Topology>> = Mutex::default();
    move |topology| {
        let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
        match (config::of_this_machine(topology.clone(), &[]), &*last) {
            (Ok(machine), _) => last.insert(machine).clone(),
            (Err(error), Some(last)) => {
                tracing::warn!("rails stay where they are until the files of facts fit the machine again: {error:#}");
                last.clone()
            }
            (Err(error), None) => {
                tracing::warn!("rails follow the machine without the files of facts: {error:#}");
                topology
            }
        }
    }
}

impl PlacementArgs {
    /// The request for these rails, with the placement of the flags.
    pub(crate) fn of(&self, rails: &RailRequest) -> RailRequest {
        let mut request = rails.clone();
        request.exclusive = self.exclusive;
        request.requires_placement = self.require_placement;
        request.nearness = match self.near {
            None => request.nearness,
            Some(Near::SameCpu) => Nearness::SameCpu,
            Some(Near::SharedCache) => Nearness::SharedCache,
            Some(Near::Package) => Nearness::Package,
        };
        let need = |affinity| if self.require.contains(&affinity) { Need::Required } else { Need::Preferred };
        let [interrupt, thread, memory] = [Affinity::Interrupt, Affinity::Thread, Affinity::Memory].map(need);
        request.affinities = Affinities { interrupt, thread, memory };
        request
    }
}

/// Plans rails of a machine; on this one, around the CPUs that others have claimed. Errors name
/// `flag`.
pub(crate) fn plan_on(
    machine: &MachineArgs,
    topology: &Topology,
    request: &RailRequest,
    flag: &'static str,
) -> Result<RailPlan> {
    match machine.is_this_machine() {
        true => plan(topology, request, flag),
        false => plan_rails(topology, request).context(flag),
    }
}

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
        PlanError::NoNic | PlanError::TooFewNics { .. } => Some(CONFLICT.to_owned()),
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
