//! What the two ends have said, and what is made of it: proofs and keys.

use super::{Challenge, Credentials, HandshakeError, Hello, Message, Tag};
use crate::seal::{Role, Seals};
use aws_lc_rs::{digest, hmac};

/// The hello and the challenge of one handshake.
#[derive(Debug, Clone, Copy)]
pub(super) struct Transcript {
    pub(super) hello: Hello,
    pub(super) challenge: Challenge,
}

impl Transcript {
    /// The proof that `role` knows `secret`. With an empty one it proves nothing but that both ends saw the same messages.
    pub(super) fn prove(&self, role: Role, secret: &[u8]) -> Tag {
        sign(secret, &self.claim(role))
    }

    /// Whether `tag` is that proof; compares in constant time.
    pub(super) fn verify(&self, role: Role, secret: &[u8], tag: &Tag) -> Result<(), HandshakeError> {
        verify(secret, &self.claim(role), tag)
    }

    /// The initiator's proof that it has the stream that it asked to open.
    pub(super) fn confirm(&self, secret: &[u8]) -> Tag {
        sign(secret, &self.claim_confirmed())
    }

    /// Whether `tag` is that proof; compares in constant time.
    pub(super) fn verify_confirmed(&self, secret: &[u8], tag: &Tag) -> Result<(), HandshakeError> {
        verify(secret, &self.claim_confirmed(), tag)
    }

    /// The responder's proof that what it says of its lanes is its own, and an answer to this handshake.
    pub(super) fn sign_lanes(&self, secret: &[u8], message: &[u8]) -> Tag {
        sign(secret, &self.claim_lanes(message))
    }

    /// Whether `tag` is that proof; compares in constant time.
    pub(super) fn verify_lanes(&self, secret: &[u8], message: &[u8], tag: &[u8]) -> Result<(), HandshakeError> {
        verify(secret, &self.claim_lanes(message), tag)
    }

    /// The keys of this lane, where its frames are sealed.
    pub(super) fn seals(&self, ours: Role, credentials: &Credentials) -> Option<Seals> {
        let secret = credentials.secret().filter(|_| self.hello.mode.is_sealed())?;
        Some(Seals::derive(secret, &self.hash(), ours))
    }

    /// SHA-256 of both messages.
    pub(super) fn hash(&self) -> [u8; 32] {
        let mut hash = [0; 32];
        hash.copy_from_slice(digest::digest(&digest::SHA256, &self.bytes()).as_ref());
        hash
    }

    fn claim(&self, role: Role) -> Vec<u8> {
        let mut claim = match role {
            Role::Initiator => b"rails 4 initiator".to_vec(),
            Role::Responder => b"rails 4 responder".to_vec(),
        };
        claim.extend(self.bytes());
        claim
    }

    fn claim_confirmed(&self) -> Vec<u8> {
        [b"rails 4 confirmed", self.bytes().as_slice()].concat()
    }

    fn claim_lanes(&self, message: &[u8]) -> Vec<u8> {
        [b"rails 4 lanes", self.bytes().as_slice(), message].concat()
    }

    fn bytes(&self) -> Vec<u8> {
        [Message::Hello(self.hello).encode(), Message::Challenge(self.challenge).encode()].concat()
    }
}

fn sign(secret: &[u8], claim: &[u8]) -> Tag {
    let mut tag = [0; 32];
    tag.copy_from_slice(hmac::sign(&key(secret), claim).as_ref());
    tag
}

fn verify(secret: &[u8], claim: &[u8], tag: &[u8]) -> Result<(), HandshakeError> {
    hmac::verify(&key(secret), claim, tag).map_err(|_| HandshakeError::Secret)
}

fn key(secret: &[u8]) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, secret)
}
