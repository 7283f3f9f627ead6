//! Addresses and host names that callers pass to streams and listeners.

use crate::aside::lookup_host;
use rails_proto::{AddressError, LaneAddress, Scheme};
use std::{
    io,
    net::{IpAddr, SocketAddr},
};

/// One or more addresses that lanes lead to or come in on.
///
/// - [`LaneAddress`], [`SocketAddr`] and `(IpAddr, u16)` stand for themselves; the latter two are TCP addresses.
/// - Text is `HOST:PORT` or `SCHEME://HOST:PORT`, where the host is an IP address (IPv6 in brackets) or a name.
///   `(&str, u16)` is a host and a port, over TCP.
/// - Arrays, slices and vectors stand for all their elements, in order.
///
/// A name stands for all of its addresses that have the family of the first one, in the order of the system's resolver:
/// so one name names a host with one address per NIC. An address that the resolver gives twice counts once.
pub trait ToLaneAddresses: sealed::Named {}

impl<T: sealed::Named> ToLaneAddresses for T {}

/// The error for a text or name without an address.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResolveError {
    /// The text has no host and port.
    #[error("`{0}` is no address: it is HOST:PORT or SCHEME://HOST:PORT")]
    Text(String),
    /// The part before `://` is no transport's name.
    #[error(transparent)]
    Scheme(#[from] AddressError),
    /// The resolver does not know the name.
    #[error("cannot resolve the host name `{host}`")]
    Lookup {
        /// The name.
        host: String,
        /// The resolver's error.
        source: io::Error,
    },
}

/// Resolves names to addresses.
pub(crate) async fn resolve(named: Result<Vec<Name>, ResolveError>) -> Result<Vec<LaneAddress>, ResolveError> {
    let mut addresses = Vec::new();
    for name in named? {
        match name {
            Name::Address(address) => addresses.push(address),
            Name::Host { scheme, host, port } => {
                let found: io::Result<Vec<_>> = lookup_host((host.as_str(), port)).await.map(Iterator::collect);
                let found = found.map_err(|source| ResolveError::Lookup { host, source })?;
                for (index, &socket) in found.iter().enumerate() {
                    if socket.is_ipv4() == found[0].is_ipv4() && !found[..index].contains(&socket) {
                        addresses.push(LaneAddress { scheme, socket });
                    }
                }
            }
        }
    }
    Ok(addresses)
}

/// An address, or a host name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Name {
    Address(LaneAddress),
    Host { scheme: Scheme, host: String, port: u16 },
}

mod sealed {
    use super::*;

    /// A value that gives addresses or host names.
    pub trait Named {
        fn named(self) -> Result<Vec<Name>, ResolveError>;
    }

    impl Named for LaneAddress {
        fn named(self) -> Result<Vec<Name>, ResolveError> {
            Ok(vec![Name::Address(self)])
        }
    }

    impl Named for SocketAddr {
        fn named(self) -> Result<Vec<Name>, ResolveError> {
            LaneAddress::from(self).named()
        }
    }

    impl Named for (IpAddr, u16) {
        fn named(self) -> Result<Vec<Name>, ResolveError> {
            SocketAddr::from(self).named()
        }
    }

    impl Named for (&str, u16) {
        fn named(self) -> Result<Vec<Name>, ResolveError> {
            let (host, port) = self;
            match host.parse::<IpAddr>() {
                Ok(ip) => (ip, port).named(),
                Err(_) if host.is_empty() => Err(ResolveError::Text(format!(":{port}"))),
                Err(_) => Ok(vec![Name::Host { scheme: Scheme::TCP, host: host.to_owned(), port }]),
            }
        }
    }

    impl Named for &str {
        fn named(self) -> Result<Vec<Name>, ResolveError> {
            if let Ok(address) = self.parse::<LaneAddress>() {
                return address.named();
            }
            let (scheme, rest) = Scheme::split(self)?;
            let host_and_port = rest.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse::<u16>().ok()?)));
            match host_and_port {
                Some((host, port)) if !host.is_empty() && !host.contains([':', '/', '[', ']']) => {
                    Ok(vec![Name::Host { scheme, host: host.to_owned(), port }])
                }
                _ => Err(ResolveError::Text(self.to_owned())),
            }
        }
    }

    impl Named for String {
        fn named(self) -> Result<Vec<Name>, ResolveError> {
            self.as_str().named()
        }
    }

    impl<T: Named + Clone> Named for &T {
        fn named(self) -> Result<Vec<Name>, ResolveError> {
            self.clone().named()
        }
    }

    impl<T: Named + Clone> Named for &[T] {
        fn named(self) -> Result<Vec<Name>, ResolveError> {
            self.to_vec().named()
        }
    }

    impl<T: Named, const N: usize> Named for [T; N] {
        fn named(self) -> Result<Vec<Name>, ResolveError> {
            Vec::from(self).named()
        }
    }

    impl<T: Named> Named for Vec<T> {
        fn named(self) -> Result<Vec<Name>, ResolveError> {
            let named: Result<Vec<_>, _> = self.into_iter().map(Named::named).collect();
            Ok(named?.concat())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{sealed::Named, *};

    async fn resolved(addresses: impl ToLaneAddresses) -> Vec<String> {
        let addresses = resolve(addresses.named()).await.expect("these are addresses");
        addresses.iter().map(ToString::to_string).collect()
    }

    #[tokio::test]
    async fn every_way_to_write_an_address() {
        let socket: SocketAddr = "10.0.0.1:1".parse().unwrap();
        assert_eq!(resolved(socket).await, ["10.0.0.1:1"]);
        assert_eq!(resolved((socket.ip(), 2)).await, ["10.0.0.1:2"]);
        assert_eq!(resolved(LaneAddress::from(socket)).await, ["10.0.0.1:1"]);
        assert_eq!(resolved(&[socket, socket]).await, ["10.0.0.1:1", "10.0.0.1:1"]);
        assert_eq!(resolved(&vec![socket][..]).await, ["10.0.0.1:1"]);
        assert_eq!(resolved(["[fd00::1]:1", "udp://10.0.0.1:2"]).await, ["[fd00::1]:1", "udp://10.0.0.1:2"]);
        assert_eq!(resolved("tcp://10.0.0.1:2".to_owned()).await, ["10.0.0.1:2"]);
        assert_eq!(resolved(("fd00::1", 2)).await, ["[fd00::1]:2"]);
    }

    #[tokio::test]
    async fn localhost_is_a_name() {
        for named in ["localhost:7".named(), "tcp://localhost:7".named(), ("localhost", 7).named()] {
            let addresses = resolve(named).await.expect("every system resolves localhost");
            assert!(addresses.iter().all(|address| address.socket.ip().is_loopback() && address.port() == 7));
            assert!(addresses.iter().all(|address| address.socket.is_ipv4() == addresses[0].socket.is_ipv4()));
        }
    }

    #[tokio::test]
    async fn refusal_of_texts_that_are_no_addresses() {
        for text in ["", "host", "host:", "host:65536", ":80", "fd00::1:80", "[fd00::1]", "a/b:80", "tcp://:80"] {
            assert!(matches!(text.named(), Err(ResolveError::Text(_))), "{text}");
        }
        assert!(matches!("TCP://host:80".named(), Err(ResolveError::Scheme(_))));
        let unknown = resolve("no-such-host.invalid:80".named()).await.unwrap_err();
        assert_eq!(unknown.to_string(), "cannot resolve the host name `no-such-host.invalid`");
    }
}
