//! Connections of the programs of a cgroup, by BPF.
//!
//! A [`Redirect`] attaches programs to a cgroup, which the kernel runs in connect(2) of every
//! process in it: also of those that are linked statically or written in Go, and for connects by
//! io_uring. A connection to one of the networks goes to a listener of the redirect instead, and
//! [`Redirect::accept`] gives it with the destination that the program asked for. The program
//! keeps its kernel socket, and getpeername(2) gives it the destination.
//!
//! ```no_run
//! use rails_divert::redirect::{Redirect, cgroup_of_unit};
//! use std::{io, net::TcpStream, thread};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let networks = [("192.0.2.0/24".parse()?, 0..=u16::MAX), ("2001:db8::/32".parse()?, 443..=443)];
//! let redirect = Redirect::install(cgroup_of_unit("nginx")?, &networks, &[])?;
//! loop {
//!     let (program, destination) = redirect.accept()?;
//!     thread::spawn(move || -> io::Result<()> {
//!         // This process is not in the cgroup, so its own connections are left alone.
//!         let service = TcpStream::connect(destination)?;
//!         // Carry the bytes between `program` and `service`.
//!         # drop((program, service));
//!         Ok(())
//!     });
//! }
//! # }
//! ```
//!
//! # Contract
//!
//! - **All ends with the process.** Nothing is pinned: dropping the redirect detaches the programs,
//!   and the next connect(2) is a plain one. The death of the process, however it dies, does so
//!   too; Linux 6.1 leaves that to a work queue, so a connect(2) of the next moments may be refused
//!   (`ECONNREFUSED`). Connections that were not accepted yet are reset. Those that were go on for
//!   as long as somebody carries them; getpeername(2) then gives the listener's address. A process
//!   that is forked without exec(2) holds copies of the descriptors, and keeps the programs alive
//!   when its parent is killed.
//! - **Other programs at the cgroup go on**: those of systemd, and those of other redirects, at the
//!   same cgroup or above and below. The innermost redirect has the first word.
//! - **A destination is right or there is none.** A connection that was not diverted, but was made
//!   to the listener, is reset and never handed out.
//!
//! # Passed on untouched
//!
//! All but TCP; this host (127.0.0.0/8, ::1, 0.0.0.0 and ::) and link-local IPv6 addresses;
//! destinations outside the networks; sockets that were bound to an address, a port or a device
//! before; sockets that were made outside the cgroup, or in another network namespace than that of
//! the thread which installed the redirect; and sockets that [`Redirect::pass_on`] was told of.
//!
//! # What changes for a program
//!
//! A non-blocking or blocking connect(2) succeeds as soon as the listener has the connection, which
//! is before anybody has reached the destination; a refusal comes later, as the end or the reset of
//! the connection. getsockname(2) gives an address of the loopback interface. Keep-alives,
//! TCP_INFO, and options that concern routes and keys (`SO_MARK`, `TCP_MD5SIG`) are about the way
//! to the listener.
//!
//! A Multipath TCP socket is diverted like any other, for the kernel shows these programs its first
//! path as a TCP socket (seen with Linux 6.18). It falls back to TCP, and its getpeername(2) gives
//! the listener's address. Linux 6.1 has a fault there: about one in a thousand sockets that fell
//! back never tells its program of the peer's end (3 of 1,800; the data before it arrives).
//!
//! # Needs
//!
//! Linux 6.1 or later with `CONFIG_CGROUP_BPF`; `CAP_BPF` and `CAP_NET_ADMIN` on the machine (not
//! in a user namespace); a cgroup2 file system, which may be the `unified` one beside version 1.
//!
//! # Cost
//!
//! A connect(2) that is diverted takes 1.5 µs more (median: 13.8 µs, not 12.2 by IPv4; 14.9, not
//! 13.4 by IPv6), one that is passed on 0.7 µs more. Measured on a virtual machine of 2 cores
//! (Linux 6.18) in a network namespace, blocking calls one after the other to listeners on the
//! loopback interface from which nobody accepted, 5 runs of 1,900 calls each; the medians of the
//! runs are within 0.3 µs. Reads and writes cost nothing more. Memory of the kernel: some hundred
//! bytes for each network and for each diverted socket.

mod assembler;
mod asynchronous;
mod cgroup;
mod error;
mod limits;
mod networks;
mod programs;
mod tables;
mod unit;

use crate::sys::{
    bpf::{self, Hook, Instruction, Link},
    bpf_sockopt,
};
pub use asynchronous::AsyncRedirect;
pub use error::{NetworkError, RedirectError};
use ipnet::IpNet;
pub use limits::{MAX_NETWORKS, MAX_PORT_RANGES};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use programs::{Family, Listeners};
use socket2::{Domain, SockRef, Socket, Type};
use std::{
    fs, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream},
    ops::RangeInclusive,
    os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd},
    path::{Path, PathBuf},
    time::Duration,
};
use tables::Tables;
pub use unit::{UnitError, cgroup_of_unit};

/// The connections of a cgroup's programs, for as long as the value lives.
///
/// The descriptor ([`AsFd`]) is readable when [`Redirect::try_accept`] has something to accept, so
/// it can be waited for by poll(2). [`AsyncRedirect`] waits by tokio.
#[derive(Debug)]
#[must_use = "connections are redirected until this is dropped"]
pub struct Redirect {
    path: PathBuf,
    /// The cgroup's identity, to tell it from a later one of the same name.
    identity: (u64, u64),
    /// The links of the programs. They end first, those of connect(2) before the others.
    _links: Vec<Link>,
    tables: Tables,
    listeners: Vec<TcpListener>,
    has_ipv6: Result<(), io::ErrorKind>,
    readable: Epoll,
}

impl Redirect {
    /// Redirects the connections that programs in `cgroup`, and in the cgroups below it, make from
    /// now on to a destination in one of the `networks`, each with its range of ports.
    ///
    /// A network may be named several times, with other ports; a destination is redirected if any
    /// of them holds it. Bits behind a prefix are ignored. `keep_out` are the pids of the processes
    /// that carry the connections, beside this one: they must not be in the cgroup, or they would
    /// get their own connections back.
    ///
    /// The listeners are in the network namespace of the calling thread.
    ///
    /// # Errors
    ///
    /// [`RedirectError`]; nothing is attached then.
    ///
    /// # Privileges
    ///
    /// `CAP_BPF` and `CAP_NET_ADMIN`, or `CAP_SYS_ADMIN`.
    ///
    /// # References
    ///
    /// bpf(2), cgroups(7); Documentation/bpf/prog_cgroup_sockopt.rst of the kernel on the order of
    /// programs
    pub fn install(
        cgroup: impl AsRef<Path>,
        networks: &[(IpNet, RangeInclusive<u16>)],
        keep_out: &[u32],
    ) -> Result<Self, RedirectError> {
        let path = cgroup.as_ref();
        let entries = networks::entries(networks)?;
        let cgroup = cgroup::open(path)?;
        let folder = cgroup.metadata();
        let identity = folder
            .as_ref()
            .map(cgroup::identity)
            .map_err(|error| RedirectError::Unreadable { path: path.to_owned(), source: error.kind().into() })?;
        let carriers: Vec<u32> = keep_out.iter().copied().chain([std::process::id()]).collect();
        cgroup::keep_out(path, &carriers)?;

        let ipv4 = listen(Ipv4Addr::LOCALHOST.into())
            .map_err(|source| RedirectError::Listen { address: Ipv4Addr::LOCALHOST.into(), source })?;
        let ipv6 = listen(Ipv6Addr::LOCALHOST.into());
        let has_ipv6 = ipv6.as_ref().map(drop).map_err(io::Error::kind);
        check_families(networks, has_ipv6)?;
        let listeners: Vec<TcpListener> = [ipv4].into_iter().chain(ipv6).collect();

        let tables = Tables::new(&entries).map_err(|source| RedirectError::of_call("BPF_MAP_CREATE", source))?;
        let addresses = addresses(&listeners)?;
        // The programs of connect(2) come last: a connection that one diverts is seen by the others.
        // Links are closed in the reverse order.
        let programs = [
            (Hook::SocketEvents, "TCP events", programs::socket_events(&tables)),
            (Hook::PeerName4, "getpeername4", programs::peer_name(Family::V4, &tables)),
            (Hook::PeerName6, "getpeername6", programs::peer_name(Family::V6, &tables)),
            (Hook::Connect4, "connect4", programs::connect(Family::V4, &tables, addresses)),
            (Hook::Connect6, "connect6", programs::connect(Family::V6, &tables, addresses)),
        ];
        let mut links = Vec::new();
        for (hook, name, program) in programs {
            // In front: a failure of the next closes those of connect(2) first, as a drop does.
            links.insert(0, attach(path, cgroup.as_fd(), hook, name, &program)?);
        }
        let readable =
            readable(&listeners).map_err(|errno| RedirectError::Kernel { call: "epoll_ctl", source: errno.into() })?;
        Ok(Self { path: path.to_owned(), identity, _links: links, tables, listeners, has_ipv6, readable })
    }

    /// Refuses processes that carry the connections and are in the cgroup now: they get their own
    /// connections back. [`install`](Self::install) asks this once, and processes move and start.
    ///
    /// # Errors
    ///
    /// [`RedirectError::CarrierInside`] and [`RedirectError::Unreadable`].
    pub fn keep_out(&self, pids: &[u32]) -> Result<(), RedirectError> {
        cgroup::keep_out(&self.path, pids)
    }

    /// Whether the cgroup is still there. The cgroup of a service that is started anew is another
    /// one, although it has the same path, and its connections are not redirected.
    pub fn has_cgroup(&self) -> bool {
        fs::metadata(&self.path).is_ok_and(|folder| cgroup::identity(&folder) == self.identity)
    }

    /// Swaps the networks for others, at once: each connect(2) sees the former or the new ones, and
    /// none neither. Connections that are there stay as they are.
    ///
    /// Without networks, new connections are left alone, and those that are there keep their
    /// getpeername(2).
    ///
    /// # Errors
    ///
    /// [`RedirectError`]; the former networks hold then.
    pub fn set_networks(&self, networks: &[(IpNet, RangeInclusive<u16>)]) -> Result<(), RedirectError> {
        let entries = networks::entries(networks)?;
        check_families(networks, self.has_ipv6)?;
        self.tables.set_networks(&entries).map_err(|source| RedirectError::of_call("BPF_MAP_UPDATE_ELEM", source))
    }

    /// Waits for a program's connection; the address is the destination that the program asked for.
    ///
    /// An IPv4 destination of an IPv6 socket (`::ffff:192.0.2.7`) is given as an IPv4 address. The
    /// stream is a blocking one.
    ///
    /// # Errors
    ///
    /// Those of accept(2): the process may have too many open files. The connection waits then.
    pub fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        loop {
            match self.try_accept() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                answer => return answer,
            }
            match self.readable.wait(&mut [EpollEvent::empty()], EpollTimeout::NONE) {
                Ok(_) | Err(nix::Error::EINTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// [`Redirect::accept`] without waiting.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::WouldBlock`] when there is no connection, and those of accept(2).
    pub fn try_accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        for listener in &self.listeners {
            loop {
                let (stream, peer) = match listener.accept() {
                    Ok(accepted) => accepted,
                    Err(error) => match error.kind() {
                        io::ErrorKind::WouldBlock => break,
                        io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted => continue,
                        _ => return Err(error),
                    },
                };
                if let Some(destination) = self.destination(SockRef::from(&stream), peer)? {
                    return Ok((stream, destination));
                }
            }
        }
        Err(io::ErrorKind::WouldBlock.into())
    }

    /// Leaves the connections of a socket alone, whoever has it and wherever it was made.
    ///
    /// A process outside the cgroup needs this for none of its own sockets. It is for sockets that
    /// were made inside.
    ///
    /// # Errors
    ///
    /// Those of bpf(2): the descriptor is not that of a socket, or the kernel has no memory.
    pub fn pass_on(&self, socket: impl AsFd) -> io::Result<()> {
        self.tables.pass_on(socket.as_fd())
    }

    /// The destination of an accepted connection; `None` if the program has reset it meanwhile, or
    /// if it was not diverted: then it is reset here.
    fn destination(&self, stream: SockRef<'_>, peer: SocketAddr) -> io::Result<Option<SocketAddr>> {
        let destination = self.tables.destination(peer)?;
        // Of a connection that has been reset, the kernel knows no peer. The port may then be that
        // of another connection by now, and the destination too. If this one lives, the destination,
        // which was read before, is its own.
        if stream.peer_addr().is_err() {
            tracing::debug!(%peer, "a diverted connection was reset before it was accepted");
            return Ok(None);
        }
        if destination.is_none() {
            tracing::warn!(%peer, "reset a connection to the listener that was not diverted");
            stream.set_linger(Some(Duration::ZERO))?;
            return Ok(None);
        }
        self.tables.forget(peer)?;
        Ok(destination)
    }
}

impl AsFd for Redirect {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.readable.0.as_fd()
    }
}

impl AsRawFd for Redirect {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

fn listen(address: IpAddr) -> io::Result<TcpListener> {
    let address = SocketAddr::new(address, 0);
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    // A program files the destination when the handshake is over.
    bpf_sockopt::forbid_fast_open(socket.as_fd())?;
    let listener = TcpListener::from(socket);
    check_reachable(&listener)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Connects to a listener: an interface that is down has its address, and takes no packets.
fn check_reachable(listener: &TcpListener) -> io::Result<()> {
    let own = TcpStream::connect_timeout(&listener.local_addr()?, REACHABLE_WITHIN)?.local_addr()?;
    // It is the first in the queue, unless a stranger was faster.
    while listener.accept()?.1 != own {}
    Ok(())
}

/// The places of the listeners, as the programs need them.
fn addresses(listeners: &[TcpListener]) -> Result<Listeners, RedirectError> {
    let namespace = bpf_sockopt::namespace_cookie(listeners[0].as_fd()).map_err(|source| {
        RedirectError::Unsupported { call: "getsockopt", feature: "SO_NETNS_COOKIE (Linux 5.14)", source }
    })?;
    let port = |listener: &TcpListener| {
        let address = listener.local_addr();
        address.map(|address| address.port()).map_err(|source| RedirectError::Kernel { call: "getsockname", source })
    };
    Ok(Listeners { namespace, ipv4: port(&listeners[0])?, ipv6: listeners.get(1).map(port).transpose()? })
}

fn check_families(
    networks: &[(IpNet, RangeInclusive<u16>)],
    has_ipv6: Result<(), io::ErrorKind>,
) -> Result<(), RedirectError> {
    match has_ipv6 {
        Err(kind) if networks::has_ipv6(networks) => Err(RedirectError::NoIpv6 { source: kind.into() }),
        _ => Ok(()),
    }
}

fn attach(
    path: &Path,
    cgroup: BorrowedFd<'_>,
    hook: Hook,
    name: &'static str,
    program: &[Instruction],
) -> Result<Link, RedirectError> {
    const FEATURE: &str = "CONFIG_CGROUP_BPF";
    let mut log = String::new();
    let program = bpf::load(hook, program, &mut log).map_err(|source| match source.raw_os_error() {
        // The verifier always says something; the kernel refuses kinds of programs that it does not
        // know before.
        Some(libc::EINVAL) if log.is_empty() => {
            RedirectError::Unsupported { call: "BPF_PROG_LOAD", feature: FEATURE, source }
        }
        Some(libc::EACCES | libc::EINVAL) => RedirectError::Verifier { program: name, log: last_lines(&log), source },
        _ => RedirectError::of_call("BPF_PROG_LOAD", source),
    })?;
    bpf::attach(hook, program.as_fd(), cgroup).map_err(|source| match source.raw_os_error() {
        // The capabilities were enough to load the program.
        Some(libc::EPERM) => RedirectError::AttachedAlone { program: name, cgroup: path.to_owned(), source },
        Some(libc::EINVAL) => RedirectError::Unsupported { call: "BPF_LINK_CREATE", feature: FEATURE, source },
        _ => RedirectError::Kernel { call: "BPF_LINK_CREATE", source },
    })
}

/// The end of the verifier's log, where it says what it refuses.
fn last_lines(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
}

/// A descriptor that is readable when one of the listeners is.
fn readable(listeners: &[TcpListener]) -> nix::Result<Epoll> {
    let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
    for listener in listeners {
        epoll.add(listener, EpollEvent::new(EpollFlags::EPOLLIN, 0))?;
    }
    Ok(epoll)
}

/// The connections that may wait to be accepted; the kernel takes `net.core.somaxconn` if that is
/// less, 4,096 by default.
const BACKLOG: i32 = 1 << 16;

/// Without any network between, a connection takes some 50 µs.
const REACHABLE_WITHIN: Duration = Duration::from_secs(1);

/// The lines of the verifier's log that are given.
const LOG_LINES: usize = 40;
