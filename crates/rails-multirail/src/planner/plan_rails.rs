//! The planner.

use super::{
    LaneWish, LocalEnd, PlanError, PlannedRail, RailPlan, RailRequest,
    rail_request::MOST_RAILS,
    reasons::{describe_cpu, describe_lane, plural},
};
use crate::RailId;
use rails_topo::{CommonAncestor, CpuId, CpuSet, InterfaceAddress, Locality, Nic, NicKind, Topology};
use std::{
    cmp::Reverse,
    net::{IpAddr, Ipv4Addr},
};

/// Plans rails for a machine. It is a pure function: the same arguments give the same plan.
///
/// Each rail gets one of the allowed CPUs, by these criteria in order: near the NIC; with the fewest rails on it; on
/// the core with the fewest rails; serving the NIC's interrupt, or else sharing a cache with the CPU that does; with
/// the lowest number. Its memory comes from the node nearest to the CPU.
///
/// # Errors
/// [`PlanError`] if the request cannot be met.
pub fn plan_rails(topology: &Topology, request: &RailRequest) -> Result<RailPlan, PlanError> {
    if topology.allowed_cpus().is_empty() {
        return Err(PlanError::NoCpu);
    }
    match request.count() {
        Some(0) => return Err(PlanError::NoRails),
        Some(count) if count > MOST_RAILS => return Err(PlanError::TooMany { count }),
        _ => {}
    }
    let mut planner = Planner { topology, locality: topology.locality(), rails: Vec::new(), notes: Vec::new() };
    match request {
        RailRequest::Auto => planner.on_nics(None)?,
        RailRequest::Count(count) => planner.on_nics(Some(*count))?,
        RailRequest::Loopback(count) => planner.on_loopback(*count)?,
        RailRequest::Lanes(lanes) => lanes.iter().try_for_each(|lane| planner.on_lane(lane))?,
    }
    planner.divide_addresses();
    planner.note_shared_cpus();
    Ok(RailPlan { rails: planner.rails, notes: planner.notes })
}

struct Planner<'a> {
    topology: &'a Topology,
    locality: Locality<'a>,
    rails: Vec<PlannedRail>,
    notes: Vec<String>,
}

/// A CPU for a rail, with its rank; the least is the best.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Candidate {
    pub(super) far: bool,
    pub(super) rails_on_cpu: usize,
    pub(super) rails_on_core: usize,
    pub(super) from_interrupt: FromInterrupt,
    pub(super) cpu: CpuId,
}

/// The part that two NICs share, so that two rails on them carry less than two; the first is the worst.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum SharedPart {
    Port,
    Card,
    /// A PCIe switch, or a port of the root complex.
    Switch,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FromInterrupt {
    Serves,
    SharesCache,
    Apart,
    Unknown,
}

impl<'a> Planner<'a> {
    /// One rail on each usable NIC, or on the best `count` of them.
    fn on_nics(&mut self, count: Option<usize>) -> Result<(), PlanError> {
        let nics = self.best_nics();
        for nic in self.topology.nics() {
            if let Some(reason) = &nic.hidden {
                self.notes.push(format!("{} is left alone: {reason}", nic.name));
            }
        }
        if nics.is_empty() {
            return Err(PlanError::NoNic);
        }
        let wanted = count.unwrap_or(nics.len().min(MOST_RAILS));
        if count.is_none() && wanted < nics.len() {
            let usable = nics.len();
            self.notes
                .push(format!("{usable} NICs are usable; the best {wanted} are used, the most that a stream takes"));
        }
        if wanted > nics.len() {
            let (usable, first) = (nics.len(), &nics[0].name);
            self.notes.push(format!(
                "{wanted} rails share {}, starting over at {first}: rails on one NIC add no bandwidth",
                plural(usable, "usable NIC")
            ));
        }
        for nic in nics.iter().cycle().take(wanted) {
            let (address, end) = self.next_end(nic);
            self.add(Some(nic), address, end, None)?;
        }
        Ok(())
    }

    /// NICs for rails: fastest first, and among equally fast ones every card's first port before any card's second, and
    /// cards behind different PCIe switches before those behind one.
    fn best_nics(&self) -> Vec<&'a Nic> {
        let usable = |nic: &&'a Nic| {
            nic.kind == NicKind::Device
                && nic.hidden.is_none()
                && nic.up != Some(false)
                && (nic.addresses.is_empty() || nic.addresses.iter().any(|address| is_usable(address.ip)))
        };
        let mut nics: Vec<&'a Nic> = self.topology.nics().iter().filter(usable).collect();
        nics.sort_by_key(|nic| Reverse(nic.speed));
        let rank = |index: usize| {
            let earlier = nics[..index].iter().filter_map(|other| self.shared(other, nics[index]));
            earlier.fold([0; 3], |mut counts, shared| {
                counts[shared as usize] += 1;
                counts
            })
        };
        let ranked = nics.iter().enumerate().map(|(index, nic)| (Reverse(nic.speed), rank(index), index));
        let mut ranked: Vec<_> = ranked.collect();
        ranked.sort_unstable();
        ranked.into_iter().map(|(.., index)| nics[index]).collect()
    }

    /// The part that two NICs share of the path from the wire to the processor.
    fn shared(&self, a: &Nic, b: &Nic) -> Option<SharedPart> {
        if self.locality.same_card(a, b) {
            let on_port = self.locality.common_ancestor(a, b) == Some(CommonAncestor::Port);
            return Some(if on_port { SharedPart::Port } else { SharedPart::Card });
        }
        match self.locality.common_ancestor(a, b)? {
            CommonAncestor::Switch(_) | CommonAncestor::RootPort(_) => Some(SharedPart::Switch),
            _ => None,
        }
    }

    fn on_loopback(&mut self, count: Option<usize>) -> Result<(), PlanError> {
        let cores =
            self.topology.cores().iter().filter(|core| core.cpus.intersects(self.topology.allowed_cpus())).count();
        let count = count.unwrap_or(cores.clamp(2, MOST_RAILS));
        let loopback = self.topology.nics().iter().find(|nic| nic.kind == NicKind::Loopback);
        for index in 0..count {
            let address = loopback_address(index);
            self.add(loopback, Some(address), LocalEnd::Address(address), None)?;
        }
        Ok(())
    }

    fn on_lane(&mut self, wish: &LaneWish) -> Result<(), PlanError> {
        let nics = self.topology.nics();
        let cpus = wish.cpus.as_ref();
        match &wish.end {
            LocalEnd::Device(name) => {
                let nic = self.interface(name)?;
                let (address, end) = self.next_end(nic);
                self.add(Some(nic), address, end, cpus)
            }
            LocalEnd::DeviceAddress { device, address } => {
                let nic = self.interface(device)?;
                let nic = Some(nic).filter(|nic| has_address(nic, *address));
                self.add(
                    Some(nic.ok_or_else(|| self.no_such_address(*address))?),
                    Some(*address),
                    wish.end.clone(),
                    cpus,
                )
            }
            LocalEnd::Any => self.add(None, None, LocalEnd::Any, cpus),
            LocalEnd::Address(address) if address.is_unspecified() => self.add(None, None, LocalEnd::Any, cpus),
            LocalEnd::Address(address) => {
                let holds = |nic: &&Nic| nic.addresses.iter().any(|held| held.ip == *address);
                let nic = nics.iter().find(holds).or_else(|| nics.iter().find(|nic| has_address(nic, *address)));
                if nic.is_none() && !address.is_loopback() {
                    return Err(self.no_such_address(*address));
                }
                self.add(nic, Some(*address), wish.end.clone(), cpus)
            }
        }
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

    /// The address and the local end of the next rail on this NIC: the first rail is bound to the interface, each
    /// further one to another address of it as well. A NIC without one more address has its first address shared.
    fn next_end(&self, nic: &Nic) -> (Option<IpAddr>, LocalEnd) {
        let device = nic.name.clone();
        let held = || nic.addresses.iter().map(|address| address.ip).filter(|ip| is_usable(*ip));
        let is_loopback = nic.kind == NicKind::Loopback;
        let first = held().next().or_else(|| is_loopback.then(|| loopback_address(0)));
        let is_free = |ip: &IpAddr| self.rails.iter().all(|rail| rail.address != Some(*ip));
        if self.rails.iter().any(|rail| rail.interface.as_ref() == Some(&device)) {
            let alike = held().filter(|ip| !is_loopback && first.is_some_and(|first| first.is_ipv4() == ip.is_ipv4()));
            let loopback = (0..MOST_RAILS).filter(|_| is_loopback).map(loopback_address);
            if let Some(address) = alike.chain(loopback).find(is_free) {
                return (Some(address), LocalEnd::DeviceAddress { device, address });
            }
        }
        (first, LocalEnd::Device(device))
    }

    fn add(
        &mut self,
        nic: Option<&Nic>,
        address: Option<IpAddr>,
        end: LocalEnd,
        within: Option<&CpuSet>,
    ) -> Result<(), PlanError> {
        if let Some((nic, reason)) = nic.and_then(|nic| Some((nic, nic.hidden.as_ref()?))) {
            return Err(self.hidden(nic, reason));
        }
        let id = RailId(self.rails.len());
        if let Some(nic) = nic {
            self.note_shared_way(nic);
        }
        let allowed = self.topology.allowed_cpus();
        let mut reasons = vec![describe_lane(nic, address)];
        let usable = match within {
            None => allowed.clone(),
            Some(wanted) => {
                let usable = wanted.intersection(allowed);
                if usable.is_empty() {
                    let lane = nic.map(|nic| nic.name.clone()).or(address.map(|address| address.to_string()));
                    return Err(PlanError::CpusNotAllowed {
                        lane: lane.unwrap_or_default(),
                        wanted: wanted.clone(),
                        allowed: allowed.clone(),
                    });
                }
                reasons.push(format!("CPUs {wanted} were asked for, of which {usable} may be used"));
                usable
            }
        };
        let near = nic.and_then(|nic| nic.locality(self.topology));
        let serving = nic.map(serving_cpus).unwrap_or_default();
        let best = usable.iter().map(|cpu| self.candidate(cpu, near.as_ref(), &serving)).min();
        let best = best.expect("at least one CPU is usable, as was just seen");
        reasons.push(describe_cpu(&best, usable.len(), nic, near.as_ref(), &serving));
        let node = self.locality.nearest_node(best.cpu);
        reasons.push(match node {
            Some(node) => format!("memory from node {node}: the nearest to CPU {}", best.cpu),
            None => "memory from anywhere: the machine shows no NUMA nodes".to_owned(),
        });
        self.rails.push(PlannedRail {
            id,
            interface: nic.map(|nic| nic.name.clone()),
            address,
            addresses: usable_addresses(nic, &end),
            speed: nic.and_then(|nic| nic.speed),
            end,
            cpu: best.cpu,
            node,
            reasons,
        });
        Ok(())
    }

    /// The error of a hidden interface.
    fn hidden(&self, nic: &Nic, reason: &str) -> PlanError {
        let told = self.topology.overrides_of(&["nic", &nic.name, "hide"]).next_back();
        let position = told.map_or("by its model".to_owned(), |told| format!("{}:{}", told.file.display(), told.line));
        PlanError::Hidden { name: nic.name.clone(), reason: reason.to_owned(), position }
    }

    fn candidate(&self, cpu: CpuId, near: Option<&CpuSet>, serving: &CpuSet) -> Candidate {
        let on = |cpus: &CpuSet| self.rails.iter().filter(|rail| cpus.contains(rail.cpu)).count();
        let core = self.topology.core_of_cpu(cpu).map(|core| &core.cpus);
        let from_interrupt = if serving.is_empty() {
            FromInterrupt::Unknown
        } else if serving.contains(cpu) {
            FromInterrupt::Serves
        } else if self.topology.sharing_last_level_cache(cpu).is_some_and(|sharing| sharing.intersects(serving)) {
            FromInterrupt::SharesCache
        } else {
            FromInterrupt::Apart
        };
        Candidate {
            far: near.is_some_and(|near| !near.contains(cpu)),
            rails_on_cpu: on(&CpuSet::single(cpu)),
            rails_on_core: core.map_or(0, on),
            from_interrupt,
            cpu,
        }
    }

    /// Notes for a NIC that gets its first rail which part it shares with another one.
    fn note_shared_way(&mut self, nic: &Nic) {
        let names = self.rails.iter().filter_map(|rail| rail.interface.as_deref());
        if names.clone().any(|name| name == nic.name) {
            return;
        }
        let earlier = names.filter_map(|name| self.topology.nic(name));
        let sharing = earlier.filter_map(|other| Some((self.shared(other, nic)?, &other.name)));
        let Some((part, other)) = sharing.min_by_key(|(part, _)| *part) else { return };
        let name = &nic.name;
        self.notes.push(match part {
            SharedPart::Port => format!("{name} is an interface of the same port as {other}: the two share its wire"),
            SharedPart::Card => format!("{name} is a port of the same card as {other}: the two share its PCI link"),
            SharedPart::Switch => {
                format!(
                    "{name} is behind the same PCIe switch or port as {other}: the two share its link to the processor"
                )
            }
        });
    }

    /// Gives an address that one rail was planned for to no other rail, and notes the addresses that several rails
    /// share.
    fn divide_addresses(&mut self) {
        let planned: Vec<Option<IpAddr>> = self.rails.iter().map(|rail| rail.address).collect();
        for rail in &mut self.rails {
            let own = rail.address;
            rail.addresses.retain(|held| Some(held.ip) == own || !planned.contains(&Some(held.ip)));
        }
        let mut known: Vec<IpAddr> = Vec::new();
        for address in planned.iter().flatten().filter(|address| !address.is_unspecified()) {
            let sharing = planned.iter().filter(|other| **other == Some(*address)).count();
            if sharing > 1 && !known.contains(address) {
                known.push(*address);
                self.notes.push(format!("{sharing} rails share the address {address}"));
            }
        }
    }

    fn note_shared_cpus(&mut self) {
        let mut cpus: Vec<CpuId> = self.rails.iter().map(|rail| rail.cpu).collect();
        cpus.sort_unstable();
        for group in cpus.chunk_by(|a, b| a == b).filter(|group| group.len() > 1) {
            self.notes.push(format!(
                "{} rails share CPU {}: there are fewer usable CPUs beside their lanes than rails",
                group.len(),
                group[0]
            ));
        }
    }
}

/// Whether the interface has the address; the loopback interface has all of 127.0.0.0/8, though one of them is listed.
fn has_address(nic: &Nic, address: IpAddr) -> bool {
    let is_held = nic.addresses.iter().any(|held| held.ip == address);
    is_held || (address.is_loopback() && nic.kind == NicKind::Loopback)
}

/// Addresses of the loopback interface (RFC 1122, section 3.2.1.3).
fn loopback_address(index: usize) -> IpAddr {
    Ipv4Addr::new(127, 0, 0, index as u8 + 1).into()
}

/// Whether a peer on another machine can reach the address without naming an interface.
fn is_usable(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => !address.is_unspecified(),
        IpAddr::V6(address) => !address.is_unspecified() && !address.is_unicast_link_local(),
    }
}

/// The addresses that a lane with that local end may begin at: one address, or all addresses of its interface.
fn usable_addresses(nic: Option<&Nic>, end: &LocalEnd) -> Vec<InterfaceAddress> {
    let held = nic.map(|nic| nic.addresses.as_slice()).unwrap_or_default();
    match end {
        LocalEnd::Address(ip) | LocalEnd::DeviceAddress { address: ip, .. } => held
            .iter()
            // Of 127.0.0.0/8 one address is listed, and with its prefix it stands for all of them.
            .filter(|held| {
                held.ip == *ip || (ip.is_loopback() && held.ip.is_loopback() && held.ip.is_ipv4() == ip.is_ipv4())
            })
            .take(1)
            .map(|held| InterfaceAddress { ip: *ip, prefix_len: held.prefix_len })
            .collect(),
        LocalEnd::Device(_) => held.iter().filter(|held| !held.ip.is_unspecified()).cloned().collect(),
        LocalEnd::Any => Vec::new(),
    }
}

/// The CPUs that serve the NIC's interrupts, as far as they are known.
fn serving_cpus(nic: &Nic) -> CpuSet {
    nic.interrupts.iter().filter_map(|irq| irq.effective.as_ref()).fold(CpuSet::new(), |all, cpus| all.union(cpus))
}
