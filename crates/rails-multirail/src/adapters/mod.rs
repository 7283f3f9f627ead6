//! Adapters of listeners and streams for axum and tonic.

#[cfg(feature = "axum")]
mod axum;
#[cfg(feature = "tonic")]
mod tonic;

use crate::{MultiRailStream, StreamId};
use bytes::Bytes;
use std::net::SocketAddr;

/// A stream's name, addresses and peer certificates, which a server hands to its handlers.
///
/// axum: `ConnectInfo<StreamInfo>`, with `into_make_service_with_connect_info::<StreamInfo>()`.
/// tonic: an extension of each request.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamInfo {
    /// The stream.
    pub stream: StreamId,
    /// [`MultiRailStream::local_addr`].
    pub local_addr: SocketAddr,
    /// [`MultiRailStream::peer_addr`].
    pub peer_addr: SocketAddr,
    /// [`MultiRailStream::peer_certificates`].
    pub peer_certificates: Vec<Bytes>,
}

impl From<&MultiRailStream> for StreamInfo {
    fn from(stream: &MultiRailStream) -> Self {
        Self {
            stream: stream.id(),
            local_addr: stream.shared.opened_by.local,
            peer_addr: stream.shared.opened_by.peer,
            peer_certificates: stream.peer_certificates().to_vec(),
        }
    }
}
