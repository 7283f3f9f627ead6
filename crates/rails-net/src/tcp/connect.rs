//! Opening lanes.

use super::socket_options;
use crate::{ConnectError, TcpLane, TcpTransport, socket};
use socket2::{Domain, Protocol, Socket, Type};
use std::{io, net::SocketAddr};
use tokio::net::TcpSocket;

impl TcpTransport {
    /// Opens a lane to `remote` from the local end of these options.
    ///
    /// # Errors
    /// [`ConnectError::Option`] and [`ConnectError::LocalEnd`] before anything is sent; then [`ConnectError::Refused`],
    /// [`ConnectError::TimedOut`] or [`ConnectError::Call`].
    ///
    /// # Panics
    /// Outside of a tokio runtime, or on one without its I/O and time drivers (`enable_all`).
    ///
    /// # Cancellation
    /// Dropping the future closes the socket.
    pub async fn connect(&self, remote: SocketAddr) -> Result<TcpLane, ConnectError> {
        let failed = |call| move |source| ConnectError::Call { call, remote, local: self.local.clone(), source };
        let socket = Socket::new(Domain::for_address(remote), Type::STREAM, Some(Protocol::TCP));
        let socket = socket.map_err(failed("socket"))?;
        socket.set_nonblocking(true).map_err(failed("fcntl"))?;
        socket_options::set_options(&socket, self)?;
        socket::bind_local(&socket, &self.local, remote)?;

        let connecting = TcpSocket::from_std_stream(socket.into()).connect(remote);
        let stream = match tokio::time::timeout(self.connect_timeout, connecting).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(source)) => return Err(self.unconnected(remote, source)),
            Err(_elapsed) => {
                let waited = format!("no answer within {:?}", self.connect_timeout);
                return Err(self.unconnected(remote, io::Error::new(io::ErrorKind::TimedOut, waited)));
            }
        };
        let local = stream.local_addr().map_err(failed("getsockname"))?;
        Ok(TcpLane::new(stream, local, remote, self)?)
    }

    fn unconnected(&self, remote: SocketAddr, source: io::Error) -> ConnectError {
        let local = self.local.clone();
        match source.kind() {
            io::ErrorKind::ConnectionRefused => ConnectError::Refused { remote, local, source },
            io::ErrorKind::TimedOut => ConnectError::TimedOut { remote, local, source },
            _ => ConnectError::Call { call: "connect", remote, local, source },
        }
    }
}
