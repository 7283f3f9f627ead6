use super::{
    tls::{CertificateFault, CertificateRefusal},
    *,
};
use crate::{
    parameters::{StreamParameters, TransportParameters},
    seal::Seals,
    secret::{PeerSecrets, Secret},
    security::{Identity, Security, TlsClient, TlsServer},
    wire::FRAME_LEN,
};

const TERMS: TransportParameters = TransportParameters::one_stream(1 << 18, 1 << 24);

fn secret(byte: u8) -> Secret {
    Secret::pre_shared(&[byte; 16]).unwrap()
}

fn psk(byte: u8) -> Credentials {
    Credentials::Secret { mode: Mode::PreSharedKey, secret: secret(byte) }
}

fn encrypted(byte: u8) -> Credentials {
    Credentials::Secret { mode: Mode::Encrypted, secret: secret(byte) }
}

/// The secrets of the peers `alpha` (1), `beta` (2) and `gamma` (3), at the responder.
fn of_peers(mode: Mode) -> Credentials {
    let secrets = PeerSecrets::new([("alpha", secret(1)), ("beta", secret(2)), ("gamma", secret(3))]).unwrap();
    Credentials::Secrets { mode, secrets }
}

fn hello(purpose: Purpose) -> Hello {
    Hello {
        mode: Mode::Insecure,
        purpose,
        stream: StreamId([7; 16]),
        lane: 1,
        lanes: 2,
        parameters: TERMS,
        nonce: [3; 32],
    }
}

/// A self-signed certificate for `rails.example`, and its key, as PEM.
fn certificate() -> (String, String) {
    let made = rcgen::generate_simple_self_signed(["rails.example".to_owned()]).unwrap();
    (made.cert.pem(), made.signing_key.serialize_pem())
}

/// As [`certificate`], but for this change.
fn made(change: impl FnOnce(&mut rcgen::CertificateParams)) -> (String, String) {
    let mut params = rcgen::CertificateParams::new(["rails.example".to_owned()]).unwrap();
    change(&mut params);
    let key = rcgen::KeyPair::generate().unwrap();
    (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
}

fn identity((certificate, key): &(String, String)) -> Identity {
    Identity::from_pem(certificate.as_bytes(), key.as_bytes()).unwrap()
}

fn server(pem: &(String, String)) -> Credentials {
    Security::tls_server(TlsServer::new(identity(pem)).unwrap()).responder().unwrap()
}

fn client(client: TlsClient) -> Credentials {
    Security::tls_client(client).initiator().unwrap()
}

fn pinned(pem: &(String, String)) -> Credentials {
    client(TlsClient::pinned(identity(pem).pin().unwrap()).unwrap())
}

/// Encodes a message and decodes it again, as on the wire.
fn wired(message: &HandshakeMessage) -> HandshakeMessage {
    let bytes = message.encode();
    let prefix = *bytes.first_chunk().unwrap();
    assert_eq!(bytes.len() - PREFIX_LEN, HandshakeMessage::body_len(&prefix).unwrap());
    HandshakeMessage::decode(&prefix, &bytes[PREFIX_LEN..]).unwrap()
}

/// Drives both ends of one handshake to its end. An error names the role of the end that found it.
fn join_as(
    ours: Credentials,
    theirs: Credentials,
    purpose: Purpose,
) -> Result<(Joined, Proved), (char, HandshakeError)> {
    join_through(ours, theirs, purpose, |_, message| message)
}

/// As [`join_as`], with `between` on the way: it learns which end sends.
fn join_through(
    ours: Credentials,
    theirs: Credentials,
    purpose: Purpose,
    mut between: impl FnMut(char, HandshakeMessage) -> HandshakeMessage,
) -> Result<(Joined, Proved), (char, HandshakeError)> {
    let (mut initiator, first) = Initiator::start(ours, hello(purpose));
    let HandshakeMessage::Hello(hello) = between('i', wired(&first)) else { panic!("a hello comes first") };
    let (mut responder, challenge) = Responder::start(theirs, hello, TERMS, [9; 32]).map_err(|error| ('r', error))?;
    let mut to_initiator = vec![challenge];
    let mut proved = None;
    for _ in 0..20 {
        let mut to_responder = Vec::new();
        for message in to_initiator.drain(..) {
            match initiator.handle(between('r', wired(&message))).map_err(|error| ('i', error))? {
                InitiatorStep::Send(messages) => to_responder.extend(messages),
                InitiatorStep::Joined(joined) => return Ok((*joined, proved.expect("an accepted lane"))),
            }
        }
        for message in to_responder {
            match responder.handle(between('i', wired(&message))).map_err(|error| ('r', error))? {
                ResponderStep::Send(messages) => to_initiator.extend(messages),
                ResponderStep::Proved(accepted) => {
                    to_initiator.push(accepted.accept.clone());
                    proved = Some(*accepted);
                }
            }
        }
    }
    panic!("the handshake does not end");
}

#[test]
fn a_session_is_opened_as_a_stream_is() {
    let parameters =
        TransportParameters { streams: Some(StreamParameters { window: 9, max_bi: 3, max_uni: 2 }), ..TERMS };
    for (credentials, is_early) in [(Credentials::Insecure, true), (psk(1), false), (encrypted(1), true)] {
        let asked = Hello { parameters, ..hello(Purpose::OpenSession) };
        let (mut initiator, first) = Initiator::start(credentials.clone(), asked);
        let HandshakeMessage::Hello(asked) = wired(&first) else { panic!("a hello comes first") };
        let (mut responder, challenge) = Responder::start(credentials.clone(), asked, parameters, [9; 32]).unwrap();
        let InitiatorStep::Send(proof) = initiator.handle(wired(&challenge)).unwrap() else { panic!("a proof comes") };
        let ResponderStep::Proved(proved) = responder.handle(wired(&proof[0])).unwrap() else { panic!("it is right") };
        let joined = match initiator.into_early() {
            Ok(early) if is_early => early.joined,
            Err(mut late) if !is_early => match late.handle(wired(&proved.accept)).unwrap() {
                InitiatorStep::Joined(joined) => *joined,
                step => panic!("{step:?}"),
            },
            other => panic!("{other:?}"),
        };
        assert_eq!(joined.parameters, parameters);
        proved.confirm(&joined.confirmation.expect("the lane opens a session")).unwrap();
        let (mut initiator, _) = Initiator::start(credentials, Hello { parameters, ..hello(Purpose::OpenSession) });
        let of_one_stream = HandshakeMessage::Challenge(Challenge { parameters: TERMS, nonce: [9; 32] });
        let refused = initiator.handle(of_one_stream).unwrap_err();
        assert_eq!(refused, HandshakeError::Field { field: "window of a stream", value: 0 });
    }
}

fn join(ours: Credentials, theirs: Credentials) -> Result<(), HandshakeError> {
    let joined = join_as(ours, theirs, Purpose::Open).map_err(|(_, error)| error)?;
    assert_eq!(joined.0.parameters, TERMS);
    assert_eq!(joined.1.hello.stream, StreamId([7; 16]));
    Ok(())
}

/// Whether both ends have the same keys.
fn agree(near: Option<Seals>, far: Option<Seals>) -> bool {
    let (mut near, mut far) = (near.expect("sealed frames"), far.expect("sealed frames"));
    let there = far.opener.header(near.sealer.seal(&[5; FRAME_LEN], &[]).first_chunk().unwrap());
    let back = near.opener.header(far.sealer.seal(&[6; FRAME_LEN], &[]).first_chunk().unwrap());
    there == Ok([5; FRAME_LEN]) && back == Ok([6; FRAME_LEN])
}

/// Drives the handshake of a lane that opens a stream until the initiator gives out its proof.
/// Gives the initiator, the proof, and the responder, which has not had the proof.
fn up_to_proof(ours: Credentials, theirs: Credentials) -> (Initiator, HandshakeMessage, Responder) {
    let (mut initiator, first) = Initiator::start(ours, hello(Purpose::Open));
    let HandshakeMessage::Hello(hello) = first else { panic!("a hello comes first") };
    let (mut responder, challenge) = Responder::start(theirs, hello, TERMS, [9; 32]).unwrap();
    let mut to_initiator = vec![challenge];
    for _ in 0..20 {
        for message in std::mem::take(&mut to_initiator) {
            let InitiatorStep::Send(mut messages) = initiator.handle(message).unwrap() else { panic!() };
            let proof = initiator.has_proved().then(|| messages.pop().unwrap());
            for message in messages {
                let ResponderStep::Send(answers) = responder.handle(message).unwrap() else { panic!() };
                to_initiator.extend(answers);
            }
            if let Some(proof) = proof {
                return (initiator, proof, responder);
            }
        }
    }
    panic!("the handshake does not end");
}

fn proved(responder: &mut Responder, proof: HandshakeMessage) -> Proved {
    match responder.handle(proof) {
        Ok(ResponderStep::Proved(proved)) => *proved,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_lane_is_ready_before_it_is_accepted() {
    let pem = certificate();
    for (ours, theirs) in
        [(Credentials::Insecure, Credentials::Insecure), (encrypted(1), encrypted(1)), (pinned(&pem), server(&pem))]
    {
        let mode = ours.mode();
        let (initiator, proof, mut responder) = up_to_proof(ours, theirs);
        let EarlyLane { joined, mut acceptance } = initiator.into_early().expect("frames need not wait");
        let proved = proved(&mut responder, wired(&proof));
        proved.confirm(&wired(&joined.confirmation.unwrap())).unwrap();
        acceptance.check(&wired(&proved.accept)).unwrap();
        assert_eq!(joined.parameters, TERMS);
        assert_eq!(joined.seals.is_some(), mode.is_sealed());
        assert!(!mode.is_sealed() || agree(joined.seals, proved.seals), "{mode}");
    }
}

#[test]
fn frames_that_an_impostor_could_read_wait() {
    let (initiator, proof, mut responder) = up_to_proof(psk(1), psk(1));
    let mut initiator = initiator.into_early().expect_err("the responder has proved nothing");
    let accept = proved(&mut responder, proof).accept;
    assert!(matches!(initiator.handle(accept), Ok(InitiatorStep::Joined(_))), "it goes on as if it had not asked");
    // A lane that joins has the proof of its stream's responder, and its own answer comes before
    // frames.
    let (mut initiator, first) = Initiator::start(encrypted(1), hello(Purpose::Join));
    let HandshakeMessage::Hello(hello) = first else { panic!() };
    let (_, challenge) = Responder::start(encrypted(1), hello, TERMS, [9; 32]).unwrap();
    initiator.handle(challenge).unwrap();
    assert!(initiator.has_proved() && initiator.into_early().is_err());
    let (initiator, _) = Initiator::start(Credentials::Insecure, self::hello(Purpose::Open));
    assert!(!initiator.has_proved() && initiator.into_early().is_err(), "it has no challenge");
}

#[test]
fn an_early_lane_hears_of_refusal_and_impostor() {
    let early = || up_to_proof(encrypted(1), encrypted(2)).0.into_early().unwrap().acceptance;
    let check = |answer: HandshakeMessage| early().check(&wired(&answer)).unwrap_err();
    for refusal in [Refusal::Secret, Refusal::Busy(Limit::Waiting), Refusal::UnknownStream] {
        assert_eq!(check(HandshakeMessage::Refused(refusal)), HandshakeError::Refused(refusal));
    }
    let refused = check(HandshakeMessage::Refused(Refusal::Mode(Mode::Tls)));
    assert_eq!(refused, HandshakeError::Mode { ours: Mode::Encrypted, theirs: Mode::Tls });
    assert_eq!(check(HandshakeMessage::Accepted([0; 32])), HandshakeError::Secret);
    assert_eq!(check(HandshakeMessage::Confirmed([0; 32])), HandshakeError::Disorder);
    let (_, proof, mut responder) = up_to_proof(encrypted(1), encrypted(2));
    assert!(matches!(responder.handle(proof), Err(HandshakeError::Secret)));
}

/// A proof, a confirmation and frames fit the one nonce of the responder that they were made for.
#[test]
fn an_early_lane_cannot_be_replayed() {
    let (initiator, proof, mut first) = up_to_proof(encrypted(1), encrypted(1));
    let joined = initiator.into_early().unwrap().joined;
    proved(&mut first, proof.clone());
    let restart = || {
        let hello = Hello { mode: Mode::Encrypted, ..hello(Purpose::Open) };
        Responder::start(encrypted(1), hello, TERMS, [10; 32]).unwrap()
    };
    let (mut responder, challenge) = restart();
    assert!(matches!(responder.handle(proof), Err(HandshakeError::Secret)));
    // Even with a proof that fits.
    let (mut fresh, _) = Initiator::start(encrypted(1), hello(Purpose::Open));
    let Ok(InitiatorStep::Send(messages)) = fresh.handle(challenge) else { panic!() };
    let proved = proved(&mut restart().0, messages[0].clone());
    assert_eq!(proved.confirm(&joined.confirmation.unwrap()), Err(HandshakeError::Secret));
    assert!(!agree(joined.seals, proved.seals), "the keys differ");
}

#[test]
fn both_ends_with_the_same_secret_join() {
    join(psk(1), psk(1)).unwrap();
    join(Credentials::Insecure, Credentials::Insecure).unwrap();
    let (near, far) = join_as(psk(1), psk(1), Purpose::Open).unwrap();
    assert!(near.seals.is_none() && far.seals.is_none(), "the frames are not encrypted");
    let (near, far) = join_as(encrypted(1), encrypted(1), Purpose::Open).unwrap();
    assert!(agree(near.seals, far.seals));
}

#[test]
fn a_wrong_secret_is_refused() {
    assert_eq!(join(psk(1), psk(2)), Err(HandshakeError::Secret));
    assert_eq!(join(encrypted(1), encrypted(2)), Err(HandshakeError::Secret));
}

#[test]
fn a_peer_among_several_is_known_by_its_secret() {
    for mode in [Mode::PreSharedKey, Mode::Encrypted] {
        let by = |byte| Credentials::Secret { mode, secret: secret(byte) };
        for (byte, name) in [(1, "alpha"), (2, "beta"), (3, "gamma")] {
            let (near, far) = join_as(by(byte), of_peers(mode), Purpose::Open).unwrap();
            assert_eq!(far.peer_name.as_deref(), Some(name));
            far.confirm(&near.confirmation.unwrap()).unwrap();
            assert_eq!(near.seals.is_some(), mode.is_sealed());
            assert!(!mode.is_sealed() || agree(near.seals, far.seals), "the keys are those of the peer's secret");
            // The stream's further lanes.
            let (near, far) = join_as(near.joining, far.joining, Purpose::Join).unwrap();
            assert!(!mode.is_sealed() || agree(near.seals, far.seals));
        }
        let stranger = join_as(by(4), of_peers(mode), Purpose::Open).unwrap_err();
        assert_eq!(stranger, ('r', HandshakeError::Secret));
        let nobody = Credentials::Secrets { mode, secrets: PeerSecrets::new([] as [(&str, Secret); 0]).unwrap() };
        assert_eq!(join_as(by(1), nobody, Purpose::Open).unwrap_err(), ('r', HandshakeError::Secret));
        let (_, far) = join_as(by(1), by(1), Purpose::Open).unwrap();
        assert_eq!(far.peer_name, None, "all peers have the same secret");
    }
}

#[test]
fn a_lane_joins_by_the_secret_that_opened_its_stream_only() {
    for mode in [Mode::PreSharedKey, Mode::Encrypted] {
        let by = |byte| Credentials::Secret { mode, secret: secret(byte) };
        let (_, far) = join_as(by(1), of_peers(mode), Purpose::Open).unwrap();
        for other in [2, 4] {
            let (role, error) = join_as(by(other), far.joining.clone(), Purpose::Join).unwrap_err();
            assert_eq!((role, &error), ('r', &HandshakeError::NoSuchStream), "whether its secret is known or not");
            assert_eq!(error.refusal(), Some(Refusal::UnknownStream));
        }
    }
}

/// Credentials for several peers prove nothing, not even with an empty key.
#[test]
fn an_end_that_knows_several_peers_does_not_connect() {
    for theirs in [of_peers(Mode::PreSharedKey), psk(1)] {
        let outcome = join_as(of_peers(Mode::PreSharedKey), theirs, Purpose::Open);
        assert_eq!(outcome.unwrap_err(), ('i', HandshakeError::Disorder));
    }
}

#[test]
fn an_end_takes_no_mode_but_its_own() {
    let pem = certificate();
    let initiators = [Credentials::Insecure, psk(1), encrypted(1), pinned(&pem)];
    let several = [of_peers(Mode::PreSharedKey), of_peers(Mode::Encrypted)];
    let responders = [Credentials::Insecure, psk(1), encrypted(1), server(&pem)].into_iter().chain(several);
    let responders: Vec<Credentials> = responders.collect();
    for ours in &initiators {
        for theirs in &responders {
            let outcome = join(ours.clone(), theirs.clone());
            let alike = ours.mode() == theirs.mode();
            let differ = HandshakeError::Mode { ours: theirs.mode(), theirs: ours.mode() };
            let expected = if alike { Ok(()) } else { Err(differ) };
            assert_eq!(outcome, expected, "{ours:?} to {theirs:?}");
        }
    }
}

#[test]
fn a_mode_that_is_changed_on_the_way_is_noticed() {
    for (ours, theirs, lesser) in [
        (encrypted(1), psk(1), Mode::PreSharedKey),
        (encrypted(1), of_peers(Mode::PreSharedKey), Mode::PreSharedKey),
        (psk(1), encrypted(1), Mode::Encrypted),
        (encrypted(1), Credentials::Insecure, Mode::Insecure),
    ] {
        let outcome = join_through(ours, theirs, Purpose::Open, |_, message| match message {
            HandshakeMessage::Hello(hello) => HandshakeMessage::Hello(Hello { mode: lesser, ..hello }),
            other => other,
        });
        assert!(matches!(outcome, Err(('r', HandshakeError::Secret))), "{outcome:?}");
    }
}

#[test]
fn a_refusal_in_another_mode_changes_no_mode() {
    let (mut initiator, _) = Initiator::start(encrypted(1), hello(Purpose::Open));
    let refused = initiator.handle(wired(&HandshakeMessage::Refused(Refusal::Mode(Mode::PreSharedKey))));
    let differ = HandshakeError::Mode { ours: Mode::Encrypted, theirs: Mode::PreSharedKey };
    assert_eq!(refused.unwrap_err(), differ);
    let said = differ.to_string();
    assert!(said.ends_with("this end has `psk, encrypted`, the peer `psk, not encrypted`"), "{said}");
}

#[test]
fn a_responder_without_the_secret_is_found_out() {
    let (mut initiator, first) = Initiator::start(psk(1), hello(Purpose::Open));
    let HandshakeMessage::Hello(hello) = first else { panic!() };
    let (_, challenge) = Responder::start(psk(2), hello, TERMS, [9; 32]).unwrap();
    initiator.handle(challenge).unwrap();
    assert_eq!(initiator.handle(HandshakeMessage::Accepted([0; 32])).unwrap_err(), HandshakeError::Secret);
}

#[test]
fn proof_replayed_or_reflected() {
    let (mut initiator, first) = Initiator::start(psk(1), hello(Purpose::Open));
    let HandshakeMessage::Hello(hello) = first else { panic!() };
    let (_, challenge) = Responder::start(psk(1), hello, TERMS, [9; 32]).unwrap();
    let InitiatorStep::Send(messages) = initiator.handle(challenge).unwrap() else { panic!() };
    let [HandshakeMessage::Proof(tag)] = messages[..] else { panic!() };
    let (mut again, _) = Responder::start(psk(1), hello, TERMS, [10; 32]).unwrap();
    assert_eq!(
        again.handle(HandshakeMessage::Proof(tag)).unwrap_err(),
        HandshakeError::Secret,
        "replayed against a fresh nonce"
    );
    assert_eq!(initiator.handle(HandshakeMessage::Accepted(tag)).unwrap_err(), HandshakeError::Secret, "reflected");
}

#[test]
fn a_changed_field_is_noticed() {
    let pem = certificate();
    for (ours, theirs) in [(psk(1), psk(1)), (encrypted(1), encrypted(1)), (pinned(&pem), server(&pem))] {
        let outcome = join_through(ours.clone(), theirs.clone(), Purpose::Open, |_, message| match message {
            HandshakeMessage::Hello(mut hello) => {
                hello.parameters.window += 1;
                HandshakeMessage::Hello(hello)
            }
            other => other,
        });
        assert!(matches!(outcome, Err(('r', HandshakeError::Secret))), "{outcome:?}");
        let outcome = join_through(ours, theirs, Purpose::Open, |_, message| match message {
            HandshakeMessage::Challenge(mut challenge) => {
                challenge.parameters.longest_chunk -= 1;
                HandshakeMessage::Challenge(challenge)
            }
            other => other,
        });
        assert!(matches!(outcome, Err(('r', HandshakeError::Secret))), "{outcome:?}");
    }
}

#[test]
fn messages_out_of_turn_and_other_protocols_are_named() {
    let (mut initiator, first) = Initiator::start(psk(1), hello(Purpose::Open));
    assert_eq!(initiator.handle(HandshakeMessage::Accepted([0; 32])).unwrap_err(), HandshakeError::Disorder);
    let HandshakeMessage::Hello(hello) = first else { panic!() };
    for message in [HandshakeMessage::Accepted([0; 32]), HandshakeMessage::Hello(hello), HandshakeMessage::Tls(vec![1])]
    {
        let (mut responder, _) = Responder::start(psk(1), hello, TERMS, [0; 32]).unwrap();
        assert_eq!(responder.handle(message).unwrap_err(), HandshakeError::Disorder);
    }
    assert_eq!(HandshakeMessage::body_len(b"GET / HT"), Err(HandshakeError::NotRails { said: b"GET / HT".to_vec() }));
    let foreign = HandshakeError::NotRails { said: b"SSH-2.0-\x1b\r\n".to_vec() };
    assert!(foreign.to_string().ends_with("it said \"SSH-2.0-\\x1b\\r\\n\"") && !foreign.is_permanent(), "{foreign}");
    let mut old: [u8; PREFIX_LEN] = *first.encode().first_chunk().unwrap();
    old[4] = 1;
    assert_eq!(HandshakeMessage::body_len(&old), Err(HandshakeError::Version { theirs: 1 }));
}

#[test]
fn open_by_tls_and_join_by_its_secret() {
    let pem = certificate();
    let trusting = client(TlsClient::trusting(pem.0.as_bytes(), "rails.example").unwrap());
    for opening in [pinned(&pem), trusting] {
        let (near, far) = join_as(opening, server(&pem), Purpose::Open).unwrap();
        assert!(agree(near.seals, far.seals));
        let (near, far) = join_as(near.joining, far.joining, Purpose::Join).unwrap();
        assert!(agree(near.seals, far.seals));
        join_as(near.joining, far.joining, Purpose::Join).unwrap();
    }
}

#[test]
fn alert_to_an_untrusted_server() {
    let (ours, theirs) = (certificate(), certificate());
    let other_name = client(TlsClient::trusting(theirs.0.as_bytes(), "other.example").unwrap());
    let other_authority = client(TlsClient::trusting(ours.0.as_bytes(), "rails.example").unwrap());
    for credentials in [pinned(&ours), other_name, other_authority] {
        let (mut initiator, first) = Initiator::start(credentials, hello(Purpose::Open));
        let HandshakeMessage::Hello(hello) = first else { panic!() };
        let (mut responder, challenge) = Responder::start(server(&theirs), hello, TERMS, [9; 32]).unwrap();
        let InitiatorStep::Send(flight) = initiator.handle(challenge).unwrap() else { panic!() };
        let ResponderStep::Send(flight) = responder.handle(flight[0].clone()).unwrap() else { panic!() };
        let error = initiator.handle(flight[0].clone()).unwrap_err();
        assert!(
            matches!(&error, HandshakeError::Tls(error) if matches!(**error, tls::Error::Certificate(_))),
            "{error:?}"
        );
        let farewell = initiator.farewell(&error);
        assert!(
            matches!(farewell[..], [HandshakeMessage::Tls(_), HandshakeMessage::Refused(Refusal::Tls)]),
            "{farewell:?}"
        );
        let told = responder.handle(farewell[0].clone()).unwrap_err();
        assert!(matches!(&told, HandshakeError::Tls(error) if matches!(**error, tls::Error::Refused(_))), "{told:?}");
    }
}

/// A client whose certificate is refused has given out its proof by then.
#[test]
fn causes_of_a_refused_client() {
    let (pem, good, other) = (certificate(), certificate(), certificate());
    let stranger = made(|params| params.distinguished_name.push(rcgen::DnType::CommonName, "a stranger"));
    let expired = made(|params| params.not_after = rcgen::date_time_ymd(2000, 1, 2));
    let future = made(|params| params.not_before = rcgen::date_time_ymd(4000, 1, 2));
    let authority = made(|params| params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained));
    let trusted = [&good, &expired, &future, &authority].map(|pem| pem.0.as_str()).concat();
    let server = TlsServer::for_clients_of(identity(&pem), trusted.as_bytes()).unwrap();
    let theirs = || Security::tls_server(server.clone()).responder().unwrap();
    let ours = || TlsClient::pinned(identity(&pem).pin().unwrap()).unwrap();
    join(client(ours().identity(identity(&good)).unwrap()), theirs()).unwrap();
    for (shown, cause, told) in [
        (None, tls::Error::NoCertificate, tls::Error::CertificateRequired),
        (
            Some(&stranger),
            tls::Error::Certificate(CertificateFault::UnknownIssuer),
            tls::Error::Refused(CertificateRefusal::UnknownIssuer),
        ),
        // The client's certificate names an authority of the same name.
        (
            Some(&other),
            tls::Error::Certificate(CertificateFault::Signature),
            tls::Error::Refused(CertificateRefusal::Signature),
        ),
        (
            Some(&authority),
            tls::Error::Certificate(CertificateFault::OfAuthority),
            tls::Error::Refused(CertificateRefusal::Unknown),
        ),
    ] {
        let stranger = shown.map_or_else(ours, |pem| ours().identity(identity(pem)).unwrap());
        assert_eq!(refused(client(stranger), theirs()), (cause, told));
    }
    for (shown, said) in
        [(&expired, "it expired on 2000-01-02T00:00:00Z, and"), (&future, "it is valid from 4000-01-02T00:00:00Z on")]
    {
        let (cause, told) = refused(client(ours().identity(identity(shown)).unwrap()), theirs());
        assert!(cause.to_string().contains(said), "{cause}");
        assert_eq!(told, tls::Error::Refused(CertificateRefusal::Expired));
    }
}

/// The errors of a responder that refuses a client, and of the client that hears of it.
fn refused(ours: Credentials, theirs: Credentials) -> (tls::Error, tls::Error) {
    let (mut initiator, first) = Initiator::start(ours, hello(Purpose::Open));
    let HandshakeMessage::Hello(hello) = first else { panic!("a hello comes first") };
    let (mut responder, challenge) = Responder::start(theirs, hello, TERMS, [9; 32]).unwrap();
    let tls = |error| if let HandshakeError::Tls(error) = error { *error } else { panic!("{error}") };
    let mut to_initiator = vec![challenge];
    while let Some(message) = to_initiator.pop() {
        let InitiatorStep::Send(flight) = initiator.handle(message).unwrap() else { panic!("it has joined") };
        for message in flight {
            match responder.handle(message) {
                Ok(ResponderStep::Send(answer)) => to_initiator.extend(answer),
                Ok(ResponderStep::Proved(_)) => panic!("it takes the client"),
                Err(cause) => {
                    assert!(initiator.has_proved());
                    let told = initiator.handle(wired(&responder.farewell(&cause)[0])).unwrap_err();
                    assert!(told.is_permanent(), "another attempt fails in the same way");
                    return (tls(cause), tls(told));
                }
            }
        }
    }
    panic!("the handshake does not end");
}

#[test]
fn a_server_that_is_replaced_by_another() {
    let (old, new) = (certificate(), certificate());
    let server = TlsServer::new(identity(&old)).unwrap();
    let theirs = Security::tls_server(server.clone()).responder().unwrap();
    let (_, under_way) = join_as(pinned(&old), theirs.clone(), Purpose::Open).unwrap();
    server.replace_by(&TlsServer::new(identity(&new)).unwrap());
    join(pinned(&new), theirs.clone()).unwrap();
    assert!(matches!(join(pinned(&old), theirs.clone()), Err(HandshakeError::Tls(_))));
    assert_eq!(under_way.joining.mode(), Mode::Tls);
}

#[test]
fn join_of_a_foreign_and_of_an_unknown_stream() {
    let pem = certificate();
    let (mine, _) = join_as(pinned(&pem), server(&pem), Purpose::Open).unwrap();
    let (_, another) = join_as(pinned(&pem), server(&pem), Purpose::Open).unwrap();
    let unknown = Credentials::Secret { mode: Mode::Tls, secret: secret(8) };
    for theirs in [another.joining, unknown] {
        let (role, error) = join_as(mine.joining.clone(), theirs, Purpose::Join).unwrap_err();
        assert_eq!((role, &error), ('r', &HandshakeError::NoSuchStream));
        assert_eq!(error.refusal(), Some(Refusal::UnknownStream));
    }
}

/// If a flight is changed anywhere, one of the ends notices it before any lane has joined.
#[test]
fn a_tls_flight_that_is_changed_is_noticed() {
    let pem = certificate();
    for (from, at) in [('i', 60), ('i', 100), ('r', 60), ('r', 200), ('r', 400)] {
        let mut done = false;
        let outcome = join_through(pinned(&pem), server(&pem), Purpose::Open, |sender, message| match message {
            HandshakeMessage::Tls(mut flight) if sender == from && flight.len() > at && !done => {
                flight[at] ^= 1;
                done = true;
                HandshakeMessage::Tls(flight)
            }
            other => other,
        });
        assert!(outcome.is_err() && done, "{outcome:?}");
    }
}

#[test]
fn tls_flights_without_end_are_cut_off() {
    let pem = certificate();
    let opening = hello(Purpose::Open);
    let (mut responder, _) =
        Responder::start(server(&pem), Hello { mode: Mode::Tls, ..opening }, TERMS, [9; 32]).unwrap();
    // A handshake record without end: its header announces a client hello of 2^24 bytes.
    let mut flight = Vec::new();
    while flight.len() < 80 << 10 {
        let body = 16_000usize;
        flight.extend_from_slice(&[22, 3, 1, (body >> 8) as u8, body as u8]);
        let start = flight.len();
        flight.resize(start + body, 0);
        if start == 5 {
            flight[start..start + 4].copy_from_slice(&[1, 0, 255, 255]);
        }
    }
    let error =
        flight.chunks(LONGEST_TLS).find_map(|piece| responder.handle(HandshakeMessage::Tls(piece.to_vec())).err());
    assert!(matches!(error, Some(HandshakeError::TlsTooLong | HandshakeError::Tls(_))), "{error:?}");
}
