//! Bytes that the kernel moves by itself, or by a ring.

use super::answer;
use crate::{
    case::{Case, Client, Served},
    log::Log,
    sys::{option::allow_zero_copy, ring::Ring},
    work::{BULK, PATIENCE, finish, read_to_end, wait},
};
use nix::{
    cmsg_space,
    fcntl::{SpliceFFlags, splice},
    poll::PollFlags,
    sys::{
        memfd::{MFdFlags, memfd_create},
        sendfile::sendfile64,
        socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, send},
    },
    unistd::pipe,
};
use socket2::{Domain, Socket, Type};
use std::{
    fs::File,
    io::{self, IoSlice, IoSliceMut, Read, Seek, SeekFrom, Write},
    net::TcpStream,
    os::fd::{AsFd, AsRawFd},
};

pub(super) const CASES: &[Case] = &[
    Case {
        name: "sendfile",
        client: |client| {
            let socket = client.connect()?;
            by_sendfile(&client.log, &socket, &client.payload(BULK))?;
            read_to_end(&client.log, &socket)
        },
        server: |served| {
            read_to_end(&served.log, &served.socket)?;
            by_sendfile(&served.log, &served.socket, &served.payload(BULK))
        },
    },
    Case {
        name: "splice",
        client: |client| {
            let socket = client.connect()?;
            splice_out(&client.log, &socket, &client.payload(BULK))?;
            splice_in(&client.log, &socket)
        },
        server: |served| {
            splice_in(&served.log, &served.socket)?;
            splice_out(&served.log, &served.socket, &served.payload(BULK))
        },
    },
    Case { name: "zero-copy", client: zero_copy, server: answer },
    Case { name: "io-uring", client: ring_connects, server: ring_answers },
    Case { name: "vectored", client: vectored, server: answer },
];

fn by_sendfile(log: &Log, socket: &TcpStream, bytes: &[u8]) -> io::Result<()> {
    let file = file(bytes)?;
    let mut left = bytes.len();
    while left > 0 {
        match sendfile64(socket, &file, None, left).map_err(io::Error::from) {
            Ok(count) => left -= count,
            Err(error) => return log.did("sendfile", Err(error)),
        }
    }
    log.saw("sendfile", "ok");
    log.sent(bytes);
    finish(log, socket)
}

fn splice_out(log: &Log, socket: &TcpStream, bytes: &[u8]) -> io::Result<()> {
    let (file, (outlet, inlet)) = (file(bytes)?, pipe()?);
    let mut left = bytes.len();
    while left > 0 {
        let mut piped = log_error(log, splice(&file, None, &inlet, None, left, SpliceFFlags::empty()))?;
        left -= piped;
        while piped > 0 {
            piped -= log_error(log, splice(&outlet, None, socket, None, piped, SpliceFFlags::SPLICE_F_MORE))?;
        }
    }
    log.saw("splice out", "ok");
    log.sent(bytes);
    finish(log, socket)
}

fn splice_in(log: &Log, socket: &TcpStream) -> io::Result<()> {
    let (mut file, (outlet, inlet)) = (file(&[])?, pipe()?);
    loop {
        let mut piped = log_error(log, splice(socket, None, &inlet, None, 64 << 10, SpliceFFlags::empty()))?;
        if piped == 0 {
            break;
        }
        while piped > 0 {
            piped -= log_error(log, splice(&outlet, None, &file, None, piped, SpliceFFlags::empty()))?;
        }
    }
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.read_to_end(&mut bytes)?;
    log.saw("splice in", "eof");
    log.received(&bytes);
    Ok(())
}

fn log_error(log: &Log, outcome: nix::Result<usize>) -> io::Result<usize> {
    outcome.map_err(io::Error::from).or_else(|error| log.did("splice", Err(error)))
}

/// A file in memory, read from its start.
fn file(bytes: &[u8]) -> io::Result<File> {
    let mut file = File::from(memfd_create("rails-sockets", MFdFlags::MFD_CLOEXEC)?);
    file.write_all(bytes)?;
    file.seek(SeekFrom::Start(0))?;
    Ok(file)
}

/// `MSG_ZEROCOPY`, and the notifications that say when the memory is free again.
fn zero_copy(client: &Client) -> io::Result<()> {
    let (socket, log) = (client.connect()?, &client.log);
    log.did("SO_ZEROCOPY", allow_zero_copy(socket.as_fd()))?;
    let bytes = client.payload(BULK);
    let (mut written, mut calls) = (0, 0);
    while written < bytes.len() {
        let part = &bytes[written..(written + PART).min(bytes.len())];
        let count = send(socket.as_raw_fd(), part, MsgFlags::from_bits_retain(libc::MSG_ZEROCOPY));
        written += log.did_fail("send with MSG_ZEROCOPY", count.map_err(io::Error::from))?;
        calls += 1;
    }
    log.sent(&bytes);
    finish(log, &socket)?;
    let mut freed = 0;
    while freed < calls {
        // An error that waits is told without being asked for.
        wait(&socket, PollFlags::empty(), PATIENCE)?;
        freed += notified(&socket)?;
    }
    log.saw("notifications", if freed == calls { "one for each call" } else { "too many" });
    read_to_end(log, &socket)
}

/// The number of calls of which the next notification says that their memory is free.
///
/// # References
///
/// Documentation/networking/msg_zerocopy.rst
fn notified(socket: &TcpStream) -> io::Result<u32> {
    let mut space = cmsg_space!(libc::sock_extended_err, libc::sockaddr_in);
    let mut nothing: [IoSliceMut<'_>; 0] = [];
    let message =
        recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut nothing, Some(&mut space), MsgFlags::MSG_ERRQUEUE)?;
    let calls = message.cmsgs()?.filter_map(|part| match part {
        ControlMessageOwned::Ipv4RecvErr(told, _) if told.ee_origin == SO_EE_ORIGIN_ZEROCOPY => {
            Some(told.ee_data.wrapping_sub(told.ee_info) + 1)
        }
        _ => None,
    });
    Ok(calls.sum())
}

/// connect, send and recv by a ring alone.
fn ring_connects(client: &Client) -> io::Result<()> {
    let log = &client.log;
    let socket = Socket::new(Domain::for_address(client.server), Type::STREAM, None)?;
    let mut ring = log.did("io_uring_setup", Ring::new())?;
    log.did("connect by io_uring", ring.connect(socket.as_fd(), client.server))?;
    let socket = TcpStream::from(socket);
    client.greet(&socket)?;
    ring_sends(log, &mut ring, &socket, &client.payload(BULK))?;
    ring_receives(log, &mut ring, &socket)
}

fn ring_answers(served: &Served) -> io::Result<()> {
    let mut ring = served.log.did("io_uring_setup", Ring::new())?;
    ring_receives(&served.log, &mut ring, &served.socket)?;
    ring_sends(&served.log, &mut ring, &served.socket, &served.payload(BULK))
}

fn ring_sends(log: &Log, ring: &mut Ring, socket: &TcpStream, bytes: &[u8]) -> io::Result<()> {
    let mut written = 0;
    while written < bytes.len() {
        written += log.did_fail("send by io_uring", ring.send(socket.as_fd(), &bytes[written..]))?;
    }
    log.saw("send by io_uring", "ok");
    log.sent(bytes);
    finish(log, socket)
}

fn ring_receives(log: &Log, ring: &mut Ring, socket: &TcpStream) -> io::Result<()> {
    let mut buffer = vec![0; PART];
    loop {
        match log.did_fail("recv by io_uring", ring.receive(socket.as_fd(), &mut buffer))? {
            0 => break,
            count => log.received(&buffer[..count]),
        }
    }
    log.saw("recv by io_uring", "eof");
    Ok(())
}

/// writev of many little pieces.
fn vectored(client: &Client) -> io::Result<()> {
    let (mut socket, log) = (client.connect()?, &client.log);
    let bytes = client.payload(BULK);
    let mut written = 0;
    while written < bytes.len() {
        let pieces: Vec<_> = bytes[written..].chunks(997).take(64).map(IoSlice::new).collect();
        written += log.did_fail("writev", socket.write_vectored(&pieces))?;
    }
    log.saw("writev", "ok");
    log.sent(&bytes);
    finish(log, &socket)?;
    read_to_end(log, &socket)
}

/// The origin of such a notification (include/uapi/linux/errqueue.h).
const SO_EE_ORIGIN_ZEROCOPY: u8 = 5;
/// The bytes of a call.
const PART: usize = 100_003;
