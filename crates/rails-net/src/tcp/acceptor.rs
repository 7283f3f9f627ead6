//! Accepting lanes that peers open.

use super::socket_options;
use crate::{
    AcceptError, Acceptor, BindEndError, IncomingLane, Lane, ListenError, StatsError, TcpLane, TcpTransport, socket,
};
use socket2::{Domain, Protocol, Socket, Type};
use std::{
    net::SocketAddr,
    sync::Arc,
    task::{Context, Poll, ready},
};
use tokio::net::{TcpListener, TcpStream};

/// A listening socket. Its lanes have its options.
#[derive(Debug)]
pub struct TcpAcceptor {
    listener: TcpListener,
    local: SocketAddr,
    options: Arc<TcpTransport>,
}

impl TcpTransport {
    /// Listens on `local`; for port 0 the kernel chooses a port, which [`TcpAcceptor::local_addr`]
    /// returns.
    ///
    /// A device in [`local`](Self::local) also applies here: only connections by that device are
    /// accepted. An address there must equal that of `local`.
    ///
    /// # Errors
    /// [`ListenError::LocalEnd`] for an address that this machine does not have or that is in use,
    /// and for a wrong device.
    ///
    /// # Panics
    /// Outside of a tokio runtime with its I/O driver (`enable_all`).
    pub fn listen(&self, local: SocketAddr) -> Result<TcpAcceptor, ListenError> {
        let failed = |call| move |source| ListenError::Call { call, local, source };
        let socket = Socket::new(Domain::for_address(local), Type::STREAM, Some(Protocol::TCP));
        let socket = socket.map_err(failed("socket"))?;
        socket.set_nonblocking(true).map_err(failed("fcntl"))?;
        socket_options::set_options(&socket, self)?;
        // A new socket has neither.
        if self.reuse_address {
            socket::prefer("SO_REUSEADDR", true, false, socket.set_reuse_address(true))?;
        }
        if self.reuse_port {
            socket::set("SO_REUSEPORT", true, socket.set_reuse_port(true))?;
        }
        if let Some(device) = self.local.device() {
            socket::bind_device(&socket, device)?;
        }
        if let Some(address) = self.local.address().filter(|address| *address != local.ip()) {
            return Err(BindEndError::Mismatch { local: address, other: local }.into());
        }
        socket::bind_address(&socket, local)?;
        socket.listen(i32::try_from(self.backlog).unwrap_or(i32::MAX)).map_err(failed("listen"))?;
        let listener = TcpListener::from_std(socket.into()).map_err(failed("epoll_ctl"))?;
        let local = listener.local_addr().map_err(failed("getsockname"))?;
        Ok(TcpAcceptor { listener, local, options: Arc::new(self.clone()) })
    }
}

impl TcpAcceptor {
    /// The listener's address.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Waits for the next lane, which belongs to the caller's runtime.
    ///
    /// # Errors
    /// After an error that [`is_transient`](AcceptError::is_transient) the listener continues.
    ///
    /// # Cancellation
    /// Dropping the future loses no connection.
    pub async fn accept(&self) -> Result<TcpLane, AcceptError> {
        let listening = self.local;
        let accepted = self.listener.accept().await;
        let (stream, peer) = accepted.map_err(|source| AcceptError::Accept { local: listening, source })?;
        let local = called(&stream, peer, listening)?;
        opened(stream, (local, peer), listening, &self.options)
    }
}

impl Acceptor for TcpAcceptor {
    fn local_addr(&self) -> SocketAddr {
        self.local
    }

    fn poll_accept(&mut self, context: &mut Context<'_>) -> Poll<Result<IncomingLane, AcceptError>> {
        let listening = self.local;
        let failed = |source| AcceptError::Accept { local: listening, source };
        let (stream, peer) = ready!(self.listener.poll_accept(context)).map_err(failed)?;
        let local = called(&stream, peer, listening)?;
        let lost = move |source| lost(listening, StatsError::Call { call: "epoll_ctl", local, peer, source });
        // The socket leaves the accepting runtime for the one that drives the lane.
        let stream = stream.into_std().map_err(lost)?;
        let options = self.options.clone();
        let open = move || {
            let stream = TcpStream::from_std(stream).map_err(lost)?;
            Ok(Arc::new(opened(stream, (local, peer), listening, &options)?) as Arc<dyn Lane>)
        };
        Poll::Ready(Ok(IncomingLane::new(local, peer, open)))
    }
}

/// The local address to which the peer has connected, also for a listener on a wildcard address.
fn called(stream: &TcpStream, peer: SocketAddr, listening: SocketAddr) -> Result<SocketAddr, AcceptError> {
    let failed = |source| lost(listening, StatsError::Call { call: "getsockname", local: listening, peer, source });
    stream.local_addr().map_err(failed)
}

/// The lane of a connection that came to `listening`.
fn opened(
    stream: TcpStream,
    (local, peer): (SocketAddr, SocketAddr),
    listening: SocketAddr,
    options: &TcpTransport,
) -> Result<TcpLane, AcceptError> {
    TcpLane::new(stream, local, peer, options)
        .map_err(|source| lost(listening, StatsError::Option { local, peer, source: Box::new(source) }))
}

fn lost(listening: SocketAddr, source: StatsError) -> AcceptError {
    AcceptError::Lost { local: listening, source }
}
