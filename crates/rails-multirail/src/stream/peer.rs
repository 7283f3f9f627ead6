//! Who the peer of a stream is.

use super::MultiRailStream;
#[cfg(feature = "tls")]
use crate::KeyPin;
use bytes::Bytes;

impl MultiRailStream {
    /// The name of the peer, if it opened the stream, and this end's listener knows several peers
    /// by their secrets ([`Security::psk_of`](crate::Security::psk_of), `encrypted_of`): the
    /// name that the listener had for the secret when the stream was opened. `None` in every
    /// other case.
    pub fn peer_name(&self) -> Option<&str> {
        self.shared.opened_by.peer_name.as_deref()
    }

    /// The certificate chain that the peer presented when the stream was opened, in DER, its own
    /// certificate first (X.509, RFC 5280). Empty without TLS ([`Security`](crate::Security)),
    /// and at a server whose client presented none.
    pub fn peer_certificates(&self) -> &[Bytes] {
        &self.shared.opened_by.peer_certificates
    }

    /// The pin of the key with which the peer has authenticated itself in TLS; `None` if it has
    /// presented no certificate. Each call parses the certificate and hashes the key.
    #[cfg(feature = "tls")]
    pub fn peer_key_pin(&self) -> Option<KeyPin> {
        KeyPin::of(self.peer_certificates().first()?)
    }
}
