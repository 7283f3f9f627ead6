use super::*;
use proptest::prelude::*;

fn stranger(number: u32) -> IpAddr {
    IpAddr::from((0x7f01_0000 + number).to_be_bytes())
}

fn enter(handshakes: &mut Handshakes<u32>, peer: IpAddr, is_familiar: bool) -> HandshakeId {
    match handshakes.enter(peer, is_familiar, 0) {
        Entry::Free(id) | Entry::Evicting { id, .. } => id,
        Entry::Refused(limit) => panic!("{limit}"),
    }
}

/// Lets a flood of mute peers in, and checks that the `kept` connections are still there.
fn outlast(handshakes: &mut Handshakes<u32>, kept: &[HandshakeId], flood: impl Iterator<Item = IpAddr>) {
    for peer in flood {
        enter(handshakes, peer, false);
        assert!(kept.iter().all(|id| handshakes.pending.contains_key(id)), "{peer} displaced another");
    }
}

#[test]
fn ipv6_is_counted_by_network() {
    let origin = |text: &str| Origin::of(text.parse().unwrap());
    assert_eq!(origin("2001:db8:0:1::1"), origin("2001:db8:0:1:ffff::2"));
    assert_ne!(origin("2001:db8:0:1::1"), origin("2001:db8:0:2::1"));
    assert_ne!(origin("fe80::1"), origin("fe80::2"), "hosts of one link");
    assert_eq!(origin("::ffff:10.0.0.1"), origin("10.0.0.1"), "the same, written as IPv6");
    assert_ne!(origin("10.0.0.1"), origin("10.0.0.2"));
}

#[test]
fn mute_peers_of_one_origin_displace_each_other() {
    let mut handshakes = Handshakes::new(256, 64);
    let honest = enter(&mut handshakes, stranger(1), false);
    outlast(&mut handshakes, &[honest], std::iter::repeat_n(stranger(2), 1000));
    assert_eq!(handshakes.len(), 65);
    let next = handshakes.enter(stranger(2), false, 3);
    assert!(matches!(next, Entry::Evicting { limit: Limit::PeerHandshakes, .. }), "{next:?}");
}

#[test]
fn those_who_speak_outlast_mute_peers() {
    let mut handshakes = Handshakes::new(256, 64);
    let honest = enter(&mut handshakes, stranger(1), false);
    handshakes.heard(honest, Standing::Greeted);
    outlast(&mut handshakes, &[honest], std::iter::repeat_n(stranger(1), 1000));
    outlast(&mut handshakes, &[honest], (0..1000).map(stranger));
    assert_eq!(handshakes.len(), 256);
    let next = handshakes.enter(stranger(2000), false, 3);
    assert!(matches!(next, Entry::Evicting { limit: Limit::Handshakes, .. }), "{next:?}");
}

#[test]
fn lanes_of_a_known_peer_have_places_for_themselves() {
    let mut handshakes = Handshakes::new(256, 64);
    outlast(&mut handshakes, &[], (0..1000).map(stranger));
    let lanes: Vec<_> = (0..64).map(|_| enter(&mut handshakes, stranger(5000), true)).collect();
    outlast(&mut handshakes, &lanes, (0..1000).map(stranger));
}

/// A peer that has just come has sent nothing, since no task has read from it yet.
#[test]
fn newcomers_outlast_peers_that_speak_and_stop() {
    let mut handshakes = Handshakes::new(256, 64);
    let greeted = |handshakes: &mut Handshakes<u32>, number| {
        let id = enter(handshakes, stranger(number), false);
        handshakes.heard(id, Standing::Greeted);
    };
    (0..1000).for_each(|number| greeted(&mut handshakes, number));
    let honest = enter(&mut handshakes, stranger(5000), false);
    (0..1000).for_each(|number| greeted(&mut handshakes, number));
    assert!(handshakes.pending.contains_key(&honest));
    let named = enter(&mut handshakes, stranger(5000), false);
    handshakes.heard(named, Standing::Member);
    (0..1000).for_each(|number| greeted(&mut handshakes, number));
    assert!(handshakes.pending.contains_key(&named));
}

#[test]
fn a_limit_of_one_admits_each_newcomer() {
    let mut handshakes = Handshakes::new(1, 1);
    let first = enter(&mut handshakes, stranger(1), false);
    handshakes.heard(first, Standing::Member);
    let second = enter(&mut handshakes, stranger(2), false);
    assert!(handshakes.pending.contains_key(&second) && handshakes.len() == 1);
}

fn prove(handshakes: &mut Handshakes<u32>, number: u32) -> HandshakeId {
    let id = enter(handshakes, stranger(number), false);
    handshakes.heard(id, Standing::Proved);
    id
}

#[test]
fn proved_peers_make_no_room_for_their_origin() {
    let mut handshakes = Handshakes::new(8, 4);
    let first: Vec<_> = (0..4).map(|_| prove(&mut handshakes, 1)).collect();
    assert_eq!(handshakes.enter(stranger(1), false, 0), Entry::Refused(Limit::PeerHandshakes));
    outlast(&mut handshakes, &first, (0..100).map(|number| stranger(10 + number)));
    assert_eq!(handshakes.leave(first[0]), Some(0));
    outlast(&mut handshakes, &first[1..], std::iter::once(stranger(1)));
}

#[test]
fn one_proved_peer_of_each_origin_makes_no_room() {
    let mut handshakes = Handshakes::new(8, 4);
    let proved: Vec<_> = (0..8).map(|number| prove(&mut handshakes, number)).collect();
    assert_eq!(handshakes.enter(stranger(10), false, 0), Entry::Refused(Limit::Handshakes));
    assert_eq!(handshakes.leave(proved[0]), Some(0));
    outlast(&mut handshakes, &proved[1..], (10..100).map(stranger));
}

/// Peers that prove themselves and go no further, as any peer can where no secret is needed.
#[test]
fn origins_of_proved_peers_keep_no_other_out() {
    let mut handshakes = Handshakes::new(256, 64);
    for number in 1..=4 {
        (0..64).for_each(|_| _ = prove(&mut handshakes, number));
    }
    assert_eq!(handshakes.len(), 256);
    let others: Vec<_> = (0..32).map(|number| prove(&mut handshakes, 100 + number)).collect();
    let mute = enter(&mut handshakes, stranger(200), false);
    for round in 0..1000 {
        let flood = handshakes.enter(stranger(1 + round % 4), false, 0);
        if let Entry::Free(id) | Entry::Evicting { id, .. } = flood {
            handshakes.heard(id, Standing::Proved);
        }
        assert!(others.iter().chain([&mute]).all(|id| handshakes.pending.contains_key(id)), "{flood:?}");
    }
}

#[derive(Debug, Clone)]
enum Step {
    Enter { peer: u32, is_familiar: bool },
    Heard { index: usize, standing: Standing },
    Leave { index: usize },
}

fn step() -> impl Strategy<Value = Step> {
    let standing =
        prop_oneof![Just(Standing::Mute), Just(Standing::Greeted), Just(Standing::Member), Just(Standing::Proved)];
    prop_oneof![
        4 => (0..8u32, any::<bool>()).prop_map(|(peer, is_familiar)| Step::Enter { peer, is_familiar }),
        2 => (0..40usize, standing).prop_map(|(index, standing)| Step::Heard { index, standing }),
        1 => (0..40usize).prop_map(|index| Step::Leave { index }),
    ]
}

proptest! {
    #[test]
    fn limits_hold_and_shares_are_kept(
        steps in prop::collection::vec(step(), 1..60), max in 1..14usize, of_origin in 1..14usize
    ) {
        let mut handshakes: Handshakes<u32> = Handshakes::new(max, of_origin);
        let mut entered = Vec::new();
        for step in steps {
            match step {
                Step::Enter { peer, is_familiar } => {
                    let newcomer = Origin::of(stranger(peer));
                    let before = handshakes.pending.clone();
                    let (id, limit) = match handshakes.enter(stranger(peer), is_familiar, 0) {
                        Entry::Free(id) => (id, None),
                        Entry::Evicting { id, limit, .. } => (id, Some(limit)),
                        Entry::Refused(_) => continue,
                    };
                    entered.push(id);
                    let gone: Vec<_> =
                        before.iter().filter(|(id, _)| !handshakes.pending.contains_key(id)).collect();
                    prop_assert_eq!(gone.len(), usize::from(limit.is_some()));
                    let (Some(limit), Some((_, gone))) = (limit, gone.first()) else { continue };
                    let limited = if limit == Limit::Handshakes { max } else { of_origin };
                    let shares = |pending: &&Pending<_>| limit == Limit::Handshakes || pending.origin == newcomer;
                    let of = |standing: Standing| {
                        let same = move |pending: &&Pending<_>| pending.standing == standing;
                        before.values().filter(shares).filter(same)
                    };
                    if gone.standing == Standing::Proved {
                        let of_gone = of(Standing::Proved).filter(|other| other.origin == gone.origin).count();
                        let of_newcomer = before.values().filter(|other| other.origin == newcomer).count();
                        prop_assert!(of_gone > of_newcomer + 1, "an origin made room for one that has as much");
                        prop_assert!(of(Standing::Proved).count() > limited - limited.div_ceil(SHARES));
                        continue;
                    }
                    prop_assert!(
                        of(gone.standing).count() >= limited / SHARES || of(Standing::Proved).count() > 0,
                        "one within its share made room"
                    );
                }
                Step::Heard { index, standing } => {
                    if let Some(id) = entered.get(index) {
                        handshakes.heard(*id, standing);
                    }
                }
                Step::Leave { index } => {
                    if let Some(id) = entered.get(index) {
                        handshakes.leave(*id);
                    }
                }
            }
            prop_assert!(handshakes.len() <= max);
            let mut by_origin: HashMap<Origin, usize> = HashMap::new();
            handshakes.pending.values().for_each(|pending| *by_origin.entry(pending.origin).or_default() += 1);
            prop_assert!(by_origin.values().all(|count| *count <= of_origin));
        }
    }
}
