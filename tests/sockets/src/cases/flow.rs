//! How bytes are taken, and what happens when nobody takes them.

use super::answer;
use crate::{
    case::{Case, Client, Served},
    log::{Log, errno},
    work::{BULK, LITTLE, MORE_THAN_FITS, fill, finish, read_exactly, read_to_end, wait_for_unread, write_all},
};
use nix::sys::socket::{MsgFlags, recv};
use std::{
    io::{self, Read, Write},
    net::TcpStream,
    os::fd::AsRawFd,
    time::Duration,
};

pub(super) const CASES: &[Case] = &[
    Case { name: "back-pressure-on-client", client: client_is_held_up, server: slow_server },
    Case { name: "back-pressure-on-server", client: slow_client, server: server_is_held_up },
    Case { name: "single-bytes", client: single_bytes, server: echo_single_bytes },
    Case { name: "peek", client: peek, server: say_and_wait },
    Case { name: "wait-all", client: wait_all, server: in_pieces },
    Case { name: "receive-timeout", client: receive_timeout, server: say_late },
    Case { name: "one-way", client: one_way, server: answer },
];

/// A reader that does not read holds up its writer, and nothing is lost.
fn client_is_held_up(client: &Client) -> io::Result<()> {
    let socket = client.connect()?;
    write_against(&client.log, &socket, &client.payload(MORE_THAN_FITS), || client.meet())?;
    read_to_end(&client.log, &socket)
}

fn slow_server(served: &Served) -> io::Result<()> {
    served.meet()?;
    read_to_end(&served.log, &served.socket)
}

fn slow_client(client: &Client) -> io::Result<()> {
    let socket = client.connect()?;
    client.meet()?;
    read_to_end(&client.log, &socket)
}

fn server_is_held_up(served: &Served) -> io::Result<()> {
    write_against(&served.log, &served.socket, &served.payload(MORE_THAN_FITS), || served.meet())?;
    read_to_end(&served.log, &served.socket)
}

fn write_against(
    log: &Log,
    mut socket: &TcpStream,
    bytes: &[u8],
    meet: impl FnOnce() -> io::Result<()>,
) -> io::Result<()> {
    let mut taken = fill(log, socket, bytes)?;
    // A write with a timeout takes what little room came free, and then no more.
    socket.set_write_timeout(Some(SHORT))?;
    while taken < bytes.len() {
        match socket.write(&bytes[taken..]) {
            Ok(count) => {
                log.sent(&bytes[taken..taken + count]);
                taken += count;
            }
            Err(error) => {
                log.saw("write with SO_SNDTIMEO", errno(&error));
                break;
            }
        }
    }
    socket.set_write_timeout(None)?;
    meet()?;
    let rest = &bytes[taken..];
    log.did("write the rest", socket.write_all(rest))?;
    log.sent(rest);
    finish(log, socket)
}

fn single_bytes(client: &Client) -> io::Result<()> {
    let (mut socket, log) = (client.connect()?, &client.log);
    socket.set_nodelay(true)?;
    for byte in client.payload(1000) {
        log.did_fail("write", socket.write_all(&[byte]))?;
        log.sent(&[byte]);
        let mut echo = [0];
        log.did_fail("read", socket.read_exact(&mut echo))?;
        log.received(&echo);
    }
    log.saw("write and read", "ok");
    finish(log, &socket)?;
    read_to_end(log, &socket)
}

fn echo_single_bytes(served: &Served) -> io::Result<()> {
    let (mut socket, log) = (&served.socket, &served.log);
    socket.set_nodelay(true)?;
    let mut byte = [0];
    while log.did_fail("read", socket.read(&mut byte))? > 0 {
        log.received(&byte);
        log.did_fail("write", socket.write_all(&byte))?;
        log.sent(&byte);
    }
    log.saw("read and write", "eof");
    Ok(())
}

/// Looking does not take; FIONREAD counts.
fn peek(client: &Client) -> io::Result<()> {
    let (socket, log) = (client.connect()?, &client.log);
    log.saw("FIONREAD", wait_for_unread(&socket, LITTLE)?);
    let mut seen = vec![0; LITTLE];
    let count = log.did("recv with MSG_PEEK", socket.peek(&mut seen))?;
    log.saw("seen", blake3::hash(&seen[..count]).to_hex().get(..8).unwrap_or_default());
    log.saw("FIONREAD", wait_for_unread(&socket, LITTLE)?);
    let dropped = recv(socket.as_raw_fd(), &mut seen[..7], MsgFlags::MSG_TRUNC);
    log.saw("recv with MSG_TRUNC", dropped.map_err(io::Error::from)?);
    read_exactly(log, &socket, LITTLE - 7)?;
    log.saw("FIONREAD", wait_for_unread(&socket, 0)?);
    let nothing = recv(socket.as_raw_fd(), &mut seen, MsgFlags::MSG_DONTWAIT);
    log.tried("recv with MSG_DONTWAIT", nothing.map_err(io::Error::from));
    finish(log, &socket)?;
    read_to_end(log, &socket)
}

fn say_and_wait(served: &Served) -> io::Result<()> {
    write_all(&served.log, &served.socket, &served.payload(LITTLE))?;
    read_to_end(&served.log, &served.socket)
}

fn wait_all(client: &Client) -> io::Result<()> {
    let (socket, log) = (client.connect()?, &client.log);
    let mut bytes = vec![0; LITTLE];
    client.meet()?;
    let count = recv(socket.as_raw_fd(), &mut bytes, MsgFlags::MSG_WAITALL).map_err(io::Error::from)?;
    log.saw("recv with MSG_WAITALL", count);
    log.received(&bytes[..count]);
    finish(log, &socket)?;
    read_to_end(log, &socket)
}

/// The second half is said after the client has begun to wait for all of it, as near as can be
/// told.
fn in_pieces(served: &Served) -> io::Result<()> {
    let bytes = served.payload(LITTLE);
    let (head, tail) = bytes.split_at(LITTLE / 2);
    served.socket.set_nodelay(true)?;
    write_all(&served.log, &served.socket, head)?;
    served.meet()?;
    for piece in tail.chunks(1009) {
        served.log.did_fail("write", (&served.socket).write_all(piece))?;
        served.log.sent(piece);
    }
    read_to_end(&served.log, &served.socket)
}

fn receive_timeout(client: &Client) -> io::Result<()> {
    let (mut socket, log) = (client.connect()?, &client.log);
    log.did("SO_RCVTIMEO", socket.set_read_timeout(Some(SHORT)))?;
    log.tried("read", socket.read(&mut [0; 9]));
    client.meet()?;
    socket.set_read_timeout(None)?;
    read_to_end(log, &socket)?;
    finish(log, &socket)
}

fn say_late(served: &Served) -> io::Result<()> {
    served.meet()?;
    write_all(&served.log, &served.socket, &served.payload(LITTLE))?;
    finish(&served.log, &served.socket)?;
    read_to_end(&served.log, &served.socket)
}

/// The client sends nothing at all, and the server sends.
fn one_way(client: &Client) -> io::Result<()> {
    let socket = client.connect()?;
    finish(&client.log, &socket)?;
    read_exactly(&client.log, &socket, BULK)?;
    read_to_end(&client.log, &socket)
}

/// A time in which the other end does nothing, as it waits for this one.
const SHORT: Duration = Duration::from_millis(50);
