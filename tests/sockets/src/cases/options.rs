//! Options of a socket, and urgent data.

use super::answer;
use crate::{
    case::{Case, Client, Served},
    work::{BULK, LITTLE, finish, read_to_end, wait, write_all},
};
use nix::{
    poll::PollFlags,
    sys::socket::{MsgFlags, recv},
};
use socket2::{SockRef, TcpKeepalive};
use std::{
    io::{self, Write},
    os::fd::AsRawFd,
    time::Duration,
};

pub(super) const CASES: &[Case] = &[
    Case { name: "no-delay-and-cork", client: no_delay_and_cork, server: answer },
    Case { name: "keep-alive", client: keep_alive, server: answer },
    Case { name: "buffer-sizes", client: buffer_sizes, server: answer },
    Case { name: "urgent", client: urgent, server: urgent_arrives },
];

fn no_delay_and_cork(client: &Client) -> io::Result<()> {
    let (mut socket, log) = (client.connect()?, &client.log);
    log.did("TCP_NODELAY", socket.set_nodelay(true))?;
    log.saw("TCP_NODELAY", socket.nodelay()?);
    let options = SockRef::from(&socket);
    log.did("TCP_CORK", options.set_tcp_cork(true))?;
    log.saw("TCP_CORK", options.tcp_cork()?);
    for piece in client.payload(BULK).chunks(251) {
        log.did_fail("write", socket.write_all(piece))?;
        log.sent(piece);
    }
    log.did("TCP_CORK", SockRef::from(&socket).set_tcp_cork(false))?;
    finish(log, &socket)?;
    read_to_end(log, &socket)
}

fn keep_alive(client: &Client) -> io::Result<()> {
    let (socket, log) = (client.connect()?, &client.log);
    let options = SockRef::from(&socket);
    let often = TcpKeepalive::new().with_time(Duration::from_secs(1)).with_interval(Duration::from_secs(1));
    log.did("SO_KEEPALIVE", options.set_tcp_keepalive(&often))?;
    log.saw("SO_KEEPALIVE", options.keepalive()?);
    log.did("TCP_USER_TIMEOUT", options.set_tcp_user_timeout(Some(Duration::from_secs(9))))?;
    write_all(log, &socket, &client.payload(BULK))?;
    finish(log, &socket)?;
    read_to_end(log, &socket)
}

/// Small buffers, which take effect at once.
fn buffer_sizes(client: &Client) -> io::Result<()> {
    let (socket, log) = (client.connect()?, &client.log);
    let options = SockRef::from(&socket);
    log.did("SO_SNDBUF", options.set_send_buffer_size(SMALL))?;
    log.did("SO_RCVBUF", options.set_recv_buffer_size(SMALL))?;
    log.saw("SO_SNDBUF", options.send_buffer_size()?);
    log.saw("SO_RCVBUF", options.recv_buffer_size()?);
    write_all(log, &socket, &client.payload(BULK))?;
    finish(log, &socket)?;
    read_to_end(log, &socket)
}

/// A byte out of band, which TCP has as a mark in its stream.
fn urgent(client: &Client) -> io::Result<()> {
    let (socket, log) = (client.connect()?, &client.log);
    write_all(log, &socket, &client.payload(LITTLE))?;
    log.did("send with MSG_OOB", SockRef::from(&socket).send_out_of_band(b"!"))?;
    client.meet()?;
    write_all(log, &socket, &client.payload(LITTLE))?;
    finish(log, &socket)?;
    read_to_end(log, &socket)
}

fn urgent_arrives(served: &Served) -> io::Result<()> {
    let (socket, log) = (&served.socket, &served.log);
    let mut byte = [0];
    match wait(socket, PollFlags::POLLPRI, LATEST) {
        Ok(_) => log.saw("poll for POLLPRI", "ok"),
        Err(error) => log.tried("poll for POLLPRI", Err::<(), _>(error)),
    }
    let urgent = recv(socket.as_raw_fd(), &mut byte, MsgFlags::MSG_OOB);
    log.tried("recv with MSG_OOB", urgent.map_err(io::Error::from));
    served.meet()?;
    read_to_end(log, socket)
}

/// Bytes of a buffer; much less, and each segment of loopback waits for the one before.
const SMALL: usize = 64 << 10;
/// An urgent byte that has not come by then does not come.
const LATEST: Duration = Duration::from_secs(2);
