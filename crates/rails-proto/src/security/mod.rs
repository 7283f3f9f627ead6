//! How streams are kept: openly, by a secret, or by TLS.

#[cfg(feature = "tls")]
mod pin;
#[cfg(feature = "tls")]
mod tls;

#[cfg(feature = "tls")]
pub use pin::{KeyPin, PinError};
#[cfg(feature = "tls")]
pub use tls::{Identity, TlsClient, TlsError, TlsServer};

use crate::{
    handshake::{Credentials, Mode},
    secret::Secret,
};

/// How a stream, or every stream of a listener, is kept to those who may join it. Both ends choose the same mode: an end takes
/// no other than its own, so nobody in between can have them settle for less.
///
/// | mode | who may join | what someone in between can do |
/// |---|---|---|
/// | [insecure](Self::insecure) | anyone | read and change everything |
/// | [psk](Self::psk) | who knows the secret, any stream | read and change the bytes, not join; guess at the secret if it is weak |
/// | psk, encrypted (`encrypted`) | who knows the secret, any stream | cut lanes; read what he recorded once he learns the secret |
/// | tls (`tls_client`, `tls_server`) | the two ends of the TLS session that opened the stream | cut lanes |
///
/// In the last two every lane seals its frames on its own rail's core: AES-256-GCM with keys that no other lane has
/// ([`seal`](crate::seal)). The tag takes the place of the payload's checksum. Whoever is in between
/// sees how much is sent and when, and the handshake's `Hello`; a record that he changes costs its lane, and the stream goes on over
/// the others.
#[derive(Debug, Clone)]
pub struct Security {
    mode: Mode,
    /// A lane that opens a stream brings this; the end that only listens has none.
    initiator: Option<Credentials>,
    /// A lane that opens a stream is met with this; the end that only connects has none.
    responder: Option<Credentials>,
}

impl Security {
    /// Anyone who reaches the port may join, and read and change everything on the way. Tools that use it say so.
    pub fn insecure() -> Self {
        Self::alike(Credentials::Insecure)
    }

    /// Whoever knows the secret may join. The bytes are neither encrypted nor authenticated; with `Security::encrypted` they are.
    pub fn psk(secret: Secret) -> Self {
        Self::alike(Credentials::Secret { mode: Mode::PreSharedKey, secret })
    }

    /// Whoever knows the secret may join, and the bytes are encrypted and authenticated, frame by frame, by keys made of it.
    #[cfg(feature = "encryption")]
    pub fn encrypted(secret: Secret) -> Self {
        Self::alike(Credentials::Secret { mode: Mode::Encrypted, secret })
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

    /// What a lane that opens a stream brings; `None` at the end that listens.
    pub fn initiator(&self) -> Option<Credentials> {
        self.initiator.clone()
    }

    /// What a lane that opens a stream is met with; `None` at the end that connects.
    pub fn responder(&self) -> Option<Credentials> {
        self.responder.clone()
    }

    /// Both ends bring the same.
    fn alike(credentials: Credentials) -> Self {
        Self { mode: credentials.mode(), initiator: Some(credentials.clone()), responder: Some(credentials) }
    }
}

/// [`Security::psk`].
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
        assert!(shown.contains("Credentials(psk)") && !shown.contains("correct"), "{shown}");
    }
}
