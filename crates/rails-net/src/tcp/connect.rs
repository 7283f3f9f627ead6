//! Opening lanes.

use super::socket_options;
use crate::{ConnectError, TcpLane, TcpTransport, socket, sys::option::SocketOption};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use std::{io, net::SocketAddr, time::Duration};
use tokio::net::{TcpSocket, TcpStream};

impl TcpTransport {
    /// Opens a lane to `remote` from the local end of these options.
    ///
    /// # Errors
    /// [`ConnectError::Option`] and [`ConnectError::LocalEnd`] before anything is sent; then
    /// [`ConnectError::Refused`], [`ConnectError::TimedOut`], [`ConnectError::SelfConnect`] or
    /// [`ConnectError::Call`].
    ///
    /// # Panics
    /// Outside of a tokio runtime, or on one without its I/O and time drivers (`enable_all`).
    ///
    /// # Cancellation
    /// Dropping the future closes the socket.
    pub async fn connect(&self, remote: SocketAddr) -> Result<TcpLane, ConnectError> {
        let socket = self.bound(remote)?;
        let connecting = TcpSocket::from_std_stream(socket.into()).connect(remote);
        let stream = match tokio::time::timeout(self.connect_timeout, connecting).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(source)) => return Err(self.unconnected(remote, source)),
            Err(_elapsed) => {
                let waited = format!("no answer within {:?}", self.connect_timeout);
                return Err(self.unconnected(remote, io::Error::new(io::ErrorKind::TimedOut, waited)));
            }
        };
        self.lane(stream, remote)
    }

    /// The lane of an established connection.
    fn lane(&self, stream: TcpStream, remote: SocketAddr) -> Result<TcpLane, ConnectError> {
        let local = stream.local_addr().map_err(|source| self.failed("getsockname", remote, source))?;
        if local == remote {
            // A reset leaves no TIME_WAIT, which would keep the port from its listener. If the
            // option is refused, the socket is closed without it.
            let _ = SockRef::from(&stream).set_linger(Some(Duration::ZERO));
            return Err(ConnectError::SelfConnect { address: remote });
        }
        Ok(TcpLane::new(stream, local, remote, self)?)
    }

    /// A socket with these options, bound to their local end.
    fn bound(&self, remote: SocketAddr) -> Result<Socket, ConnectError> {
        let failed = |call| move |source| self.failed(call, remote, source);
        let socket = Socket::new(Domain::for_address(remote), Type::STREAM, Some(Protocol::TCP));
        let socket = socket.map_err(failed("socket"))?;
        socket.set_nonblocking(true).map_err(failed("fcntl"))?;
        socket_options::set_options(&socket, self)?;
        // A port taken at bind must be free towards every destination, one taken at connect towards this
        // one alone (ip(7)). Where the option is refused, the port is taken at bind.
        let _ = SocketOption::IP_BIND_ADDRESS_NO_PORT.set(&socket, 1);
        socket::bind_local(&socket, &self.local, remote)?;
        Ok(socket)
    }

    fn failed(&self, call: &'static str, remote: SocketAddr, source: io::Error) -> ConnectError {
        ConnectError::Call { call, remote, local: self.local.clone(), source }
    }

    fn unconnected(&self, remote: SocketAddr, source: io::Error) -> ConnectError {
        let local = self.local.clone();
        match source.kind() {
            io::ErrorKind::ConnectionRefused => ConnectError::Refused { remote, local, source },
            io::ErrorKind::TimedOut => ConnectError::TimedOut { remote, local, source },
            _ => self.failed("connect", remote, source),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

    #[test]
    fn a_lanes_port_is_chosen_when_it_connects() {
        for address in [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)] {
            let socket = TcpTransport::new().local(address).bound((address, 9).into()).expect("loopback is there");
            let bound = socket.local_addr().expect("it is bound").as_socket();
            assert_eq!(bound, Some((address, 0).into()));
        }
    }

    #[tokio::test]
    async fn a_connection_that_meets_itself_is_no_lane() {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind((Ipv4Addr::LOCALHOST, 0).into()).expect("loopback is there");
        let address = socket.local_addr().expect("it is bound");
        let stream = socket.connect(address).await.expect("both ends open at once");
        let error = TcpTransport::new().lane(stream, address).expect_err("both ends are one socket");
        assert!(matches!(error, ConnectError::SelfConnect { address: both } if both == address), "{error}");
        assert!(error.to_string().ends_with("met itself"), "{error}");
        std::net::TcpListener::bind(address).expect("no closed connection keeps the port");
    }
}
