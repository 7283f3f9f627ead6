//! The secrets of several peers.

use super::Secret;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::{
    collections::{HashMap, hash_map::Entry},
    fmt,
    sync::Arc,
};

/// The secrets of the peers that a listener knows, each with the name of its peer.
///
/// Only the listener knows the names: a peer proves that it has a secret, and the listener tries
/// each of its own on the proof. A name may have several secrets, such as an old and a new one
/// while the peer changes its secret. The empty set lets no peer in.
#[derive(Clone)]
pub struct PeerSecrets(Arc<[PeerSecret]>);

/// A peer and its secret.
pub(crate) struct PeerSecret {
    pub(crate) name: Arc<str>,
    pub(crate) secret: Secret,
}

/// Why secrets cannot be those of a listener's peers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PeerSecretsError {
    /// More secrets than a listener tries on one proof.
    #[error("there are more than {} secrets of peers", PeerSecrets::MAX)]
    TooMany,
    /// Two secrets are equal, so that a proof would not say whose it is.
    #[error("the secrets of the peers `{first}` and `{second}` are equal")]
    Equal {
        /// The peer that comes first.
        first: Arc<str>,
        /// The other peer.
        second: Arc<str>,
    },
}

impl PeerSecrets {
    /// The most secrets. A proof by none of them costs the listener an HMAC for each, 54 us for 256
    /// (measured on one core of an EPYC with SHA extensions): a third of the time for which a TLS
    /// handshake of a stranger makes it sign.
    pub const MAX: usize = 256;

    /// Takes peers' names and secrets.
    ///
    /// # Errors
    /// [`PeerSecretsError::TooMany`] above [`MAX`](Self::MAX). [`PeerSecretsError::Equal`] if two
    /// secrets are one key for HMAC, which pads short keys with zeros, and hashes keys of more than
    /// 64 bytes (RFC 2104, section 2).
    pub fn new<N: Into<Arc<str>>>(peers: impl IntoIterator<Item = (N, Secret)>) -> Result<Self, PeerSecretsError> {
        let peers = peers.into_iter().map(|(name, secret)| PeerSecret { name: name.into(), secret });
        let peers: Vec<PeerSecret> = peers.take(Self::MAX + 1).collect();
        if peers.len() > Self::MAX {
            return Err(PeerSecretsError::TooMany);
        }
        let mut known: HashMap<[u8; 32], &PeerSecret> = HashMap::new();
        for peer in &peers {
            match known.entry(print_of(&peer.secret)) {
                Entry::Vacant(entry) => entry.insert(peer),
                Entry::Occupied(entry) => {
                    let (first, second) = (entry.get().name.clone(), peer.name.clone());
                    return Err(PeerSecretsError::Equal { first, second });
                }
            };
        }
        Ok(Self(peers.into()))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &PeerSecret> {
        self.0.iter()
    }
}

/// Shows the names, and never a secret.
impl fmt::Debug for PeerSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter().map(|peer| &peer.name)).finish()
    }
}

/// Equal for secrets that are one key for HMAC. No lane sends it: every proof signs another text.
fn print_of(secret: &Secret) -> [u8; 32] {
    let mac: Hmac<Sha256> = Hmac::new_from_slice(secret.bytes()).expect("HMAC takes keys of any length");
    mac.chain_update(b"rails peer").finalize().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use sha2::Digest;

    fn numbered(count: usize) -> impl Iterator<Item = (String, Secret)> {
        (0..count).map(|number| {
            let secret = Secret::pre_shared(format!("a secret of peer {number:03}").as_bytes()).unwrap();
            (format!("peer {number}"), secret)
        })
    }

    #[test]
    fn as_many_secrets_as_a_listener_tries() {
        for count in [0, 1, PeerSecrets::MAX] {
            assert_eq!(PeerSecrets::new(numbered(count)).unwrap().iter().count(), count);
        }
        for count in [PeerSecrets::MAX + 1, usize::MAX] {
            assert_eq!(PeerSecrets::new(numbered(count)).unwrap_err(), PeerSecretsError::TooMany);
        }
    }

    #[test]
    fn secrets_that_are_one_key_are_refused_and_names_may_repeat() {
        let secret = |bytes: &[u8]| Secret::pre_shared(bytes).unwrap();
        let (short, long) = (b"0123456789abcdef", [7; 65]);
        for (first, second) in [
            (secret(short), secret(short)),
            (secret(short), secret(b"0123456789abcdef\0\0")),
            (secret(&long), secret(&Sha256::digest(long))),
        ] {
            let error = PeerSecrets::new([("alpha", first), ("beta", second)]).unwrap_err();
            assert_eq!(error.to_string(), "the secrets of the peers `alpha` and `beta` are equal");
        }
        PeerSecrets::new([("alpha", secret(short)), ("alpha", secret(&long))]).unwrap();
    }

    #[test]
    fn secrets_of_peers_are_not_printed() {
        let secrets = PeerSecrets::new([("alpha", Secret::pre_shared(b"correct horse battery").unwrap())]).unwrap();
        assert_eq!(format!("{secrets:?}"), r#"{"alpha"}"#);
    }
}
