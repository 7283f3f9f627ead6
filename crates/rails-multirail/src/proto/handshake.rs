//! How a lane joins a stream, and how both ends prove that they know the secret.
//!
//! ```text
//! initiator                                   responder
//!    | -- Hello(stream, lane, nonce_i) ---------> |
//!    | <-- Challenge(nonce_r) ------------------- |
//!    | -- Proof = HMAC(key, "initiator" ...) ---> |   checked before anything is promised
//!    | <-- Accepted = HMAC(key, "responder" ...)- |   checked before any byte of the stream is sent
//! ```
//! Both proofs cover the whole `Hello` and `Challenge`, so that neither a field, nor a nonce, nor the version or the mode
//! can be changed on the way; the role's name in each keeps one from being reflected as the other; fresh nonces of both
//! sides keep an old one from being replayed. The responder proves itself last, so that a stranger gets nothing to
//! guess the secret from. HMAC-SHA-256: RFC 2104, FIPS 180-4.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::{fmt, sync::Arc};

/// The version of the protocol that this crate speaks.
pub const VERSION: u8 = 1;

/// Bytes that every message of the handshake starts with.
pub const PREFIX_LEN: usize = 8;

/// The longest message of the handshake.
pub const LONGEST_MESSAGE: usize = 72;

/// What both ends of a stream know and nobody else does, or the open statement that there is no such thing.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Option<Arc<[u8]>>);

/// A secret that is too short to be one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a secret has at least {} bytes, this one has {length}", Secret::SHORTEST)]
pub struct SecretTooShort {
    /// Its length in bytes.
    pub length: usize,
}

/// How a stream is kept to those who may join it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Anyone who reaches the port may join.
    Insecure,
    /// Joins are authenticated by a pre-shared secret. The bytes of the stream are neither encrypted nor authenticated.
    PreSharedKey,
}

/// The name of a stream: 128 random bits, chosen by the initiator.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct StreamId(pub [u8; 16]);

/// A random number that is used once.
pub type Nonce = [u8; 32];

/// What an end tells the other about itself when a lane joins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// The longest chunk that it takes, in bytes.
    pub longest_chunk: u32,
    /// The stream offset that the other end may send up to at first, in bytes: its receive window.
    pub window: u64,
}

/// A message of the handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message {
    /// The initiator asks for a lane.
    Hello(Hello),
    /// The responder asks for a proof.
    Challenge(Challenge),
    /// The initiator's proof.
    Proof(Tag),
    /// The responder's proof: the lane has joined.
    Accepted(Tag),
    /// The lane may not join.
    Refused(Refusal),
}

/// Which lane of which stream the initiator asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hello {
    /// How the stream is kept.
    pub mode: Mode,
    /// Whether this lane opens the stream, or joins one that is open.
    pub purpose: Purpose,
    /// The stream.
    pub stream: StreamId,
    /// The lane's number, from 0.
    pub lane: u16,
    /// How many lanes the initiator means to bring.
    pub lanes: u16,
    /// What the initiator takes.
    pub terms: Terms,
    /// The initiator's nonce.
    pub nonce: Nonce,
}

/// What a lane comes for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// To open a stream.
    Open,
    /// To join a stream that is open.
    Join,
}

/// The responder's side of the terms, and its nonce.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Challenge {
    /// What the responder takes.
    pub terms: Terms,
    /// The responder's nonce.
    pub nonce: Nonce,
}

/// An HMAC-SHA-256.
pub type Tag = [u8; 32];

/// Why a lane may not join.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The responder speaks another version.
    #[error("it speaks another version of the protocol")]
    Version,
    /// One side has a secret and the other has none.
    #[error("one side uses a join secret and the other does not")]
    Mode,
    /// The proof is wrong: the secrets differ.
    #[error("the join secret is wrong")]
    Secret,
    /// There is no such stream to join.
    #[error("there is no such stream to join")]
    UnknownStream,
    /// A stream of that name is open already.
    #[error("a stream of that name is open already")]
    StreamExists,
    /// The stream has as many lanes as it may have, or the listener as many streams.
    #[error("it has as many lanes or streams as it takes")]
    Full,
    /// A message came out of turn.
    #[error("a message of the handshake came out of turn")]
    Disorder,
}

/// What can go wrong while a lane joins.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HandshakeError {
    /// The other end does not speak this protocol at all.
    #[error("the other end does not speak the rails protocol (its first bytes are {first:02x?})")]
    NotRails {
        /// What it sent instead of the magic bytes.
        first: [u8; 4],
    },
    /// The other end speaks another version.
    #[error("the other end speaks version {theirs} of the protocol, this end version {VERSION}")]
    Version {
        /// Its version.
        theirs: u8,
    },
    /// A field holds what this version does not know.
    #[error("unknown {field} {value} in a message of the handshake")]
    Field {
        /// The field.
        field: &'static str,
        /// What it holds.
        value: u64,
    },
    /// A message came out of turn.
    #[error("a message of the handshake came out of turn")]
    Disorder,
    /// The other end's proof is wrong.
    #[error("the other end does not know the join secret")]
    Secret,
    /// One side has a secret and the other has none.
    #[error("{}", match .ours { Mode::Insecure => "the other end uses a join secret, this end has none", Mode::PreSharedKey => "the other end uses no join secret, this end has one" })]
    Mode {
        /// This end's mode.
        ours: Mode,
    },
    /// The other end refused the lane.
    #[error("the other end refused the lane: {0}")]
    Refused(Refusal),
}

/// The initiator's side of one handshake: made with [`Initiator::start`], then driven message by message.
#[derive(Debug)]
pub struct Initiator {
    secret: Secret,
    hello: Hello,
    /// Known once the challenge has come.
    challenge: Option<Challenge>,
}

/// What the initiator does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InitiatorStep {
    /// Send this and wait for the next message.
    Send(Message),
    /// The lane has joined, on these terms of the other end.
    Joined(Terms),
}

/// The responder's side of one handshake.
#[derive(Debug)]
pub struct Responder {
    secret: Secret,
    hello: Hello,
    challenge: Challenge,
}

impl Secret {
    /// The shortest secret that is taken, in bytes.
    pub const SHORTEST: usize = 16;

    /// No secret: whoever reaches the port may join. Tools that use it say so.
    pub fn insecure() -> Self {
        Self(None)
    }

    /// A secret that both ends were given. It should be random (`head -c 32 /dev/urandom`): someone in the middle who sees
    /// a join can try guesses against it for as long as he likes.
    ///
    /// # Errors
    /// [`SecretTooShort`] below 16 bytes.
    pub fn pre_shared(bytes: &[u8]) -> Result<Self, SecretTooShort> {
        if bytes.len() < Self::SHORTEST {
            return Err(SecretTooShort { length: bytes.len() });
        }
        Ok(Self(Some(bytes.into())))
    }

    /// How a stream with this secret is kept.
    pub fn mode(&self) -> Mode {
        if self.0.is_some() { Mode::PreSharedKey } else { Mode::Insecure }
    }

    /// The proof that `role` knows the secret. Without a secret it proves nothing but that both ends saw the same messages.
    fn tag(&self, role: Role, hello: &Hello, challenge: &Challenge) -> Hmac<Sha256> {
        let key = self.0.as_deref().unwrap_or_default();
        // HMAC takes keys of any length (RFC 2104, section 2), so this cannot fail.
        let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes a key of any length");
        mac.update(match role {
            Role::Initiator => b"rails 1 initiator",
            Role::Responder => b"rails 1 responder",
        });
        mac.update(&Message::Hello(*hello).encode());
        mac.update(&Message::Challenge(*challenge).encode());
        mac
    }

    fn prove(&self, role: Role, hello: &Hello, challenge: &Challenge) -> Tag {
        self.tag(role, hello, challenge).finalize().into_bytes().into()
    }

    /// Compares in constant time.
    fn verify(&self, role: Role, hello: &Hello, challenge: &Challenge, tag: &Tag) -> Result<(), HandshakeError> {
        self.tag(role, hello, challenge).verify_slice(tag).map_err(|_| HandshakeError::Secret)
    }
}

/// Whose proof it is.
#[derive(Clone, Copy)]
enum Role {
    Initiator,
    Responder,
}

impl Initiator {
    /// Starts with the message to send first.
    pub fn start(secret: Secret, hello: Hello) -> (Self, Message) {
        debug_assert_eq!(secret.mode(), hello.mode);
        (Self { secret, hello, challenge: None }, Message::Hello(hello))
    }

    /// Takes the responder's next message.
    ///
    /// # Errors
    /// Whatever ends the handshake. After [`HandshakeError::Secret`] the caller may tell the other end with
    /// [`Message::Refused`].
    pub fn handle(&mut self, message: Message) -> Result<InitiatorStep, HandshakeError> {
        match (message, self.challenge) {
            (Message::Challenge(challenge), None) => {
                self.challenge = Some(challenge);
                Ok(InitiatorStep::Send(Message::Proof(self.secret.prove(Role::Initiator, &self.hello, &challenge))))
            }
            (Message::Accepted(tag), Some(challenge)) => {
                self.secret.verify(Role::Responder, &self.hello, &challenge, &tag)?;
                Ok(InitiatorStep::Joined(challenge.terms))
            }
            (Message::Refused(Refusal::Mode), _) => Err(HandshakeError::Mode { ours: self.secret.mode() }),
            (Message::Refused(refusal), _) => Err(HandshakeError::Refused(refusal)),
            _ => Err(HandshakeError::Disorder),
        }
    }
}

impl Responder {
    /// Takes the first message, and gives the challenge to send.
    ///
    /// # Errors
    /// [`HandshakeError::Mode`] where one side has a secret and the other none; [`HandshakeError::Disorder`] where the
    /// message is no hello. [`HandshakeError::refusal`] is what to tell the other end.
    pub fn start(
        secret: Secret,
        message: Message,
        terms: Terms,
        nonce: Nonce,
    ) -> Result<(Self, Message), HandshakeError> {
        let Message::Hello(hello) = message else { return Err(HandshakeError::Disorder) };
        if hello.mode != secret.mode() {
            return Err(HandshakeError::Mode { ours: secret.mode() });
        }
        let challenge = Challenge { terms, nonce };
        Ok((Self { secret, hello, challenge }, Message::Challenge(challenge)))
    }

    /// Takes the initiator's proof. From here on its hello may be believed.
    ///
    /// # Errors
    /// [`HandshakeError::Secret`] where the proof is wrong, [`HandshakeError::Refused`] where the initiator gave up.
    pub fn handle(&self, message: Message) -> Result<&Hello, HandshakeError> {
        match message {
            Message::Proof(tag) => {
                self.secret.verify(Role::Initiator, &self.hello, &self.challenge, &tag)?;
                Ok(&self.hello)
            }
            Message::Refused(refusal) => Err(HandshakeError::Refused(refusal)),
            _ => Err(HandshakeError::Disorder),
        }
    }

    /// The message that lets the lane join.
    pub fn accept(&self) -> Message {
        Message::Accepted(self.secret.prove(Role::Responder, &self.hello, &self.challenge))
    }
}

impl HandshakeError {
    /// What to tell the other end, where it is to be told.
    pub fn refusal(&self) -> Option<Refusal> {
        match self {
            Self::Version { .. } => Some(Refusal::Version),
            Self::Mode { .. } => Some(Refusal::Mode),
            Self::Secret => Some(Refusal::Secret),
            Self::Disorder => Some(Refusal::Disorder),
            Self::Refused(_) | Self::NotRails { .. } | Self::Field { .. } => None,
        }
    }
}

impl Message {
    /// The message's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let (kind, mode, detail) = match self {
            Self::Hello(hello) => {
                (HELLO, u8::from(hello.mode == Mode::PreSharedKey), u8::from(hello.purpose == Purpose::Join))
            }
            Self::Challenge(_) => (CHALLENGE, 0, 0),
            Self::Proof(_) => (PROOF, 0, 0),
            Self::Accepted(_) => (ACCEPTED, 0, 0),
            Self::Refused(refusal) => (REFUSED, 0, refusal.code()),
        };
        let mut bytes = Vec::with_capacity(LONGEST_MESSAGE);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&[VERSION, kind, mode, detail]);
        match self {
            Self::Hello(hello) => {
                bytes.extend_from_slice(&hello.stream.0);
                bytes.extend_from_slice(&hello.lane.to_be_bytes());
                bytes.extend_from_slice(&hello.lanes.to_be_bytes());
                hello.terms.encode(&mut bytes);
                bytes.extend_from_slice(&hello.nonce);
            }
            Self::Challenge(challenge) => {
                challenge.terms.encode(&mut bytes);
                bytes.extend_from_slice(&challenge.nonce);
            }
            Self::Proof(tag) | Self::Accepted(tag) => bytes.extend_from_slice(tag),
            Self::Refused(_) => {}
        }
        bytes
    }

    /// How many bytes follow the first [`PREFIX_LEN`] of a message.
    ///
    /// # Errors
    /// [`HandshakeError::NotRails`], [`HandshakeError::Version`], or [`HandshakeError::Field`] for a type that this
    /// version does not know.
    pub fn body_len(prefix: &[u8; PREFIX_LEN]) -> Result<usize, HandshakeError> {
        let [a, b, c, d, version, kind, ..] = *prefix;
        if [a, b, c, d] != MAGIC {
            return Err(HandshakeError::NotRails { first: [a, b, c, d] });
        }
        // A refusal is understood whatever the version: its first eight bytes are the same in all of them.
        if version != VERSION && kind != REFUSED {
            return Err(HandshakeError::Version { theirs: version });
        }
        match kind {
            HELLO => Ok(64),
            CHALLENGE => Ok(44),
            PROOF | ACCEPTED => Ok(32),
            REFUSED if version != VERSION => Err(HandshakeError::Version { theirs: version }),
            REFUSED => Ok(0),
            kind => Err(HandshakeError::Field { field: "message type", value: kind.into() }),
        }
    }

    /// The message that a prefix and the body behind it are.
    ///
    /// # Errors
    /// As [`Message::body_len`], and [`HandshakeError::Field`] where a field holds what this version does not know.
    ///
    /// # Panics
    /// Where `body` is not as long as [`Message::body_len`] says.
    pub fn decode(prefix: &[u8; PREFIX_LEN], body: &[u8]) -> Result<Self, HandshakeError> {
        assert_eq!(body.len(), Self::body_len(prefix)?, "the body is as long as the prefix says");
        let [.., kind, mode, detail] = *prefix;
        let unknown = |field, value: u8| HandshakeError::Field { field, value: value.into() };
        let mode = match mode {
            0 => Mode::Insecure,
            1 if kind == HELLO => Mode::PreSharedKey,
            mode => return Err(unknown("mode", mode)),
        };
        if detail > 1 && kind != REFUSED || detail == 1 && !matches!(kind, HELLO | REFUSED) {
            return Err(unknown("detail", detail));
        }
        Ok(match kind {
            HELLO => Self::Hello(Hello {
                mode,
                purpose: if detail == 1 { Purpose::Join } else { Purpose::Open },
                stream: StreamId(array_at(body, 0)),
                lane: u16::from_be_bytes(array_at(body, 16)),
                lanes: u16::from_be_bytes(array_at(body, 18)),
                terms: Terms::decode(body, 20)?,
                nonce: array_at(body, 32),
            }),
            CHALLENGE => Self::Challenge(Challenge { terms: Terms::decode(body, 0)?, nonce: array_at(body, 12) }),
            PROOF => Self::Proof(array_at(body, 0)),
            ACCEPTED => Self::Accepted(array_at(body, 0)),
            _ => Self::Refused(Refusal::from_code(detail).ok_or(unknown("reason", detail))?),
        })
    }
}

impl Terms {
    fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.longest_chunk.to_be_bytes());
        bytes.extend_from_slice(&self.window.to_be_bytes());
    }

    fn decode(body: &[u8], at: usize) -> Result<Self, HandshakeError> {
        let terms = Self {
            longest_chunk: u32::from_be_bytes(array_at(body, at)),
            window: u64::from_be_bytes(array_at(body, at + 4)),
        };
        if terms.longest_chunk == 0 {
            return Err(HandshakeError::Field { field: "longest chunk", value: 0 });
        }
        if terms.window == 0 {
            return Err(HandshakeError::Field { field: "window", value: 0 });
        }
        Ok(terms)
    }
}

impl Refusal {
    const ALL: [Self; 7] =
        [Self::Version, Self::Mode, Self::Secret, Self::UnknownStream, Self::StreamExists, Self::Full, Self::Disorder];

    /// Its number on the wire, from 1.
    fn code(self) -> u8 {
        Self::ALL.iter().position(|refusal| *refusal == self).map_or(0, |index| index as u8 + 1)
    }

    fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code.checked_sub(1)?)).copied()
    }
}

/// Never shows the secret.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.mode() {
            Mode::Insecure => "Secret(none)",
            Mode::PreSharedKey => "Secret(..)",
        })
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StreamId({self})")
    }
}

/// The `N` bytes at `at`, which the caller has measured.
fn array_at<const N: usize>(body: &[u8], at: usize) -> [u8; N] {
    std::array::from_fn(|index| body[at + index])
}

const MAGIC: [u8; 4] = *b"RAIL";
const HELLO: u8 = 1;
const CHALLENGE: u8 = 2;
const PROOF: u8 = 3;
const ACCEPTED: u8 = 4;
const REFUSED: u8 = 5;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TERMS: Terms = Terms { longest_chunk: 1 << 18, window: 1 << 24 };

    fn secret(byte: u8) -> Secret {
        Secret::pre_shared(&[byte; 16]).unwrap()
    }

    fn hello(mode: Mode) -> Hello {
        Hello {
            mode,
            purpose: Purpose::Join,
            stream: StreamId([7; 16]),
            lane: 1,
            lanes: 2,
            terms: TERMS,
            nonce: [3; 32],
        }
    }

    /// Through bytes and back, as on the wire.
    fn wired(message: Message) -> Message {
        let bytes = message.encode();
        let prefix = array_at(&bytes, 0);
        assert_eq!(bytes.len() - PREFIX_LEN, Message::body_len(&prefix).unwrap());
        Message::decode(&prefix, &bytes[PREFIX_LEN..]).unwrap()
    }

    fn join(ours: Secret, theirs: Secret) -> Result<(), HandshakeError> {
        let (mut initiator, first) = Initiator::start(ours.clone(), hello(ours.mode()));
        let (responder, challenge) = Responder::start(theirs, wired(first), TERMS, [9; 32])?;
        let InitiatorStep::Send(proof) = initiator.handle(wired(challenge))? else { panic!("a proof comes next") };
        assert_eq!(responder.handle(wired(proof))?, &hello(ours.mode()));
        assert_eq!(initiator.handle(wired(responder.accept()))?, InitiatorStep::Joined(TERMS));
        Ok(())
    }

    #[test]
    fn both_ends_with_the_same_secret_join() {
        join(secret(1), secret(1)).unwrap();
        join(Secret::insecure(), Secret::insecure()).unwrap();
    }

    #[test]
    fn a_wrong_or_missing_secret_is_refused() {
        assert_eq!(join(secret(1), secret(2)), Err(HandshakeError::Secret));
        assert_eq!(join(Secret::insecure(), secret(2)), Err(HandshakeError::Mode { ours: Mode::PreSharedKey }));
        assert_eq!(join(secret(1), Secret::insecure()), Err(HandshakeError::Mode { ours: Mode::Insecure }));
        assert_eq!(Secret::pre_shared(b"short"), Err(SecretTooShort { length: 5 }));
    }

    #[test]
    fn a_responder_without_the_secret_is_found_out() {
        let (mut initiator, first) = Initiator::start(secret(1), hello(Mode::PreSharedKey));
        let (impostor, challenge) = Responder::start(secret(2), first, TERMS, [9; 32]).unwrap();
        initiator.handle(challenge).unwrap();
        assert_eq!(initiator.handle(impostor.accept()), Err(HandshakeError::Secret));
    }

    #[test]
    fn a_proof_is_of_no_use_a_second_time_or_the_other_way_round() {
        let (mut initiator, first) = Initiator::start(secret(1), hello(Mode::PreSharedKey));
        let (_, challenge) = Responder::start(secret(1), first, TERMS, [9; 32]).unwrap();
        let InitiatorStep::Send(Message::Proof(tag)) = initiator.handle(challenge).unwrap() else { panic!() };
        let (again, _) = Responder::start(secret(1), first, TERMS, [10; 32]).unwrap();
        assert_eq!(again.handle(Message::Proof(tag)), Err(HandshakeError::Secret), "replayed against a fresh nonce");
        assert_eq!(initiator.handle(Message::Accepted(tag)), Err(HandshakeError::Secret), "reflected");
    }

    #[test]
    fn a_changed_field_is_noticed() {
        let (mut initiator, first) = Initiator::start(secret(1), hello(Mode::PreSharedKey));
        let Message::Hello(mut changed) = first else { panic!() };
        changed.terms.window += 1;
        let (responder, challenge) = Responder::start(secret(1), Message::Hello(changed), TERMS, [9; 32]).unwrap();
        let InitiatorStep::Send(proof) = initiator.handle(challenge).unwrap() else { panic!() };
        assert_eq!(responder.handle(proof), Err(HandshakeError::Secret));
    }

    #[test]
    fn messages_out_of_turn_and_other_protocols_are_named() {
        let (mut initiator, first) = Initiator::start(secret(1), hello(Mode::PreSharedKey));
        assert_eq!(initiator.handle(Message::Accepted([0; 32])), Err(HandshakeError::Disorder));
        assert!(matches!(
            Responder::start(secret(1), Message::Proof([0; 32]), TERMS, [0; 32]),
            Err(HandshakeError::Disorder)
        ));
        assert_eq!(Message::body_len(b"GET / HT"), Err(HandshakeError::NotRails { first: *b"GET " }));
        let mut old: [u8; PREFIX_LEN] = array_at(&first.encode(), 0);
        old[4] = 0;
        assert_eq!(Message::body_len(&old), Err(HandshakeError::Version { theirs: 0 }));
    }

    #[test]
    fn every_refusal_survives_the_wire() {
        for refusal in Refusal::ALL {
            assert_eq!(wired(Message::Refused(refusal)), Message::Refused(refusal));
        }
    }

    #[test]
    fn a_secret_is_not_printed() {
        assert_eq!(format!("{:?}", Secret::pre_shared(b"correct horse battery").unwrap()), "Secret(..)");
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_handshake_panic(prefix in any::<[u8; PREFIX_LEN]>(), magic in any::<bool>(), kind in 0u8..7, body in prop::collection::vec(any::<u8>(), 64)) {
            let mut prefix = prefix;
            if magic {
                prefix[..4].copy_from_slice(&MAGIC);
                prefix[4] = VERSION;
                prefix[5] = kind;
            }
            if let Ok(length) = Message::body_len(&prefix)
                && let Ok(message) = Message::decode(&prefix, &body[..length])
            {
                let bytes = message.encode();
                prop_assert_eq!(&bytes[..PREFIX_LEN], &prefix);
                prop_assert_eq!(&bytes[PREFIX_LEN..], &body[..length]);
            }
        }
    }
}
