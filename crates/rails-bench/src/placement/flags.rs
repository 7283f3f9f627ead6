//! Where rails are placed: the flags, and the request that they make.

use super::plan;
use crate::{config, machine::MachineArgs};
use anyhow::{Context, Error, Result};
use rails_multirail::{
    FollowOptions, RailPlan, RailRequest, Rails,
    planner::{Affinities, Nearness, Need, plan_rails},
};
use rails_topo::Topology;
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
