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

mod message;

pub use message::{
    Challenge, Hello, LONGEST_MESSAGE, Message, Mode, Nonce, PREFIX_LEN, Purpose, Refusal, StreamId, Tag, Terms,
    VERSION,
};

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::{fmt, sync::Arc};

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

/// Never shows the secret.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.mode() {
            Mode::Insecure => "Secret(none)",
            Mode::PreSharedKey => "Secret(..)",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let prefix = *bytes.first_chunk().unwrap();
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
        let mut old: [u8; PREFIX_LEN] = *first.encode().first_chunk().unwrap();
        old[4] = 0;
        assert_eq!(Message::body_len(&old), Err(HandshakeError::Version { theirs: 0 }));
    }

    #[test]
    fn a_secret_is_not_printed() {
        assert_eq!(format!("{:?}", Secret::pre_shared(b"correct horse battery").unwrap()), "Secret(..)");
    }
}
