//! The local address that the routing table chooses.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
};

/// The local address from which the routing table would send to `remote`.
///
/// The call connects a UDP socket, for which the kernel looks up the route and chooses the source
/// address, and sends no packet. A route does not mean that a host answers. Policy routing by mark,
/// port or user may choose another address for a real connection.
///
/// # Errors
/// The error of the operating system: `ENETUNREACH` if no route leads there, `EHOSTUNREACH` or
/// `EACCES` if the route is of that type, `EAFNOSUPPORT` if the machine has no IPv6.
///
/// # Privileges
/// None.
///
/// # Examples
/// ```
/// # fn main() -> std::io::Result<()> {
/// let local = rails_net::local_address_towards("127.0.0.1:7575".parse().unwrap())?;
/// assert!(local.is_loopback());
/// # Ok(())
/// # }
/// ```
///
/// # References
/// [connect(2)](https://man7.org/linux/man-pages/man2/connect.2.html), `ip_route_connect` in include/net/route.h
pub fn local_address_towards(remote: SocketAddr) -> io::Result<IpAddr> {
    let any: IpAddr = match remote {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(remote)?;
    Ok(socket.local_addr()?.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_reached_from_loopback() {
        let local = local_address_towards("127.0.0.9:7575".parse().unwrap()).unwrap();
        assert!(local.is_loopback(), "{local}");
    }

    #[test]
    fn a_port_is_not_needed_to_find_the_way() {
        let with_port = local_address_towards("127.0.0.1:1".parse().unwrap()).unwrap();
        assert_eq!(local_address_towards("127.0.0.1:0".parse().unwrap()).unwrap(), with_port);
    }

    #[test]
    fn an_address_that_nothing_leads_to_is_an_error() {
        // The kernel refuses a broadcast address to a socket without SO_BROADCAST, for all routes.
        assert!(local_address_towards("255.255.255.255:7575".parse().unwrap()).is_err());
    }
}
