//! The choice of NICs.

use super::{
    PlanError, RejectedNic, addresses::is_usable, exclusive::why_claimed, problem::Problem, rail_plan::plural,
    rail_request::MAX_RAILS,
};
use rails_topo::{CommonAncestor, Locality, Nic, NicKind, Topology};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

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
    let Some(first) = nics.first() else { return Err(PlanError::NoNic { rejected }) };
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
    for (nic, reason) in choosable(problem.topology()) {
        match reason.or_else(|| why_claimed(problem, nic)) {
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

/// Every NIC, with the reason for which the planner does not choose it; `None` if it may. Those
/// made in software are chosen where no device has an address of its own: in containers, and where
/// bonds, bridges or VLANs have the addresses for all devices.
pub(super) fn choosable(topology: &Topology) -> impl Iterator<Item = (&Nic, Option<String>)> {
    let stacks = Stacks::of(topology);
    topology.nics().iter().map(move |nic| {
        let name = nic.name.as_str();
        let reason = match nic.kind {
            NicKind::Virtual if nic.hidden.is_some() => why_unfit(nic),
            NicKind::Virtual if stacks.has_plain_device => Some("made in software: name it to use it".to_owned()),
            NicKind::Virtual if !stacks.holders.is_empty() && !stacks.over_devices.contains(name) => {
                Some("made in software, over no device: name it to use it".to_owned())
            }
            _ => why_unfit(nic).or_else(|| {
                let holder = stacks.holders.get(name)?;
                Some(format!("it has no address: {}, which is over it, has one", holder.name))
            }),
        };
        (nic, reason)
    })
}

/// Why no rail that the planner chooses may be on the NIC; `None` if one may. Where `/sys` is
/// hidden, interfaces are of unknown kind, and the NICs are among them.
pub(super) fn why_unfit(nic: &Nic) -> Option<String> {
    let reason = match nic.kind {
        _ if nic.hidden.is_some() => format!("left alone: {}", nic.hidden.as_deref().unwrap_or_default()),
        NicKind::Loopback => "the loopback interface: name it, or ask for `loopback`".to_owned(),
        _ if nic.up == Some(false) => "its link is down".to_owned(),
        _ if !nic.addresses.is_empty() && !has_usable_address(nic) => "it has link-local addresses alone".to_owned(),
        NicKind::Virtual | NicKind::Unknown if nic.addresses.is_empty() => "it has no address".to_owned(),
        NicKind::Virtual | NicKind::Device | NicKind::Unknown => return None,
    };
    Some(reason)
}

fn has_usable_address(nic: &Nic) -> bool {
    nic.addresses.iter().any(|held| is_usable(held.ip))
}

/// The interfaces over devices: bonds, bridges and VLANs, and those on top of these. Hidden devices
/// count as missing.
#[derive(Default)]
struct Stacks<'a> {
    /// The names of all these interfaces.
    over_devices: BTreeSet<&'a str>,
    /// For the name of a device without an address, the interface over it that has one instead.
    holders: BTreeMap<&'a str, &'a Nic>,
    /// Whether there is a device without such an interface.
    has_plain_device: bool,
}

impl<'a> Stacks<'a> {
    fn of(topology: &'a Topology) -> Self {
        let mut uppers: BTreeMap<&str, Vec<&Nic>> = BTreeMap::new();
        for nic in topology.nics() {
            nic.lowers.iter().for_each(|lower| uppers.entry(lower).or_default().push(nic));
        }
        let mut stacks = Self::default();
        for device in topology.nics().iter().filter(|nic| nic.kind.may_have_device() && nic.hidden.is_none()) {
            let over = above(&uppers, device);
            let holds = |nic: &&&Nic| nic.kind == NicKind::Virtual && nic.hidden.is_none() && has_usable_address(nic);
            match over.iter().find(holds).filter(|_| !has_usable_address(device)) {
                Some(holder) => drop(stacks.holders.insert(&device.name, holder)),
                None => stacks.has_plain_device = true,
            }
            stacks.over_devices.extend(over.iter().map(|nic| nic.name.as_str()));
        }
        stacks
    }
}

/// The interfaces over a NIC, each once, the nearest first.
fn above<'a>(uppers: &BTreeMap<&str, Vec<&'a Nic>>, nic: &'a Nic) -> Vec<&'a Nic> {
    let mut found = vec![nic];
    let mut seen = BTreeSet::from([nic.name.as_str()]);
    let mut next = 0;
    while let Some(nic) = found.get(next) {
        let over = uppers.get(nic.name.as_str()).into_iter().flatten();
        found.extend(over.filter(|upper| seen.insert(&upper.name)));
        next += 1;
    }
    found.split_off(1)
}
