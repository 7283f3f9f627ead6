//! TLS 1.3 inside the handshake: messages of the handshake carry its flights, so an end reads
//! nothing ahead of them.

use crate::{
    handshake::{HandshakeError, HandshakeMessage, LONGEST_TLS, transcript::Transcript},
    secret::Secret,
};
use bytes::Bytes;
use rustls::{ClientConfig, ClientConnection, Connection, ServerConfig, ServerConnection, pki_types::ServerName};
use std::sync::{Arc, Mutex, PoisonError};
use zeroize::Zeroizing;

/// The initiator's part of TLS, to open a stream:
/// [`Security::tls_client`](crate::security::Security::tls_client) makes it.
#[derive(Clone)]
pub struct Client {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

/// The responder's part of TLS, for every peer that opens a stream:
/// [`Security::tls_server`](crate::security::Security::tls_server) makes it. Clones have the same
/// configuration, also after it was replaced.
#[derive(Clone)]
pub struct Server(Arc<Mutex<Arc<ServerConfig>>>);

impl Client {
    /// Expects a server of this name. The configuration speaks TLS 1.3 alone, and resumes no
    /// session.
    pub(crate) fn new(config: Arc<ClientConfig>, name: ServerName<'static>) -> Self {
        Self { config, name }
    }
}

impl Server {
    /// Takes a configuration that speaks TLS 1.3 alone, and resumes no session.
    pub(crate) fn new(config: ServerConfig) -> Self {
        Self(Arc::new(Mutex::new(Arc::new(config))))
    }

    /// The configuration for a handshake that begins now.
    fn config(&self) -> Arc<ServerConfig> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes the configuration of `other` for every handshake that begins from now on.
    pub(crate) fn replace_by(&self, other: &Self) {
        let new = other.config();
        let old = std::mem::replace(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner), new);
        // Certificates are freed without the lock.
        drop(old);
    }
}

/// One end's part of a TLS handshake.
#[derive(Debug)]
pub(in crate::handshake) struct Session {
    connection: Connection,
    /// The number of bytes that the peer has sent.
    received: usize,
}

impl Session {
    pub(in crate::handshake) fn client(client: Client) -> Result<Self, HandshakeError> {
        let connection = ClientConnection::new(client.config, client.name).map_err(failed)?;
        Ok(Self { connection: connection.into(), received: 0 })
    }

    pub(in crate::handshake) fn server(server: Server) -> Result<Self, HandshakeError> {
        Ok(Self { connection: ServerConnection::new(server.config()).map_err(failed)?.into(), received: 0 })
    }

    /// Takes a piece of the peer's flight. After success and after an error, [`Session::flight`]
    /// gives the messages to send.
    pub(in crate::handshake) fn handle(&mut self, mut bytes: &[u8]) -> Result<(), HandshakeError> {
        if self.is_done() {
            return Err(HandshakeError::Disorder);
        }
        self.received += bytes.len();
        if self.received > MAX_TLS {
            return Err(HandshakeError::TlsTooLong);
        }
        while !bytes.is_empty() {
            // Reading from a slice cannot fail; if rustls has no room, it returns an error of its own.
            let taken = self.connection.read_tls(&mut bytes).map_err(|_| HandshakeError::TlsTooLong)?;
            let state = self.connection.process_new_packets().map_err(failed)?;
            // TLS ends with its handshake: it carries no data of the stream, and needs no close of its own.
            if taken == 0 || state.plaintext_bytes_to_read() > 0 || state.peer_has_closed() {
                return Err(HandshakeError::Disorder);
            }
        }
        Ok(())
    }

    /// Takes a piece of the peer's flight after the end of the handshake: an alert, or nothing that
    /// has its place there.
    pub(in crate::handshake) fn alert(&mut self, mut bytes: &[u8]) -> HandshakeError {
        let _ = self.connection.read_tls(&mut bytes);
        self.connection.process_new_packets().map_or_else(failed, |_| HandshakeError::Disorder)
    }

    /// Takes the messages to send.
    pub(in crate::handshake) fn flight(&mut self) -> Vec<HandshakeMessage> {
        let mut flight = Vec::new();
        while self.connection.wants_write() {
            // Writing into a vector cannot fail.
            if !matches!(self.connection.write_tls(&mut flight), Ok(1..)) {
                break;
            }
        }
        flight.chunks(LONGEST_TLS).map(|piece| HandshakeMessage::Tls(piece.to_vec())).collect()
    }

    pub(in crate::handshake) fn is_done(&self) -> bool {
        !self.connection.is_handshaking()
    }

    /// The certificates that the peer has presented and proved to own, as DER, its own first.
    pub(in crate::handshake) fn peer_certificates(&self) -> Vec<Bytes> {
        let shown = self.connection.peer_certificates().unwrap_or_default();
        shown.iter().map(|certificate| Bytes::copy_from_slice(certificate)).collect()
    }

    /// The secret that both ends of this session share, bound to the hello and the challenge before
    /// it (RFC 8446, section 7.5).
    pub(in crate::handshake) fn secret(&self, transcript: &Transcript) -> Result<Secret, HandshakeError> {
        let mut key = Zeroizing::new([0; 32]);
        let context = transcript.hash();
        self.connection.export_keying_material(&mut *key, EXPORTER, Some(&context)).map_err(failed)?;
        Ok(Secret::of_session(&key))
    }
}

fn failed(error: rustls::Error) -> HandshakeError {
    HandshakeError::Tls(Box::new(error.into()))
}

const EXPORTER: &[u8] = b"EXPORTER-rails-5-stream";

/// The most bytes of TLS that one end takes in a handshake: enough for a chain of a few
/// certificates.
const MAX_TLS: usize = 64 << 10;
