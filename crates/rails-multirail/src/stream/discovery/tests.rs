use super::*;
use rails_topo::NodeId;

fn offer(rail: usize, address: &str, prefix_len: Option<u8>) -> LaneCandidate {
    LaneCandidate {
        rail: RailId(rail),
        address: address.parse().unwrap(),
        prefix_len,
        speed: None,
        node: Some(NodeId(0)),
        interface: None,
    }
}

fn remotes(pairing: &Pairing) -> Vec<String> {
    pairing.lanes().map(|(_, remote)| remote.to_string()).collect()
}

#[test]
fn behind_a_translation_the_address_that_was_called_is_the_one_that_counts() {
    let ours = vec![offer(0, "192.168.1.5:0", Some(24)), offer(1, "192.168.2.5:0", Some(24))];
    let theirs = vec![offer(0, "172.17.0.2:7575", Some(16)), offer(1, "172.18.0.2:7575", Some(16))];
    let contact = "203.0.113.9:7000".parse().unwrap();
    let pairing = pair(ours.clone(), theirs.clone(), contact, "192.168.1.5:40000".parse().unwrap());
    assert_eq!(remotes(&pairing), ["203.0.113.9:7000", "203.0.113.9:7000"]);
    assert_eq!(pairing.unpaired_theirs.len(), 1);
    assert!(pairing.notes.iter().any(|note| note.contains("203.0.113.9:7000 as 172.17.0.2:7575")), "{pairing}");
    let plain = pair(ours, theirs, "172.17.0.2:7575".parse().unwrap(), "192.168.1.5:40000".parse().unwrap());
    assert_eq!(remotes(&plain), ["172.17.0.2:7575", "172.18.0.2:7575"], "without one all are called");
}

#[test]
fn a_link_local_contact_is_paired_with_the_address_that_it_was_called_from() {
    let ours = vec![offer(0, "[fe80::1]:0", Some(64)), offer(1, "[fe80::2]:0", Some(64))];
    let contact = "[fe80::9%7]:7575".parse().unwrap();
    let pairing = pair(ours, vec![offer(0, "[fe80::9]:7575", Some(64))], contact, "[fe80::2%7]:40000".parse().unwrap());
    assert_eq!(pairing.pairs.len(), 1);
    assert_eq!((pairing.pairs[0].ours.rail, pairing.pairs[0].theirs.address), (RailId(1), contact));
}

#[test]
fn a_contact_by_a_mapped_address_is_no_translation() {
    let contact = "[::ffff:10.0.0.2]:7575".parse().unwrap();
    let theirs = vec![offer(0, "10.0.0.2:7575", Some(24))];
    let pairing = pair(vec![offer(0, "10.0.0.1:0", Some(24))], theirs, contact, "10.0.0.1:40000".parse().unwrap());
    assert!(matches!(pairing.pairs[0].relation, Relation::Subnet { .. }) && pairing.notes.is_empty(), "{pairing}");
}
