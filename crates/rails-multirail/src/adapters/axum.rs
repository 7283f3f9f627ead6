//! `axum::serve(listener, app)`.

use super::StreamInfo;
use crate::{MultiRailListener, MultiRailStream};
use axum::{
    extract::connect_info::Connected,
    serve::{IncomingStream, Listener},
};
use std::{future::pending, io, net::SocketAddr};

/// For `axum::serve`. After the listener [is closed](MultiRailListener::close) or has failed,
/// `accept` waits for ever, so the server runs until the application shuts it down.
impl Listener for MultiRailListener {
    type Io = MultiRailStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        match Self::accept(self).await {
            Ok(stream) => {
                let peer = stream.shared.opened_by.peer;
                (stream, peer)
            }
            Err(error) => {
                tracing::warn!(%error, "no more streams are accepted");
                pending().await
            }
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        let first = self.local_addrs().first();
        first.map(|address| address.socket).ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

impl Connected<IncomingStream<'_, MultiRailListener>> for StreamInfo {
    fn connect_info(stream: IncomingStream<'_, MultiRailListener>) -> Self {
        Self::from(stream.io())
    }
}
