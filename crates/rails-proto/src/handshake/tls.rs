//! TLS 1.3 inside the handshake: its flights are messages of ours, so nothing is read ahead of them.

use super::{HandshakeError, LONGEST_TLS, Message, transcript::Transcript};
use crate::secret::Secret;
use bytes::Bytes;
use rustls::{ClientConfig, ClientConnection, Connection, ServerConfig, ServerConnection, pki_types::ServerName};
use std::sync::Arc;
use zeroize::Zeroizing;

/// One end's side of the TLS handshake.
#[derive(Debug)]
pub(super) struct Tls {
    connection: Connection,
    /// How many bytes the peer has sent.
    received: usize,
}

impl Tls {
    pub(super) fn client(config: Arc<ClientConfig>, name: ServerName<'static>) -> Result<Self, HandshakeError> {
        Ok(Self { connection: ClientConnection::new(config, name).map_err(failed)?.into(), received: 0 })
    }

    pub(super) fn server(config: Arc<ServerConfig>) -> Result<Self, HandshakeError> {
        Ok(Self { connection: ServerConnection::new(config).map_err(failed)?.into(), received: 0 })
    }

    /// Takes a piece of the peer's flight. [`Tls::flight`] is what to send then, whatever came of it.
    pub(super) fn handle(&mut self, mut bytes: &[u8]) -> Result<(), HandshakeError> {
        if self.is_done() {
            return Err(HandshakeError::Disorder);
        }
        self.received += bytes.len();
        if self.received > MOST_TLS {
            return Err(HandshakeError::TlsTooLong);
        }
        while !bytes.is_empty() {
            // Reading from a slice cannot fail; what rustls has no room for it says by an error of its own.
            let taken = self.connection.read_tls(&mut bytes).map_err(|_| HandshakeError::TlsTooLong)?;
            let state = self.connection.process_new_packets().map_err(failed)?;
            // TLS ends with its handshake: it carries no data of ours, and has no end of its own.
            if taken == 0 || state.plaintext_bytes_to_read() > 0 || state.peer_has_closed() {
                return Err(HandshakeError::Disorder);
            }
        }
        Ok(())
    }

    /// What there is to send.
    pub(super) fn flight(&mut self) -> Vec<Message> {
        let mut flight = Vec::new();
        while self.connection.wants_write() {
            // Writing into a vector cannot fail.
            if !matches!(self.connection.write_tls(&mut flight), Ok(1..)) {
                break;
            }
        }
        flight.chunks(LONGEST_TLS).map(|piece| Message::Tls(piece.to_vec())).collect()
    }

    pub(super) fn is_done(&self) -> bool {
        !self.connection.is_handshaking()
    }

    /// The certificates that the peer has shown and proved to own, DER, its own first.
    pub(super) fn peer_certificates(&self) -> Vec<Bytes> {
        let shown = self.connection.peer_certificates().unwrap_or_default();
        shown.iter().map(|certificate| Bytes::copy_from_slice(certificate)).collect()
    }

    /// The secret that both ends of this session share, and that is bound to what was said before it (RFC 8446, section 7.5).
    pub(super) fn secret(&self, transcript: &Transcript) -> Result<Secret, HandshakeError> {
        let mut key = Zeroizing::new([0; 32]);
        let context = transcript.hash();
        self.connection.export_keying_material(&mut *key, EXPORTER, Some(&context)).map_err(failed)?;
        Ok(Secret::of_session(&key))
    }
}

fn failed(error: rustls::Error) -> HandshakeError {
    HandshakeError::Tls(Box::new(error))
}

const EXPORTER: &[u8] = b"EXPORTER-rails-4-stream";

/// How many bytes of TLS one end takes in a handshake: a chain of a few certificates with room to spare.
const MOST_TLS: usize = 64 << 10;
