//! The security of a listener, which the application may change while it listens.

use super::join::random;
use crate::{
    EndpointError, Security,
    error::{JoinError, SetSecurityError},
};
use rails_proto::{
    handshake::{Credentials, Mode},
    secret::Secret,
};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The credentials with which a listener answers a lane that opens a stream, or asks for lanes.
#[derive(Debug)]
pub(super) struct ListenerSecurity(Mutex<Credentials>);

impl ListenerSecurity {
    pub(super) fn new(security: &Security) -> Result<Self, EndpointError> {
        let credentials = security.responder().ok_or(EndpointError::ClientSecurity)?;
        Ok(Self(Mutex::new(credentials)))
    }

    /// Replaces the credentials by others of the same mode.
    pub(super) fn set(&self, security: &Security) -> Result<(), SetSecurityError> {
        let new = security.responder().ok_or(SetSecurityError::ClientSecurity)?;
        let mut current = self.lock();
        let (ours, theirs) = (current.mode(), new.mode());
        if ours != theirs {
            return Err(SetSecurityError::Mode { listener: ours, new: theirs });
        }
        let old = std::mem::replace(&mut *current, new);
        // The last copy of a secret is wiped, and certificates are freed, without the lock.
        drop(current);
        drop(old);
        Ok(())
    }

    /// The present credentials.
    pub(super) fn credentials(&self) -> Credentials {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Credentials> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The credentials for a lane that joins a stream which is not open: a random secret, so that a
/// peer without the stream's secret gets the same answer whether the stream exists or not.
pub(super) fn of_unknown_stream(mode: Mode) -> Result<Credentials, JoinError> {
    match mode {
        Mode::Insecure => Ok(Credentials::Insecure),
        mode => {
            let secret = Secret::of_session(&random().map_err(JoinError::Random)?);
            Ok(Credentials::Secret { mode, secret })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Identity, PeerSecrets, TlsClient, TlsServer};

    fn secret(byte: u8) -> Secret {
        Secret::pre_shared(&[byte; 16]).unwrap()
    }

    fn tls() -> [Security; 2] {
        let made = rcgen::generate_simple_self_signed(["rails.example".to_owned()]).unwrap();
        let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        let identity = Identity::from_pem(certificate.as_bytes(), key.as_bytes()).unwrap();
        let client = TlsClient::pinned(identity.pin().unwrap()).unwrap();
        [Security::tls_client(client), Security::tls_server(TlsServer::new(identity).unwrap())]
    }

    #[test]
    fn a_listener_keeps_its_mode_and_its_security_after_an_error() {
        let of_peers = PeerSecrets::new([("alpha", secret(1)), ("beta", secret(2))]).unwrap();
        let [client, server] = tls();
        let all = [
            Security::insecure(),
            Security::psk(secret(1)),
            Security::encrypted(secret(1)),
            server,
            Security::psk_of(of_peers.clone()),
            Security::encrypted_of(of_peers),
        ];
        for first in &all {
            let security = ListenerSecurity::new(first).unwrap();
            for next in &all {
                let alike = first.mode() == next.mode();
                let wrong = SetSecurityError::Mode { listener: first.mode(), new: next.mode() };
                assert_eq!(security.set(next), if alike { Ok(()) } else { Err(wrong) });
                assert_eq!(security.credentials().mode(), first.mode());
            }
            assert_eq!(security.set(&client), Err(SetSecurityError::ClientSecurity));
        }
        assert!(matches!(ListenerSecurity::new(&client), Err(EndpointError::ClientSecurity)));
    }
}
