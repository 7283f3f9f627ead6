//! Sockets of the kernel's Multipath TCP: those of an ordinary tokio program with another protocol
//! number. The path manager (`ip mptcp`) decides which subflows the kernel adds; they are invisible
//! here.
//!
//! References: RFC 8684; `Documentation/networking/mptcp.rst`.

use socket2::{Domain, Protocol, Socket, Type};
use std::{
    io,
    net::{IpAddr, SocketAddr},
};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

/// Connects from a local address, on the calling runtime.
pub(super) async fn connect(
    local: Option<IpAddr>,
    remote: SocketAddr,
    congestion: Option<&str>,
) -> io::Result<TcpStream> {
    let socket = socket(remote, congestion)?;
    if let Some(local) = local {
        socket.bind(&SocketAddr::new(local, 0).into())?;
    }
    TcpSocket::from_std_stream(socket.into()).connect(remote).await
}

/// Listens on an address, on the calling runtime.
pub(super) fn listen(address: SocketAddr, congestion: Option<&str>) -> io::Result<TcpListener> {
    let socket = socket(address, congestion)?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

fn socket(address: SocketAddr, congestion: Option<&str>) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::MPTCP))?;
    socket.set_nonblocking(true)?;
    socket.set_tcp_nodelay(true)?;
    if let Some(name) = congestion {
        // The kernel passes the option on to every subflow (net/mptcp/sockopt.c,
        // mptcp_setsockopt_sol_tcp_congestion).
        socket.set_tcp_congestion(name.as_bytes())?;
    }
    Ok(socket)
}

/// The number of connections that may wait to be accepted.
const BACKLOG: i32 = 128;
