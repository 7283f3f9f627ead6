//! Notes on a plan as a whole.

use super::{
    BindingKind, PlannedRail,
    devices::carriers,
    exclusive::why_claimed,
    nics::{SharedPart, shared_part},
    problem::Problem,
};
use rails_topo::{CpuId, CpuSet, Nic, Topology};
use std::net::IpAddr;

/// The notes on these rails.
pub(super) fn notes(problem: &Problem<'_>, rails: &[PlannedRail]) -> Vec<String> {
    let notes = notes_on_nics(problem, rails);
    let notes = notes.into_iter().chain(notes_on_addresses(rails)).chain(notes_on_cpus(rails));
    notes.chain(notes_on_task_cores(problem, rails)).collect()
}

/// Each NIC's path that another rail's NIC shares, link that is down, and claim of another owner.
fn notes_on_nics(problem: &Problem<'_>, rails: &[PlannedRail]) -> Vec<String> {
    let mut notes = Vec::new();
    let nic = |rail: &PlannedRail| problem.topology().nic(rail.interface.as_deref()?);
    let nics: Vec<&Nic> = rails.iter().filter_map(nic).collect();
    for (index, nic) in nics.iter().enumerate() {
        let earlier = &nics[..index];
        if earlier.iter().any(|other| other.name == nic.name) {
            continue;
        }
        let down = (nic.up == Some(false)).then(|| format!("the link of {} is down", nic.name));
        let claimed = why_claimed(problem, nic).map(|reason| format!("{}: {reason}", nic.name));
        notes.extend(shared_path(problem, earlier, nic).into_iter().chain(down).chain(claimed));
    }
    notes
}

/// The part of the path that a NIC shares with an earlier one.
fn shared_path(problem: &Problem<'_>, earlier: &[&Nic], nic: &Nic) -> Option<String> {
    if let Some((other, device)) =
        earlier.iter().find_map(|other| Some((other, common_carrier(problem.topology(), other, nic)?)))
    {
        return Some(format!("{} and {} both use the wire of {device}", nic.name, other.name));
    }
    let sharing = earlier.iter().filter_map(|other| Some((shared_part(problem.locality(), other, nic)?, &other.name)));
    let (part, other) = sharing.min_by_key(|(part, _)| *part)?;
    let name = &nic.name;
    Some(match part {
        SharedPart::Port => format!("{name} is an interface of the same port as {other}: the two share its wire"),
        SharedPart::Card => format!("{name} is a port of the same card as {other}: the two share its PCI link"),
        SharedPart::Switch => {
            format!("{name} is behind the same PCIe switch or port as {other}: the two share its link to the processor")
        }
    })
}

/// The name of a device that carries the packets of both.
fn common_carrier<'a>(topology: &'a Topology, a: &'a Nic, b: &Nic) -> Option<&'a str> {
    let others = carriers(topology, b);
    let is_common = |device: &&Nic| others.iter().any(|other| other.name == device.name);
    carriers(topology, a).into_iter().find(is_common).map(|device| device.name.as_str())
}

fn notes_on_addresses(rails: &[PlannedRail]) -> Vec<String> {
    let mut notes = Vec::new();
    let planned: Vec<IpAddr> = rails.iter().filter_map(|rail| rail.address).collect();
    for (index, address) in planned.iter().enumerate().filter(|(_, address)| !address.is_unspecified()) {
        let sharing = planned.iter().filter(|other| *other == address).count();
        if sharing > 1 && !planned[..index].contains(address) {
            notes.push(format!("{sharing} rails share the address {address}"));
        }
    }
    notes
}

/// The CPUs that several rails drive their lanes on.
fn notes_on_cpus(rails: &[PlannedRail]) -> Vec<String> {
    let mut notes = Vec::new();
    let mut cpus: Vec<CpuId> = rails.iter().filter_map(PlannedRail::bound_cpu).collect();
    cpus.sort_unstable();
    for group in cpus.chunk_by(|a, b| a == b).filter(|group| group.len() > 1) {
        let mut on_it = rails.iter().filter(|rail| rail.bound_cpu() == Some(group[0]));
        let is_asked = |rail: &PlannedRail| matches!(rail.binding.kind, BindingKind::Explicit { cpus: Some(_), .. });
        let reason = match on_it.all(is_asked) {
            true => "fewer CPUs were asked for than rails",
            false => "there are fewer usable CPUs beside their lanes than rails",
        };
        notes.push(format!("{} rails share CPU {}: {reason}", group.len(), group[0]));
    }
    notes
}

/// The CPUs for tasks on whose cores other rails are.
fn notes_on_task_cores(problem: &Problem<'_>, rails: &[PlannedRail]) -> Vec<String> {
    let core = |cpu| problem.cpus().core_of(cpu);
    let cores = |cpus: CpuSet| cpus.iter().fold(CpuSet::new(), |all, cpu| all.union(&core(cpu)));
    let mut notes = Vec::new();
    for rail in rails.iter().filter(|rail| rail.bound_cpu().is_some() && !rail.task_cpus.is_empty()) {
        let others = rails.iter().filter(|other| other.id != rail.id && other.bound_cpu().is_some());
        let others = others.fold(CpuSet::new(), |all, other| all.union(&cores(other.cpus())));
        let shared = rail.task_cpus.intersection(&others);
        if !shared.is_empty() {
            let id = rail.id;
            notes.push(format!("CPUs {shared} are for tasks of rail {id}, and other rails are on their cores"));
        }
    }
    notes
}
