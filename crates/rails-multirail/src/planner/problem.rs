//! The planning problem: a machine and a request.

use super::{PlanError, RailRequest, cpus::Cpus, rail_request::MAX_RAILS};
use rails_topo::{Locality, Topology};

/// A request for rails of a machine, and the CPUs that rails may have there. No stage changes it.
pub(super) struct Problem<'a> {
    locality: Locality<'a>,
    request: &'a RailRequest,
    cpus: Cpus<'a>,
}

impl<'a> Problem<'a> {
    /// # Errors
    /// [`PlanError`] if the request is for no rail or too many, or the machine has no CPU for one.
    pub(super) fn new(topology: &'a Topology, request: &'a RailRequest) -> Result<Self, PlanError> {
        if topology.allowed_cpus().is_empty() {
            return Err(PlanError::NoCpu);
        }
        match request.rails() {
            Some(0) => return Err(PlanError::NoRails),
            Some(count) if count > MAX_RAILS => return Err(PlanError::TooMany { count }),
            _ => {}
        }
        let locality = topology.locality();
        let cpus = Cpus::of(&locality, request.claimed.cpus());
        if cpus.len() == 0 {
            return Err(PlanError::TooFewCores { wanted: request.rails().unwrap_or(1), usable: 0 });
        }
        Ok(Self { locality, request, cpus })
    }

    pub(super) fn topology(&self) -> &'a Topology {
        self.locality.topology()
    }

    pub(super) fn locality(&self) -> &Locality<'a> {
        &self.locality
    }

    pub(super) fn request(&self) -> &'a RailRequest {
        self.request
    }

    /// The CPUs that rails may have.
    pub(super) fn cpus(&self) -> &Cpus<'a> {
        &self.cpus
    }

    /// The number of loopback rails if the request states none: one per core that may be used, and
    /// at least two.
    pub(super) fn loopback_rails(&self) -> usize {
        self.cpus.cores().clamp(2, MAX_RAILS)
    }
}
