//! How a connection is made, and how it fails to be.

use super::answer;
use crate::{
    case::{Case, Client, Served},
    greeting,
    log::errno,
    sys::{
        connect::{Wrong, connect_wrongly},
        interruptions,
        option::{connect_with_the_first_byte, tcp_info},
    },
    work::{BULK, PATIENCE, finish, read_to_end, wait, write_all},
};
use nix::poll::PollFlags;
use socket2::{Domain, SockRef, Socket, Type};
use std::{
    io,
    net::{IpAddr, SocketAddr, TcpStream},
    os::fd::AsFd,
};

pub(super) const CASES: &[Case] = &[
    Case { name: "connect-nonblocking", client: nonblocking, server: answer },
    Case { name: "connect-refused", client: refused, server: nothing },
    Case { name: "connect-refused-nonblocking", client: refused_nonblocking, server: nothing },
    Case { name: "connect-again", client: again, server: answer },
    Case { name: "connect-wrongly", client: wrongly, server: answer },
    Case { name: "connect-bound", client: bound, server: answer },
    Case { name: "connect-mapped", client: mapped, server: answer },
    Case { name: "connect-interrupted", client: interrupted, server: answer },
    Case { name: "fast-open", client: fast_open, server: answer },
    Case { name: "fast-open-by-connect", client: fast_open_by_connect, server: answer },
    Case { name: "connect-and-close", client: and_close, server: nothing },
    Case { name: "names", client: names, server: nothing },
    Case { name: "tcp-info", client: info, server: nothing },
];

/// The server of a case in which nothing is said.
fn nothing(served: &Served) -> io::Result<()> {
    read_to_end(&served.log, &served.socket)
}

fn nonblocking(client: &Client) -> io::Result<()> {
    let (socket, log) = (socket(client)?, &client.log);
    socket.set_nonblocking(true)?;
    log.tried("connect", socket.connect(&client.server.into()));
    let socket = TcpStream::from(socket);
    let found = wait(&socket, PollFlags::POLLOUT, PATIENCE)?;
    log.saw("poll", if found == PollFlags::POLLOUT { "writable".to_owned() } else { format!("{found:?}") });
    log.saw("SO_ERROR", pending(&socket)?);
    // Some programs ask in this way whether it has come about.
    log.tried("connect again", SockRef::from(&socket).connect(&client.server.into()));
    socket.set_nonblocking(false)?;
    client.greet(&socket)?;
    exchange(client, &socket)
}

fn refused(client: &Client) -> io::Result<()> {
    let (socket, log) = (socket(client)?, &client.log);
    log.tried("connect", socket.connect(&client.nobody().into()));
    log.tried("connect again", socket.connect(&client.nobody().into()));
    // A socket whose connection was refused may try elsewhere.
    log.did("connect elsewhere", socket.connect(&client.server.into()))?;
    let socket = TcpStream::from(socket);
    client.greet(&socket)?;
    finish(log, &socket)?;
    read_to_end(log, &socket)
}

fn refused_nonblocking(client: &Client) -> io::Result<()> {
    let (socket, log) = (socket(client)?, &client.log);
    socket.set_nonblocking(true)?;
    log.tried("connect", socket.connect(&client.nobody().into()));
    let socket = TcpStream::from(socket);
    wait(&socket, PollFlags::POLLOUT, PATIENCE)?;
    log.saw("SO_ERROR", pending(&socket)?);
    log.tried("getpeername", socket.peer_addr());
    Ok(())
}

fn again(client: &Client) -> io::Result<()> {
    let (socket, log) = (client.connect()?, &client.log);
    log.tried("connect again", SockRef::from(&socket).connect(&client.server.into()));
    log.tried("connect elsewhere", SockRef::from(&socket).connect(&client.nobody().into()));
    exchange(client, &socket)
}

/// Arguments that the kernel refuses; then the same socket is connected as it should be.
fn wrongly(client: &Client) -> io::Result<()> {
    let (socket, log) = (socket(client)?, &client.log);
    for wrong in [Wrong::Descriptor, Wrong::Family, Wrong::Length, Wrong::Pointer, Wrong::NoFamily] {
        log.tried(&format!("connect, wrong {wrong:?}"), connect_wrongly(socket.as_fd(), wrong));
    }
    let (file, _outlet) = nix::unistd::pipe()?;
    log.tried("connect, no socket", SockRef::from(&file).connect(&client.server.into()));
    log.did("connect", socket.connect(&client.server.into()))?;
    let socket = TcpStream::from(socket);
    client.greet(&socket)?;
    exchange(client, &socket)
}

/// A socket that is bound to no address and a port of the kernel's choice before it is connected.
fn bound(client: &Client) -> io::Result<()> {
    let (socket, log) = (socket(client)?, &client.log);
    let anywhere: SocketAddr = if client.server.is_ipv4() { ([0; 4], 0).into() } else { ([0_u16; 8], 0).into() };
    log.did("bind", socket.bind(&anywhere.into()))?;
    log.did("connect", socket.connect(&client.server.into()))?;
    let socket = TcpStream::from(socket);
    client.greet(&socket)?;
    exchange(client, &socket)
}

/// An address of IPv4 within one of IPv6, as Java connects.
fn mapped(client: &Client) -> io::Result<()> {
    let log = &client.log;
    let mapped = match client.server.ip() {
        IpAddr::V4(address) => SocketAddr::new(address.to_ipv6_mapped().into(), client.server.port()),
        IpAddr::V6(_) => client.server,
    };
    let socket = log.did("socket", Socket::new(Domain::IPV6, Type::STREAM, None))?;
    log.did("connect", socket.connect(&mapped.into()))?;
    let socket = TcpStream::from(socket);
    let peer = socket.peer_addr()?;
    log.saw("getpeername", if peer == mapped { "the server".to_owned() } else { peer.ip().to_string() });
    client.greet(&socket)?;
    exchange(client, &socket)
}

/// Signals come all the time, and every call is taken up again.
fn interrupted(client: &Client) -> io::Result<()> {
    client.log.did("setitimer", interruptions::begin())?;
    let socket = client.connect()?;
    exchange(client, &socket)
}

/// A connection that is made by its first bytes, without a connect.
fn fast_open(client: &Client) -> io::Result<()> {
    let (socket, log) = (socket(client)?, &client.log);
    let greeting = greeting::encode(&log.case());
    let sent = socket.send_to_with_flags(&greeting, &client.server.into(), libc::MSG_FASTOPEN);
    log.saw("sendto with MSG_FASTOPEN", log.did_fail("sendto with MSG_FASTOPEN", sent)?);
    exchange(client, &TcpStream::from(socket))
}

/// A connect that waits for the first bytes.
fn fast_open_by_connect(client: &Client) -> io::Result<()> {
    let (socket, log) = (socket(client)?, &client.log);
    log.did("TCP_FASTOPEN_CONNECT", connect_with_the_first_byte(socket.as_fd()))?;
    log.did("connect", socket.connect(&client.server.into()))?;
    let socket = TcpStream::from(socket);
    client.greet(&socket)?;
    exchange(client, &socket)
}

fn and_close(client: &Client) -> io::Result<()> {
    drop(client.connect()?);
    client.log.saw("close", "ok");
    Ok(())
}

fn names(client: &Client) -> io::Result<()> {
    let (socket, log) = (client.connect()?, &client.log);
    let peer = socket.peer_addr()?;
    log.saw("getpeername", if peer == client.server { "the server".to_owned() } else { peer.ip().to_string() });
    log.saw("getsockname", socket.local_addr()?.ip());
    log.saw("SO_ERROR", pending(&socket)?);
    log.tried("accept", SockRef::from(&socket).accept());
    Ok(())
}

fn info(client: &Client) -> io::Result<()> {
    let (socket, log) = (client.connect()?, &client.log);
    let info = log.did("TCP_INFO", tcp_info(socket.as_fd()))?;
    log.saw("state", info.state);
    log.saw("segment", info.segment);
    Ok(())
}

fn exchange(client: &Client, socket: &TcpStream) -> io::Result<()> {
    write_all(&client.log, socket, &client.payload(BULK))?;
    finish(&client.log, socket)?;
    read_to_end(&client.log, socket)
}

fn socket(client: &Client) -> io::Result<Socket> {
    Socket::new(Domain::for_address(client.server), Type::STREAM, None)
}

/// The socket's error, which is cleared.
fn pending(socket: &TcpStream) -> io::Result<String> {
    Ok(socket.take_error()?.map_or_else(|| "none".to_owned(), |error| errno(&error)))
}
