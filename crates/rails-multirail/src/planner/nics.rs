//! The choice of NICs.

use super::{RejectedNic, addresses::is_usable, plan_rails::Planner};
use rails_topo::{CommonAncestor, Nic, NicKind};
use std::cmp::Reverse;

/// The part that two NICs share, so that two rails on them carry less than two; the first is the worst.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SharedPart {
    Port,
    Card,
    /// A PCIe switch, or a port of the root complex.
    Switch,
}

impl<'a> Planner<'a> {
    /// NICs for rails, one after the other: fastest first, and among equally fast ones every card's first port before
    /// any card's second, cards behind different PCIe switches before those behind one, and cards on different nodes before
    /// those on one, each as seen from the NICs that are chosen already. The other NICs are noted with the reason.
    pub(super) fn best_nics(&mut self) -> Vec<&'a Nic> {
        let mut nics: Vec<&'a Nic> = Vec::new();
        for nic in self.topology.nics() {
            match why_not(nic).or_else(|| self.why_claimed(nic)) {
                None => nics.push(nic),
                Some(reason) => self.rejected_nics.push(RejectedNic { name: nic.name.clone(), reason }),
            }
        }
        // The parts that each NIC shares with the chosen ones, and how many of these are on its node.
        let mut left: Vec<_> = nics.into_iter().map(|nic| (nic, [0; 3], 0)).collect();
        let mut chosen: Vec<&'a Nic> = Vec::new();
        let rank = |(nic, shared, on_node): &(&Nic, [usize; 3], usize)| (Reverse(nic.speed), *shared, *on_node);
        while let Some(best) = (0..left.len()).min_by_key(|index| rank(&left[*index])) {
            let (nic, ..) = left.remove(best);
            for (other, shared, on_node) in &mut left {
                self.shared(nic, other).into_iter().for_each(|part| shared[part as usize] += 1);
                *on_node += usize::from(nic.node.is_some() && nic.node == other.node);
            }
            chosen.push(nic);
        }
        chosen
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

    /// Notes for a NIC that gets its first rail which part it shares with another one.
    pub(super) fn note_shared_way(&mut self, nic: &Nic) {
        let names = self.rails.iter().filter_map(|rail| rail.interface.as_deref());
        if names.clone().any(|name| name == nic.name) {
            return;
        }
        let earlier = names.filter_map(|name| self.topology.nic(name));
        let devices = self.devices_of(nic);
        let is_below = |device: &&Nic| devices.iter().any(|own| own.name == device.name);
        let common = |other: &'a Nic| self.devices_of(other).into_iter().find(is_below);
        if let Some((other, device)) = earlier.clone().find_map(|other| Some((other, common(other)?))) {
            self.notes.push(format!("{} and {} both use the wire of {}", nic.name, other.name, device.name));
            return;
        }
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
}

/// Why the planner does not choose the NIC; `None` if it may. Where `/sys` is hidden, interfaces are of unknown kind,
/// and the NICs are among them.
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

/// Why nothing is known of an interface's device.
pub(super) const NOT_SHOWN: &str = "/sys does not show it";
