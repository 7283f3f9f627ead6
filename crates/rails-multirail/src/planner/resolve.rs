//! The first stage: from a request to the NICs and devices of its rails.

use super::{
    Binding, LocalEnd, Part, PlanError, PlannedDevice, PlannedRail, RailWish, RejectedNic, Which,
    addresses::{Lane, UsedLane, has_address, loopback_address, next_lane, reaches},
    cpus::DevicePlace,
    devices::{NamedPart, carriers, named, places, serving},
    nics::{ChosenNics, choose_nics},
    problem::Problem,
};
use crate::RailId;
use rails_topo::{CpuSet, Nic, NicKind};
use std::net::IpAddr;

/// A rail whose parts were found on the machine.
#[derive(Clone)]
pub(super) struct ResolvedRail<'a> {
    pub(super) id: RailId,
    /// `None` for a rail of cores and devices alone.
    pub(super) lane: Option<Lane<'a>>,
    pub(super) devices: Vec<PlannedDevice>,
    /// The number of cores, at least 1.
    pub(super) cores: usize,
    pub(super) binding: Binding,
    /// The NICs that carry the lane's packets.
    pub(super) carriers: Vec<&'a Nic>,
    /// The places of these NICs and of the devices.
    pub(super) places: Vec<DevicePlace>,
    /// The CPUs that serve the interrupts of these NICs, as far as they are known.
    pub(super) serving: CpuSet,
}

impl<'a> ResolvedRail<'a> {
    pub(super) fn nic(&self) -> Option<&'a Nic> {
        self.lane.as_ref().and_then(|lane| lane.nic)
    }
}

/// The rails of a request, to be resolved.
pub(super) struct RequestedRails<'a> {
    pub(super) rails: Vec<RequestedRail<'a>>,
    pub(super) rejected_nics: Vec<RejectedNic>,
    pub(super) notes: Vec<String>,
}

pub(super) enum RequestedRail<'a> {
    OnNic(&'a Nic),
    OnLoopback,
    Wished(&'a RailWish),
}

/// The rails that a request is for. Where it leaves the NICs to the planner, they are chosen.
pub(super) fn requested<'a>(problem: &Problem<'a>) -> Result<RequestedRails<'a>, PlanError> {
    let on_nics = |count| {
        let ChosenNics { nics, rejected, note } = choose_nics(problem, count)?;
        let rails = nics.into_iter().map(RequestedRail::OnNic).collect();
        Ok(RequestedRails { rails, rejected_nics: rejected, notes: note.into_iter().collect() })
    };
    let rails = match &problem.request().which {
        Which::Auto => return on_nics(None),
        Which::Count(count) => return on_nics(Some(*count)),
        Which::Loopback(count) => {
            (0..count.unwrap_or_else(|| problem.loopback_rails())).map(|_| RequestedRail::OnLoopback).collect()
        }
        Which::Listed(wishes) => wishes.iter().map(RequestedRail::Wished).collect(),
    };
    Ok(RequestedRails { rails, rejected_nics: Vec::new(), notes: Vec::new() })
}

/// Resolves rails one after the other, each beside the lanes of those before it. The iterator is
/// lazy, so that the error is that of the first rail that has one, also if a later stage finds it.
pub(super) fn resolve<'a>(
    problem: &Problem<'a>,
    rails: Vec<RequestedRail<'a>>,
) -> impl Iterator<Item = Result<ResolvedRail<'a>, PlanError>> {
    let mut earlier: Vec<UsedLane<'a>> = Vec::new();
    rails.into_iter().map(move |requested| {
        let resolver = Resolver::new(problem, &earlier, None);
        let rail = match requested {
            RequestedRail::OnNic(nic) => resolver.on(next_lane(&earlier, nic)),
            RequestedRail::OnLoopback => resolver.on_loopback(),
            RequestedRail::Wished(wish) => resolver.wished(wish)?,
        };
        earlier.push(rail.lane.as_ref().into());
        Ok(rail)
    })
}

/// Finds the parts of one rail.
pub(super) struct Resolver<'r, 'a> {
    problem: &'r Problem<'a>,
    id: RailId,
    earlier: &'r [UsedLane<'a>],
    present: Option<&'a PlannedRail>,
}

impl<'r, 'a> Resolver<'r, 'a> {
    /// A resolver for the rail after those with the `earlier` lanes. `present` is that rail, if it
    /// runs already.
    pub(super) fn new(problem: &'r Problem<'a>, earlier: &'r [UsedLane<'a>], present: Option<&'a PlannedRail>) -> Self {
        Self { problem, id: RailId(earlier.len()), earlier, present }
    }

    /// A rail with that lane alone.
    pub(super) fn on(&self, lane: Lane<'a>) -> ResolvedRail<'a> {
        self.rail(Some(lane), Vec::new(), self.problem.request().cores.max(1), &Binding::AFFINE)
    }

    /// A rail on the loopback interface.
    pub(super) fn on_loopback(&self) -> ResolvedRail<'a> {
        let nic = self.problem.topology().nics().iter().find(|nic| nic.kind == NicKind::Loopback);
        let address = loopback_address(self.id.0);
        self.on(Lane { nic, address: Some(address), end: LocalEnd::Address(address) })
    }

    /// The rail of a wish.
    pub(super) fn wished(&self, wish: &RailWish) -> Result<ResolvedRail<'a>, PlanError> {
        let (mut lanes, mut devices) = (OneLane::default(), Vec::<PlannedDevice>::new());
        let mut add_device = |device: PlannedDevice| {
            if devices.contains(&device) {
                return Err(PlanError::DeviceTwice { rail: self.id, name: device.name });
            }
            devices.push(device);
            Ok(())
        };
        for part in &wish.parts {
            match part {
                Part::End(end) => lanes.add(self.id, self.lane_of(end)?)?,
                Part::Peer(peer) => lanes.add(self.id, self.lane_to(*peer)?)?,
                Part::Routed(address) => lanes.add(self.id, self.lane_routed(*address)?)?,
                Part::Cores(_) => {}
                Part::Named(name) => match named(self.problem.topology(), name)? {
                    NamedPart::Nic(nic) => lanes.add(self.id, next_lane(self.earlier, nic))?,
                    NamedPart::Gpu(gpu) => add_device(gpu.into())?,
                    NamedPart::Disk(disk) => add_device(disk.into())?,
                },
            }
        }
        Ok(self.rail(lanes.0, devices, self.problem.request().cores_of(wish), &wish.binding))
    }

    /// The parts of a running rail, on the machine as it is now.
    pub(super) fn as_is(&self, rail: &PlannedRail) -> ResolvedRail<'a> {
        let nic = rail.interface.as_deref().and_then(|name| self.problem.topology().nic(name));
        let lane = rail.end.clone().map(|end| Lane { nic, address: rail.address, end });
        self.rail(lane, rail.devices.clone(), 1 + rail.task_cpus.len(), &rail.binding)
    }

    fn rail(
        &self,
        lane: Option<Lane<'a>>,
        devices: Vec<PlannedDevice>,
        cores: usize,
        binding: &Binding,
    ) -> ResolvedRail<'a> {
        let nic = lane.as_ref().and_then(|lane| lane.nic);
        let carriers = nic.map(|nic| carriers(self.problem.topology(), nic)).unwrap_or_default();
        let required = binding.required || self.problem.request().requires_placement;
        ResolvedRail {
            id: self.id,
            lane,
            places: places(self.problem.locality(), &carriers, &devices),
            devices,
            cores,
            binding: Binding { required, ..binding.clone() },
            serving: serving(&carriers),
            carriers,
        }
    }

    fn lane_of(&self, end: &LocalEnd) -> Result<Lane<'a>, PlanError> {
        match end {
            LocalEnd::Device(name) => Ok(next_lane(self.earlier, self.interface(name)?)),
            LocalEnd::DeviceAddress { device, address } => {
                // As in RFC 4007, section 11.2: a scope is an interface's name, or its index.
                let by_index = || device.parse().ok().and_then(|index| self.indexed(index));
                let nic = self.interface(device).or_else(|error| by_index().ok_or(error))?;
                let nic = Some(nic).filter(|nic| has_address(nic, *address));
                let nic = nic.ok_or_else(|| self.no_such_address(*address))?;
                let end = LocalEnd::DeviceAddress { device: nic.name.clone(), address: *address };
                Ok(Lane { nic: Some(nic), address: Some(*address), end })
            }
            LocalEnd::Any => Ok(Lane { nic: None, address: None, end: LocalEnd::Any }),
            LocalEnd::Address(address) if address.is_unspecified() => self.lane_of(&LocalEnd::Any),
            LocalEnd::Address(address) => {
                let nics = self.problem.topology().nics();
                let holds = |nic: &&Nic| nic.addresses.iter().any(|held| held.ip == *address);
                let nic = nics.iter().find(holds).or_else(|| nics.iter().find(|nic| has_address(nic, *address)));
                if nic.is_none() && !address.is_loopback() {
                    return Err(self.no_such_address(*address));
                }
                // A link-local address is one on its link alone.
                let is_link_local = matches!(address, IpAddr::V6(address) if address.is_unicast_link_local());
                let device = nic.filter(|_| is_link_local).map(|nic| nic.name.clone());
                let on_link = device.map(|device| LocalEnd::DeviceAddress { device, address: *address });
                Ok(Lane { nic, address: Some(*address), end: on_link.unwrap_or_else(|| end.clone()) })
            }
        }
    }

    /// The lane on the NIC that has the address, and else on that of the running rail, which may
    /// have another one now.
    fn lane_routed(&self, address: IpAddr) -> Result<Lane<'a>, PlanError> {
        let nic = match (self.lane_of(&LocalEnd::Address(address)), self.present) {
            (Err(gone), None) => return Err(gone),
            (Err(_), Some(present)) => present.interface.as_ref().and_then(|name| self.problem.topology().nic(name)),
            (Ok(lane), _) => lane.nic,
        };
        Ok(Lane { nic, address: Some(address), end: LocalEnd::Any })
    }

    /// The lane on the NIC whose network has the peer: that of the running rail, and else the
    /// fastest with the fewest rails.
    fn lane_to(&self, peer: IpAddr) -> Result<Lane<'a>, PlanError> {
        let rails_on = |nic: &Nic| self.earlier.iter().filter(|lane| lane.is_on(nic)).count();
        let usable = |nic: &&Nic| nic.hidden.is_none() && nic.up != Some(false) && reaches(nic, peer);
        let nics = self.problem.topology().nics().iter().filter(usable);
        let present = self.present.and_then(|rail| rail.interface.as_ref());
        let is_elsewhere = |nic: &Nic| present != Some(&nic.name);
        let nic = nics.min_by_key(|nic| (is_elsewhere(nic), rails_on(nic), std::cmp::Reverse(nic.speed)));
        Ok(next_lane(self.earlier, nic.ok_or(PlanError::NoWay { peer })?))
    }

    fn no_such_address(&self, address: IpAddr) -> PlanError {
        let nics = self.problem.topology().nics();
        let held = nics.iter().flat_map(|nic| nic.addresses.iter().map(move |held| (nic, held)));
        let known = held.map(|(nic, held)| format!("{} ({})", held.ip, nic.name)).collect();
        PlanError::NoSuchAddress { address, known }
    }

    fn indexed(&self, index: u32) -> Option<&'a Nic> {
        self.problem.topology().nics().iter().find(|nic| nic.index == Some(index))
    }

    fn interface(&self, name: &str) -> Result<&'a Nic, PlanError> {
        let topology = self.problem.topology();
        let known = || topology.nics().iter().map(|nic| nic.name.clone()).collect();
        topology.nic(name).ok_or_else(|| PlanError::NoSuchInterface { name: name.to_owned(), known: known() })
    }
}

/// The lane of a wish, which may name one.
#[derive(Default)]
struct OneLane<'a>(Option<Lane<'a>>);

impl<'a> OneLane<'a> {
    fn add(&mut self, rail: RailId, lane: Lane<'a>) -> Result<(), PlanError> {
        match self.0.replace(lane) {
            Some(_) => Err(PlanError::SeveralLanes { rail }),
            None => Ok(()),
        }
    }
}
