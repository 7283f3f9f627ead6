//! The handshake of a lane, against a peer that sends anything.

use crate::script::Script;
use rails_proto::{
    handshake::{
        Challenge, Credentials, HandshakeMessage, Hello, Initiator, InitiatorStep, LONGEST_MESSAGE, Limit, Mode,
        PREFIX_LEN, Purpose, Refusal, Responder, ResponderStep, StreamId,
    },
    parameters::TransportParameters,
    secret::{PeerSecrets, Secret},
};

/// Messages one behind the other: each message that decodes encodes to the same bytes, and none
/// exceeds the longest.
pub(crate) fn message(mut data: &[u8]) {
    while let Some((message, bytes, rest)) = next(data) {
        data = rest;
        if let Some(message) = message {
            assert_eq!(message.encode(), bytes);
        }
    }
}

pub(crate) fn messages() -> Vec<Vec<u8>> {
    let refused =
        [Refusal::Version, Refusal::Secret, Refusal::Full(Limit::Streams), Refusal::Tls].map(HandshakeMessage::Refused);
    let hellos = [Mode::Insecure, Mode::PreSharedKey, Mode::Encrypted, Mode::Tls]
        .map(|mode| HandshakeMessage::Hello(hello(mode)));
    let others = [
        challenge(),
        HandshakeMessage::Proof([1; 32]),
        HandshakeMessage::Accepted([2; 32]),
        HandshakeMessage::Tls(vec![22, 3, 1]),
        HandshakeMessage::Confirmed([4; 32]),
    ];
    hellos.into_iter().chain(others).chain(refused).map(|message| message.encode()).collect()
}

/// Both sides, each against the input. A peer without the secret must not join, and no input has
/// the secret. The first byte chooses between a secret, a secret with encryption, that of one of
/// several peers, and none; without one both sides may succeed.
pub(crate) fn both_sides(data: &[u8]) {
    let mut script = Script::new(data);
    let secret = || Secret::pre_shared(b"nobody can guess this").expect("the secret is long enough");
    let choice = script.byte() % 4;
    let ours = match choice {
        0 => Credentials::Insecure,
        1 => Credentials::Secret { mode: Mode::PreSharedKey, secret: secret() },
        _ => Credentials::Secret { mode: Mode::Encrypted, secret: secret() },
    };
    let mode = ours.mode();
    let theirs = match choice {
        3 => {
            let another = Secret::pre_shared(b"nor can anybody guess this").expect("the secret is long enough");
            let secrets = PeerSecrets::new([("alpha", another), ("beta", secret())]).expect("they differ");
            Credentials::Secrets { mode, secrets }
        }
        _ => ours.clone(),
    };
    let joined = against(ours, theirs, script.rest());
    assert!(!joined || mode == Mode::Insecure, "a peer joined without the secret");
}

/// Whether one of two ends, with these credentials, lets the sender of `said` join. Both ends get
/// all of `said`.
pub(super) fn against(ours: Credentials, theirs: Credentials, mut said: &[u8]) -> bool {
    let (mut initiator, _) = Initiator::start(ours, hello(Mode::Insecure));
    let (mut responder, mut joined) = (None::<Responder>, false);
    while let Some((message, _, after)) = next(said) {
        said = after;
        let Some(message) = message else { return joined };
        match initiator.handle(message.clone()) {
            Ok(InitiatorStep::Joined(lane)) => {
                joined |= lane.parameters.longest_chunk > 0 && lane.parameters.window > 0
            }
            Ok(InitiatorStep::Send(answers)) => short(&answers),
            Err(error) => {
                drop(error.to_string());
                short(&initiator.farewell(&error));
            }
        }
        match (&mut responder, message) {
            (None, HandshakeMessage::Hello(hello)) => {
                responder = Responder::start(theirs.clone(), hello, TERMS, [9; 32]).ok().map(|(side, _)| side);
            }
            (None, _) => {}
            (Some(side), message) => match side.handle(message) {
                Ok(ResponderStep::Proved(proved)) => {
                    joined = true;
                    drop(proved.confirm(&HandshakeMessage::Confirmed([4; 32])));
                }
                Ok(ResponderStep::Send(answers)) => short(&answers),
                Err(error) => short(&side.farewell(&error)),
            },
        }
    }
    joined
}

fn short(messages: &[HandshakeMessage]) {
    assert!(messages.iter().all(|message| message.encode().len() <= LONGEST_MESSAGE));
}

pub(crate) fn conversations() -> Vec<Vec<u8>> {
    let conversation = |mode, byte| {
        let (mut initiator, first) = Initiator::start(Credentials::Insecure, hello(Mode::Insecure));
        let HandshakeMessage::Hello(said) = first else { return Vec::new() };
        let Ok((mut responder, challenge)) = Responder::start(Credentials::Insecure, said, TERMS, [9; 32]) else {
            return Vec::new();
        };
        let Ok(InitiatorStep::Send(proof)) = initiator.handle(challenge.clone()) else { return Vec::new() };
        let Some(Ok(ResponderStep::Proved(proved))) = proof.first().cloned().map(|proof| responder.handle(proof))
        else {
            return Vec::new();
        };
        let said = [&[HandshakeMessage::Hello(hello(mode)), challenge][..], &proof, &[proved.accept]].concat();
        std::iter::once(byte).chain(said.iter().flat_map(HandshakeMessage::encode)).collect()
    };
    vec![
        conversation(Mode::Insecure, 0),
        conversation(Mode::PreSharedKey, 1),
        conversation(Mode::Encrypted, 2),
        conversation(Mode::Encrypted, 3),
    ]
}

/// The next message as the driver reads it: the prefix, then as many bytes as the prefix says.
/// `None` if the bytes end, or do not begin a message; then the place of the next message is
/// unknown.
fn next(data: &[u8]) -> Option<(Option<HandshakeMessage>, &[u8], &[u8])> {
    let prefix: &[u8; PREFIX_LEN] = data.first_chunk()?;
    let length = PREFIX_LEN + HandshakeMessage::body_len(prefix).ok()?;
    assert!(length <= LONGEST_MESSAGE);
    let (bytes, rest) = data.split_at_checked(length)?;
    Some((HandshakeMessage::decode(prefix, &bytes[PREFIX_LEN..]).ok(), bytes, rest))
}

pub(super) fn hello(mode: Mode) -> Hello {
    let stream = StreamId([7; 16]);
    Hello { mode, purpose: Purpose::Open, stream, lane: 0, lanes: 2, parameters: TERMS, nonce: [3; 32] }
}

fn challenge() -> HandshakeMessage {
    HandshakeMessage::Challenge(Challenge { parameters: TERMS, nonce: [9; 32] })
}

pub(super) const TERMS: TransportParameters = TransportParameters::one_stream(1 << 18, 1 << 24);
