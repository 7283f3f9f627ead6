//! The credentials of one end.

use super::{Mode, tls};
use crate::secret::{PeerSecrets, Secret};
use std::fmt;

/// The credentials of one end for the handshake of one lane.
#[derive(Clone)]
pub enum Credentials {
    /// None: any peer that reaches the port may join.
    Insecure,
    /// A secret.
    Secret {
        /// [`Mode::PreSharedKey`] or [`Mode::Encrypted`] with the secret that both ends know;
        /// [`Mode::Tls`] with the secret that the TLS session of the opening lane exports
        /// for the lanes that join.
        mode: Mode,
        /// The secret.
        secret: Secret,
    },
    /// The secrets of the peers that may open a stream, at the responder. The initiator's proof
    /// says which peer it is.
    Secrets {
        /// [`Mode::PreSharedKey`] or [`Mode::Encrypted`].
        mode: Mode,
        /// The secrets.
        secrets: PeerSecrets,
    },
    /// The initiator's part of TLS, to open a stream.
    TlsClient(tls::Client),
    /// The responder's part of TLS, for every peer that opens a stream.
    TlsServer(tls::Server),
}

impl Credentials {
    /// The mode of a stream with these credentials.
    pub fn mode(&self) -> Mode {
        match self {
            Self::Insecure => Mode::Insecure,
            Self::Secret { mode, .. } | Self::Secrets { mode, .. } => *mode,
            Self::TlsClient(_) | Self::TlsServer(_) => Mode::Tls,
        }
    }

    /// Whether a proof by these credentials is one by those of a stream: both are insecure, or the
    /// secret is a clone of the stream's. Equal bytes are not enough.
    pub fn are_those_of(&self, stream: &Self) -> bool {
        match (self, stream) {
            (Self::Insecure, Self::Insecure) => true,
            (Self::Secret { secret, .. }, Self::Secret { secret: of_stream, .. }) => secret.is_clone_of(of_stream),
            _ => false,
        }
    }

    /// The secret, if there is one of this end and its peer.
    pub(super) fn secret(&self) -> Option<&Secret> {
        match self {
            Self::Secret { secret, .. } => Some(secret),
            _ => None,
        }
    }

    /// The key of the proofs: the secret, or no bytes.
    pub(super) fn key(&self) -> &[u8] {
        self.secret().map_or(&[], Secret::bytes)
    }
}

/// Shows only the mode.
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
        assert_eq!(format!("{credentials:?}"), "Credentials(psk, encrypted)");
    }

    #[test]
    fn credentials_of_a_stream_are_their_clones() {
        let made = || {
            let secret = Secret::pre_shared(b"correct horse battery").unwrap();
            Credentials::Secret { mode: Mode::Encrypted, secret }
        };
        let stream = made();
        assert!(stream.clone().are_those_of(&stream));
        assert!(Credentials::Insecure.are_those_of(&Credentials::Insecure));
        for other in [made(), Credentials::Insecure] {
            assert!(!other.are_those_of(&stream) && !stream.are_those_of(&other));
        }
    }
}
