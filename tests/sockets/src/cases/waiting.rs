//! How a program waits for its socket.

use super::answer;
use crate::{
    case::{Case, Client, Served},
    log::Log,
    work::{BULK, finish, read_to_end, write_all},
};
use nix::{
    poll::{PollFd, PollFlags, PollTimeout},
    sys::{
        epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout},
        select::{FdSet, select},
    },
};
use std::{
    io::{self, Read, Write},
    net::TcpStream,
    os::fd::AsFd,
};

pub(super) const CASES: &[Case] = &[
    Case { name: "blocking", client: blocking, server: answer },
    Case { name: "poll", client: |client| exchange_with(client, poll), server: |served| exchange_at(served, poll) },
    Case {
        name: "select",
        client: |client| exchange_with(client, select_),
        server: |served| exchange_at(served, select_),
    },
    Case {
        name: "epoll-level",
        client: |client| exchange_with(client, level),
        server: |served| exchange_at(served, level),
    },
    Case {
        name: "epoll-edge",
        client: |client| exchange_with(client, edge),
        server: |served| exchange_at(served, edge),
    },
];

fn blocking(client: &Client) -> io::Result<()> {
    let socket = client.connect()?;
    write_all(&client.log, &socket, &client.payload(BULK))?;
    finish(&client.log, &socket)?;
    read_to_end(&client.log, &socket)
}

fn exchange_with(client: &Client, way: Way) -> io::Result<()> {
    let socket = client.connect()?;
    exchange(&client.log, &socket, &client.payload(BULK), way)
}

fn exchange_at(served: &Served, way: Way) -> io::Result<()> {
    exchange(&served.log, &served.socket, &served.payload(BULK), way)
}

/// A way to wait: it makes a [`Waiter`] for the socket.
type Way = fn(&TcpStream) -> io::Result<Waiter<'_>>;

struct Waiter<'a> {
    wait: Box<dyn FnMut(Wish) -> io::Result<Ready> + 'a>,
    /// Whether each state is told once, so that all has to be taken that there is.
    is_edge: bool,
}

#[derive(Clone, Copy)]
struct Wish {
    reads: bool,
    writes: bool,
}

/// What the kernel says is possible.
struct Ready {
    reads: bool,
    writes: bool,
}

/// Writes and reads at the same time, without blocking, to the end of both directions.
fn exchange(log: &Log, mut socket: &TcpStream, bytes: &[u8], way: Way) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    let mut waiter = way(socket)?;
    let mut buffer = vec![0; 16 << 10];
    let (mut written, mut wish) = (0, Wish { reads: true, writes: true });
    while wish.reads || wish.writes {
        let ready = (waiter.wait)(wish)?;
        while ready.writes && wish.writes {
            match socket.write(&bytes[written..]) {
                Ok(count) => written += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return log.did("write", Err(error)),
            }
            if written == bytes.len() {
                wish.writes = false;
            } else if !waiter.is_edge {
                break;
            }
        }
        if written == bytes.len() && !wish.writes {
            log.sent(bytes);
            log.saw("write", format!("{written} bytes"));
            finish(log, socket)?;
            written = usize::MAX;
        }
        while ready.reads && wish.reads {
            match socket.read(&mut buffer) {
                Ok(0) => wish.reads = false,
                Ok(count) => log.received(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return log.did("read", Err(error)),
            }
            if !waiter.is_edge {
                break;
            }
        }
    }
    Ok(())
}

fn poll(socket: &TcpStream) -> io::Result<Waiter<'_>> {
    let wait = |wish: Wish| {
        let mut events = PollFlags::empty();
        events.set(PollFlags::POLLIN, wish.reads);
        events.set(PollFlags::POLLOUT, wish.writes);
        let mut polled = [PollFd::new(socket.as_fd(), events)];
        nix::poll::poll(&mut polled, PollTimeout::NONE)?;
        let found = polled[0].revents().unwrap_or(PollFlags::empty());
        let cut = found.intersects(PollFlags::POLLERR | PollFlags::POLLHUP);
        Ok(Ready { reads: cut || found.contains(PollFlags::POLLIN), writes: cut || found.contains(PollFlags::POLLOUT) })
    };
    Ok(Waiter { wait: Box::new(wait), is_edge: false })
}

fn select_(socket: &TcpStream) -> io::Result<Waiter<'_>> {
    let wait = |wish: Wish| {
        let (mut reads, mut writes) = (FdSet::new(), FdSet::new());
        if wish.reads {
            reads.insert(socket.as_fd());
        }
        if wish.writes {
            writes.insert(socket.as_fd());
        }
        select(None, &mut reads, &mut writes, None, None)?;
        Ok(Ready { reads: reads.contains(socket.as_fd()), writes: writes.contains(socket.as_fd()) })
    };
    Ok(Waiter { wait: Box::new(wait), is_edge: false })
}

fn level(socket: &TcpStream) -> io::Result<Waiter<'_>> {
    epoll(socket, false)
}

fn edge(socket: &TcpStream) -> io::Result<Waiter<'_>> {
    epoll(socket, true)
}

fn epoll(socket: &TcpStream, is_edge: bool) -> io::Result<Waiter<'_>> {
    let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
    let both = EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT;
    let first = if is_edge { both | EpollFlags::EPOLLRDHUP | EpollFlags::EPOLLET } else { both };
    epoll.add(socket, EpollEvent::new(first, 0))?;
    let wait = move |wish: Wish| {
        if !is_edge {
            let mut events = EpollFlags::empty();
            events.set(EpollFlags::EPOLLIN, wish.reads);
            events.set(EpollFlags::EPOLLOUT, wish.writes);
            epoll.modify(socket, &mut EpollEvent::new(events, 0))?;
        }
        let mut events = [EpollEvent::empty()];
        epoll.wait(&mut events, EpollTimeout::NONE)?;
        let found = events[0].events();
        let cut = found.intersects(EpollFlags::EPOLLERR | EpollFlags::EPOLLHUP);
        Ok(Ready {
            reads: cut || found.contains(EpollFlags::EPOLLIN),
            writes: cut || found.contains(EpollFlags::EPOLLOUT),
        })
    };
    Ok(Waiter { wait: Box::new(wait), is_edge })
}
