//! Planning again, for running rails after a change of the machine.

use super::{
    PlanError, PlannedRail, RailRequest, Which,
    addresses::{Lane, UsedLane, has_address, next_lane, own_addresses, retain_own},
    cpus::place_rank,
    exclusive::{NicShare, divide_nics},
    explain::{explain, explain_kept},
    lanes::{Present, place_lane},
    nics::{rank_nics, why_unfit},
    occupancy::Occupancy,
    problem::Problem,
    resolve::{ResolvedRail, Resolver},
    tasks::{PlacedRail, place_tasks_of},
};
use rails_bind::claims::Resources;
use rails_topo::{CpuId, CpuSet, Nic, Topology};
use std::net::IpAddr;

/// A running rail, planned again.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Replanned {
    /// The plan of the rail for the machine as it is now.
    pub planned: PlannedRail,
    /// The reasons for which the rail leaves its present place; empty if it stays.
    pub reasons: Vec<String>,
    /// Whether a part of the rail's present place cannot be used any more; if not, the new place is
    /// only better.
    pub is_urgent: bool,
    /// The part of the request that cannot be met now. The rail keeps the part that it has.
    pub unmet: Option<String>,
}

/// Plans rails that run again, for the machine as it is now. Their number and their order stay. It
/// is a pure function.
///
/// A rail keeps its NIC while that can be used, also if a faster one is there, since another NIC
/// takes new connections. In place of a NIC that cannot be used it gets the best one without a
/// rail. A rail whose request names the NIC keeps it in any case. A rail leaves its CPU if that
/// cannot be used any more, or if another one is better by the criteria
/// of [`plan_rails`](super::plan_rails()), for the lane and its tasks together; among equals it
/// stays. Rails are looked at one by one, each beside the others as they are, so that no rail moves
/// for the sake of another one. A rail may come to a CPU that one before it leaves, so that one
/// moves first. A move for a better place makes the rails as a whole better placed by the same
/// criteria, so rails that are planned again and again come to rest.
///
/// # Errors
/// [`PlanError`] if no CPU is left. A single rail that cannot be planned is not an error:
/// [`Replanned::unmet`].
pub fn replan_rails(
    topology: &Topology,
    request: &RailRequest,
    present: &[PlannedRail],
) -> Result<Vec<Replanned>, PlanError> {
    let problem = Problem::new(topology, request)?;
    let mut replaced: Vec<Replaced<'_>> = Vec::new();
    for _ in present {
        let next = place_again(&problem, present, &replaced);
        replaced.push(next);
    }
    let lanes: Vec<UsedLane<'_>> = replaced.iter().map(|rail| rail.place.lane()).collect();
    let shares = divide_nics(&problem, &lanes);
    let addresses: Vec<_> = lanes.iter().filter_map(|lane| lane.address()).collect();
    let plan = |((old, Replaced { place, unmet }), share): ((&PlannedRail, Replaced<'_>), Option<NicShare>)| {
        compare(&problem, old, place.explain(&problem, &addresses, share), unmet)
    };
    Ok(present.iter().zip(replaced).zip(shares).map(plan).collect())
}

/// A running rail, with its place on the present machine.
struct Replaced<'a> {
    place: NewPlace<'a>,
    /// The part of the request that cannot be met.
    unmet: Option<String>,
}

enum NewPlace<'a> {
    Planned(Box<PlacedRail<'a>>),
    /// The rail stays as a whole.
    Kept(&'a PlannedRail),
}

impl<'a> NewPlace<'a> {
    fn lane(&self) -> UsedLane<'a> {
        match self {
            Self::Planned(rail) => rail.lane.rail.lane.as_ref().into(),
            Self::Kept(rail) => (*rail).into(),
        }
    }

    fn bound_cpus(&self) -> CpuSet {
        match self {
            Self::Planned(rail) => rail.bound_cpus().collect(),
            Self::Kept(rail) => bound_cpus(rail),
        }
    }

    /// The rail's plan, beside rails that are planned for the addresses `planned`.
    fn explain(self, problem: &Problem<'_>, planned: &[IpAddr], share: Option<NicShare>) -> PlannedRail {
        match (self, share) {
            (Self::Planned(rail), share) => {
                let addresses = own_addresses(rail.lane.rail.lane.as_ref(), planned);
                explain(problem, *rail, addresses, share)
            }
            (Self::Kept(rail), share) => {
                let mut rail = share.map_or_else(|| rail.clone(), |share| explain_kept(rail, share));
                retain_own(&mut rail.addresses, rail.address, planned);
                rail
            }
        }
    }
}

/// The CPUs that the threads of a running rail are bound to.
fn bound_cpus(rail: &PlannedRail) -> CpuSet {
    rail.bound_cpu().map(|_| rail.cpus()).unwrap_or_default()
}

/// Places the rail after those that are placed already. A lane and its tasks are one: a lane that
/// moved away from its own tasks would have them follow it, again and again.
fn place_again<'a>(problem: &Problem<'a>, present: &'a [PlannedRail], replaced: &[Replaced<'a>]) -> Replaced<'a> {
    let (own, later) = (&present[replaced.len()], &present[replaced.len() + 1..]);
    let mut others = Occupancy::default();
    replaced.iter().for_each(|rail| others.add(rail.place.bound_cpus().iter()));
    later.iter().for_each(|rail| others.add(bound_cpus(rail).iter()));
    let earlier: Vec<UsedLane<'_>> = replaced.iter().map(|rail| rail.place.lane()).collect();
    let (rail, unmet) = resolve_again(problem, own, later, &earlier);
    let place = |present| {
        let lane = place_lane(problem, rail.clone(), &others, present)?;
        place_tasks_of(problem, lane, &others, present)
    };
    let (kept, moved) = (place(Present::Kept(own)), place(Present::Left(own)));
    let rank = |placed: &PlacedRail<'_>| place_rank(&placed.chosen(), placed.lane.rail.binding.cpus());
    let placed = match (moved, kept) {
        (Ok(moved), Ok(kept)) if rank(&kept) <= rank(&moved) => Ok(kept),
        (Ok(placed), _) | (Err(_), Ok(placed)) => Ok(placed),
        (Err(error), Err(_)) => Err(error),
    };
    match placed {
        Ok(rail) => Replaced { place: NewPlace::Planned(Box::new(rail)), unmet },
        Err(error) => Replaced { place: NewPlace::Kept(own), unmet: Some(unmet.unwrap_or_else(|| error.to_string())) },
    }
}

/// The parts of a running rail on the machine as it is now, and the part of the request that cannot
/// be met.
fn resolve_again<'a>(
    problem: &Problem<'a>,
    present: &'a PlannedRail,
    later: &[PlannedRail],
    earlier: &[UsedLane<'a>],
) -> (ResolvedRail<'a>, Option<String>) {
    let resolver = Resolver::new(problem, earlier, Some(present));
    let requested = requested_again(problem, present, later, earlier, &resolver);
    match requested.and_then(|rail| check_threads(&rail, present).map(|()| rail)) {
        Ok(rail) => {
            let down = rail.nic().filter(|nic| nic.up == Some(false));
            let unmet = down.map(|nic| format!("the link of {} is down, and the request names it", nic.name));
            (rail, unmet)
        }
        Err(unmet) => (resolver.as_is(present), Some(unmet)),
    }
}

/// The parts that the request has for a running rail.
fn requested_again<'a>(
    problem: &Problem<'a>,
    present: &'a PlannedRail,
    later: &[PlannedRail],
    earlier: &[UsedLane<'a>],
    resolver: &Resolver<'_, 'a>,
) -> Result<ResolvedRail<'a>, String> {
    match &problem.request().which {
        Which::Loopback(_) => Ok(resolver.on_loopback()),
        Which::Listed(wishes) => {
            let wish = wishes.get(earlier.len()).ok_or("the request has no such rail")?;
            resolver.wished(wish).map_err(|error| error.to_string())
        }
        Which::Auto | Which::Count(_) => {
            let nic = present.interface.as_deref().and_then(|name| problem.topology().nic(name));
            let usable = nic.filter(|nic| why_unfit(nic).is_none());
            let nic = usable.or_else(|| spare_nic(problem, present, later, earlier));
            let nic = nic.ok_or("no NIC without a rail can be used in place of its own")?;
            let keeps = present.interface.as_ref() == Some(&nic.name)
                && present.address.is_none_or(|address| has_address(nic, address));
            Ok(resolver.on(match &present.end {
                Some(end) if keeps => Lane { nic: Some(nic), address: present.address, end: end.clone() },
                _ => next_lane(earlier, nic),
            }))
        }
    }
}

/// Refuses a request for other threads than the running rail has.
fn check_threads(rail: &ResolvedRail<'_>, present: &PlannedRail) -> Result<(), String> {
    let has = 1 + present.task_cpus.len();
    if rail.cores != has {
        return Err(format!("the request has {} cores for it, and it was built with {has}", rail.cores));
    }
    if rail.binding.is_bound() != present.bound_cpu().is_some() {
        return Err("the request binds it, and it was built unbound, or the other way round".to_owned());
    }
    Ok(())
}

/// The best NIC without a rail, or with the fewest rails if they may share it.
fn spare_nic<'a>(
    problem: &Problem<'a>,
    present: &'a PlannedRail,
    later: &[PlannedRail],
    earlier: &[UsedLane<'a>],
) -> Option<&'a Nic> {
    let others: Vec<UsedLane<'_>> = [present].into_iter().chain(later).map(UsedLane::from).collect();
    let rails_on = |nic: &Nic| earlier.iter().chain(&others).filter(|lane| lane.is_on(nic)).count();
    let nic = rank_nics(problem).usable.into_iter().min_by_key(|nic| rails_on(nic))?;
    (problem.request().share_nics || rails_on(nic) == 0).then_some(nic)
}

/// The plan of a rail, with the reasons for which it differs from the present one.
fn compare(problem: &Problem<'_>, present: &PlannedRail, mut planned: PlannedRail, unmet: Option<String>) -> Replanned {
    let (mut reasons, mut is_urgent) = (Vec::new(), false);
    if planned.end != present.end {
        reasons.push(why_another_lane(problem.topology(), present));
        is_urgent = true;
    }
    let is_bound = planned.binding.is_bound();
    if is_bound && (planned.cpu, &planned.task_cpus) != (present.cpu, &present.task_cpus) {
        for cpu in present.cpus().difference(&planned.cpus()).iter() {
            let unusable = why_unusable(problem, cpu);
            is_urgent |= unusable.is_some();
            reasons.push(format!("CPU {cpu}: {}", unusable.unwrap_or_else(|| why_worse(&planned, cpu))));
        }
        if reasons.is_empty() {
            reasons.push(format!("CPU {}: {}", present.cpu, why_worse(&planned, present.cpu)));
        }
    } else if !present.exclusive_cpus.is_empty() {
        // The hardware threads of a core that are offline stay claimed: they may come back.
        planned.exclusive_cpus = planned.exclusive_cpus.union(&present.exclusive_cpus);
        if reasons.is_empty() && !planned.exclusive_resources().eq(present.exclusive_resources()) {
            let own: Resources = planned.exclusive_resources().collect();
            reasons.push(format!("has to itself now: {own}"));
        }
    }
    if is_bound && planned.node != present.node && reasons.is_empty() {
        let gone = present.node.filter(|node| !problem.topology().allowed_nodes().contains(*node));
        is_urgent |= gone.is_some();
        reasons.push(match (gone, planned.node) {
            (Some(node), _) => format!("node {node}: may not be used here any more"),
            (None, Some(node)) => format!("node {node} is the nearest to CPU {} now", planned.cpu),
            (None, None) => "the machine shows no NUMA nodes any more".to_owned(),
        });
    }
    if reasons.is_empty() {
        planned.reasons.clone_from(&present.reasons);
    }
    Replanned { planned, reasons, is_urgent, unmet }
}

fn why_another_lane(topology: &Topology, present: &PlannedRail) -> String {
    let Some(name) = &present.interface else { return "the request has another lane for it now".to_owned() };
    match topology.nic(name) {
        None => format!("{name}: is gone"),
        Some(nic) => match (why_unfit(nic), present.address) {
            (Some(reason), _) => format!("{name}: {reason}"),
            (None, Some(address)) if !has_address(nic, address) => {
                format!("{name}: has lost the address {address}")
            }
            (None, _) => format!("{name}: its lane begins elsewhere now"),
        },
    }
}

/// Why no rail may be on the CPU any more.
fn why_unusable(problem: &Problem<'_>, cpu: CpuId) -> Option<String> {
    let reason = match () {
        () if !problem.topology().online_cpus().contains(cpu) => "is offline",
        () if !problem.topology().allowed_cpus().contains(cpu) => "may not be used here any more",
        () if !problem.cpus().has(cpu) => "another owner has claimed its core",
        () => return None,
    };
    Some(reason.to_owned())
}

/// Why a rail is not on that CPU.
fn why_worse(planned: &PlannedRail, cpu: CpuId) -> String {
    let rejected = planned.rejected_cpus.iter().find(|rejected| rejected.cpus.contains(cpu));
    rejected.map_or("another one is better for its tasks".to_owned(), |rejected| rejected.reason.clone())
}
