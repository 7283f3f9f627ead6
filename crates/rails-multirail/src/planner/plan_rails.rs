//! The planner.

use super::{
    Binding, BindingKind, LocalEnd, Need, Part, PlanError, PlannedDevice, PlannedRail, RailPlan, RailRequest, RailWish,
    RejectedCpus, RejectedNic, Which,
    addresses::{self, has_address, loopback_address, next_end, reaches, usable_addresses},
    cpus::{self, Candidate, Cpus, Place, Sought},
    devices::Named,
    exclusive,
    nics::why_not,
    rail_request::MAX_RAILS,
    reasons::{describe_cpu, describe_devices, describe_lane, describe_tasks, plural},
};
use crate::RailId;
use rails_bind::claims::{Numbers, Resources};
use rails_topo::{CpuId, CpuSet, Locality, Nic, NicKind, NodeId, Topology};
use std::net::IpAddr;

/// Plans rails for a machine. It is a pure function: the same arguments give the same plan.
///
/// Each rail gets one of the allowed CPUs that nobody claims. A request that is not exclusive and cannot be met so
/// shares claimed ones, and a note says which. Among these CPUs one is chosen by these criteria in order: beside the
/// rail's devices, or on the node nearest to them; with the fewest rails on it; on the core with the fewest rails; not
/// asked for by a later rail; as near to the CPU that serves the NIC's interrupt as [`RailRequest::nearness`] says; on
/// a core that serves the fewest other NICs; on a node with room for the rail's tasks; of use to the fewest other NICs;
/// with the lowest number. Its memory comes from the node nearest to the CPU. The CPUs for tasks are chosen alike,
/// after those of all lanes, on further cores that share a cache with the lane's CPU if there are any. A CPU that lacks
/// a required affinity is none of the choice.
///
/// Under another numbering of the machine's CPUs a single rail is as well placed. Several rails are planned one after
/// the other, and are as well placed unless they compete for CPUs: a rail that finds several equally good ones may take
/// the only good one of a later rail.
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
    // The error is another than the claims.
    let Ok(mut plan) = plan_unclaimed(topology, &sharing) else { return planned };
    let cores = |cpus: CpuSet| cpus.iter().fold(cpus.clone(), |all, cpu| all.union(&cpus::core_around(topology, cpu)));
    let bound = plan.rails.iter().filter(|rail| rail.bound_cpu().is_some());
    let bound = bound.fold(CpuSet::new(), |all, rail| all.union(&rail.cpus()));
    let shared: CpuSet = request.claimed.cpus().intersection(&cores(bound));
    plan.notes
        .push(format!("CPUs {shared} are claimed by other owners, and shared with them, as no plan does without"));
    Ok(plan)
}

/// A plan on CPUs that nobody claims.
fn plan_unclaimed(topology: &Topology, request: &RailRequest) -> Result<RailPlan, PlanError> {
    let mut planner = Planner::new(topology, request)?;
    match &request.which {
        Which::Auto => planner.on_nics(None)?,
        Which::Count(count) => planner.on_nics(Some(*count))?,
        Which::Loopback(count) => planner.on_loopback(*count)?,
        Which::Listed(wishes) => wishes.iter().try_for_each(|wish| planner.add(planner.wished(wish)?))?,
    }
    (0..planner.rails.len()).try_for_each(|index| planner.add_task_cpus(index))?;
    if request.exclusive {
        exclusive::add_interrupts_and_queues(topology, &mut planner.rails);
    }
    addresses::divide(&mut planner.rails, &mut planner.notes);
    planner.note_shared_cpus();
    planner.note_shared_task_cores();
    let expected = planner.expected();
    let Planner { rails, rejected_nics, notes, .. } = planner;
    Ok(RailPlan { rails, expected, rejected_nics, notes })
}

pub(super) struct Planner<'a> {
    pub(super) topology: &'a Topology,
    pub(super) locality: Locality<'a>,
    pub(super) request: &'a RailRequest,
    pub(super) cpus: Cpus<'a>,
    pub(super) rails: Vec<PlannedRail>,
    /// The number of cores of each rail.
    pub(super) cores: Vec<usize>,
    /// The CPUs that each rail got, its lane's first.
    pub(super) chosen: Vec<Vec<Candidate>>,
    /// The rails that run already, if these are planned again.
    pub(super) present: &'a [PlannedRail],
    /// Whether the rail that is planned again keeps the CPUs that it has.
    pub(super) keeps_cpus: bool,
    pub(super) rejected_nics: Vec<RejectedNic>,
    pub(super) notes: Vec<String>,
}

/// The parts of a rail to be planned.
#[derive(Clone)]
pub(super) struct Parts<'p> {
    pub(super) nic: Option<&'p Nic>,
    pub(super) address: Option<IpAddr>,
    pub(super) end: Option<LocalEnd>,
    pub(super) devices: Vec<PlannedDevice>,
    pub(super) cores: usize,
    pub(super) binding: &'p Binding,
}

impl<'a> Planner<'a> {
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
        let cpus = Cpus::of(topology, &locality, request.claimed.cpus());
        if cpus.len() == 0 {
            return Err(PlanError::TooFewCores { wanted: request.rails().unwrap_or(1), usable: 0 });
        }
        Ok(Self {
            topology,
            locality,
            request,
            cpus,
            rails: Vec::new(),
            cores: Vec::new(),
            chosen: Vec::new(),
            present: &[],
            keeps_cpus: false,
            rejected_nics: Vec::new(),
            notes: Vec::new(),
        })
    }

    /// One rail on each usable NIC, or on the best `count` of them.
    fn on_nics(&mut self, count: Option<usize>) -> Result<(), PlanError> {
        let nics = self.best_nics();
        if nics.is_empty() {
            return Err(PlanError::NoNic);
        }
        let (usable, first) = (nics.len(), &nics[0].name);
        let wanted = count.unwrap_or(usable.min(MAX_RAILS));
        if wanted > usable {
            if !self.request.share_nics {
                return Err(PlanError::TooFewNics {
                    wanted,
                    usable: nics.iter().map(|nic| nic.name.clone()).collect(),
                });
            }
            self.notes.push(format!(
                "{wanted} rails share {}, starting over at {first}: rails on one NIC add no bandwidth",
                plural(usable, "usable NIC")
            ));
        }
        for nic in nics.iter().skip(wanted) {
            let reason = format!("{} are the better ones, or as good", plural(wanted, "other NIC"));
            self.rejected_nics.push(RejectedNic { name: nic.name.clone(), reason });
        }
        for nic in nics.iter().cycle().take(wanted) {
            let (address, end) = next_end(&self.rails, nic);
            self.add(self.lane(Some(nic), address, end, &Binding::AFFINE))?;
        }
        Ok(())
    }

    fn on_loopback(&mut self, count: Option<usize>) -> Result<(), PlanError> {
        let count = count.unwrap_or_else(|| self.loopback_rails());
        (0..count).try_for_each(|index| self.add(self.loopback(index)))
    }

    /// The parts of a rail on the loopback interface.
    pub(super) fn loopback<'p>(&self, index: usize) -> Parts<'p>
    where
        'a: 'p,
    {
        let loopback = self.topology.nics().iter().find(|nic| nic.kind == NicKind::Loopback);
        let address = loopback_address(index);
        self.lane(loopback, Some(address), LocalEnd::Address(address), &Binding::AFFINE)
    }

    /// One rail per core that may be used, and at least two.
    fn loopback_rails(&self) -> usize {
        self.cpus.cores().clamp(2, MAX_RAILS)
    }

    /// The parts of a wish.
    pub(super) fn wished<'p>(&self, wish: &'p RailWish) -> Result<Parts<'p>, PlanError>
    where
        'a: 'p,
    {
        let mut parts = Parts { end: None, ..self.lane(None, None, LocalEnd::Any, &wish.binding) };
        for part in &wish.parts {
            match part {
                Part::End(end) => self.take_lane(&mut parts, self.lane_of(end)?)?,
                Part::Peer(peer) => self.take_lane(&mut parts, self.lane_to(*peer)?)?,
                Part::Routed(address) => self.take_lane(&mut parts, self.lane_routed(*address)?)?,
                Part::Cores(cores) => parts.cores = (*cores).max(1),
                Part::Named(name) => match self.named(name)? {
                    Named::Nic(nic) => {
                        let (address, end) = next_end(&self.rails, nic);
                        self.take_lane(&mut parts, (Some(nic), address, end))?;
                    }
                    Named::Gpu(gpu) => self.take_device(&mut parts, gpu.into())?,
                    Named::Disk(disk) => self.take_device(&mut parts, disk.into())?,
                },
            }
        }
        Ok(parts)
    }

    fn take_lane<'p>(&self, parts: &mut Parts<'p>, lane: Lane<'a>) -> Result<(), PlanError>
    where
        'a: 'p,
    {
        if parts.end.is_some() {
            return Err(PlanError::SeveralLanes { rail: RailId(self.rails.len()) });
        }
        let (nic, address, end) = lane;
        (parts.nic, parts.address, parts.end) = (nic, address, Some(end));
        Ok(())
    }

    fn take_device(&self, parts: &mut Parts<'_>, device: PlannedDevice) -> Result<(), PlanError> {
        if parts.devices.contains(&device) {
            return Err(PlanError::DeviceTwice { rail: RailId(self.rails.len()), name: device.name });
        }
        parts.devices.push(device);
        Ok(())
    }

    /// A rail with a lane alone.
    pub(super) fn lane<'p>(
        &self,
        nic: Option<&'p Nic>,
        address: Option<IpAddr>,
        end: LocalEnd,
        binding: &'p Binding,
    ) -> Parts<'p> {
        Parts { nic, address, end: Some(end), devices: Vec::new(), cores: self.request.cores.max(1), binding }
    }

    fn lane_of(&self, end: &LocalEnd) -> Result<Lane<'a>, PlanError> {
        match end {
            LocalEnd::Device(name) => {
                let nic = self.interface(name)?;
                let (address, end) = next_end(&self.rails, nic);
                Ok((Some(nic), address, end))
            }
            LocalEnd::DeviceAddress { device, address } => {
                let nic = Some(self.interface(device)?).filter(|nic| has_address(nic, *address));
                let nic = nic.ok_or_else(|| self.no_such_address(*address))?;
                Ok((Some(nic), Some(*address), end.clone()))
            }
            LocalEnd::Any => Ok((None, None, LocalEnd::Any)),
            LocalEnd::Address(address) if address.is_unspecified() => Ok((None, None, LocalEnd::Any)),
            LocalEnd::Address(address) => {
                let nics = self.topology.nics();
                let holds = |nic: &&Nic| nic.addresses.iter().any(|held| held.ip == *address);
                let nic = nics.iter().find(holds).or_else(|| nics.iter().find(|nic| has_address(nic, *address)));
                if nic.is_none() && !address.is_loopback() {
                    return Err(self.no_such_address(*address));
                }
                // A link-local address is one on its link alone.
                let is_link_local = matches!(address, IpAddr::V6(address) if address.is_unicast_link_local());
                let device = nic.filter(|_| is_link_local).map(|nic| nic.name.clone());
                let on_link = device.map(|device| LocalEnd::DeviceAddress { device, address: *address });
                Ok((nic, Some(*address), on_link.unwrap_or_else(|| end.clone())))
            }
        }
    }

    /// The NIC that has the address, and else that of the running rail, which may have another address now.
    fn lane_routed(&self, address: IpAddr) -> Result<Lane<'a>, PlanError> {
        let nic = match (self.lane_of(&LocalEnd::Address(address)), self.present.get(self.rails.len())) {
            (Err(gone), None) => return Err(gone),
            (Err(_), Some(present)) => present.interface.as_ref().and_then(|name| self.topology.nic(name)),
            (Ok((nic, ..)), _) => nic,
        };
        Ok((nic, Some(address), LocalEnd::Any))
    }

    /// The NIC whose network has the peer: that of the running rail, and else the fastest with the fewest rails.
    fn lane_to(&self, peer: IpAddr) -> Result<Lane<'a>, PlanError> {
        let rails_on = |nic: &Nic| self.rails.iter().filter(|rail| rail.interface.as_ref() == Some(&nic.name)).count();
        let usable = |nic: &&Nic| nic.hidden.is_none() && nic.up != Some(false) && reaches(nic, peer);
        let nics = self.topology.nics().iter().filter(usable);
        let present = self.present.get(self.rails.len()).and_then(|rail| rail.interface.as_ref());
        let is_elsewhere = |nic: &Nic| present != Some(&nic.name);
        let nic = nics.min_by_key(|nic| (is_elsewhere(nic), rails_on(nic), std::cmp::Reverse(nic.speed)));
        let nic = nic.ok_or(PlanError::NoWay { peer })?;
        let (address, end) = next_end(&self.rails, nic);
        Ok((Some(nic), address, end))
    }

    fn no_such_address(&self, address: IpAddr) -> PlanError {
        let held = self.topology.nics().iter().flat_map(|nic| nic.addresses.iter().map(move |held| (nic, held)));
        let known = held.map(|(nic, held)| format!("{} ({})", held.ip, nic.name)).collect();
        PlanError::NoSuchAddress { address, known }
    }

    fn interface(&self, name: &str) -> Result<&'a Nic, PlanError> {
        let known = || self.topology.nics().iter().map(|nic| nic.name.clone()).collect();
        self.topology.nic(name).ok_or_else(|| PlanError::NoSuchInterface { name: name.to_owned(), known: known() })
    }

    pub(super) fn add(&mut self, parts: Parts<'_>) -> Result<(), PlanError> {
        let Parts { nic, address, end, devices, cores, binding } = parts;
        if let Some((nic, reason)) = nic.and_then(|nic| Some((nic, nic.hidden.as_ref()?))) {
            return Err(self.hidden(nic, reason));
        }
        if let Some(nic) = nic {
            self.note_shared_way(nic);
            let note = format!("the link of {} is down", nic.name);
            let down = (nic.up == Some(false)).then_some(note);
            let claimed = self.why_claimed(nic).map(|reason| format!("{}: {reason}", nic.name));
            for note in down.into_iter().chain(claimed) {
                if !self.notes.contains(&note) {
                    self.notes.push(note);
                }
            }
        }
        let id = RailId(self.rails.len());
        let is_bound = binding.is_bound();
        let required = binding.required || self.request.requires_placement;
        if self.request.exclusive && !is_bound {
            return Err(PlanError::UnboundCores { rail: id });
        }
        if self.request.affinities.thread == Need::Required && !is_bound {
            let reason = "its thread is bound to no CPU".to_owned();
            return Err(PlanError::AffinityMissing { rail: id, affinity: "thread", reason });
        }
        let mut reasons = Vec::new();
        let below = nic.map(|nic| self.devices_of(nic)).unwrap_or_default();
        let below: Vec<&str> = below.into_iter().map(|device| device.name.as_str()).collect();
        if end.is_some() || devices.is_empty() {
            let is_routed = nic.is_some() && end == Some(LocalEnd::Any);
            let routed = if is_routed { ", or another address as the routes lead" } else { "" };
            let lane = end.as_ref().map(|_| describe_lane(nic, address, &below) + routed);
            reasons.push(lane.unwrap_or_else(|| "cores alone, no lane".to_owned()));
        }
        reasons.extend(describe_devices(&devices));
        let wants = self.request.affinities;
        let mut near = self.places(nic, &devices);
        if let BindingKind::Explicit { node: Some(asked), .. } = &binding.kind
            && near.iter().all(|place| place.cpus.is_none())
        {
            let node = self.topology.nodes().iter().find(|node| node.id == *asked && !node.cpus.is_empty());
            near.extend(node.map(|node| Place { device: format!("node {asked}"), cpus: Some(node.cpus.clone()) }));
        }
        let sought = Sought {
            near,
            serving: self.serving(nic),
            nics: below,
            nearness: (wants.thread != Need::Unwanted).then_some(self.request.nearness),
            beside: None,
            asked_elsewhere: self.asked_by_others(id),
            present: self.present.get(id.0).map(|rail| CpuSet::single(rail.cpu)).unwrap_or_default(),
            present_node: self.present.get(id.0).and_then(|rail| rail.node),
            tasks: cores - 1,
        };
        let lane = || nic.map(|nic| nic.name.clone()).or(address.map(|address| address.to_string()));
        let lane = || lane().unwrap_or_else(|| format!("rail {id}"));
        let within = self.wanted_cpus(binding, &mut reasons, lane)?;
        let mut candidates = self.cpus.candidates(&sought, within.as_ref(), self.request.exclusive);
        let asked_node = match binding.kind {
            BindingKind::Explicit { node, .. } => node,
            BindingKind::Affine | BindingKind::Default => None,
        };
        // An affinity that no candidate has is refused below.
        let lacking = self.keep_required(&mut candidates, asked_node).unwrap_or_default();
        let Some(best) = candidates.iter().filter(|candidate| self.may_choose(candidate, &sought)).min() else {
            return Err(match binding.cpus() {
                Some(wanted) => PlanError::CpusTaken { lane: lane(), wanted: wanted.clone() },
                None => self.too_few_cores(cores),
            });
        };
        let why = describe_cpu(best, candidates.len(), &sought);
        reasons.push(if is_bound { why } else { format!("a bound rail would have {why}") });
        let near_node = self.locality.nearest_node(best.cpu);
        let node = self.node(binding, near_node, best.cpu, &mut reasons)?;
        self.check_affinities(id, &sought, best, node.filter(|_| node == near_node))?;
        let mut rejected_cpus = Vec::new();
        if is_bound {
            rejected_cpus = self.rejected_beforehand(within.as_ref());
            cpus::rejected(best, &candidates, &mut rejected_cpus);
            rejected_cpus.extend(lacking);
        }
        let capacity = self.capacity(nic);
        let speed = nic.and_then(|nic| nic.speed);
        if let Some(bandwidth) = capacity.bandwidth.filter(|bandwidth| speed.is_none_or(|speed| *bandwidth < speed)) {
            reasons.push(format!("carries {bandwidth}, bound by {}", capacity.bound_by));
        }
        let cpu = best.cpu;
        if is_bound {
            self.cpus.take(cpu);
            // A rail that is planned again gets its tasks' CPUs at once.
            if self.present.is_empty() {
                self.cpus.expect_tasks(cpu, cores - 1);
            }
        }
        self.cores.push(cores);
        self.chosen.push(vec![best.clone()]);
        self.rails.push(PlannedRail {
            id,
            interface: nic.map(|nic| nic.name.clone()),
            address,
            addresses: end.as_ref().map(|end| usable_addresses(nic, address, end)).unwrap_or_default(),
            end,
            speed,
            devices,
            binding: Binding { required, ..binding.clone() },
            cpu,
            task_cpus: CpuSet::new(),
            exclusive_cpus: CpuSet::new(),
            interrupt_cpus: sought.serving.clone(),
            exclusive_interrupts: Numbers::new(),
            exclusive_queues: Numbers::new(),
            node,
            capacity,
            reasons,
            rejected_cpus,
        });
        Ok(())
    }

    /// The CPUs that were asked for by rails after this one.
    fn asked_by_others(&self, rail: RailId) -> CpuSet {
        let Which::Listed(wishes) = &self.request.which else { return CpuSet::new() };
        let asked = wishes.iter().skip(rail.0 + 1).filter_map(|wish| wish.binding.cpus());
        asked.fold(CpuSet::new(), |all, cpus| all.union(cpus))
    }

    /// The CPUs that a wish allows, of those that may be used; `None` for all.
    fn wanted_cpus(
        &self,
        binding: &Binding,
        reasons: &mut Vec<String>,
        lane: impl Fn() -> String,
    ) -> Result<Option<CpuSet>, PlanError> {
        let allowed = self.topology.allowed_cpus();
        let wanted = match &binding.kind {
            BindingKind::Affine => return Ok(None),
            BindingKind::Default => {
                reasons.push("nothing is bound: the scheduler places the thread and its memory".to_owned());
                return Ok(None);
            }
            BindingKind::Explicit { cpus: None, .. } => return Ok(None),
            BindingKind::Explicit { cpus: Some(wanted), .. } => wanted,
        };
        let usable = wanted.intersection(allowed);
        if !wanted.intersects(self.topology.online_cpus()) {
            let online = self.topology.online_cpus().clone();
            return Err(PlanError::NoSuchCpus { lane: lane(), wanted: wanted.clone(), online });
        }
        if usable.is_empty() {
            let (wanted, allowed) = (wanted.clone(), allowed.clone());
            return Err(PlanError::CpusNotAllowed { lane: lane(), wanted, allowed });
        }
        reasons.push(format!("CPUs {wanted} were asked for, of which {usable} may be used"));
        Ok(Some(usable))
    }

    /// The node of a rail's memory.
    fn node(
        &self,
        binding: &Binding,
        nearest: Option<NodeId>,
        cpu: CpuId,
        reasons: &mut Vec<String>,
    ) -> Result<Option<NodeId>, PlanError> {
        let node = match &binding.kind {
            BindingKind::Default => return Ok(None),
            BindingKind::Explicit { node: Some(node), .. } => {
                let known = self.topology.nodes().iter().any(|known| known.id == *node);
                if !(known && self.topology.allowed_nodes().contains(*node)) {
                    return Err(PlanError::NoSuchNode { node: *node, allowed: self.topology.allowed_nodes().clone() });
                }
                reasons.push(format!("memory from node {node}, as was asked for"));
                return Ok(Some(*node));
            }
            _ if self.request.affinities.memory == Need::Unwanted => {
                reasons.push("memory from anywhere, as was asked for".to_owned());
                return Ok(None);
            }
            _ => nearest,
        };
        reasons.push(match node {
            Some(node) => format!("memory from node {node}: the nearest to CPU {cpu}"),
            None if self.topology.nodes().is_empty() => {
                "memory from anywhere: the machine shows no NUMA nodes".to_owned()
            }
            None => format!("memory from anywhere: which node is the nearest to CPU {cpu} is not known"),
        });
        Ok(node)
    }

    /// The CPUs that were no candidates.
    fn rejected_beforehand(&self, within: Option<&CpuSet>) -> Vec<RejectedCpus> {
        let (online, allowed) = (self.topology.online_cpus(), self.topology.allowed_cpus());
        let is_claimed = |cpu: &CpuId| !self.cpus.has(*cpu);
        let claimed: CpuSet = allowed.iter().filter(is_claimed).collect();
        let not_asked = within.map(|within| allowed.difference(within)).unwrap_or_default();
        let cores = self.rails.iter().map(|rail| self.cpus.core_of(rail.cpu));
        let taken = cores.filter(|_| self.request.exclusive).fold(CpuSet::new(), |all, core| all.union(&core));
        let mut rejected = Vec::new();
        let mut left = online.clone();
        // Each CPU is told with the first of its reasons.
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

    /// Gives a rail its CPUs for tasks.
    pub(super) fn add_task_cpus(&mut self, index: usize) -> Result<(), PlanError> {
        let mut cores_taken = self.cpus.core_of(self.rails[index].cpu);
        let sought = self.sought_for_tasks(&self.rails[index]);
        for _ in 1..self.cores[index] {
            let candidate = self.task_cpu(&self.rails[index], &sought, &cores_taken)?;
            let Some(candidate) = candidate else { return Err(self.too_few_cores(self.cores[index])) };
            let task_cpu = candidate.cpu;
            if self.rails[index].bound_cpu().is_some() {
                self.cpus.take(task_cpu);
            }
            cores_taken = cores_taken.union(&self.cpus.core_of(task_cpu));
            self.rails[index].task_cpus.insert(task_cpu);
            self.chosen[index].push(candidate);
        }
        let rail = &mut self.rails[index];
        if self.request.exclusive {
            rail.exclusive_cpus = cores_taken;
        }
        if !rail.task_cpus.is_empty() {
            rail.reasons.push(describe_tasks(rail));
            rail.rejected_cpus.iter_mut().for_each(|told| told.cpus = told.cpus.difference(&rail.task_cpus));
            rail.rejected_cpus.retain(|told| !told.cpus.is_empty());
        }
        Ok(())
    }

    fn sought_for_tasks(&self, rail: &PlannedRail) -> Sought<'static> {
        let nic = rail.interface.as_deref().and_then(|name| self.topology.nic(name));
        let mut near = self.places(nic, &rail.devices);
        // Among the CPUs that are as near to the devices, those on the lane's node come first.
        let own_node = self.topology.node_of_cpu(rail.cpu).map(|node| node.cpus.clone());
        near.push(Place { device: "the lane".to_owned(), cpus: own_node });
        Sought {
            near,
            serving: self.serving(nic),
            nics: Vec::new(),
            nearness: None,
            beside: Some(rail.cpu),
            asked_elsewhere: CpuSet::new(),
            present: self.present.get(rail.id.0).map(|rail| rail.task_cpus.clone()).unwrap_or_default(),
            present_node: None,
            tasks: 0,
        }
    }

    /// The next CPU for tasks of a rail that has these cores; `None` if none is free.
    fn task_cpu(
        &self,
        rail: &PlannedRail,
        sought: &Sought<'_>,
        cores_taken: &CpuSet,
    ) -> Result<Option<Candidate>, PlanError> {
        let mut candidates = self.cpus.candidates(sought, None, self.request.exclusive);
        candidates.retain(|candidate| !cores_taken.contains(candidate.cpu) && self.may_choose(candidate, sought));
        if !candidates.is_empty() {
            self.keep_required(&mut candidates, rail.node).map_err(|affinity| {
                let reason = "no further core that is free has it for the rail's tasks".to_owned();
                PlanError::AffinityMissing { rail: rail.id, affinity, reason }
            })?;
        }
        let is_asked = |candidate: &Candidate| rail.binding.cpus().is_some_and(|asked| asked.contains(candidate.cpu));
        let asked = candidates.iter().filter(|candidate| is_asked(candidate)).min();
        Ok(asked.or(candidates.iter().min()).cloned())
    }

    fn may_choose(&self, candidate: &Candidate, sought: &Sought<'_>) -> bool {
        !self.keeps_cpus || sought.present.contains(candidate.cpu)
    }

    /// The error for a rail of that many cores: rails that share cores need the cores of each alone.
    fn too_few_cores(&self, cores: usize) -> PlanError {
        let all = |rails: usize| rails.saturating_mul(self.request.cores.max(1));
        let wanted = match &self.request.which {
            _ if !self.request.exclusive => cores,
            Which::Auto => all(self.topology.nics().iter().filter(|nic| why_not(nic).is_none()).count().min(MAX_RAILS)),
            Which::Count(count) | Which::Loopback(Some(count)) => all(*count),
            Which::Loopback(None) => all(self.loopback_rails()),
            Which::Listed(wishes) => wishes.iter().map(|wish| self.cores_of(wish)).fold(0, usize::saturating_add),
        };
        PlanError::TooFewCores { wanted, usable: self.cpus.cores() }
    }

    /// The number of cores that a wish is for.
    fn cores_of(&self, wish: &RailWish) -> usize {
        let stated = wish.parts.iter().rev().find_map(|part| match part {
            Part::Cores(cores) => Some(*cores),
            _ => None,
        });
        stated.unwrap_or(self.request.cores).max(1)
    }

    /// The error of a hidden interface.
    fn hidden(&self, nic: &Nic, reason: &str) -> PlanError {
        let told = self.topology.overrides_of(&["nic", &nic.name, "hide"]).next_back();
        let position = told.map_or("by its model".to_owned(), |told| format!("{}:{}", told.file.display(), told.line));
        PlanError::Hidden { name: nic.name.clone(), reason: reason.to_owned(), position }
    }

    /// Notes the CPUs for tasks on whose cores other rails are.
    fn note_shared_task_cores(&mut self) {
        let cores = |cpus: &CpuSet| cpus.iter().fold(CpuSet::new(), |all, cpu| all.union(&self.cpus.core_of(cpu)));
        let mut notes = Vec::new();
        for rail in self.rails.iter().filter(|rail| rail.bound_cpu().is_some() && !rail.task_cpus.is_empty()) {
            let others = self.rails.iter().filter(|other| other.id != rail.id && other.bound_cpu().is_some());
            let others = others.fold(CpuSet::new(), |all, other| all.union(&cores(&other.cpus())));
            let shared = rail.task_cpus.intersection(&others);
            if !shared.is_empty() {
                notes.push(format!(
                    "CPUs {shared} are for tasks of rail {}, and other rails are on their cores",
                    rail.id
                ));
            }
        }
        self.notes.extend(notes);
    }

    fn note_shared_cpus(&mut self) {
        let mut cpus: Vec<CpuId> = self.rails.iter().filter_map(PlannedRail::bound_cpu).collect();
        cpus.sort_unstable();
        for group in cpus.chunk_by(|a, b| a == b).filter(|group| group.len() > 1) {
            let mut on_it = self.rails.iter().filter(|rail| rail.bound_cpu() == Some(group[0]));
            let is_asked =
                |rail: &PlannedRail| matches!(rail.binding.kind, BindingKind::Explicit { cpus: Some(_), .. });
            let reason = match on_it.all(is_asked) {
                true => "fewer CPUs were asked for than rails",
                false => "there are fewer usable CPUs beside their lanes than rails",
            };
            self.notes.push(format!("{} rails share CPU {}: {reason}", group.len(), group[0]));
        }
    }
}

/// A lane: its NIC, its local address and its local end.
type Lane<'a> = (Option<&'a Nic>, Option<IpAddr>, LocalEnd);
