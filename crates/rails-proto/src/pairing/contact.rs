//! Pairing with a peer that this end asked for its lanes at one address. The peer may know that
//! address by another (address translation).

use super::{LaneCandidate, Pairing, Relation, Unpaired, pair};
use crate::LaneAddress;
use std::net::SocketAddr;

/// Pairs our offers with the offers of a peer that answered at `contact`, to this end at `from`.
/// The first of theirs is the called address, as the peer knows it. If the peer knows it by another
/// address, the offer keeps `contact`.
pub fn pair_with_contact(
    mut ours: Vec<LaneCandidate>,
    mut theirs: Vec<LaneCandidate>,
    contact: LaneAddress,
    from: SocketAddr,
) -> Pairing {
    // Only this end knows the scope of a link-local address: it is the scope of the question that the
    // peer answered.
    for offer in ours.iter_mut().filter(|offer| offer.is_link_local() && offer.ip() == from.ip()) {
        offer.address.socket = from;
        offer.address.socket.set_port(0);
    }
    let Some(called) = theirs.first_mut() else { return pair(&ours, &theirs, None) };
    let said = called.address;
    let canonical = |address: LaneAddress| (address.socket.ip().to_canonical(), address.port());
    let is_translated = canonical(said) != canonical(contact);
    called.address = contact;
    if !is_translated {
        return pair(&ours, &theirs, None);
    }
    called.prefix_len = None;
    let mut pairing = pair(&ours, &theirs, None);
    if pairing.pairs.iter().all(|pair| pair.relation == Relation::Routed) {
        // From here, the peer's own addresses lead to another host, or to none.
        let others = theirs.split_off(1).into_iter();
        pairing = pair(&ours, &theirs, None);
        let why = "the peer is behind an address translation, and this address is not known to lead to it";
        pairing.unpaired_theirs.extend(others.map(|offer| Unpaired { offer, why: why.to_owned() }));
    }
    pairing.notes.push(format!("the peer knows {contact} as {said}: addresses are translated on the way"));
    pairing
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RailId;

    fn offer(rail: usize, address: &str, prefix_len: Option<u8>) -> LaneCandidate {
        LaneCandidate {
            rail: RailId(rail),
            address: address.parse().unwrap(),
            prefix_len,
            speed_bits_per_second: None,
            node: Some(0),
            interface: None,
        }
    }

    fn remotes(pairing: &Pairing) -> Vec<String> {
        pairing.lanes().map(|(_, remote)| remote.to_string()).collect()
    }

    #[test]
    fn called_address_behind_a_translation() {
        let ours = vec![offer(0, "192.168.1.5:0", Some(24)), offer(1, "192.168.2.5:0", Some(24))];
        let theirs = vec![offer(0, "172.17.0.2:7575", Some(16)), offer(1, "172.18.0.2:7575", Some(16))];
        let contact = "203.0.113.9:7000".parse().unwrap();
        let pairing = pair_with_contact(ours.clone(), theirs.clone(), contact, "192.168.1.5:40000".parse().unwrap());
        assert_eq!(remotes(&pairing), ["203.0.113.9:7000", "203.0.113.9:7000"]);
        assert_eq!(pairing.unpaired_theirs.len(), 1);
        assert!(pairing.notes.iter().any(|note| note.contains("203.0.113.9:7000 as 172.17.0.2:7575")), "{pairing}");
        let plain =
            pair_with_contact(ours, theirs, "172.17.0.2:7575".parse().unwrap(), "192.168.1.5:40000".parse().unwrap());
        assert_eq!(
            remotes(&plain),
            ["172.17.0.2:7575", "172.18.0.2:7575"],
            "without a translation this end calls all addresses"
        );
    }

    #[test]
    fn link_local_contact_and_the_calling_address() {
        let ours = vec![offer(0, "[fe80::1]:0", Some(64)), offer(1, "[fe80::2]:0", Some(64))];
        let contact = "[fe80::9%7]:7575".parse().unwrap();
        let pairing = pair_with_contact(
            ours,
            vec![offer(0, "[fe80::9]:7575", Some(64))],
            contact,
            "[fe80::2%7]:40000".parse().unwrap(),
        );
        assert_eq!(pairing.pairs.len(), 1);
        assert_eq!((pairing.pairs[0].ours.rail, pairing.pairs[0].theirs.address), (RailId(1), contact));
    }

    #[test]
    fn mapped_contact_is_no_translation() {
        let contact = "[::ffff:10.0.0.2]:7575".parse().unwrap();
        let theirs = vec![offer(0, "10.0.0.2:7575", Some(24))];
        let pairing = pair_with_contact(
            vec![offer(0, "10.0.0.1:0", Some(24))],
            theirs,
            contact,
            "10.0.0.1:40000".parse().unwrap(),
        );
        assert!(matches!(pairing.pairs[0].relation, Relation::Subnet { .. }) && pairing.notes.is_empty(), "{pairing}");
    }
}
