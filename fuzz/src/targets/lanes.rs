//! An end's list of its lanes: it is sent to the peer, and the peer pairs the lanes.

use super::handshake::{TERMS, hello};
use crate::script::Script;
use rails_multirail::{LaneAddress, LaneCandidate, RailId, Scheme};
use rails_proto::{
    handshake::{
        Credentials, HandshakeError, HandshakeMessage, Hello, Initiator, InitiatorStep, Joined, Mode, PREFIX_LEN,
        Proved, Purpose, Responder, ResponderStep,
    },
    pairing::{MAX_OFFERS, pair, pair_with_contact},
    secret::Secret,
};
use std::{
    collections::HashSet,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

/// One answer, which is changed, cut off or forged on its way. The peer reads an unchanged answer
/// as it was sent, and refuses every other, because the proof covers all of it.
pub(crate) fn exchange(data: &[u8]) {
    let mut script = Script::new(data);
    let mode = [Mode::Insecure, Mode::PreSharedKey, Mode::Encrypted][usize::from(script.byte()) % 3];
    let (mut joined, mut proved) = asked(mode);
    let mut offers: Vec<LaneCandidate> = (0..=script.byte() % 16).map(|_| offer(&mut script)).collect();
    let mut seen = HashSet::new();
    offers.retain(|offer| seen.insert(offer.address));
    let said = proved.lanes(&offers);
    let mut heard = said.clone();
    match script.byte() % 4 {
        0 => {}
        1 => {
            let at = script.number() as usize % heard.len();
            heard[at] ^= script.byte();
        }
        2 => heard.truncate(script.number() as usize % heard.len()),
        _ => {
            let from = script.number() as usize % heard.len();
            heard.splice(from.., script.rest().iter().copied());
        }
    }
    match read(&mut joined, &heard) {
        Some(Ok(list)) => assert!(heard.starts_with(&said) && list == offers, "{list:?} of {offers:?}"),
        Some(Err(error)) => assert!(!heard.starts_with(&said), "an unchanged answer is refused: {error}"),
        None => assert!(!heard.starts_with(&said), "the reader waits for more than was sent"),
    }
}

/// Reads the answer as the driver does; `None` if the bytes end before the message does.
fn read(joined: &mut Joined, heard: &[u8]) -> Option<Result<Vec<LaneCandidate>, HandshakeError>> {
    let prefix: &[u8; PREFIX_LEN] = heard.first_chunk()?;
    let length = match joined.lanes_len(prefix) {
        Ok(length) => length,
        Err(error) => return Some(Err(error)),
    };
    assert!(length <= LONGEST, "the reader would take {length} bytes");
    let body = heard.get(PREFIX_LEN..PREFIX_LEN + length)?;
    Some(joined.lanes(prefix, body.to_vec()))
}

/// Both ends of a successful handshake for a question.
fn asked(mode: Mode) -> (Joined, Proved) {
    let credentials = match mode {
        Mode::Insecure => Credentials::Insecure,
        mode => Credentials::Secret {
            mode,
            secret: Secret::pre_shared(b"nobody can guess this").expect("the secret is long enough"),
        },
    };
    let question = Hello { purpose: Purpose::Discover, lanes: 0, ..hello(mode) };
    let (mut initiator, first) = Initiator::start(credentials.clone(), question);
    let HandshakeMessage::Hello(heard) = first else { panic!("the handshake begins with a hello") };
    let (mut responder, challenge) =
        Responder::start(credentials, heard, TERMS, [9; 32]).expect("the modes are the same");
    let Ok(InitiatorStep::Send(proof)) = initiator.handle(challenge) else { panic!("the initiator knows the secret") };
    let Some(Ok(ResponderStep::Proved(proved))) = proof.into_iter().next().map(|proof| responder.handle(proof)) else {
        panic!("the proof is right");
    };
    let Ok(InitiatorStep::Joined(joined)) = initiator.handle(proved.accept.clone()) else {
        panic!("the answer is right too")
    };
    (*joined, *proved)
}

pub(crate) fn exchanges() -> Vec<Vec<u8>> {
    let two = [&[1][..], &SEED_OFFERS[0], &SEED_OFFERS[1]].concat();
    let ends: [&[u8]; 4] = [&[0], &[1, 60, 1], &[2, 100], &[3, 8, 0, 1, 4, 24]];
    let of_mode = |mode: u8| ends.map(|end| [&[mode][..], &two, end].concat());
    (0..3).flat_map(of_mode).collect()
}

/// Entries of such a message by themselves: each entry that is read is written as the same bytes.
pub(crate) fn entries(data: &[u8]) {
    rails_proto::fuzzing::lane_entries(data);
}

pub(crate) fn lists() -> Vec<Vec<u8>> {
    let offers: Vec<LaneCandidate> = SEED_OFFERS.iter().map(|bytes| offer(&mut Script::new(bytes))).collect();
    vec![rails_proto::fuzzing::lane_entries_of(&offers[..1]), rails_proto::fuzzing::lane_entries_of(&offers)]
}

pub(crate) const ENTRY_WORDS: &[&str] = &["\u{4}\u{18}", "\u{6}@", "eth0", "ens1f0np0"];

/// Any two lists: every paired address was offered, each rail of both ends is paired or left over,
/// and the order of the lists changes nothing. Behind an address translation, too, an end calls
/// only addresses that the peer named or that it asked.
pub(crate) fn pairing(data: &[u8]) {
    let mut script = Script::new(data);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let wish = Some(usize::from(script.byte())).filter(|wish| *wish > 0);
    let (contact, from) = (offer(&mut script).address, offer(&mut script).address);
    while let Some(step) = script.step() {
        let side = if step & 1 == 0 { &mut ours } else { &mut theirs };
        if side.len() < MAX_OFFERS {
            side.push(offer(&mut script));
        }
    }
    let pairing = pair(&ours, &theirs, wish);
    assert!(pairing.pairs.len() <= wish.unwrap_or(MAX_OFFERS).min(MAX_OFFERS), "{pairing}");
    for pair in &pairing.pairs {
        assert!(ours.contains(&pair.ours) && theirs.contains(&pair.theirs), "{pairing}");
    }
    let rails = |offers: &[LaneCandidate]| offers.iter().map(|offer| offer.rail).collect::<HashSet<RailId>>();
    let (paired, left): (Vec<_>, Vec<_>) = (
        pairing.pairs.iter().map(|pair| (pair.ours.rail, pair.theirs.rail)).collect(),
        [&pairing.unpaired_ours, &pairing.unpaired_theirs]
            .map(|unpaired| unpaired.iter().map(|one| one.offer.rail).collect::<HashSet<_>>())
            .into(),
    );
    let told: [HashSet<RailId>; 2] = [
        paired.iter().map(|pair| pair.0).chain(left[0].iter().copied()).collect(),
        paired.iter().map(|pair| pair.1).chain(left[1].iter().copied()).collect(),
    ];
    assert_eq!(told, [rails(&ours), rails(&theirs)], "{pairing}");
    let asked = pair_with_contact(ours.clone(), theirs.clone(), contact, from.socket);
    let addresses: HashSet<LaneAddress> = theirs.iter().map(|offer| offer.address).chain([contact]).collect();
    assert!(asked.lanes().all(|(_, address)| addresses.contains(&address)), "{asked}");
    ours.reverse();
    theirs.reverse();
    assert_eq!(pair(&ours, &theirs, wish), pairing);
}

pub(crate) fn offers_of_both() -> Vec<Vec<u8>> {
    let [one, two, three] = SEED_OFFERS;
    let contact = [&[0][..], &one, &two].concat();
    vec![
        [&contact[..], &[0], &one, &[1], &two, &[0], &three, &[1], &three].concat(),
        [&contact[..], &[0], &one, &[1], &one, &[1], &two, &[1], &three].concat(),
        [&contact[..], &[0], &two, &[1], &three].concat(),
    ]
}

/// An offer that a list can hold: few networks, so that the ends share some.
fn offer(script: &mut Script<'_>) -> LaneCandidate {
    let (flags, net, host) = (script.byte(), script.byte(), script.byte().max(1));
    let (ip, bits): (IpAddr, u8) = match flags & 3 {
        0 | 1 => (Ipv4Addr::new(10, 0, net % 4, host).into(), 24),
        2 => (Ipv6Addr::new(0xfd00, (net % 4).into(), 0, 0, 0, 0, 0, host.into()).into(), 64),
        _ => (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, net.into(), host.into()).into(), 64),
    };
    let prefix_len = match flags >> 2 & 3 {
        0 => None,
        1 => Some(script.byte() % (bits + 1)),
        _ => Some(bits),
    };
    LaneCandidate {
        rail: RailId(usize::from(script.byte() % 8)),
        address: LaneAddress {
            scheme: if flags & 64 == 0 { Scheme::TCP } else { Scheme::new("udp").expect("the name is valid") },
            socket: SocketAddr::new(ip, 1 + u16::from(script.byte() % 2)),
        },
        prefix_len,
        speed_bits_per_second: Some(u64::from(script.byte() % 4))
            .filter(|gbps| *gbps > 0)
            .map(|gbps| gbps * 1_000_000_000),
        node: (flags & 16 != 0).then(|| script.byte().into()),
        interface: (flags & 32 != 0).then(|| format!("eth{}", net % 4)),
    }
}

/// 10.0.1.2/24 of rail 0, fd00:2::9/64 of rail 1 with all optional fields, and fe80::1:3 of rail 2
/// with none.
const SEED_OFFERS: [[u8; 7]; 3] =
    [[0b1000, 1, 2, 0, 1, 0, 0], [0b11_1010, 2, 9, 1, 0, 3, 1], [0b0011, 1, 3, 2, 0, 1, 0]];
/// 64 entries, the proof and a tag.
const LONGEST: usize = 64 * 68 + 32 + 16;
