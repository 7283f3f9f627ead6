//! Streams in mode TLS: how they open, and the text of certificates and pins.

use super::handshake::{TERMS, against, hello};
use crate::script::Script;
use bytes::Bytes;
use rails_multirail::{Identity, KeyPin, Security, TlsClient, TlsServer};
use rails_proto::{
    handshake::{
        Credentials, HandshakeMessage, Hello, Initiator, InitiatorStep, Joined, LONGEST_TLS, Mode, PREFIX_LEN, Proved,
        Responder, ResponderStep,
    },
    seal::SEALED_FRAME_LEN,
    wire::FRAME_LEN,
};
use std::sync::OnceLock;

/// Both sides, each against the input: a peer without the certificate's key, and without an agreed
/// session key, does not join.
pub(crate) fn strangers(data: &[u8]) {
    let credentials = both();
    assert!(!against(credentials.0, credentials.1, data), "a peer joined without a key");
}

/// The messages between two honest ends are changed, lost, repeated or cut anew on their way. If
/// the ends get a lane nevertheless, both have the same lane: its parameters, its hello and its
/// keys.
pub(crate) fn between(data: &[u8]) {
    let mut script = Script::new(data);
    let (ours, theirs) = both();
    let (mut initiator, first) = Initiator::start(ours, hello(Mode::Tls));
    let Some(HandshakeMessage::Hello(heard)) = on_the_way(&first, &mut script).into_iter().next() else { return };
    let Ok((mut responder, challenge)) = Responder::start(theirs, heard, TERMS, [9; 32]) else { return };
    let (mut to_initiator, mut proved) = (on_the_way(&challenge, &mut script), None::<Box<Proved>>);
    for _ in 0..MAX_TURNS {
        let mut to_responder = Vec::new();
        for message in to_initiator.drain(..) {
            match initiator.handle(message) {
                Ok(InitiatorStep::Send(answers)) => to_responder.extend(answers),
                Ok(InitiatorStep::Joined(joined)) => {
                    return agree(*joined, *proved.expect("only the responder can accept"), hello(Mode::Tls));
                }
                Err(error) => return drop(initiator.farewell(&error)),
            }
        }
        for message in to_responder.iter().flat_map(|message| on_the_way(message, &mut script)).collect::<Vec<_>>() {
            match responder.handle(message) {
                Ok(ResponderStep::Send(answers)) => {
                    to_initiator.extend(answers.iter().flat_map(|answer| on_the_way(answer, &mut script)));
                }
                Ok(ResponderStep::Proved(accepted)) => {
                    to_initiator.extend(on_the_way(&accepted.accept, &mut script));
                    proved = Some(accepted);
                }
                Err(error) => return drop(responder.farewell(&error)),
            }
        }
    }
}

/// The fate of a message on its way: mostly it arrives unchanged.
fn on_the_way(message: &HandshakeMessage, script: &mut Script<'_>) -> Vec<HandshakeMessage> {
    let mut bytes = message.encode();
    match (script.byte(), message) {
        (200..=219, _) => {
            let at = usize::from(script.byte()) * 256 + usize::from(script.byte());
            let length = bytes.len();
            bytes[at % length] ^= script.byte().max(1);
        }
        (220..=229, _) => return Vec::new(),
        (230..=239, message) => return vec![message.clone(), message.clone()],
        (240..=249, HandshakeMessage::Tls(flight)) => {
            let piece = usize::from(script.byte()).clamp(1, LONGEST_TLS);
            return flight.chunks(piece).map(|piece| HandshakeMessage::Tls(piece.to_vec())).collect();
        }
        _ => {}
    }
    let Some(prefix) = bytes.first_chunk::<PREFIX_LEN>() else { return Vec::new() };
    // After a change of the length, the reader would read the next bytes as another message's
    // beginning; here the message is dropped.
    match HandshakeMessage::body_len(prefix) {
        Ok(length) if length == bytes.len() - PREFIX_LEN => {
            HandshakeMessage::decode(prefix, &bytes[PREFIX_LEN..]).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

fn agree(joined: Joined, proved: Proved, said: Hello) {
    assert_eq!((joined.parameters, proved.hello), (TERMS, said));
    let (Some(mut ours), Some(mut theirs)) = (joined.seals, proved.seals) else { panic!("the lane is encrypted") };
    for (sealer, opener) in [(&mut ours.sealer, &mut theirs.opener), (&mut theirs.sealer, &mut ours.opener)] {
        let sealed: [u8; SEALED_FRAME_LEN] = sealer.seal(&[7; FRAME_LEN], &[Bytes::new()]).try_into().expect("a frame");
        assert_eq!(opener.header(&sealed), Ok([7; FRAME_LEN]));
    }
}

/// First no change; then one change at each message.
pub(crate) fn changes() -> Vec<Vec<u8>> {
    let at = |place: usize, change: &[u8]| [&[0].repeat(place)[..], change].concat();
    let mut seeds = vec![Vec::new()];
    for place in 0..7 {
        seeds.extend([at(place, &[200, 0, 40, 1]), at(place, &[220]), at(place, &[230]), at(place, &[240, 50])]);
    }
    seeds
}

/// Beginnings of TLS: the first flight of each side.
pub(crate) fn flights() -> Vec<Vec<u8>> {
    let (ours, theirs) = both();
    let (mut initiator, first) = Initiator::start(ours, hello(Mode::Tls));
    let HandshakeMessage::Hello(said) = &first else { return Vec::new() };
    let Ok((mut responder, challenge)) = Responder::start(theirs, *said, TERMS, [9; 32]) else { return Vec::new() };
    let Ok(InitiatorStep::Send(client)) = initiator.handle(challenge.clone()) else { return Vec::new() };
    let Some(Ok(ResponderStep::Send(server))) = client.first().cloned().map(|flight| responder.handle(flight)) else {
        return Vec::new();
    };
    let bytes = |messages: &[HandshakeMessage]| messages.iter().flat_map(HandshakeMessage::encode).collect::<Vec<u8>>();
    let begin = bytes(&[first, challenge]);
    vec![[&begin[..], &bytes(&client)].concat(), [&begin[..], &bytes(&server)].concat(), begin]
}

/// Certificates, keys and names from a user's files: each one is usable or is refused.
pub(crate) fn pem(data: &[u8]) {
    let name = String::from_utf8_lossy(&data[..data.len().min(20)]).into_owned();
    drop(TlsClient::trusting(data, &name));
    if let Ok(identity) = Identity::from_pem(data, data) {
        drop((identity.pin(), format!("{identity:?}")));
        drop(TlsServer::new(identity));
    }
}

pub(crate) fn pems() -> Vec<Vec<u8>> {
    let (certificate, key) = made();
    vec![format!("{certificate}{key}").into_bytes(), certificate.clone().into_bytes(), key.clone().into_bytes()]
}

/// A pin reads back as it was written.
pub(crate) fn pin(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match text.parse::<KeyPin>() {
        Ok(pin) => assert_eq!(pin.to_string().parse(), Ok(pin)),
        Err(error) => drop(error.to_string()),
    }
}

pub(crate) fn pins() -> Vec<Vec<u8>> {
    let hex = "0123456789abcdef".repeat(4);
    super::texts([&hex, "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="])
}

pub(crate) const PEM_WORDS: &[&str] = &[
    "-----BEGIN CERTIFICATE-----",
    "-----END CERTIFICATE-----",
    "-----BEGIN PRIVATE KEY-----",
    "-----END PRIVATE KEY-----",
];

/// The connecting and the listening end. The first trusts the key of the second.
fn both() -> (Credentials, Credentials) {
    static BOTH: OnceLock<(Credentials, Credentials)> = OnceLock::new();
    let make = || {
        let (certificate, key) = made();
        let identity = Identity::from_pem(certificate.as_bytes(), key.as_bytes()).expect("the certificate is valid");
        let pin = identity.pin().expect("the certificate is valid");
        let client = Security::tls_client(TlsClient::pinned(pin).expect("a pin can be used"));
        let server = Security::tls_server(TlsServer::new(identity).expect("the key is the certificate's"));
        (client.initiator().expect("the client connects"), server.responder().expect("the server listens"))
    };
    BOTH.get_or_init(make).clone()
}

/// A self-signed certificate, and its key.
fn made() -> &'static (String, String) {
    static MADE: OnceLock<(String, String)> = OnceLock::new();
    MADE.get_or_init(|| {
        let made = rcgen::generate_simple_self_signed(["rails.example".to_owned()]).expect("the name is valid");
        (made.cert.pem(), made.signing_key.serialize_pem())
    })
}

/// More turns than an honest handshake takes.
const MAX_TURNS: usize = 20;
