use super::*;
use crate::Scheme;
use proptest::prelude::*;
use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
};

fn offer(rail: usize, address: &str, gbps: u64) -> LaneCandidate {
    let (ip, prefix_len) = address.split_once('/').map_or((address, None), |(ip, length)| (ip, length.parse().ok()));
    LaneCandidate {
        rail: RailId(rail),
        address: SocketAddr::new(ip.parse().unwrap(), 0).into(),
        prefix_len,
        speed_bits_per_second: (gbps > 0).then_some(gbps * 1_000_000_000),
        node: None,
        interface: None,
    }
}

fn link_local(rail: usize, address: &str, scope: u32) -> LaneCandidate {
    let address = std::net::SocketAddrV6::new(address.parse().unwrap(), 0, 0, scope);
    LaneCandidate { address: SocketAddr::from(address).into(), prefix_len: Some(64), ..offer(rail, "::1", 100) }
}

/// The pairs' rails.
fn rails(pairing: &Pairing) -> Vec<(usize, usize)> {
    pairing.pairs.iter().map(|pair| (pair.ours.rail.0, pair.theirs.rail.0)).collect()
}

#[test]
fn pairs_by_subnet_in_any_order() {
    let ours = [offer(0, "10.0.1.1/24", 100), offer(1, "10.0.2.1/24", 100), offer(2, "fd00:3::1/64", 100)];
    let theirs = [offer(0, "fd00:3::2/64", 100), offer(1, "10.0.1.2/24", 100), offer(2, "10.0.2.2/24", 100)];
    let pairing = pair(&ours, &theirs, None);
    assert_eq!(rails(&pairing), [(0, 1), (1, 2), (2, 0)]);
    assert_eq!(pairing.pairs[0].why, "both in 10.0.1.0/24; 100 Gbit/s to 100 Gbit/s");
    assert_eq!((pairing.unpaired_ours.len(), pairing.unpaired_theirs.len(), pairing.notes.len()), (0, 0, 0));
}

#[test]
fn reasons_for_rails_without_a_shared_subnet() {
    let ours = [offer(0, "10.0.1.1/24", 100), offer(1, "10.0.2.1/24", 100)];
    let theirs = [offer(0, "10.0.1.2/24", 100), offer(1, "10.0.9.2/24", 100)];
    let pairing = pair(&ours, &theirs, None);
    assert_eq!(rails(&pairing), [(0, 0)]);
    assert_eq!(pairing.unpaired_ours[0].why, "the peer offers no address in 10.0.2.0/24");
    assert_eq!(pairing.unpaired_theirs[0].why, "this end offers no address in 10.0.9.0/24");
}

#[test]
fn pairs_in_order_where_no_subnet_is_shared() {
    let ours = [offer(0, "10.0.1.1/24", 25), offer(1, "10.0.2.1/24", 100)];
    let pairing = pair(&ours, &[offer(0, "10.1.1.1/24", 25), offer(1, "10.1.2.1/24", 100)], None);
    assert_eq!(rails(&pairing), [(1, 1), (0, 0)], "fast with fast");
    assert!(pairing.notes[0].contains("the routes decide"), "{pairing}");
    let to_one = pair(&ours, &[offer(0, "10.1.1.1/24", 0)], None);
    assert_eq!(rails(&to_one), [(1, 0), (0, 0)]);
    assert!(to_one.pairs[1].why.contains("a further lane"), "{to_one}");
    let from_any = pair(&[offer(0, "0.0.0.0", 0)], &[offer(0, "10.1.1.1/24", 0), offer(1, "10.1.2.1/24", 0)], None);
    assert_eq!(rails(&from_any), [(0, 0), (0, 1)], "a rail whose address the routes choose");
}

#[test]
fn longer_of_two_known_prefixes() {
    let relation = |a: &str, b: &str| pair(&[offer(0, a, 0)], &[offer(0, b, 0)], None).pairs[0].relation;
    assert!(matches!(relation("10.0.1.1/24", "10.0.1.2"), Relation::Subnet { prefix_len: 24, .. }));
    assert!(matches!(relation("10.0.1.1", "10.0.1.2/24"), Relation::Subnet { prefix_len: 24, .. }));
    assert!(matches!(relation("10.0.1.1/16", "10.0.1.2/24"), Relation::Subnet { prefix_len: 24, .. }));
    assert_eq!(relation("10.0.1.1/16", "10.0.2.2/24"), Relation::Routed);
    assert_eq!(relation("10.0.1.1", "10.0.1.2"), Relation::Routed, "both prefixes are unknown");
    assert_eq!(
        relation("10.0.1.1/32", "10.0.1.2/32"),
        Relation::Routed,
        "a host's prefix says nothing about its neighbours"
    );
    assert_eq!(relation("10.0.1.1/0", "10.9.1.2"), Relation::Routed, "nor does an empty one");
    assert!(matches!(relation("10.0.1.1/32", "10.0.1.2/24"), Relation::Subnet { prefix_len: 24, .. }));
    assert!(matches!(relation("10.0.1.1", "10.0.1.1"), Relation::Subnet { prefix_len: 32, .. }), "the same address");
    assert!(matches!(relation("fd00::1/64", "fd00::2/64"), Relation::Subnet { prefix_len: 64, .. }));
}

#[test]
fn loopback_is_paired_with_loopback_alone() {
    let pairing = pair(&[offer(0, "127.0.0.1/8", 0)], &[offer(0, "127.0.0.2", 0)], None);
    assert_eq!(pairing.pairs[0].relation, Relation::Loopback);
    let mixed = pair(&[offer(0, "127.0.0.1/8", 0)], &[offer(0, "10.0.0.1/24", 0)], None);
    assert_eq!(mixed.pairs, []);
    assert_eq!(mixed.unpaired_ours[0].why, "the peer offers no loopback address of its family");
    assert_eq!(pair(&[offer(0, "127.0.0.1/8", 0)], &[offer(0, "::1", 0)], None).pairs, []);
}

#[test]
fn link_local_pairs_of_one_scope() {
    let both = [link_local(0, "fe80::1", 2), link_local(1, "fe80::2", 3)];
    let pairing = pair(&both, &[link_local(0, "fe80::9", 3)], None);
    assert_eq!(rails(&pairing), [(1, 0)]);
    assert_eq!(pairing.pairs[0].relation, Relation::Link);
    let unknown = pair(&[link_local(0, "fe80::1", 0)], &[link_local(0, "fe80::9", 0)], None);
    assert_eq!(unknown.pairs, [], "every link has such addresses");
}

#[test]
fn families_do_not_meet() {
    let pairing = pair(&[offer(0, "10.0.0.1/24", 0)], &[offer(0, "fd00::1/64", 0)], None);
    assert_eq!(pairing.pairs, []);
    assert_eq!((pairing.unpaired_ours.len(), pairing.unpaired_theirs.len()), (1, 1));
}

#[test]
fn pairs_by_speed_and_then_by_node() {
    let ours = [offer(0, "10.0.0.1/24", 25), offer(1, "10.0.0.2/24", 100)];
    let theirs = [offer(0, "10.0.0.3/24", 25), offer(1, "10.0.0.4/24", 100)];
    assert_eq!(rails(&pair(&ours, &theirs, None)), [(1, 1), (0, 0)]);
    let on = |node, offer: LaneCandidate| LaneCandidate { node: Some(node), ..offer };
    let ours = [on(1, offer(0, "10.0.0.1/24", 100)), on(0, offer(1, "10.0.0.2/24", 100))];
    let theirs = [on(0, offer(0, "10.0.0.3/24", 100)), on(1, offer(1, "10.0.0.4/24", 100))];
    assert_eq!(rails(&pair(&ours, &theirs, None)), [(1, 0), (0, 1)]);
}

#[test]
fn no_early_choice_leaves_a_rail_over() {
    // Our rail 0 could pair with either rail of theirs, our rail 1 only with their rail 0, which our
    // rail 0 would take first.
    let ours = [offer(0, "10.0.1.1/24", 100), offer(0, "10.0.2.1/24", 100), offer(1, "10.0.1.9/24", 25)];
    let theirs = [offer(0, "10.0.1.2/24", 100), offer(1, "10.0.2.2/24", 25)];
    assert_eq!(rails(&pair(&ours, &theirs, None)), [(0, 1), (1, 0)]);
}

#[test]
fn a_rail_with_several_addresses_is_one_rail() {
    let ours = [offer(0, "10.0.1.1/24", 100), offer(0, "fd00:1::1/64", 100), offer(1, "10.0.2.1/24", 100)];
    let theirs = [offer(0, "10.0.1.2/24", 100), offer(0, "fd00:1::2/64", 100), offer(1, "10.0.2.2/24", 100)];
    let pairing = pair(&ours, &theirs, None);
    assert_eq!(rails(&pairing), [(0, 0), (1, 1)]);
    assert!(pairing.pairs[0].ours.ip().is_ipv4() && pairing.unpaired_ours.is_empty());
}

#[test]
fn as_many_lanes_are_paired_as_are_wished_for() {
    let ours = [offer(0, "10.0.1.1/24", 25), offer(1, "10.0.2.1/24", 100)];
    let theirs = [offer(0, "10.0.1.2/24", 25), offer(1, "10.0.2.2/24", 100)];
    let one = pair(&ours, &theirs, Some(1));
    assert_eq!(rails(&one), [(1, 1)], "the fastest rails");
    assert_eq!(one.unpaired_ours[0].why, "1 lanes were asked for, and others come first");
    assert_eq!(rails(&pair(&ours, &theirs, Some(5))), [(1, 1), (0, 0), (1, 1), (0, 0), (1, 1)]);
    assert_eq!(pair(&ours, &theirs, Some(1000)).pairs.len(), MAX_OFFERS);
}

#[test]
fn pairs_over_one_transport() {
    let over = |scheme: &str, offer: LaneCandidate| {
        let address = LaneAddress { scheme: Scheme::new(scheme).unwrap(), ..offer.address };
        LaneCandidate { address, ..offer }
    };
    let ours = [offer(0, "10.0.1.1/24", 100), offer(1, "10.0.2.1/24", 100)];
    let theirs = [over("udp", offer(0, "10.0.1.2/24", 100)), offer(1, "10.0.2.2/24", 100)];
    let pairing = pair(&ours, &theirs, None);
    assert_eq!(rails(&pairing), [(1, 1)]);
    assert_eq!(pairing.unpaired_ours[0].why, "the peer offers no address in 10.0.1.0/24");
    assert_eq!(pairing.unpaired_theirs[0].why, "this end offers no lanes over udp");
    let named = in_order(&ours, &[theirs[0].address]);
    assert!(named.pairs.iter().all(|pair| pair.ours.address.scheme == theirs[0].address.scheme), "{named}");
}

#[test]
fn addresses_that_the_caller_names_are_taken_in_order() {
    let ours = [offer(0, "fd00::1/64", 0), offer(0, "10.0.1.1/24", 0), offer(1, "10.0.2.1/24", 0)];
    let remotes: Vec<LaneAddress> =
        ["10.0.1.2:1", "10.9.2.2:1", "10.0.1.3:1"].map(|remote| remote.parse().unwrap()).into();
    let pairing = in_order(&ours, &remotes);
    let expected = [(RailId(0), remotes[0]), (RailId(1), remotes[1]), (RailId(0), remotes[2])];
    assert_eq!(pairing.lanes().collect::<Vec<_>>(), expected);
    assert_eq!(pairing.pairs[0].why, "as named by the caller; both in 10.0.1.0/24");
    assert_eq!(pairing.pairs[1].relation, Relation::Routed);
    assert_eq!(in_order(&ours, &remotes[..1]).lanes().count(), 2, "the shorter list starts over");
    assert_eq!((in_order(&[], &remotes).pairs, in_order(&ours, &[]).pairs), (vec![], vec![]));
}

#[test]
fn names_of_many_addresses_share_the_limit() {
    let limited = |lens: &[usize], max: usize| {
        let address = |name: usize, index: usize| format!("10.{name}.0.{index}:1").parse::<LaneAddress>().unwrap();
        let of = |(name, len): (usize, &usize)| (0..*len).map(|index| address(name, index)).collect::<Vec<_>>();
        let mut names: Vec<_> = lens.iter().enumerate().map(of).collect();
        let all = names.clone();
        let left_out = limit_names(&mut names, max);
        assert!(names.iter().zip(&all).all(|(left, all)| all.starts_with(left)), "the last addresses are left out");
        (names.iter().map(Vec::len).collect::<Vec<_>>(), left_out)
    };
    assert_eq!(limited(&[70], 64), (vec![64], 6));
    assert_eq!(limited(&[64], 64), (vec![64], 0));
    assert_eq!(limited(&[1, 20, 20], 16), (vec![1, 8, 7], 25));
    assert_eq!(limited(&[2, 9, 3], 8), (vec![2, 3, 3], 6));
    assert_eq!(limited(&[2, 1, 2], 2), (vec![1, 1, 1], 2), "a name keeps one address");
    assert_eq!(limited(&[], 2), (vec![], 0));
}

#[test]
fn rails_call_all_addresses_of_a_name_that_they_can() {
    let ours = [offer(0, "10.0.1.1/24", 0), offer(1, "fd00::1/64", 0)];
    let remote = |text: &str| text.parse::<LaneAddress>().unwrap();
    let (v6, v4) = (remote("[fd00::2]:1"), remote("10.0.1.2:1"));
    let pairing = in_order_by_name(&ours, &[vec![v6, v4]]);
    assert_eq!(pairing.lanes().collect::<Vec<_>>(), [(RailId(1), v6), (RailId(0), v4)]);
    assert_eq!(pairing.pairs.iter().map(|pair| pair.is_further).collect::<Vec<_>>(), [false, true]);
    let pairing = in_order_by_name(&ours[..1], &[vec![v6, v4], vec![v6]]);
    assert_eq!(
        pairing.lanes().collect::<Vec<_>>(),
        [(RailId(0), v4), (RailId(0), v6)],
        "the other has no other address"
    );
    assert!(pairing.pairs.iter().all(|pair| !pair.is_further));
}

#[test]
fn a_pairing_survives_json_and_prints_its_reasons() {
    let pairing = pair(&[offer(0, "10.0.1.1/24", 25)], &[offer(3, "10.0.1.2/24", 0), offer(4, "10.0.2.2/24", 0)], None);
    let json = serde_json::to_string(&pairing).unwrap();
    assert_eq!(serde_json::from_str::<Pairing>(&json).unwrap(), pairing);
    assert_eq!(
        pairing.to_string(),
        "lane 0   rail 0 10.0.1.1  ->  rail 3 10.0.1.2\n          \
         both in 10.0.1.0/24; 25 Gbit/s to speed unknown\n\
         no lane  rail 4 10.0.2.2 (theirs)\n          \
         this end offers no address in 10.0.2.0/24\n"
    );
}

#[test]
fn speeds_in_the_largest_unit_that_fits() {
    let speeds = [(400_000_000, "400 Mbit/s"), (2_500_000_000, "2.5 Gbit/s"), (999, "999 bit/s")];
    for (bits, words) in speeds {
        let ours = LaneCandidate { speed_bits_per_second: Some(bits), ..offer(0, "10.0.1.1/24", 0) };
        let pairing = pair(&[ours], &[offer(0, "10.0.1.2/24", 0)], None);
        assert_eq!(pairing.pairs[0].why, format!("both in 10.0.1.0/24; {words} to speed unknown"));
    }
}

/// Rails with one to three addresses in a few small subnets of both families.
fn offers() -> impl Strategy<Value = Vec<LaneCandidate>> {
    let address =
        (0..4u8, 1..200u8, any::<bool>(), prop::option::weighted(0.8, Just(()))).prop_map(|(net, host, v6, known)| {
            let (ip, bits): (IpAddr, u8) = match v6 {
                true => (std::net::Ipv6Addr::new(0xfd00, u16::from(net), 0, 0, 0, 0, 0, u16::from(host)).into(), 64),
                false => (std::net::Ipv4Addr::new(10, 0, net, host).into(), 24),
            };
            (ip, known.map(|()| bits))
        });
    let rail = (prop::collection::vec(address, 1..4), 0..3u64, prop::option::of(0..2u32));
    prop::collection::vec(rail, 0..7).prop_map(|rails| {
        let offers = rails.into_iter().enumerate().flat_map(|(rail, (addresses, speed, node))| {
            addresses.into_iter().map(move |(ip, prefix_len)| LaneCandidate {
                address: SocketAddr::new(ip, 1).into(),
                prefix_len,
                node,
                ..offer(rail, "::1", speed)
            })
        });
        offers.collect()
    })
}

/// The rails that can be paired by subnet.
fn related(ours: &[LaneCandidate], theirs: &[LaneCandidate]) -> BTreeSet<(usize, usize)> {
    let all = ours.iter().flat_map(|our| theirs.iter().map(move |their| (our, their)));
    all.filter(|(our, their)| Relation::direct(our, their).is_some())
        .map(|(our, their)| (our.rail.0, their.rail.0))
        .collect()
}

proptest! {
    #[test]
    fn maximum_matching_within_subnets(ours in offers(), theirs in offers()) {
        let pairing = pair(&ours, &theirs, None);
        let related = related(&ours, &theirs);
        if !related.is_empty() {
            prop_assert!(rails(&pairing).iter().all(|pair| related.contains(pair)));
            prop_assert!(pairing.pairs.iter().all(|pair| pair.relation != Relation::Routed));
            for (our, their) in &related {
                prop_assert!(rails(&pairing).iter().any(|pair| pair.0 == *our), "ours {} in {}", our, pairing);
                prop_assert!(rails(&pairing).iter().any(|pair| pair.1 == *their), "theirs {} in {}", their, pairing);
            }
        } else if !pairing.pairs.is_empty() {
            prop_assert!(!pairing.notes.is_empty(), "a note names the crossed subnets");
        }
        for (offers, unpaired, side) in [(&ours, &pairing.unpaired_ours, 0), (&theirs, &pairing.unpaired_theirs, 1)] {
            let paired: BTreeSet<usize> = rails(&pairing).iter().map(|pair| if side == 0 { pair.0 } else { pair.1 }).collect();
            let left: BTreeSet<usize> = unpaired.iter().map(|unpaired| unpaired.offer.rail.0).collect();
            let all: BTreeSet<usize> = offers.iter().map(|offer| offer.rail.0).collect();
            prop_assert!(paired.is_disjoint(&left));
            prop_assert_eq!(paired.union(&left).copied().collect::<BTreeSet<_>>(), all, "every rail is listed");
        }
    }

    #[test]
    fn no_second_lane_beside_a_free_rail(ours in offers(), theirs in offers(), wish in prop::option::of(1..12usize)) {
        let pairing = pair(&ours, &theirs, wish);
        let related = related(&ours, &theirs);
        let mut uses = [BTreeMap::new(), BTreeMap::new()];
        for (our, their) in rails(&pairing) {
            *uses[0].entry(our).or_insert(0) += 1;
            *uses[1].entry(their).or_insert(0) += 1;
        }
        for (our, their) in rails(&pairing).into_iter().filter(|pair| related.contains(pair)) {
            for (other_our, other_their) in &related {
                let twice = *other_our == our && uses[1][&their] > 1 && !uses[1].contains_key(other_their);
                prop_assert!(!twice, "their {} is used again, {} is free: {}", their, other_their, pairing);
                let twice = *other_their == their && uses[0][&our] > 1 && !uses[0].contains_key(other_our);
                prop_assert!(!twice, "our {} is used again, {} is free: {}", our, other_our, pairing);
            }
        }
    }

    #[test]
    fn the_order_of_the_offers_changes_nothing(
        (ours, again) in offers().prop_flat_map(|offers| (Just(offers.clone()), Just(offers).prop_shuffle())),
        (theirs, anew) in offers().prop_flat_map(|offers| (Just(offers.clone()), Just(offers).prop_shuffle())),
        wish in prop::option::of(1..12usize),
    ) {
        prop_assert_eq!(pair(&ours, &theirs, wish), pair(&again, &anew, wish));
    }
}
