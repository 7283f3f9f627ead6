//! What a server tells its handlers of a stream.

use crate::{MultiRailStream, StreamId};
use bytes::Bytes;
use std::{net::SocketAddr, sync::Arc};

/// A stream's name, addresses and peer, which a server hands to its handlers.
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
    /// [`MultiRailStream::peer_name`].
    pub peer_name: Option<Arc<str>>,
}

impl From<&MultiRailStream> for StreamInfo {
    fn from(stream: &MultiRailStream) -> Self {
        Self {
            stream: stream.id(),
            local_addr: stream.shared.opened_by.local,
            peer_addr: stream.shared.opened_by.peer,
            peer_certificates: stream.peer_certificates().to_vec(),
            peer_name: stream.shared.opened_by.peer_name.clone(),
        }
    }
}
