//! The sockets of a process: its descriptors name them, and the tables of its network namespace
//! describe them.

use super::{ProcessError, TO_LIST_AND_LOOK, unreadable};
use crate::thread::Tid;
use procfs::{
    ProcError,
    net::{TcpNetEntry, TcpState, UdpNetEntry, UdpState},
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, ffi::OsStr, fs, io, net::SocketAddr};

/// A TCP or UDP socket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Socket {
    /// The socket's own address, unspecified if it is bound to none. An IPv4 address of an IPv6
    /// socket (`::ffff:a.b.c.d`) is given as IPv4. The kernel's tables do not have the scope of
    /// a link-local address.
    pub local: SocketAddr,
    /// The other side's address, in the same form; `None` where the socket is not connected.
    pub remote: Option<SocketAddr>,
    /// The socket's protocol.
    pub protocol: Protocol,
    /// The socket's state.
    pub state: SocketState,
    /// The kernel's inode number of the socket.
    pub inode: u64,
}

/// The protocol of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Protocol {
    /// Streams.
    Tcp,
    /// Datagrams.
    Udp,
}

/// The state of a TCP connection (RFC 9293, section 3.3.2). A UDP socket is `Established` when it
/// is connected, and `Close` when it is not: the kernel uses the same numbers for both
/// (`include/net/tcp_states.h`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are those of the RFC")]
pub enum SocketState {
    Established,
    SynSent,
    SynReceived,
    FinWait1,
    FinWait2,
    TimeWait,
    Close,
    CloseWait,
    LastAck,
    Listen,
    Closing,
}

/// The sockets of process `pid`.
pub(super) fn of(pid: Tid) -> Result<Vec<Socket>, ProcessError> {
    let inodes = inodes(pid)?;
    let table = |name: &str| format!("/proc/{pid}/net/{name}");
    let process =
        procfs::process::Process::new(pid.as_raw()).map_err(|error| sorted(pid, format!("/proc/{pid}"), error))?;
    let mut sockets: Vec<Socket> = Vec::new();
    for (name, read) in [("tcp", process.tcp()), ("tcp6", process.tcp6())] {
        sockets.extend(rows(pid, table(name), read)?.into_iter().map(Socket::from));
    }
    for (name, read) in [("udp", process.udp()), ("udp6", process.udp6())] {
        sockets.extend(rows(pid, table(name), read)?.into_iter().map(Socket::from));
    }
    sockets.retain(|socket| inodes.contains(&socket.inode));
    sockets.sort_by_key(|socket| socket.inode);
    sockets.dedup_by_key(|socket| socket.inode);
    Ok(sockets)
}

/// The inodes of a process's open sockets, of any kind. The crate `procfs` skips unreadable
/// descriptors, so a process that may not be read would seem to have no sockets.
pub(super) fn inodes(pid: Tid) -> Result<BTreeSet<u64>, ProcessError> {
    let directory = format!("/proc/{pid}/fd");
    let failed = |source| unreadable(pid, directory.clone(), TO_LIST_AND_LOOK, source);
    let mut inodes = BTreeSet::new();
    for entry in fs::read_dir(&directory).map_err(failed)? {
        match fs::read_link(entry.map_err(failed)?.path()) {
            Ok(target) => inodes.extend(inode(target.as_os_str())),
            // The descriptor was closed in between.
            Err(source) if source.kind() == io::ErrorKind::NotFound => {}
            Err(source) => return Err(failed(source)),
        }
    }
    Ok(inodes)
}

/// `socket:[4711]`
fn inode(target: &OsStr) -> Option<u64> {
    target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

/// A kernel without the protocol has no table of it, and no sockets either.
fn rows<T>(pid: Tid, file: String, read: Result<Vec<T>, ProcError>) -> Result<Vec<T>, ProcessError> {
    match read {
        Ok(rows) => Ok(rows),
        Err(ProcError::NotFound(_)) if fs::exists(format!("/proc/{pid}/net/dev")).unwrap_or(false) => Ok(Vec::new()),
        Err(error) => Err(sorted(pid, file, error)),
    }
}

fn sorted(pid: Tid, file: String, error: ProcError) -> ProcessError {
    match error {
        ProcError::NotFound(_) => ProcessError::NoSuchProcess { pid },
        ProcError::PermissionDenied(_) => {
            unreadable(pid, file, TO_LIST_AND_LOOK, io::Error::from_raw_os_error(libc::EACCES))
        }
        ProcError::Io(source, _) => unreadable(pid, file, TO_LIST_AND_LOOK, source),
        other => ProcessError::Malformed { file, source: io::Error::other(other) },
    }
}

impl From<TcpNetEntry> for Socket {
    fn from(row: TcpNetEntry) -> Self {
        let state = match row.state {
            TcpState::Established => SocketState::Established,
            TcpState::SynSent => SocketState::SynSent,
            TcpState::SynRecv | TcpState::NewSynRecv => SocketState::SynReceived,
            TcpState::FinWait1 => SocketState::FinWait1,
            TcpState::FinWait2 => SocketState::FinWait2,
            TcpState::TimeWait => SocketState::TimeWait,
            TcpState::Close => SocketState::Close,
            TcpState::CloseWait => SocketState::CloseWait,
            TcpState::LastAck => SocketState::LastAck,
            TcpState::Listen => SocketState::Listen,
            TcpState::Closing => SocketState::Closing,
        };
        Self::new((row.local_address, row.remote_address), Protocol::Tcp, state, row.inode)
    }
}

impl From<UdpNetEntry> for Socket {
    fn from(row: UdpNetEntry) -> Self {
        let state = match row.state {
            UdpState::Established => SocketState::Established,
            UdpState::Close => SocketState::Close,
        };
        Self::new((row.local_address, row.remote_address), Protocol::Udp, state, row.inode)
    }
}

impl Socket {
    fn new((local, remote): (SocketAddr, SocketAddr), protocol: Protocol, state: SocketState, inode: u64) -> Self {
        let plain = |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
        let connected = remote.port() != 0 || !remote.ip().is_unspecified();
        Self { local: plain(local), remote: connected.then(|| plain(remote)), protocol, state, inode }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use procfs::{
        FromBufReadSI,
        net::{TcpNetEntries, UdpNetEntries},
    };
    use proptest::prelude::*;
    use std::{
        net::{Ipv6Addr, TcpListener, TcpStream, UdpSocket},
        os::{fd::AsFd, unix::fs::MetadataExt},
        process::Command,
    };

    /// The number of this process.
    fn us() -> Tid {
        number(std::process::id())
    }

    fn number(pid: u32) -> Tid {
        i32::try_from(pid).ok().and_then(Tid::from_raw).expect("a process has a number")
    }

    /// The row of this process's socket.
    fn find(pid: Tid, socket: impl AsFd) -> Option<Socket> {
        let owned = fs::File::from(socket.as_fd().try_clone_to_owned().expect("a descriptor is left"));
        let inode = owned.metadata().expect("it is open").ino();
        of(pid).expect("a child may be looked at").into_iter().find(|socket| socket.inode == inode)
    }

    #[test]
    fn both_sides_of_a_connection_are_found_as_they_are() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
        let address = listener.local_addr().expect("it is bound");
        let client = TcpStream::connect(address).expect("somebody listens");
        let (server, from) = listener.accept().expect("somebody came");
        let row = find(us(), &listener).expect("it is open");
        assert_eq!((row.local, row.remote, row.state), (address, None, SocketState::Listen));
        let row = find(us(), &client).expect("it is open");
        assert_eq!((row.local, row.remote, row.state), (from, Some(address), SocketState::Established));
        let row = find(us(), &server).expect("it is open");
        assert_eq!((row.local, row.remote, row.protocol), (address, Some(from), Protocol::Tcp));
    }

    #[test]
    fn mapped_address_comes_out_as_ipv4() {
        let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)).expect("IPv6 is there");
        let port = listener.local_addr().expect("it is bound").port();
        let _client = TcpStream::connect(("127.0.0.1", port)).expect("it listens for both");
        let (server, _) = listener.accept().expect("somebody came");
        let row = find(us(), &server).expect("it is open");
        assert_eq!(row.local, SocketAddr::from(([127, 0, 0, 1], port)));
        assert!(row.remote.is_some_and(|remote| remote.is_ipv4()), "{row:?}");
    }

    #[test]
    fn sockets_of_another_process_are_its_own() {
        let ours = UdpSocket::bind("127.0.0.1:0").expect("loopback is there");
        let handed = UdpSocket::bind("127.0.0.1:0").expect("loopback is there");
        let copy = handed.try_clone().expect("a descriptor is left");
        handed.connect(ours.local_addr().expect("it is bound")).expect("loopback is there");
        let mut child =
            Command::new("sleep").arg("60").stdin(std::os::fd::OwnedFd::from(copy)).spawn().expect("it is there");
        let (found, others) = (find(number(child.id()), &handed), find(number(child.id()), &ours));
        child.kill().and_then(|()| child.wait()).expect("it is ours");
        let found = found.expect("it has it open");
        assert_eq!((found.protocol, found.state), (Protocol::Udp, SocketState::Established));
        assert_eq!(Some(found.local), handed.local_addr().ok());
        assert_eq!(others, None);
    }

    #[test]
    fn only_a_socket_has_a_sockets_inode() {
        assert_eq!(inode(OsStr::new("socket:[4711]")), Some(4711));
        for other in ["socket:4711", "socket:[]", "/tmp/socket:[1]", "pipe:[4711]", "socket:[-1]"] {
            assert_eq!(inode(OsStr::new(other)), None);
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC*", rows in "(head\n( *[0-9A-F:]{1,33}){0,12}\n){0,3}") {
            let machine = procfs::current_system_info();
            for text in [text, rows] {
                let _ = inode(OsStr::new(&text));
                let _ = TcpNetEntries::from_buf_read(text.as_bytes(), machine);
                let _ = UdpNetEntries::from_buf_read(text.as_bytes(), machine);
            }
        }
    }
}
