//! The messages of a handshake, and the proofs and keys derived from them.

use super::{Challenge, HandshakeError, HandshakeMessage, Hello, Tag};
use crate::{
    seal::{self, PacketRole, PacketSeals, Role, Seals},
    secret::{PeerSecret, PeerSecrets, Secret},
};
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

/// The hello and the challenge of one handshake.
#[derive(Debug, Clone, Copy)]
pub(super) struct Transcript {
    pub(super) hello: Hello,
    pub(super) challenge: Challenge,
}

impl Transcript {
    /// The proof that `role` knows `secret`. With an empty secret it proves only that both ends saw
    /// the same messages.
    pub(super) fn prove(&self, role: Role, secret: &[u8]) -> Tag {
        sign(secret, &self.claim(role))
    }

    /// Whether `tag` is that proof; compares in constant time.
    pub(super) fn verify(&self, role: Role, secret: &[u8], tag: &Tag) -> Result<(), HandshakeError> {
        verify(secret, &self.claim(role), tag)
    }

    /// The peer by whose secret the initiator made this proof. Compares with every secret, each in
    /// constant time, so that the time does not tell which peer it is.
    pub(super) fn prover<'a>(&self, secrets: &'a PeerSecrets, tag: &Tag) -> Result<&'a PeerSecret, HandshakeError> {
        let claim = self.claim(Role::Initiator);
        let compare = |found, peer: &'a PeerSecret| match verify(peer.secret.bytes(), &claim, tag) {
            Ok(()) => Some(peer),
            Err(_) => found,
        };
        secrets.iter().fold(None, compare).ok_or(HandshakeError::Secret)
    }

    /// The initiator's proof that it has the stream that it asked to open.
    pub(super) fn confirm(&self, secret: &[u8]) -> Tag {
        sign(secret, &self.claim_confirmed())
    }

    /// Whether `tag` is that proof; compares in constant time.
    pub(super) fn verify_confirmed(&self, secret: &[u8], tag: &Tag) -> Result<(), HandshakeError> {
        verify(secret, &self.claim_confirmed(), tag)
    }

    /// The responder's proof that the list of lanes is its own, and belongs to this handshake.
    pub(super) fn sign_lanes(&self, secret: &[u8], message: &[u8]) -> Tag {
        sign(secret, &self.claim_lanes(message))
    }

    /// Whether `tag` is that proof; compares in constant time.
    pub(super) fn verify_lanes(&self, secret: &[u8], message: &[u8], tag: &[u8]) -> Result<(), HandshakeError> {
        verify(secret, &self.claim_lanes(message), tag)
    }

    /// The keys of this lane, which has `secret` if its stream has one; `None` if its frames are
    /// not sealed.
    pub(super) fn seals(&self, ours: Role, secret: Option<&Secret>) -> Result<Option<Seals>, HandshakeError> {
        let mode = self.hello.mode;
        let Some(secret) = secret.filter(|_| mode.is_sealed()) else { return Ok(None) };
        let seals = seal::of_lane(secret, &self.hash(), ours).ok_or(HandshakeError::NoEncryption { mode })?;
        Ok(Some(seals))
    }

    /// The keys of packets beside this lane, if it has a secret.
    pub(super) fn packet_seals(
        &self,
        ours: Role,
        secret: Option<&Secret>,
        purpose: PacketRole,
    ) -> Result<Option<PacketSeals>, HandshakeError> {
        let Some(secret) = secret else { return Ok(None) };
        let seals = seal::of_packets(secret, &self.hash(), purpose, ours);
        Ok(Some(seals.ok_or(HandshakeError::NoEncryption { mode: self.hello.mode })?))
    }

    /// SHA-256 of both messages.
    pub(super) fn hash(&self) -> [u8; 32] {
        Sha256::digest(self.bytes()).into()
    }

    fn claim(&self, role: Role) -> Vec<u8> {
        let mut claim = match role {
            Role::Initiator => b"rails 5 initiator".to_vec(),
            Role::Responder => b"rails 5 responder".to_vec(),
        };
        claim.extend(self.bytes());
        claim
    }

    fn claim_confirmed(&self) -> Vec<u8> {
        [b"rails 5 confirmed", self.bytes().as_slice()].concat()
    }

    fn claim_lanes(&self, message: &[u8]) -> Vec<u8> {
        [b"rails 5 lanes", self.bytes().as_slice(), message].concat()
    }

    fn bytes(&self) -> Vec<u8> {
        [HandshakeMessage::Hello(self.hello).encode(), HandshakeMessage::Challenge(self.challenge).encode()].concat()
    }
}

fn sign(secret: &[u8], claim: &[u8]) -> Tag {
    mac(secret, claim).finalize().into_bytes().into()
}

fn verify(secret: &[u8], claim: &[u8], tag: &[u8]) -> Result<(), HandshakeError> {
    mac(secret, claim).verify_slice(tag).map_err(|_| HandshakeError::Secret)
}

fn mac(secret: &[u8], claim: &[u8]) -> Hmac<Sha256> {
    let mac = Hmac::new_from_slice(secret).expect("HMAC takes keys of any length");
    mac.chain_update(claim)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4231, section 4.3.
    #[test]
    fn proof_of_the_published_test_case() {
        let tag = sign(b"Jefe", b"what do ya want for nothing?");
        assert_eq!(tag[..8], [0x5b, 0xdc, 0xc1, 0x46, 0xbf, 0x60, 0x75, 0x4e]);
        assert_eq!(verify(b"Jefe", b"what do ya want for nothing?", &tag), Ok(()));
        assert_eq!(verify(b"Jefe", b"what do ya want for nothing?", &tag[..31]), Err(HandshakeError::Secret));
    }
}
