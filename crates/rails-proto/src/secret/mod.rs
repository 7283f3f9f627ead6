//! The secrets that both ends of a stream know.

mod peers;

pub(crate) use peers::PeerSecret;
pub use peers::{PeerSecrets, PeerSecretsError};
use std::{fmt, sync::Arc};
use zeroize::Zeroizing;

/// The secret that only the two ends of a stream know. Dropping its last copy wipes it from memory.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<Zeroizing<Vec<u8>>>);

/// The error of a secret that is too short.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a secret has at least {} bytes, this one has {length}", Secret::SHORTEST)]
pub struct SecretTooShort {
    /// The secret's length in bytes.
    pub length: usize,
}

impl Secret {
    /// The shortest secret, in bytes.
    pub const SHORTEST: usize = 16;

    /// Makes a secret that both ends have in advance. It should be random (`head -c 32
    /// /dev/urandom`): an attacker on the path who records a join can test any number of
    /// guesses against it.
    ///
    /// # Errors
    /// [`SecretTooShort`] below 16 bytes.
    pub fn pre_shared(bytes: &[u8]) -> Result<Self, SecretTooShort> {
        if bytes.len() < Self::SHORTEST {
            return Err(SecretTooShort { length: bytes.len() });
        }
        Ok(Self(Arc::new(Zeroizing::new(bytes.to_vec()))))
    }

    /// Makes the secret of a single stream, with which its lanes join.
    pub fn of_session(key: &[u8; 32]) -> Self {
        Self(Arc::new(Zeroizing::new(key.to_vec())))
    }

    /// Whether one of the two was cloned from the other, directly or not.
    pub(crate) fn is_clone_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Never shows the secret.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_printed() {
        let secret = Secret::pre_shared(b"correct horse battery").unwrap();
        assert_eq!(format!("{secret:?}"), "Secret(..)");
    }

    #[test]
    fn a_short_secret_is_none() {
        assert_eq!(Secret::pre_shared(b"short"), Err(SecretTooShort { length: 5 }));
    }
}
