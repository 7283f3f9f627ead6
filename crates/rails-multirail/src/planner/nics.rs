//! The choice of NICs.

use super::{
    PlanError, RejectedNic, addresses::is_usable, exclusive::why_claimed, problem::Problem, rail_plan::plural,
    rail_request::MAX_RAILS,
};
use rails_topo::{CommonAncestor, Locality, Nic, NicKind};
use std::cmp::Reverse;

/// The part that two NICs share, so that two rails on them carry less than two; the first is the
/// worst.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SharedPart {
    Port,
    Card,
    /// A PCIe switch, or a port of the root complex.
    Switch,
}

/// The NICs of rails that the planner chooses.
pub(super) struct ChosenNics<'a> {
    /// The NIC of each rail; a NIC with several rails stands there as often.
    pub(super) nics: Vec<&'a Nic>,
    pub(super) rejected: Vec<RejectedNic>,
    /// A note, if rails share NICs.
    pub(super) note: Option<String>,
}

/// A NIC for each of `count` rails, or each usable NIC once.
pub(super) fn choose_nics<'a>(problem: &Problem<'a>, count: Option<usize>) -> Result<ChosenNics<'a>, PlanError> {
    let RankedNics { usable: nics, mut rejected } = rank_nics(problem);
    let Some(first) = nics.first() else { return Err(PlanError::NoNic) };
    let usable = nics.len();
    let wanted = count.unwrap_or(usable.min(MAX_RAILS));
    if wanted > usable && !problem.request().share_nics {
        return Err(PlanError::TooFewNics { wanted, usable: nics.iter().map(|nic| nic.name.clone()).collect() });
    }
    let note = (wanted > usable).then(|| {
        format!(
            "{wanted} rails share {}, starting over at {}: rails on one NIC add no bandwidth",
            plural(usable, "usable NIC"),
            first.name
        )
    });
    let reason = format!("{} are the better ones, or as good", plural(wanted, "other NIC"));
    let worse = nics.iter().skip(wanted);
    rejected.extend(worse.map(|nic| RejectedNic { name: nic.name.clone(), reason: reason.clone() }));
    Ok(ChosenNics { nics: nics.iter().copied().cycle().take(wanted).collect(), rejected, note })
}

/// The usable NICs, the best ones first, and the others with the reason.
pub(super) struct RankedNics<'a> {
    pub(super) usable: Vec<&'a Nic>,
    rejected: Vec<RejectedNic>,
}

/// Ranks NICs for rails, one after the other: fastest first, and among equally fast ones every
/// card's first port before any card's second, cards behind different PCIe switches before those
/// behind one, and cards on different nodes before those on one, each as seen from the NICs that
/// are chosen already.
pub(super) fn rank_nics<'a>(problem: &Problem<'a>) -> RankedNics<'a> {
    let mut rejected = Vec::new();
    // The parts that each NIC shares with the chosen ones, and the number of these on its node.
    let mut left: Vec<(&'a Nic, [usize; 3], usize)> = Vec::new();
    for nic in problem.topology().nics() {
        match why_not(nic).or_else(|| why_claimed(problem, nic)) {
            None => left.push((nic, [0; 3], 0)),
            Some(reason) => rejected.push(RejectedNic { name: nic.name.clone(), reason }),
        }
    }
    let mut usable: Vec<&'a Nic> = Vec::new();
    let rank = |(nic, shared, on_node): &(&Nic, [usize; 3], usize)| (Reverse(nic.speed), *shared, *on_node);
    while let Some(best) = (0..left.len()).min_by_key(|index| rank(&left[*index])) {
        let (nic, ..) = left.remove(best);
        for (other, shared, on_node) in &mut left {
            shared_part(problem.locality(), nic, other).into_iter().for_each(|part| shared[part as usize] += 1);
            *on_node += usize::from(nic.node.is_some() && nic.node == other.node);
        }
        usable.push(nic);
    }
    RankedNics { usable, rejected }
}

/// The part that two NICs share of the path from the wire to the processor.
pub(super) fn shared_part(locality: &Locality<'_>, a: &Nic, b: &Nic) -> Option<SharedPart> {
    if locality.same_card(a, b) {
        let on_port = locality.common_ancestor(a, b) == Some(CommonAncestor::Port);
        return Some(if on_port { SharedPart::Port } else { SharedPart::Card });
    }
    match locality.common_ancestor(a, b)? {
        CommonAncestor::Switch(_) | CommonAncestor::RootPort(_) => Some(SharedPart::Switch),
        _ => None,
    }
}

/// Why the planner does not choose the NIC; `None` if it may. Where `/sys` is hidden, interfaces
/// are of unknown kind, and the NICs are among them.
pub(super) fn why_not(nic: &Nic) -> Option<String> {
    let reason = match nic.kind {
        _ if nic.hidden.is_some() => format!("left alone: {}", nic.hidden.as_deref().unwrap_or_default()),
        NicKind::Loopback => "the loopback interface: name it, or ask for `loopback`".to_owned(),
        NicKind::Virtual => "made in software: name it to use it".to_owned(),
        NicKind::Device | NicKind::Unknown if nic.up == Some(false) => "its link is down".to_owned(),
        _ if !nic.addresses.is_empty() && !nic.addresses.iter().any(|held| is_usable(held.ip)) => {
            "it has link-local addresses alone".to_owned()
        }
        NicKind::Unknown if nic.addresses.is_empty() => "it has no address".to_owned(),
        NicKind::Device | NicKind::Unknown => return None,
    };
    Some(reason)
}
