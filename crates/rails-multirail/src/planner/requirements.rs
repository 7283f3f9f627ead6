//! Required affinities, as limits to the choice of CPUs.

use super::{
    Need, PlanError, RejectedCpus,
    cpus::{Candidate, CpuQuery},
    problem::Problem,
};
use crate::RailId;
use rails_topo::{CpuSet, NodeId};

/// Takes out the candidates that lack a required affinity, and returns them with the reason. `node`
/// is the node of the memory; without one, memory comes from the node nearest to the chosen CPU.
///
/// # Errors
/// The first affinity that all candidates lack. They stay.
pub(super) fn keep_required(
    problem: &Problem<'_>,
    candidates: &mut Vec<Candidate>,
    node: Option<NodeId>,
) -> Result<Vec<RejectedCpus>, &'static str> {
    let wants = problem.request().affinities;
    let thread = |candidate: &Candidate| candidate.from_interrupt.is_affine();
    let memory = |candidate: &Candidate| {
        let nearest = problem.locality().nearest_node(candidate.cpu);
        nearest.is_some_and(|nearest| node.is_none_or(|node| node == nearest))
    };
    let mut rejected = Vec::new();
    let mut keep = |affinity, need, holds: &dyn Fn(&Candidate) -> bool| {
        if need != Need::Required {
            return Ok(());
        }
        if !candidates.iter().any(holds) {
            return Err(affinity);
        }
        let lacking = candidates.extract_if(.., |candidate| !holds(candidate));
        let reason = format!("lacks {affinity} affinity, which is required");
        let lacking = RejectedCpus { cpus: lacking.map(|candidate| candidate.cpu).collect(), reason };
        rejected.extend(Some(lacking).filter(|lacking| !lacking.cpus.is_empty()));
        Ok(())
    };
    keep("thread", wants.thread, &thread)?;
    keep("memory", wants.memory, &memory)?;
    Ok(rejected)
}

/// Refuses a rail that lacks a required affinity. `node` is the node of its memory, if that is the
/// nearest one.
pub(super) fn check_affinities(
    problem: &Problem<'_>,
    rail: RailId,
    sought: &CpuQuery<'_>,
    best: &Candidate,
    node: Option<NodeId>,
) -> Result<(), PlanError> {
    let wants = problem.request().affinities;
    let missing = |affinity, reason: String| Err(PlanError::AffinityMissing { rail, affinity, reason });
    let (name, serving) = (sought.nics.join(" and "), &sought.serving);
    let beside = |name: &&str| problem.locality().cpus_beside(problem.topology().nic(name)?);
    let is_device = |name: &&str| problem.topology().nic(name).is_some_and(|nic| nic.kind.may_have_device());
    let no_interrupt = match sought.nics.iter().any(is_device) {
        true => format!("which CPU serves the interrupts of {name} is not known"),
        false if name.is_empty() => "it is planned on no NIC".to_owned(),
        false => format!("{name} has no interrupts"),
    };
    if wants.interrupt == Need::Required {
        let near: Option<Vec<CpuSet>> = sought.nics.iter().map(beside).collect();
        let near = near.map(|near| near.iter().fold(CpuSet::new(), |all, cpus| all.union(cpus)));
        match near {
            _ if serving.is_empty() => return missing("interrupt", no_interrupt),
            None => return missing("interrupt", format!("which CPUs are near {name} is not known")),
            Some(near) if !serving.is_subset(&near) => {
                let reason = format!("CPUs {serving} serve the interrupts of {name}, and {near} are near it");
                return missing("interrupt", reason);
            }
            Some(_) => {}
        }
    }
    if wants.thread == Need::Required && !best.from_interrupt.is_affine() {
        let reason = format!(
            "no usable CPU is known to share a cache with CPUs {serving}, which serve the interrupts of {name}"
        );
        return missing("thread", if serving.is_empty() { no_interrupt } else { reason });
    }
    if wants.memory == Need::Required && node.is_none() {
        return missing("memory", format!("no memory is bound to the node nearest to CPU {}", best.cpu));
    }
    Ok(())
}
