//! The secret that both ends of a stream know, and what one end brings to a handshake.

use super::Mode;
use rustls::{ClientConfig, ServerConfig, pki_types::ServerName};
use std::{fmt, sync::Arc};
use zeroize::Zeroizing;

/// What both ends of a stream know and nobody else does. It is wiped from memory with its last copy.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<Zeroizing<Vec<u8>>>);

/// A secret that is too short to be one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a secret has at least {} bytes, this one has {length}", Secret::SHORTEST)]
pub struct SecretTooShort {
    /// Its length in bytes.
    pub length: usize,
}

/// What one end brings to the handshake of one lane.
#[derive(Clone)]
pub enum Credentials {
    /// Nothing: whoever reaches the port may join.
    Insecure,
    /// A secret.
    Secret {
        /// [`Mode::PreSharedKey`] or [`Mode::Encrypted`] with a secret that both ends were given; [`Mode::Tls`] with the one
        /// that the TLS session of the opening lane has left, for the lanes that join.
        mode: Mode,
        /// The secret.
        secret: Secret,
    },
    /// The initiator's side of TLS, to open a stream.
    TlsClient {
        /// How it behaves: TLS 1.3 alone, no resumption.
        config: Arc<ClientConfig>,
        /// Whom it expects.
        name: ServerName<'static>,
    },
    /// The responder's side of TLS, for whoever opens a stream.
    TlsServer(Arc<ServerConfig>),
}

impl Secret {
    /// The shortest secret that is taken, in bytes.
    pub const SHORTEST: usize = 16;

    /// A secret that both ends were given. It should be random (`head -c 32 /dev/urandom`): someone in the middle who sees
    /// a join can try guesses against it for as long as he likes.
    ///
    /// # Errors
    /// [`SecretTooShort`] below 16 bytes.
    pub fn pre_shared(bytes: &[u8]) -> Result<Self, SecretTooShort> {
        if bytes.len() < Self::SHORTEST {
            return Err(SecretTooShort { length: bytes.len() });
        }
        Ok(Self(Arc::new(Zeroizing::new(bytes.to_vec()))))
    }

    pub(crate) fn of_session(key: &[u8; 32]) -> Self {
        Self(Arc::new(Zeroizing::new(key.to_vec())))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Credentials {
    /// How a stream with these credentials is kept.
    pub fn mode(&self) -> Mode {
        match self {
            Self::Insecure => Mode::Insecure,
            Self::Secret { mode, .. } => *mode,
            Self::TlsClient { .. } | Self::TlsServer(_) => Mode::Tls,
        }
    }

    /// The secret, where there is one.
    pub(super) fn secret(&self) -> Option<&Secret> {
        match self {
            Self::Secret { secret, .. } => Some(secret),
            _ => None,
        }
    }

    /// What proofs are keyed with: the secret, or nothing.
    pub(super) fn key(&self) -> &[u8] {
        self.secret().map_or(&[], Secret::bytes)
    }
}

/// Never shows the secret.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// Shows the mode alone.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credentials({})", self.mode())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_printed() {
        let secret = Secret::pre_shared(b"correct horse battery").unwrap();
        assert_eq!(format!("{secret:?}"), "Secret(..)");
        let credentials = Credentials::Secret { mode: Mode::Encrypted, secret };
        assert_eq!(format!("{credentials:?}"), "Credentials(psk encrypted)");
    }

    #[test]
    fn a_short_secret_is_none() {
        assert_eq!(Secret::pre_shared(b"short"), Err(SecretTooShort { length: 5 }));
    }
}
