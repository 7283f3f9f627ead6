//! How streams are kept: openly, by a secret, or by TLS.

mod pin;
mod tls;

pub use pin::{KeyPin, PinError};
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
/// | [psk, encrypted](Self::encrypted) | who knows the secret, any stream | cut lanes; read what he recorded once he learns the secret |
/// | [tls](Self::tls_server) | the two ends of the TLS session that opened the stream | cut lanes |
///
/// In the last two every lane seals its frames on its own rail's core: AES-256-GCM with keys that no other lane has
/// ([`seal`](crate::seal)). The tag takes the place of the payload's checksum. Whoever is in between
/// sees how much is sent and when, and the handshake's `Hello`; a record that he changes costs its lane, and the stream goes on over
/// the others.
#[derive(Debug, Clone)]
pub struct Security(Kind);

#[derive(Debug, Clone)]
enum Kind {
    Shared(Credentials),
    Client(TlsClient),
    Server(TlsServer),
}

impl Security {
    /// Anyone who reaches the port may join, and read and change everything on the way. Tools that use it say so.
    pub fn insecure() -> Self {
        Self(Kind::Shared(Credentials::Insecure))
    }

    /// Whoever knows the secret may join. The bytes are neither encrypted nor authenticated; with [`encrypted`](Self::encrypted) they are.
    pub fn psk(secret: Secret) -> Self {
        Self(Kind::Shared(Credentials::Secret { mode: Mode::PreSharedKey, secret }))
    }

    /// Whoever knows the secret may join, and the bytes are encrypted and authenticated, frame by frame, by keys made of it.
    pub fn encrypted(secret: Secret) -> Self {
        Self(Kind::Shared(Credentials::Secret { mode: Mode::Encrypted, secret }))
    }

    /// TLS 1.3, for the end that connects.
    pub fn tls_client(client: TlsClient) -> Self {
        Self(Kind::Client(client))
    }

    /// TLS 1.3, for the end that listens.
    pub fn tls_server(server: TlsServer) -> Self {
        Self(Kind::Server(server))
    }

    /// The mode.
    pub fn mode(&self) -> Mode {
        match &self.0 {
            Kind::Shared(credentials) => credentials.mode(),
            Kind::Client(_) | Kind::Server(_) => Mode::Tls,
        }
    }

    /// What a lane that opens a stream brings; `None` at the end that listens.
    pub fn initiator(&self) -> Option<Credentials> {
        match &self.0 {
            Kind::Shared(credentials) => Some(credentials.clone()),
            Kind::Client(client) => Some(client.credentials()),
            Kind::Server(_) => None,
        }
    }

    /// What a lane that opens a stream is met with; `None` at the end that connects.
    pub fn responder(&self) -> Option<Credentials> {
        match &self.0 {
            Kind::Shared(credentials) => Some(credentials.clone()),
            Kind::Server(server) => Some(server.credentials()),
            Kind::Client(_) => None,
        }
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
    fn what_it_is_made_of_is_not_printed() {
        let secret = Secret::pre_shared(b"correct horse battery").unwrap();
        assert_eq!(format!("{:?}", Security::psk(secret)), "Security(Shared(Credentials(psk)))");
    }
}
