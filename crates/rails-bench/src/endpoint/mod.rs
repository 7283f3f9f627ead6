//! The ends of streams.

#[cfg(feature = "cli")]
mod network;

use crate::placement;
use anyhow::Result;
#[cfg(feature = "cli")]
pub(crate) use network::{
    Address, LaneArgs, Paired, Remotes, StreamArgs, StripingArgs, addresses_of, help_for_listener, idle_timeout,
    say_listening, seconds, socket, sockets,
};
use rails_multirail::{RailPlan, RailRequest, Rails, StreamOptions};
use rails_topo::Topology;

/// One end of streams: its rails and its options.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) topology: Topology,
    pub(crate) rails: Rails,
    pub(crate) options: StreamOptions,
    /// Notes on the rails as a whole.
    pub(crate) notes: Vec<String>,
    /// The rails that the routes to the peer's addresses have chosen, if they have.
    #[cfg(feature = "cli")]
    routes: Option<rails_multirail::Routes>,
}

impl Endpoint {
    /// An end with rails on the loopback interface: that many, or one per core and at least two.
    pub(crate) fn on_loopback(topology: Topology, rails: Option<usize>, options: StreamOptions) -> Result<Self> {
        let (plan, rails) = placement::build(&topology, &RailRequest::loopback(rails), "--rails")?;
        Ok(Self::new(topology, plan, rails, options))
    }

    /// An end with these rails, which were built from the plan.
    pub(crate) fn new(topology: Topology, plan: RailPlan, rails: Rails, options: StreamOptions) -> Self {
        plan.notes.iter().for_each(|note| tracing::info!("{note}"));
        Self {
            topology,
            rails,
            options,
            notes: plan.notes,
            #[cfg(feature = "cli")]
            routes: None,
        }
    }
}
