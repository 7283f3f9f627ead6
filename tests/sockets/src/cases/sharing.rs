//! A socket that several descriptors or processes have.

use super::answer;
use crate::{
    case::{Case, Client},
    log::Log,
    sys::fork::forked,
    work::{BULK, finish, read_exactly, read_to_end, write_all},
};
use nix::{
    cmsg_space,
    sys::{
        socket::{
            AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, recvmsg, sendmsg,
            socketpair,
        },
        wait::WaitStatus,
    },
};
use std::{
    env, io,
    io::{IoSlice, IoSliceMut},
    net::TcpStream,
    os::fd::{AsRawFd, BorrowedFd, RawFd},
    process::Command,
    thread,
};

pub(super) const CASES: &[Case] = &[
    Case { name: "dup", client: duplicated, server: answer },
    Case { name: "threads", client: threads, server: answer_little },
    Case { name: "fork-child-goes-on", client: child_goes_on, server: answer },
    Case { name: "fork-parent-goes-on", client: parent_goes_on, server: answer },
    Case { name: "scm-rights", client: passed_on, server: answer },
];

/// The first descriptor is closed in mid-stream, and the connection lives by the second.
fn duplicated(client: &Client) -> io::Result<()> {
    let first = client.connect()?;
    let bytes = client.payload(BULK);
    let (head, tail) = bytes.split_at(BULK / 2);
    write_all(&client.log, &first, head)?;
    let second = client.log.did("dup", first.try_clone())?;
    drop(first);
    write_all(&client.log, &second, tail)?;
    finish(&client.log, &second)?;
    read_to_end(&client.log, &second)
}

/// Many connections are made and used at once; the row has the bytes of all, in order.
fn threads(client: &Client) -> io::Result<()> {
    let one = |_| {
        let log = Log::new(&client.log.case(), crate::End::Client);
        let alone = Client { server: client.server, log: log.clone() };
        thread::spawn(move || {
            let socket = alone.connect()?;
            write_all(&log, &socket, &alone.payload(BULK / 16))?;
            finish(&log, &socket)?;
            let mut answer = Vec::new();
            io::Read::read_to_end(&mut &socket, &mut answer)?;
            io::Result::Ok(answer)
        })
    };
    let running: Vec<_> = (0..16).map(one).collect();
    for thread in running {
        let answer = thread.join().map_err(|_| io::Error::other("a thread panicked"))?;
        client.log.received(&client.log.did("exchange", answer)?);
        client.log.sent(&client.payload(BULK / 16));
    }
    Ok(())
}

fn answer_little(served: &crate::case::Served) -> io::Result<()> {
    read_to_end(&served.log, &served.socket)?;
    write_all(&served.log, &served.socket, &served.payload(BULK / 16))?;
    finish(&served.log, &served.socket)
}

/// The parent connects and writes half, and the child does the rest with the inherited socket.
fn child_goes_on(client: &Client) -> io::Result<()> {
    let socket = client.connect()?;
    let bytes = client.payload(BULK);
    let (head, tail) = bytes.split_at(BULK / 2);
    write_all(&client.log, &socket, head)?;
    let log = client.log.clone();
    // The parent's own copy ends at once.
    let ended = forked(move || {
        let rest = || {
            write_all(&log, &socket, tail)?;
            finish(&log, &socket)?;
            read_to_end(&log, &socket)
        };
        log.tried("the child", rest());
        log.print();
        0
    })?;
    // The row is the child's: this process has the half alone.
    if matches!(ended, WaitStatus::Exited(_, 0)) {
        client.log.give_away();
    } else {
        client.log.saw("fork", format!("{ended:?}"));
    }
    Ok(())
}

/// The child ends with its copy of the socket, and the parent's lives on.
fn parent_goes_on(client: &Client) -> io::Result<()> {
    let socket = client.connect()?;
    let bytes = client.payload(BULK);
    let (head, tail) = bytes.split_at(BULK / 2);
    write_all(&client.log, &socket, head)?;
    let ended = forked(|| 7)?;
    client.log.saw("fork and wait", matches!(ended, WaitStatus::Exited(_, 7)));
    write_all(&client.log, &socket, tail)?;
    finish(&client.log, &socket)?;
    read_to_end(&client.log, &socket)
}

/// The socket goes to a program of its own, which did not connect it.
fn passed_on(client: &Client) -> io::Result<()> {
    let socket = client.connect()?;
    let (own, others) = socketpair(AddressFamily::Unix, SockType::Stream, None, SockFlag::SOCK_CLOEXEC)?;
    let mut adopter = Command::new(env::current_exe()?).args(["adopt", &client.log.case()]).stdin(others).spawn()?;
    let passed = [socket.as_raw_fd()];
    let rights = [ControlMessage::ScmRights(&passed)];
    let sent = sendmsg::<()>(own.as_raw_fd(), &[IoSlice::new(b"!")], &rights, MsgFlags::empty(), None);
    client.log.did("sendmsg", sent.map_err(io::Error::from))?;
    drop(socket);
    let status = adopter.wait()?;
    if status.success() {
        client.log.give_away();
    } else {
        client.log.saw("the other program", status);
    }
    Ok(())
}

/// The other program's part: it takes the socket, and does all but connecting.
pub(crate) fn adopt(log: &Log, from: BorrowedFd<'_>) -> io::Result<()> {
    let socket = log.did("recvmsg", receive(from))?;
    let server = socket.peer_addr();
    log.tried("getpeername", server);
    let client = Client { server: socket.local_addr()?, log: log.clone() };
    write_all(log, &socket, &client.payload(BULK))?;
    finish(log, &socket)?;
    read_exactly(log, &socket, BULK)?;
    read_to_end(log, &socket)
}

fn receive(from: BorrowedFd<'_>) -> io::Result<TcpStream> {
    let mut byte = [0];
    let mut parts = [IoSliceMut::new(&mut byte)];
    let mut space = cmsg_space!(RawFd);
    let received = recvmsg::<()>(from.as_raw_fd(), &mut parts, Some(&mut space), MsgFlags::MSG_CMSG_CLOEXEC)?;
    let mut sockets = received.cmsgs()?.filter_map(|message| match message {
        ControlMessageOwned::ScmRights(sockets) => sockets.first().copied(),
        _ => None,
    });
    let socket = sockets.next().ok_or_else(|| io::Error::other("no socket came"))?;
    Ok(TcpStream::from(crate::sys::received::own(socket)))
}
