//! Lanes that the other end opens.

use crate::{AcceptError, BindEndError, LaneOptions, ListenError, LocalEnd, StatsError, TcpLane, socket};
use socket2::{Domain, Protocol, Socket, Type};
use std::net::SocketAddr;
use tokio::net::TcpListener;

/// Accepts lanes that begin as its options say.
#[derive(Debug)]
pub struct LaneListener {
    listener: TcpListener,
    local: SocketAddr,
    options: LaneOptions,
}

impl LaneOptions {
    /// Listens on `local`; port 0 lets the kernel choose, and [`LaneListener::local_addr`] tells.
    ///
    /// A device in [`local`](Self::local) holds here too: connections come in by it alone. An address in it must be
    /// that of `local`.
    ///
    /// # Errors
    /// [`ListenError::LocalEnd`] for an address that is not of this machine or is taken, and for a wrong device.
    ///
    /// # Panics
    /// Outside of a tokio runtime with its I/O driver (`enable_all`).
    pub fn listen(&self, local: SocketAddr) -> Result<LaneListener, ListenError> {
        let failed = |call| move |source| ListenError::Call { call, local, source };
        let socket = Socket::new(Domain::for_address(local), Type::STREAM, Some(Protocol::TCP));
        let socket = socket.map_err(failed("socket"))?;
        socket.set_nonblocking(true).map_err(failed("fcntl"))?;
        socket::set_options(&socket, self)?;
        socket::set("SO_REUSEADDR", self.reuse_address, socket.set_reuse_address(self.reuse_address))?;
        socket::set("SO_REUSEPORT", self.reuse_port, socket.set_reuse_port(self.reuse_port))?;
        match &self.local {
            LocalEnd::Any => {}
            LocalEnd::Device(device) => socket::bind_device(&socket, device)?,
            LocalEnd::Address(address) if *address == local.ip() => {}
            LocalEnd::Address(address) => {
                return Err(BindEndError::Mismatch { local: *address, other: local }.into());
            }
        }
        socket::bind_address(&socket, local)?;
        socket.listen(i32::try_from(self.backlog).unwrap_or(i32::MAX)).map_err(failed("listen"))?;
        let listener = TcpListener::from_std(socket.into()).map_err(failed("epoll_ctl"))?;
        let local = listener.local_addr().map_err(failed("getsockname"))?;
        Ok(LaneListener { listener, local, options: self.clone() })
    }
}

impl LaneListener {
    /// The address that is listened on.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Waits for the next lane.
    ///
    /// # Errors
    /// After an error that [`is_transient`](AcceptError::is_transient) the listener goes on as before.
    ///
    /// # Cancellation
    /// Dropping the future loses no connection.
    pub async fn accept(&self) -> Result<TcpLane, AcceptError> {
        let local = self.local;
        let accepted = self.listener.accept().await;
        let (stream, peer) = accepted.map_err(|source| AcceptError::Accept { local, source })?;
        let lost = |source| AcceptError::Lost { local, source };
        // A listener on a wildcard address learns here which of the machine's addresses was called.
        let near = stream.local_addr();
        let near = near.map_err(|source| lost(StatsError::Call { call: "getsockname", local, peer, source }))?;
        TcpLane::new(stream, near, peer, &self.options)
            .map_err(|source| lost(StatsError::Option { local: near, peer, source: Box::new(source) }))
    }
}
