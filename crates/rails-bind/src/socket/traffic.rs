//! The bytes of every TCP connection of this network namespace, by the kernel's own counts.

use netlink_sys::{Socket, SocketAddr as NetlinkAddr, protocols::NETLINK_SOCK_DIAG};
use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

/// A TCP connection, and the bytes that it has carried.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TcpTraffic {
    /// The connection's own address. An IPv4 address of an IPv6 socket is given as IPv4.
    pub local: SocketAddr,
    /// The other side's address, in the same form.
    pub remote: SocketAddr,
    /// The index of the interface that the socket is bound to; `None` if it is bound to none.
    pub device: Option<u32>,
    /// The kernel's inode number of the socket; 0 if no process has it any more.
    pub inode: u64,
    /// The kernel's number of the connection, which no other one has until the next boot.
    pub cookie: u64,
    /// The bytes that were sent and acknowledged, of which the kernel may count the opening of the
    /// connection as one.
    pub sent: u64,
    /// The bytes that were received in order.
    pub received: u64,
}

/// A reader of the connections, with a netlink socket of its own in the network namespace of the
/// thread that made it.
#[derive(Debug)]
pub struct TrafficReader {
    socket: Socket,
    buffer: Vec<u8>,
}

impl TrafficReader {
    /// Opens the socket.
    ///
    /// # Privileges
    /// None.
    ///
    /// # Errors
    /// The operating system's, as of a sandbox that forbids netlink.
    pub fn new() -> io::Result<Self> {
        let socket = Socket::new(NETLINK_SOCK_DIAG)?;
        socket.set_non_blocking(true)?;
        Ok(Self { socket, buffer: Vec::new() })
    }

    /// Reads all established and closing connections, IPv4 and IPv6. Connections that begin or end
    /// during the call may be missing.
    ///
    /// # Errors
    /// The operating system's; [`io::ErrorKind::NotFound`] on a kernel without
    /// `CONFIG_INET_TCP_DIAG`.
    ///
    /// # References
    /// [sock_diag(7)](https://man7.org/linux/man-pages/man7/sock_diag.7.html)
    #[doc(alias = "sock_diag")]
    pub fn read(&mut self) -> io::Result<Vec<TcpTraffic>> {
        let mut found = Vec::new();
        for family in [libc::AF_INET, libc::AF_INET6] {
            self.socket.send_to(&question(family as u8), &NetlinkAddr::new(0, 0), 0)?;
            // The kernel writes the first part of its answer before the sending call returns, and each
            // further one when the former is read, so no read waits.
            while !self.take_part(&mut found)? {}
        }
        Ok(found)
    }

    /// Takes one datagram. Returns whether it is the last.
    fn take_part(&mut self, found: &mut Vec<TcpTraffic>) -> io::Result<bool> {
        self.buffer.clear();
        // The kernel's parts have 32 KiB at most (`netlink_dump` in net/netlink/af_netlink.c).
        self.buffer.reserve(PART);
        self.socket.recv_from(&mut self.buffer, 0)?;
        take(&self.buffer, found)
    }
}

fn question(family: u8) -> [u8; QUESTION] {
    let mut bytes = [0; QUESTION];
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    put(0, &(QUESTION as u32).to_ne_bytes());
    put(4, &SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    put(6, &((libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16).to_ne_bytes());
    // `struct inet_diag_req_v2`: any sockets of these states, with `INET_DIAG_INFO`.
    put(16, &[family, libc::IPPROTO_TCP as u8, 1 << (INET_DIAG_INFO - 1), 0]);
    put(20, &STATES.to_ne_bytes());
    bytes
}

/// Takes the connections of a datagram. Returns whether it ends the answer.
fn take(mut datagram: &[u8], found: &mut Vec<TcpTraffic>) -> io::Result<bool> {
    while let (Some(length), Some(kind)) = (word(datagram, 0), half(datagram, 4)) {
        let length = length as usize;
        let Some(message) = datagram.get(HEADER..length) else { break };
        match i32::from(kind) {
            libc::NLMSG_DONE => return Ok(true),
            libc::NLMSG_ERROR => {
                let code = word(message, 0).map_or(0, |code| code as i32);
                return match code {
                    0 => Ok(true),
                    _ => Err(io::Error::from_raw_os_error(code.wrapping_neg())),
                };
            }
            _ => found.extend(connection(message)),
        }
        datagram = datagram.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(false)
}

/// `struct inet_diag_msg` and its attributes (include/uapi/linux/inet_diag.h). A connection without
/// counts has carried nothing that matters: it is being closed.
fn connection(message: &[u8]) -> Option<TcpTraffic> {
    let family = i32::from(*message.first()?);
    let port = |at: usize| Some(u16::from_be_bytes(*message.get(at..)?.first_chunk()?));
    let address = |at: usize| {
        Some(match family {
            libc::AF_INET => IpAddr::from(Ipv4Addr::from(*message.get(at..)?.first_chunk::<4>()?)),
            libc::AF_INET6 => Ipv6Addr::from(*message.get(at..)?.first_chunk::<16>()?).to_canonical(),
            _ => return None,
        })
    };
    let (sent, received) = counts(message.get(MESSAGE..)?)?;
    Some(TcpTraffic {
        local: SocketAddr::new(address(8)?, port(4)?),
        remote: SocketAddr::new(address(24)?, port(6)?),
        device: word(message, 40).filter(|index| *index != 0),
        cookie: u64::from(word(message, 44)?) | u64::from(word(message, 48)?) << 32,
        inode: word(message, 68)?.into(),
        sent,
        received,
    })
}

/// The bytes sent and received, of the attribute that holds `struct tcp_info`
/// (include/uapi/linux/tcp.h, with these fields since Linux 4.1).
fn counts(mut attributes: &[u8]) -> Option<(u64, u64)> {
    while let (Some(length), Some(kind)) = (half(attributes, 0), half(attributes, 2)) {
        let length = usize::from(length);
        let value = attributes.get(4..length)?;
        if kind == INET_DIAG_INFO {
            let long = |at: usize| Some(u64::from_ne_bytes(*value.get(at..)?.first_chunk()?));
            return Some((long(120)?, long(128)?));
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
    None
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// For [`crate::fuzzing`].
#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz(datagram: &[u8]) {
    let mut found = Vec::new();
    let _ = take(datagram, &mut found);
    // Each takes a header and a message.
    assert!(found.len() <= datagram.len() / (HEADER + MESSAGE));
}

/// include/uapi/linux/sock_diag.h; libc does not name it.
const SOCK_DIAG_BY_FAMILY: u16 = 20;
/// include/uapi/linux/inet_diag.h; libc does not name it.
const INET_DIAG_INFO: u16 = 2;
/// `struct nlmsghdr`.
const HEADER: usize = 16;
/// `struct nlmsghdr` and `struct inet_diag_req_v2`.
const QUESTION: usize = HEADER + 56;
/// `struct inet_diag_msg`.
const MESSAGE: usize = 72;
/// A bit for each state that carries bytes, by the numbers of include/net/tcp_states.h:
/// established, FIN wait 1 and 2, close wait, last ACK, closing.
const STATES: u32 = 1 << 1 | 1 << 4 | 1 << 5 | 1 << 8 | 1 << 9 | 1 << 11;
const PART: usize = 32 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::{
        io::{Read, Write},
        net::{TcpListener, TcpStream},
        os::{fd::AsFd, unix::fs::MetadataExt},
    };

    #[test]
    fn bytes_of_a_connection_are_counted_on_both_sides() {
        for host in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(host).expect("loopback is there");
            let mut client = TcpStream::connect(listener.local_addr().expect("bound")).expect("somebody listens");
            let (mut server, from) = listener.accept().expect("somebody came");
            client.write_all(&[1; 5000]).expect("it is open");
            server.read_exact(&mut [0; 5000]).expect("they come");
            // The acknowledgement comes with the answer.
            server.write_all(&[2; 7]).expect("it is open");
            client.read_exact(&mut [0; 7]).expect("they come");
            let found = TrafficReader::new().expect("netlink").read().expect("an answer");
            let one = found.iter().find(|one| one.local == from).expect("it is listed");
            assert_eq!((one.received, one.device), (7, None), "{one:?}");
            assert!((5000..=5001).contains(&one.sent), "{one:?}");
            assert_eq!(Some(one.remote), listener.local_addr().ok());
            let owned = std::fs::File::from(client.as_fd().try_clone_to_owned().expect("a descriptor"));
            assert_eq!(one.inode, owned.metadata().expect("open").ino());
            let other = found.iter().find(|other| other.remote == from).expect("it is listed");
            assert!(other.received == 5000 && other.cookie != one.cookie, "{other:?}");
        }
    }

    #[test]
    fn refusal_is_an_error() {
        let mut datagram = Vec::from(20_u32.to_ne_bytes());
        datagram.extend((libc::NLMSG_ERROR as u16).to_ne_bytes());
        datagram.extend([0; 10]);
        datagram.extend((-libc::ENOENT).to_ne_bytes());
        let error = take(&datagram, &mut Vec::new()).expect_err("it is refused");
        assert_eq!(error.raw_os_error(), Some(libc::ENOENT));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..400), length in 0_u32..500) {
            let _ = take(&bytes, &mut Vec::new());
            if let Some(first) = bytes.first_chunk_mut() {
                *first = length.to_ne_bytes();
            }
            let _ = take(&bytes, &mut Vec::new());
            let _ = connection(&bytes);
        }
    }
}
