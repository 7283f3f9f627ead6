use super::*;
use crate::{
    handshake::{Challenge, Credentials, Hello, Mode, Purpose, StreamId, transcript::Transcript},
    parameters::TransportParameters,
    seal::Role,
    secret::Secret,
};
use proptest::prelude::*;

const TERMS: TransportParameters = TransportParameters::one_stream(1 << 18, 1 << 24);

/// Both ends of a finished handshake, made without its messages.
fn ends(mode: Mode, ours: u8, theirs: u8, nonce: u8) -> (Joined, Proved) {
    let credentials = |byte: u8| match mode {
        Mode::Insecure => Credentials::Insecure,
        mode => Credentials::Secret { mode, secret: Secret::pre_shared(&[byte; 16]).unwrap() },
    };
    let hello = Hello {
        mode,
        purpose: Purpose::Discover,
        stream: StreamId([7; 16]),
        lane: 0,
        lanes: 0,
        parameters: TERMS,
        nonce: [nonce; 32],
    };
    let transcript = Transcript { hello, challenge: Challenge { parameters: TERMS, nonce: [9; 32] } };
    let (our, their) = (credentials(ours), credentials(theirs));
    let seals = transcript.seals(Role::Initiator, our.secret()).unwrap();
    let joined = Joined {
        parameters: TERMS,
        seals,
        joining: our,
        confirmation: None,
        peer_certificates: Vec::new(),
        transcript,
    };
    let accept = HandshakeMessage::Accepted([0; 32]);
    let proved = Proved {
        hello,
        accept,
        seals: transcript.seals(Role::Responder, their.secret()).unwrap(),
        joining: their,
        peer_name: None,
        peer_certificates: Vec::new(),
        transcript,
    };
    (joined, proved)
}

fn offer(rail: usize, address: &str) -> LaneCandidate {
    LaneCandidate {
        rail: RailId(rail),
        address: address.parse().unwrap(),
        prefix_len: Some(24),
        speed_bits_per_second: Some(100_000_000_000),
        node: Some(1),
        interface: Some("ens1f0np0".to_owned()),
    }
}

fn read(joined: &mut Joined, message: &[u8]) -> Result<Vec<LaneCandidate>, HandshakeError> {
    let prefix = *message.first_chunk().unwrap();
    let length = joined.lanes_len(&prefix)?;
    assert_eq!(message.len(), PREFIX_LEN + length, "the prefix gives the length");
    joined.lanes(&prefix, message[PREFIX_LEN..].to_vec())
}

/// The initiator's reading of an answer whose first entry was changed before it was signed, by an
/// end that knows the secret.
fn read_with(change: impl Fn(&mut [u8; ENTRY_LEN])) -> Result<Vec<LaneCandidate>, HandshakeError> {
    let (mut joined, mut proved) = ends(Mode::PreSharedKey, 1, 1, 3);
    let message = proved.lanes(&[offer(0, "10.0.0.1:1"), offer(1, "10.0.1.1:1")]);
    let mut signed = message[..message.len() - MAC_LEN].to_vec();
    change((&mut signed[PREFIX_LEN..PREFIX_LEN + ENTRY_LEN]).try_into().unwrap());
    let tag = proved.transcript.sign_lanes(&[1; 16], &signed);
    read(&mut joined, &[&signed[..], &tag].concat())
}

#[test]
fn lanes_are_told_in_every_mode() {
    let bare = LaneCandidate {
        prefix_len: None,
        speed_bits_per_second: None,
        node: None,
        interface: None,
        ..offer(2, "[fd00::1]:7575")
    };
    let offers = [offer(0, "10.0.0.1:7575"), offer(1, "10.0.1.1:7575"), bare];
    for mode in [Mode::Insecure, Mode::PreSharedKey, Mode::Encrypted, Mode::Tls] {
        let (mut joined, mut proved) = ends(mode, 1, 1, 3);
        let message = proved.lanes(&offers);
        assert_eq!(read(&mut joined, &message).unwrap(), offers, "{mode}");
        let shows = message.windows(9).any(|window| window == b"ens1f0np0");
        assert_eq!(shows, !mode.is_sealed(), "{mode}: sealed if frames are");
    }
}

#[test]
fn lanes_by_another_secret_or_replayed() {
    let offers = [offer(0, "10.0.0.1:1")];
    for (mode, error) in [
        (Mode::PreSharedKey, HandshakeError::Secret),
        (Mode::Encrypted, HandshakeError::Lanes(LanesError::Sealed)),
        (Mode::Tls, HandshakeError::Lanes(LanesError::Sealed)),
    ] {
        let (mut joined, _) = ends(mode, 1, 1, 3);
        let (_, mut stranger) = ends(mode, 1, 2, 3);
        assert_eq!(read(&mut joined, &stranger.lanes(&offers)), Err(error.clone()), "{mode}: another secret");
        let (mut joined, _) = ends(mode, 1, 1, 3);
        let (_, mut earlier) = ends(mode, 1, 1, 4);
        assert_eq!(read(&mut joined, &earlier.lanes(&offers)), Err(error), "{mode}: replayed");
    }
}

#[test]
fn a_bit_that_was_changed_is_noticed_wherever_it_is() {
    for mode in [Mode::PreSharedKey, Mode::Encrypted] {
        let (_, mut proved) = ends(mode, 1, 1, 3);
        let message = proved.lanes(&[offer(0, "10.0.0.1:1")]);
        for at in PREFIX_LEN..message.len() {
            let (mut joined, _) = ends(mode, 1, 1, 3);
            let mut changed = message.clone();
            changed[at] ^= 1;
            assert!(read(&mut joined, &changed).is_err(), "{mode}: byte {at}");
        }
    }
}

/// The count may be changed to any number, and the reader then takes the proof from another place.
#[test]
fn a_list_that_was_cut_short_is_refused() {
    let offers = [offer(0, "10.0.0.1:1"), offer(1, "10.0.1.1:1"), offer(2, "10.0.2.1:1")];
    for mode in [Mode::Insecure, Mode::PreSharedKey, Mode::Encrypted, Mode::Tls] {
        let (_, mut proved) = ends(mode, 1, 1, 3);
        let message = proved.lanes(&offers);
        for count in 1..3u8 {
            let (joined, _) = ends(mode, 1, 1, 3);
            let left = PREFIX_LEN + usize::from(count) * ENTRY_LEN;
            let mut shorter = message.clone();
            shorter[7] = count;
            let end = PREFIX_LEN + joined.lanes_len(shorter.first_chunk().unwrap()).unwrap();
            let cut = shorter[..end].to_vec();
            shorter.drain(left..PREFIX_LEN + 3 * ENTRY_LEN);
            for shorter in [shorter, cut] {
                let (mut joined, _) = ends(mode, 1, 1, 3);
                assert!(read(&mut joined, &shorter).is_err(), "{mode}: {count} of 3 lanes");
            }
        }
        let (joined, _) = ends(mode, 1, 1, 3);
        let said = joined.lanes_len(message.first_chunk().unwrap()).unwrap();
        assert_eq!(said, message.len() - PREFIX_LEN, "{mode}: a reader waits for the last byte");
    }
}

#[test]
fn bounds_of_the_number_of_lanes() {
    let (joined, mut proved) = ends(Mode::PreSharedKey, 1, 1, 3);
    let mut prefix: [u8; PREFIX_LEN] = *proved.lanes(&[offer(0, "10.0.0.1:1")]).first_chunk().unwrap();
    for (count, longest) in [(0, None), (1, Some(100)), (64, Some(64 * 68 + 32)), (65, None), (255, None)] {
        prefix[7] = count;
        let expected = longest.ok_or(HandshakeError::Lanes(LanesError::Count(count)));
        assert_eq!(joined.lanes_len(&prefix), expected);
    }
    prefix[5] = 3;
    assert_eq!(joined.lanes_len(&prefix), Err(HandshakeError::Disorder), "another message");
    assert!(matches!(joined.lanes_len(b"GET / HT"), Err(HandshakeError::NotRails { .. })));
}

#[test]
fn entries_that_cannot_be_are_refused_by_name() {
    let expect = |change: fn(&mut [u8; ENTRY_LEN]), error| {
        assert_eq!(read_with(change), Err(HandshakeError::Lanes(error)));
    };
    let ip: IpAddr = "10.0.0.1".parse().unwrap();
    assert!(read_with(|_| {}).is_ok());
    expect(|entry| entry[2] = 5, LanesError::Family(5));
    expect(|entry| entry[3] = 33, LanesError::Prefix { ip, prefix_len: 33 });
    expect(|entry| entry[4..6].fill(0), LanesError::Port(ip));
    expect(|entry| entry[7] = 1, LanesError::Padding);
    expect(|entry| entry[24] = 1, LanesError::Padding);
    expect(|entry| entry[20..24].fill(0), LanesError::Address("0.0.0.0".parse().unwrap()));
    expect(|entry| entry[20] = 224, LanesError::Address("224.0.0.1".parse().unwrap()));
    expect(|entry| entry[22] = 1, LanesError::Repeated("10.0.1.1:1".parse().unwrap()));
    expect(|entry| entry[36] = 0x1b, LanesError::Name);
    expect(|entry| entry[36..52].fill(b'x'), LanesError::Name);
    expect(|entry| entry[51] = b'x', LanesError::Name);
    expect(|entry| entry[52] = b'T', LanesError::Scheme);
    expect(|entry| entry[52..].fill(0), LanesError::Scheme);
    expect(|entry| entry[52..].fill(b'x'), LanesError::Scheme);
    expect(|entry| entry[67] = b'x', LanesError::Scheme);
    expect(
        |entry| {
            entry[2] = 6;
            entry[20..36].copy_from_slice(&"::ffff:10.0.0.1".parse::<Ipv6Addr>().unwrap().octets());
        },
        LanesError::Address("::ffff:10.0.0.1".parse().unwrap()),
    );
}

proptest! {
    #[test]
    fn no_entry_makes_the_reader_panic(entry in prop::collection::vec(any::<u8>(), ENTRY_LEN), family in prop::sample::select(vec![4u8, 6])) {
        let mut entry: [u8; ENTRY_LEN] = entry.try_into().unwrap();
        entry[2] = family;
        for entry in [entry, { entry[6..8].fill(0); entry[36..52].fill(0); entry[52..].copy_from_slice(&Scheme::TCP.to_padded()); entry }] {
            if let Ok(offer) = decode(&entry) {
                let mut again = Vec::new();
                encode(&offer, &mut again);
                prop_assert_eq!(&again[..], &entry[..]);
            }
        }
    }
}
