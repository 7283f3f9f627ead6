//! Sockets: the NIC of their traffic, the CPU that handled it last, and the bytes of all
//! connections.

mod error;
mod route;
mod traffic;

use self::route::Flow;
use crate::sys;
pub use error::SocketError;
use rails_topo::{CpuId, Nic, Topology};
use socket2::SockRef;
use std::{io, net::SocketAddr, os::fd::AsFd};
#[cfg(feature = "fuzzing")]
pub(crate) use traffic::fuzz;
pub use traffic::{TcpTraffic, TrafficReader};

/// The NIC that a connected socket sends through, by the kernel's own routing decision.
///
/// The route depends on the peer, the local address, both ports and the protocol, the interface
/// that the socket is bound to, and its mark: routes may have several next hops that divide traffic
/// by address or by port (`fib_multipath_hash_policy`). If ports count, the kernel's choice among
/// those for a TCP connection cannot be repeated, and the call fails. A peer on this machine is
/// reached through the loopback interface, with any addresses. With a bond, a bridge or a VLAN the
/// answer is that interface, which raises no interrupts of its own. The query leaves out the type
/// of service, the socket's user and `IP_MULTICAST_IF`.
///
/// The route is the present one of packets that the socket *sends*; packets that it receives come
/// the way that the peer's network sends them.
///
/// # Privileges
/// None.
///
/// # Errors
/// [`SocketError::NotConnected`], [`SocketError::NotIp`]; [`SocketError::OtherNamespace`] for a
/// socket of another network namespace, whose routes cannot be queried from here, and
/// [`SocketError::NamespaceUnknown`] if that is unknown; [`SocketError::NoRoute`];
/// [`SocketError::SeveralWays`]; [`SocketError::UnknownInterface`] if `topology` does not have it,
/// because the interface is newer, or in another namespace.
///
/// # References
/// [rtnetlink(7)](https://man7.org/linux/man-pages/man7/rtnetlink.7.html), `RTM_GETROUTE`
pub fn nic_of<'a>(socket: &impl AsFd, topology: &'a Topology) -> Result<&'a Nic, SocketError> {
    let reference = SockRef::from(socket);
    let (local, peer) = ends(&reference)?;
    same_namespace(socket)?;
    let device = reference.device().map_err(|source| SocketError::call("getsockopt(SO_BINDTODEVICE)", source))?;
    // A socket that is bound to a device uses no other, so no query is needed.
    let name = match device {
        Some(name) => String::from_utf8_lossy(&name).trim_end_matches('\0').to_owned(),
        None => {
            let mark = reference.mark().map_err(|source| SocketError::call("getsockopt(SO_MARK)", source))?;
            let protocol =
                reference.protocol().map_err(|source| SocketError::call("getsockopt(SO_PROTOCOL)", source))?;
            name_of(sole_interface(Flow { local, peer, protocol: protocol.map(Into::into), mark })?)?
        }
    };
    topology.nic(&name).ok_or(SocketError::UnknownInterface { name })
}

/// The interface that a TCP connection of these addresses sends through, by the kernel's own
/// routing decision in the network namespace of the calling thread. The socket may be any
/// process's; its mark and the device that it is bound to are left out.
///
/// # Privileges
/// None.
///
/// # Errors
/// [`SocketError::NoRoute`], [`SocketError::SeveralWays`], [`SocketError::Call`].
pub fn interface_of_connection(local: SocketAddr, peer: SocketAddr) -> Result<String, SocketError> {
    name_of(sole_interface(Flow { local, peer, protocol: Some(libc::IPPROTO_TCP), mark: 0 })?)
}

/// The CPU that last handled a packet of this socket in the kernel, or that the socket was set to;
/// `None` before the first packet.
///
/// That CPU hands the packets out, after interrupt and steering. A thread needs no privilege to run
/// there, or beside it.
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
    sys::sockopt::incoming_cpu(socket.as_fd())
        .map(|cpu| u32::try_from(cpu).ok().map(CpuId))
        .map_err(|source| SocketError::call("getsockopt(SO_INCOMING_CPU)", source))
}

/// Sets the CPU whose packets a socket should receive. Among listening sockets, or unconnected ones
/// of UDP, that share a port (`SO_REUSEPORT`), a packet goes to the one that is set to the CPU
/// which handles it; before Linux 6.2, to any (since 4.6, when groups of such sockets came).
///
/// The call moves no packets: the interrupt decides which CPU handles them. The next packet of a
/// connected socket writes its own CPU over this one.
///
/// # Privileges
/// None.
///
/// # Errors
/// [`SocketError::Call`].
///
/// # References
/// [socket(7)](https://man7.org/linux/man-pages/man7/socket.7.html), `SO_INCOMING_CPU`; net/core/sock_reuseport.c,
/// `reuseport_select_sock_by_hash` (Linux 6.12)
#[doc(alias = "SO_INCOMING_CPU")]
pub fn set_incoming_cpu(socket: &impl AsFd, cpu: CpuId) -> Result<(), SocketError> {
    SockRef::from(socket)
        .set_cpu_affinity(cpu.0 as usize)
        .map_err(|source| SocketError::call("setsockopt(SO_INCOMING_CPU)", source))
}

/// The index of the interface of a flow, if the kernel's choice can be repeated.
fn sole_interface(flow: Flow) -> Result<u32, SocketError> {
    let alternatives = flow.alternatives()?;
    if !alternatives.is_empty() {
        let interfaces = alternatives.into_iter().map(name_of).collect::<Result<_, _>>()?;
        return Err(SocketError::SeveralWays { interfaces });
    }
    flow.interface()
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

/// Fails for a socket of another or unknown network namespace.
fn same_namespace(socket: &impl AsFd) -> Result<(), SocketError> {
    let unknown = |source: io::Error| match source.raw_os_error() {
        Some(libc::ENOPROTOOPT) => SocketError::NamespaceUnknown { source },
        _ => SocketError::call("getsockopt(SO_NETNS_COOKIE)", source),
    };
    let theirs = sys::sockopt::namespace_cookie(socket.as_fd()).map_err(unknown)?;
    let own = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM, None)
        .map_err(|source| SocketError::call("socket", source))?;
    let ours = sys::sockopt::namespace_cookie(own.as_fd()).map_err(unknown)?;
    if theirs == ours { Ok(()) } else { Err(SocketError::OtherNamespace) }
}

fn name_of(index: u32) -> Result<String, SocketError> {
    nix::net::if_::if_indextoname(index)
        .map(|name| name.to_string_lossy().into_owned())
        .map_err(|errno| SocketError::call("if_indextoname", errno.into()))
}
