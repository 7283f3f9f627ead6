//! Sockets: which NIC their traffic goes through, and which CPU handled it last.

mod error;
mod route;

pub use error::SocketError;

use crate::sys;
use rails_topo::{CpuId, Nic, Topology};
use socket2::SockRef;
use std::{
    io,
    net::{IpAddr, SocketAddr},
    os::fd::AsFd,
};

/// The NIC that a connected socket sends through, by the kernel's own routing decision.
///
/// What decides is the peer, the local address, the interface that the socket is bound to, and its mark. A peer on this machine
/// is reached through the loopback interface, whatever the addresses. With a bond, a bridge or a VLAN the answer is that interface, which
/// raises no interrupts of its own. Rules that look at ports, the protocol or the type of service are not followed, and of a route
/// with several next hops the kernel names one, which need not be the socket's.
///
/// # Privileges
/// None.
///
/// # Errors
/// [`SocketError::NotConnected`], [`SocketError::NotIp`]; [`SocketError::OtherNamespace`] for a socket of another network
/// namespace, whose routes cannot be asked for from here; [`SocketError::NoRoute`]; [`SocketError::UnknownInterface`] if
/// `topology` does not have it, having been read before it was made, or in another namespace.
///
/// # References
/// [rtnetlink(7)](https://man7.org/linux/man-pages/man7/rtnetlink.7.html), `RTM_GETROUTE`
pub fn nic_of<'a>(socket: &impl AsFd, topology: &'a Topology) -> Result<&'a Nic, SocketError> {
    let reference = SockRef::from(socket);
    let (local, peer) = ends(&reference)?;
    same_namespace(socket)?;
    let device = reference.device().map_err(|source| SocketError::call("getsockopt(SO_BINDTODEVICE)", source))?;
    // A socket that is bound to a device uses no other, so there is nothing to ask.
    let name = match device {
        Some(name) => String::from_utf8_lossy(&name).trim_end_matches('\0').to_owned(),
        None => {
            let mark = reference.mark().map_err(|source| SocketError::call("getsockopt(SO_MARK)", source))?;
            let index = route::interface_towards(peer.ip(), local.ip(), mark)?;
            name_of(index)?
        }
    };
    topology.nic(&name).ok_or(SocketError::UnknownInterface { name })
}

/// The CPU that last handled a packet of this socket in the kernel, or that the socket was set to; `None` before the first
/// packet.
///
/// Interrupt, steering and all, that is where the packets come out. A thread that runs there, or beside, needs no privilege to be
/// where its packets are.
///
/// # Privileges
/// None.
///
/// # Errors
/// [`SocketError::Call`].
///
/// # References
/// [socket(7)](https://man7.org/linux/man-pages/man7/socket.7.html), `SO_INCOMING_CPU`
#[doc(alias = "SO_INCOMING_CPU")]
pub fn incoming_cpu(socket: &impl AsFd) -> Result<Option<CpuId>, SocketError> {
    sys::socket::incoming_cpu(socket.as_fd())
        .map(|cpu| u32::try_from(cpu).ok().map(CpuId))
        .map_err(|source| SocketError::call("getsockopt(SO_INCOMING_CPU)", source))
}

/// Sets the CPU whose packets a socket is for. Among listening or UDP sockets that share a port (`SO_REUSEPORT`), a packet
/// goes to the one that is set to the CPU which handles it (Linux 6.1 and later for TCP). The next packet of a connected socket
/// writes its own CPU over it.
///
/// # Privileges
/// None.
///
/// # Errors
/// [`SocketError::Call`].
pub fn set_incoming_cpu(socket: &impl AsFd, cpu: CpuId) -> Result<(), SocketError> {
    SockRef::from(socket)
        .set_cpu_affinity(cpu.0 as usize)
        .map_err(|source| SocketError::call("setsockopt(SO_INCOMING_CPU)", source))
}

fn ends(socket: &SockRef<'_>) -> Result<(SocketAddr, SocketAddr), SocketError> {
    let ip = |address: io::Result<socket2::SockAddr>, call| match address {
        Ok(address) => address.as_socket().ok_or(SocketError::NotIp),
        Err(error) if error.raw_os_error() == Some(libc::ENOTCONN) => Err(SocketError::NotConnected),
        Err(source) => Err(SocketError::call(call, source)),
    };
    let local = ip(socket.local_addr(), "getsockname")?;
    let peer = ip(socket.peer_addr(), "getpeername")?;
    // IPv4 in an IPv6 socket is routed as IPv4.
    let plain = |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
    Ok((plain(local), plain(peer)))
}

/// Fails for a socket of another network namespace, where the kernel tells (Linux 5.14 and later); before, it cannot be known.
fn same_namespace(socket: &impl AsFd) -> Result<(), SocketError> {
    let Ok(theirs) = sys::socket::namespace_cookie(socket.as_fd()) else { return Ok(()) };
    let ours = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM, None)
        .and_then(|own| sys::socket::namespace_cookie(own.as_fd()))
        .map_err(|source| SocketError::call("getsockopt(SO_NETNS_COOKIE)", source))?;
    if theirs == ours { Ok(()) } else { Err(SocketError::OtherNamespace) }
}

fn name_of(index: u32) -> Result<String, SocketError> {
    nix::net::if_::if_indextoname(index)
        .map(|name| name.to_string_lossy().into_owned())
        .map_err(|errno| SocketError::call("if_indextoname", errno.into()))
}

/// How many bits a host's own address has.
fn host_prefix(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}
