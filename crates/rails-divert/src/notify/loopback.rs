//! The addresses of the loopback device to which sockets are connected in place of their
//! destinations.

use super::judge::Side;
use crate::sys::{disconnect::disconnect, option};
use nix::poll::{PollFd, PollFlags, poll};
use socket2::{Domain, SockRef, Socket, Type};
use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream},
    os::fd::{AsFd, BorrowedFd},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Listeners on 127.0.0.1 and, where there is one, ::1.
#[derive(Debug)]
pub(super) struct Loopback {
    v4: Listeners,
    v6: Option<Listeners>,
    /// The number of the network namespace in which they are, from Linux 5.14 on.
    network: Option<[u8; 8]>,
}

/// Listeners that nobody uses at the moment. Each connection has one of its own until it is
/// accepted: so no connection has to be told from another one that is made at the same time.
#[derive(Debug)]
struct Listeners {
    ip: IpAddr,
    idle: Mutex<Vec<Socket>>,
}

impl Loopback {
    /// # Errors
    /// If no connection over 127.0.0.1 can be made.
    pub(super) fn new() -> io::Result<Self> {
        let v4 = Listeners::new(Ipv4Addr::LOCALHOST.into())?;
        let v6 = Listeners::new(Ipv6Addr::LOCALHOST.into())
            .inspect_err(|error| tracing::debug!(%error, "no connection over ::1: those of IPv6 go plain"));
        let network = v4.with(|listener| Ok(option::NETWORK.get(listener.as_fd()).ok()))?;
        Ok(Self { v4, v6: v6.ok(), network })
    }

    pub(super) fn has(&self, side: Side) -> bool {
        side != Side::V6 || self.v6.is_some()
    }

    pub(super) fn network(&self) -> Option<[u8; 8]> {
        self.network
    }

    /// Connects an unconnected socket, and returns the other end. Closing that end resets the
    /// connection. The socket keeps its flags.
    ///
    /// # Errors
    /// As `connect(2)` and `accept(2)`, and [`io::ErrorKind::TimedOut`]. The socket has no
    /// connection through this call, and can be connected.
    pub(super) fn connect(&self, socket: BorrowedFd<'_>, side: Side) -> io::Result<TcpStream> {
        let listeners = match side {
            Side::V4 | Side::Mapped => &self.v4,
            Side::V6 => self.v6.as_ref().ok_or(io::ErrorKind::AddrNotAvailable)?,
        };
        listeners.with(|listener| {
            // Others may have connected to the port. None may be left, for a full queue would let the
            // connection wait.
            while accept(listener)?.is_some() {}
            let port = address(listener)?.port();
            let ip: IpAddr = match side {
                Side::V4 => Ipv4Addr::LOCALHOST.into(),
                Side::Mapped => Ipv4Addr::LOCALHOST.to_ipv6_mapped().into(),
                Side::V6 => Ipv6Addr::LOCALHOST.into(),
            };
            let socket = SockRef::from(&socket);
            match socket.connect(&SocketAddr::from((ip, port)).into()) {
                Ok(()) => {}
                // A socket that does not block; or its timeout, or a signal to this thread. The connection goes
                // on being made.
                Err(error) if matches!(error.raw_os_error(), Some(libc::EINPROGRESS | libc::EINTR)) => {}
                Err(error) => return Err(error),
            }
            let accepted = address(&socket).and_then(|own| accept_from(listener, own)).and_then(|end| {
                SockRef::from(&end).set_linger(Some(Duration::ZERO))?;
                Ok(end)
            });
            if accepted.is_err() {
                undo(socket.as_fd())?;
            }
            accepted
        })
    }
}

/// Takes a socket's connection away, so that it can be connected anew.
pub(super) fn undo(socket: BorrowedFd<'_>) -> io::Result<()> {
    disconnect(socket)?;
    // The kernel keeps the cut as the socket's error until it is read.
    SockRef::from(&socket).take_error().map(drop)
}

impl Listeners {
    /// # Errors
    /// If no connection to the address can be made.
    fn new(ip: IpAddr) -> io::Result<Self> {
        let listeners = Self { ip, idle: Mutex::default() };
        listeners.with(|listener| {
            let client = TcpStream::connect_timeout(&address(listener)?, MAX_WAIT)?;
            accept_from(listener, client.local_addr()?).map(drop)
        })?;
        Ok(listeners)
    }

    /// Lends a listener.
    fn with<T>(&self, work: impl FnOnce(&Socket) -> io::Result<T>) -> io::Result<T> {
        let idle = self.lock().pop();
        let listener = idle.map_or_else(|| listen(self.ip), Ok)?;
        // After an error, a connection may be on its way to the listener.
        let result = work(&listener)?;
        let mut idle = self.lock();
        if idle.len() < MAX_IDLE {
            idle.push(listener);
        }
        Ok(result)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Socket>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn listen(ip: IpAddr) -> io::Result<Socket> {
    let listener = Socket::new(Domain::for_address((ip, 0).into()), Type::STREAM.nonblocking(), None)?;
    listener.bind(&SocketAddr::from((ip, 0)).into())?;
    listener.listen(BACKLOG)?;
    Ok(listener)
}

/// Accepts the connection of `client`, and drops those of others.
fn accept_from(listener: &Socket, client: SocketAddr) -> io::Result<TcpStream> {
    let begin = Instant::now();
    loop {
        while let Some((socket, peer)) = accept(listener)? {
            if same(peer, client) {
                return Ok(socket.into());
            }
        }
        // The last step of a connection over loopback is mostly done before connect(2) returns, and else
        // soon, by the kernel's thread for soft interrupts.
        let left = MAX_WAIT.checked_sub(begin.elapsed()).ok_or(io::ErrorKind::TimedOut)?;
        let timeout = u16::try_from(left.as_millis()).unwrap_or(u16::MAX);
        match poll(&mut [PollFd::new(listener.as_fd(), PollFlags::POLLIN)], timeout) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// A connection that has arrived, and its other end; `None` where there is none.
fn accept(listener: &Socket) -> io::Result<Option<(Socket, SocketAddr)>> {
    loop {
        match listener.accept() {
            Ok((socket, peer)) => {
                let peer = peer.as_socket().ok_or(io::ErrorKind::InvalidData)?;
                return Ok(Some((socket, peer)));
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            // Its other end has gone again.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn address(socket: &Socket) -> io::Result<SocketAddr> {
    socket.local_addr()?.as_socket().ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// A mapped address is the same as the IPv4 address.
fn same(one: SocketAddr, other: SocketAddr) -> bool {
    one.port() == other.port() && one.ip().to_canonical() == other.ip().to_canonical()
}

/// Connections of strangers that fit into a queue between its emptying and the connection.
const BACKLOG: i32 = 128;

/// As many connections as are commonly made at a time; each costs a port while it is idle.
const MAX_IDLE: usize = 8;

/// A second is long for a step of microseconds, and short for a program that waits for a
/// connection.
const MAX_WAIT: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    fn fresh(domain: Domain) -> Socket {
        Socket::new(domain, Type::STREAM, None).expect("a socket")
    }

    /// The sides that this machine has.
    fn sides(loopback: &Loopback) -> Vec<(Side, Domain)> {
        let all = [(Side::V4, Domain::IPV4), (Side::Mapped, Domain::IPV6), (Side::V6, Domain::IPV6)];
        all.into_iter().filter(|(side, _)| loopback.has(*side)).collect()
    }

    #[test]
    fn both_ends_are_joined() {
        let loopback = Loopback::new().expect("loopback");
        for (side, domain) in sides(&loopback) {
            for nonblocking in [false, true] {
                let socket = fresh(domain);
                socket.set_nonblocking(nonblocking).expect("a flag");
                let mut end = loopback.connect(socket.as_fd(), side).expect("a connection");
                assert_eq!(socket.nonblocking().expect("a flag"), nonblocking);
                let mut socket = TcpStream::from(socket);
                socket.write_all(b"there").expect("it is connected");
                let mut said = [0; 5];
                end.read_exact(&mut said).expect("it is connected, and blocks");
                assert_eq!(&said, b"there");
                assert_eq!(socket.take_error().expect("readable").map(|error| error.kind()), None);
            }
        }
    }

    #[test]
    fn strangers_are_dropped() {
        let loopback = Loopback::new().expect("loopback");
        let port = loopback.v4.with(address).expect("an address");
        let mut strangers: Vec<TcpStream> =
            (0..3).map(|_| TcpStream::connect(port).expect("the port is open")).collect();
        let socket = fresh(Domain::IPV4);
        let end = loopback.connect(socket.as_fd(), Side::V4).expect("a connection");
        assert_eq!(Some(end.peer_addr().expect("connected")), socket.local_addr().expect("connected").as_socket());
        for stranger in &mut strangers {
            assert!(matches!(stranger.read(&mut [0]), Ok(0) | Err(_)));
        }
    }

    #[test]
    fn a_connection_is_undone() {
        let loopback = Loopback::new().expect("loopback");
        for (side, domain) in sides(&loopback) {
            let socket = fresh(domain);
            for _ in 0..2 {
                let end = loopback.connect(socket.as_fd(), side).expect("a connection");
                undo(socket.as_fd()).expect("it is cut");
                assert!(socket.peer_addr().is_err());
                assert!(socket.take_error().expect("readable").is_none());
                drop(end);
            }
        }
    }

    #[test]
    fn a_connected_socket_stays_connected() {
        let loopback = Loopback::new().expect("loopback");
        let socket = fresh(Domain::IPV4);
        let end = loopback.connect(socket.as_fd(), Side::V4).expect("a connection");
        let again = loopback.connect(socket.as_fd(), Side::V4).expect_err("it has a connection");
        assert_eq!(again.raw_os_error(), Some(libc::EISCONN));
        assert_eq!(end.peer_addr().ok(), socket.local_addr().expect("connected").as_socket());
    }
}
