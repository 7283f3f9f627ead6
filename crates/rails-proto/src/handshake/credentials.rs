//! What one end brings to a handshake.

use super::{Mode, tls};
use crate::secret::Secret;
use std::fmt;

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
    /// The initiator's part of TLS, to open a stream.
    TlsClient(tls::Client),
    /// The responder's part of TLS, for every peer that opens a stream.
    TlsServer(tls::Server),
}

impl Credentials {
    /// How a stream with these credentials is kept.
    pub fn mode(&self) -> Mode {
        match self {
            Self::Insecure => Mode::Insecure,
            Self::Secret { mode, .. } => *mode,
            Self::TlsClient(_) | Self::TlsServer(_) => Mode::Tls,
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
    fn credentials_do_not_print_their_secret() {
        let secret = Secret::pre_shared(b"correct horse battery").unwrap();
        let credentials = Credentials::Secret { mode: Mode::Encrypted, secret };
        assert_eq!(format!("{credentials:?}"), "Credentials(psk encrypted)");
    }
}
