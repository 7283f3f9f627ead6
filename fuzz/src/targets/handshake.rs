//! How a lane joins, against a peer that says anything.

use crate::script::Script;
use rails_multirail::proto::handshake::{
    Challenge, Hello, Initiator, InitiatorStep, LONGEST_MESSAGE, Message, Mode, PREFIX_LEN, Purpose, Refusal,
    Responder, Secret, StreamId, Terms,
};

/// Messages one behind the other: whatever decodes encodes to the same bytes, and none is longer than the longest.
pub(crate) fn message(mut data: &[u8]) {
    while let Some((message, bytes, rest)) = next(data) {
        data = rest;
        if let Some(message) = message {
            assert_eq!(message.encode(), bytes);
        }
    }
}

pub(crate) fn messages() -> Vec<Vec<u8>> {
    let refused = [Refusal::Version, Refusal::Secret, Refusal::Full].map(Message::Refused);
    let all = [hello(Mode::Insecure), hello(Mode::PreSharedKey), challenge(), Message::Proof([1; 32])];
    let all = all.into_iter().chain([Message::Accepted([2; 32])]).chain(refused);
    all.map(|message| message.encode()).collect()
}

/// Both sides, each against what the input says. Who does not know the secret must not join, and nobody can know it from here: the
/// first byte chooses between a secret and none, and with none both may end well.
pub(crate) fn both_sides(data: &[u8]) {
    let mut script = Script::new(data);
    let (secret, mode) = match script.flag() {
        true => (Secret::pre_shared(b"nobody can guess this").expect("it is long enough"), Mode::PreSharedKey),
        false => (Secret::insecure(), Mode::Insecure),
    };
    let mut rest = script.rest();

    let Message::Hello(hello) = hello(mode) else { return };
    let (mut initiator, _) = Initiator::start(secret.clone(), hello);
    let (mut responder, mut joined) = (None::<Responder>, false);
    while let Some((message, _, after)) = next(rest) {
        rest = after;
        let Some(message) = message else { return };
        match initiator.handle(message) {
            Ok(InitiatorStep::Joined(terms)) => {
                joined = true;
                assert!(terms.longest_chunk > 0 && terms.window > 0, "{terms:?}");
            }
            Ok(InitiatorStep::Send(answer)) => assert!(answer.encode().len() <= LONGEST_MESSAGE),
            Err(error) => drop((error.refusal(), error.to_string())),
        }
        match &responder {
            None => responder = Responder::start(secret.clone(), message, TERMS, [9; 32]).ok().map(|(side, _)| side),
            Some(side) => joined |= side.handle(message).is_ok(),
        }
    }
    assert!(!joined || mode == Mode::Insecure, "somebody joined without the secret");
}

pub(crate) fn conversations() -> Vec<Vec<u8>> {
    let conversation = |mode, byte| {
        let secret = Secret::insecure();
        let Message::Hello(hello) = hello(Mode::Insecure) else { return Vec::new() };
        let (mut initiator, first) = Initiator::start(secret.clone(), hello);
        let Ok((responder, challenge)) = Responder::start(secret, first, TERMS, [9; 32]) else { return Vec::new() };
        let Ok(InitiatorStep::Send(proof)) = initiator.handle(challenge) else { return Vec::new() };
        let said = [self::hello(mode), challenge, proof, responder.accept()];
        std::iter::once(byte).chain(said.iter().flat_map(Message::encode)).collect()
    };
    vec![conversation(Mode::Insecure, 0), conversation(Mode::PreSharedKey, 1)]
}

/// The next message as the driver reads it: the prefix, then as much as that says. `None` where the bytes end or are no message's
/// beginning, behind which nothing tells where another would start.
fn next(data: &[u8]) -> Option<(Option<Message>, &[u8], &[u8])> {
    let prefix: &[u8; PREFIX_LEN] = data.first_chunk()?;
    let length = PREFIX_LEN + Message::body_len(prefix).ok()?;
    assert!(length <= LONGEST_MESSAGE);
    let (bytes, rest) = data.split_at_checked(length)?;
    Some((Message::decode(prefix, &bytes[PREFIX_LEN..]).ok(), bytes, rest))
}

fn hello(mode: Mode) -> Message {
    Message::Hello(Hello {
        mode,
        purpose: Purpose::Open,
        stream: StreamId([7; 16]),
        lane: 0,
        lanes: 2,
        terms: TERMS,
        nonce: [3; 32],
    })
}

fn challenge() -> Message {
    Message::Challenge(Challenge { terms: TERMS, nonce: [9; 32] })
}

const TERMS: Terms = Terms { longest_chunk: 1 << 18, window: 1 << 24 };
