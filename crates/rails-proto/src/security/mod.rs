//! How streams are protected: not at all, by a secret, or by TLS.

#[cfg(feature = "tls")]
mod pin;
#[cfg(feature = "tls")]
mod tls;

use crate::{
    handshake::{Credentials, Mode},
    secret::{PeerSecrets, Secret},
};
#[cfg(feature = "tls")]
pub(crate) use pin::OtherKey;
#[cfg(feature = "tls")]
pub use pin::{KeyPin, PinError};
#[cfg(feature = "tls")]
pub use tls::{Identity, TlsClient, TlsError, TlsServer};

/// How the ends of a stream, or of every stream of a listener, authenticate each other and protect
/// its bytes. Both ends choose one mode: an end takes no other mode than its own, so no attacker on
/// the path can make the two weaken it.
///
/// | mode | peers that may join | possible attacks on the path |
/// |---|---|---|
/// | [insecure](Self::insecure) | any peer | read and change everything |
/// | psk ([`psk`](Self::psk), [`psk_of`](Self::psk_of)) | peers with the secret that opened the stream | read and change the bytes, not join; guess a weak secret |
/// | psk, encrypted (`encrypted`, `encrypted_of`) | peers with the secret that opened the stream | cut lanes; read recorded frames once the secret is known |
/// | tls (`tls_client`, `tls_server`) | the two ends of the TLS session that opened the stream | cut lanes |
///
/// A listener may have one secret for all its peers, or know several peers, each by a secret of its
/// own (`psk_of`, `encrypted_of`): then it knows whose stream it has, and no peer can join
/// another's. The peers notice no difference.
///
/// In the last two modes every lane seals its frames on its own rail's core: AES-256-GCM with keys
/// that no other lane has ([`seal`](crate::seal)). The tag replaces the payload's checksum. An
/// attacker on the path sees how much is sent and when, and the handshake's `Hello`. If the
/// attacker changes a record, its lane ends, and the stream goes on over the others.
#[derive(Debug, Clone)]
pub struct Security {
    mode: Mode,
    /// The credentials of a lane that opens a stream; `None` at an end that only listens.
    initiator: Option<Credentials>,
    /// The credentials with which this end answers a lane that opens a stream; `None` at an end
    /// that only connects.
    responder: Option<Credentials>,
}

impl Security {
    /// Any peer that reaches the port may join, and any host on the path may read and change
    /// everything. Tools that use this mode say so.
    pub fn insecure() -> Self {
        Self::alike(Credentials::Insecure)
    }

    /// Every peer that knows the secret may join. The bytes are neither encrypted nor
    /// authenticated; with `Security::encrypted` they are.
    pub fn psk(secret: Secret) -> Self {
        Self::alike(Credentials::Secret { mode: Mode::PreSharedKey, secret })
    }

    /// Every peer that knows the secret may join. Both ends encrypt and authenticate the bytes,
    /// frame by frame, with keys derived from the secret.
    #[cfg(feature = "encryption")]
    pub fn encrypted(secret: Secret) -> Self {
        Self::alike(Credentials::Secret { mode: Mode::Encrypted, secret })
    }

    /// As [`psk`](Self::psk), for an end that listens, and knows several peers, each by a secret of
    /// its own. They connect with [`psk`](Self::psk).
    pub fn psk_of(secrets: PeerSecrets) -> Self {
        Self::of_peers(Mode::PreSharedKey, secrets)
    }

    /// As `Security::encrypted`, for an end that listens, and knows several peers, each by a secret
    /// of its own. They connect with `Security::encrypted`.
    #[cfg(feature = "encryption")]
    pub fn encrypted_of(secrets: PeerSecrets) -> Self {
        Self::of_peers(Mode::Encrypted, secrets)
    }

    /// TLS 1.3, for the end that connects.
    #[cfg(feature = "tls")]
    pub fn tls_client(client: TlsClient) -> Self {
        Self { mode: Mode::Tls, initiator: Some(client.credentials()), responder: None }
    }

    /// TLS 1.3, for the end that listens.
    #[cfg(feature = "tls")]
    pub fn tls_server(server: TlsServer) -> Self {
        Self { mode: Mode::Tls, initiator: None, responder: Some(server.credentials()) }
    }

    /// The mode.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The credentials of a lane that opens a stream; `None` at the end that listens.
    pub fn initiator(&self) -> Option<Credentials> {
        self.initiator.clone()
    }

    /// The credentials with which this end answers a lane that opens a stream; `None` at the end
    /// that connects.
    pub fn responder(&self) -> Option<Credentials> {
        self.responder.clone()
    }

    fn of_peers(mode: Mode, secrets: PeerSecrets) -> Self {
        Self { mode, initiator: None, responder: Some(Credentials::Secrets { mode, secrets }) }
    }

    /// Uses the same credentials at both ends.
    fn alike(credentials: Credentials) -> Self {
        Self { mode: credentials.mode(), initiator: Some(credentials.clone()), responder: Some(credentials) }
    }
}

/// As [`Security::psk`].
impl From<Secret> for Security {
    fn from(secret: Secret) -> Self {
        Self::psk(secret)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_makes_psk_and_encrypted_asks_for_more() {
        let secret = Secret::pre_shared(b"0123456789abcdef").unwrap();
        assert_eq!(Security::from(secret.clone()).mode(), Mode::PreSharedKey);
        assert_eq!(Security::encrypted(secret).mode(), Mode::Encrypted);
    }

    #[test]
    fn security_prints_no_secret() {
        let secret = Secret::pre_shared(b"correct horse battery").unwrap();
        let shown = format!("{:?}", Security::psk(secret));
        assert!(shown.contains("Credentials(psk, not encrypted)") && !shown.contains("correct"), "{shown}");
    }

    #[test]
    fn several_peers_are_for_the_end_that_listens() {
        let secrets = PeerSecrets::new([("alpha", Secret::pre_shared(b"0123456789abcdef").unwrap())]).unwrap();
        for (security, mode) in [
            (Security::psk_of(secrets.clone()), Mode::PreSharedKey),
            (Security::encrypted_of(secrets), Mode::Encrypted),
        ] {
            assert_eq!((security.mode(), security.responder().unwrap().mode()), (mode, mode));
            assert!(security.initiator().is_none());
        }
    }
}
