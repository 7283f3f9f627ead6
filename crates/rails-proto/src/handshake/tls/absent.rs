//! The types of TLS in a build without it. They have no values, so no code that needs one can run.

use crate::{
    handshake::{HandshakeError, HandshakeMessage, transcript::Transcript},
    secret::Secret,
};
use bytes::Bytes;

/// The initiator's part of TLS: none without the feature `tls`.
#[derive(Clone)]
pub enum Client {}

/// The responder's part of TLS: none without the feature `tls`.
#[derive(Clone)]
pub enum Server {}

/// An error of TLS: none without the feature `tls`.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {}

/// One end's part of a TLS handshake.
#[derive(Debug)]
pub(in crate::handshake) enum Session {}

impl Session {
    pub(in crate::handshake) fn client(client: Client) -> Result<Self, HandshakeError> {
        match client {}
    }

    pub(in crate::handshake) fn server(server: Server) -> Result<Self, HandshakeError> {
        match server {}
    }

    pub(in crate::handshake) fn handle(&mut self, _: &[u8]) -> Result<(), HandshakeError> {
        match *self {}
    }

    pub(in crate::handshake) fn alert(&mut self, _: &[u8]) -> HandshakeError {
        match *self {}
    }

    pub(in crate::handshake) fn flight(&mut self) -> Vec<HandshakeMessage> {
        match *self {}
    }

    pub(in crate::handshake) fn is_done(&self) -> bool {
        match *self {}
    }

    pub(in crate::handshake) fn peer_certificates(&self) -> Vec<Bytes> {
        match *self {}
    }

    pub(in crate::handshake) fn secret(&self, _: &Transcript) -> Result<Secret, HandshakeError> {
        match *self {}
    }
}
