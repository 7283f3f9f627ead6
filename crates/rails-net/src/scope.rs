//! IP addresses that name their interface.

use crate::interfaces;
use std::{
    fmt, io,
    net::{AddrParseError, IpAddr, SocketAddr, SocketAddrV6},
    str::FromStr,
};

/// An IP address, with the interface that a link-local address of IPv6 belongs to: `10.0.0.1`,
/// `fd00::1`, `fe80::1%eth0` or `fe80::1%2` (RFC 4007, section 11).
///
/// A link-local address is valid on one link only, so a socket takes it together with an interface
/// of this machine. The interface is local: it is never sent to a peer.
///
/// # Examples
/// ```
/// use rails_net::ScopedAddress;
///
/// let address: ScopedAddress = "fe80::1%eth0".parse()?;
/// assert_eq!(address.interface(), Some("eth0"));
/// assert!("10.0.0.1%eth0".parse::<ScopedAddress>().is_err());
/// # Ok::<(), rails_net::ScopeError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ScopedAddress {
    ip: IpAddr,
    interface: Option<String>,
}

/// The text is no address, or the interface is wrong or missing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScopeError {
    /// The text, or the part before the `%`, is no IP address.
    #[error("`{text}` is no IP address")]
    Address {
        /// The text.
        text: String,
        /// The standard library's error.
        source: AddrParseError,
    },
    /// The part behind the `%` cannot be the name of an interface.
    #[error("`{interface}` can be no interface's name in `{text}`; with a port it is [ADDRESS%INTERFACE]:PORT")]
    Name {
        /// The text.
        text: String,
        /// The part behind the `%`.
        interface: String,
    },
    /// The address is valid on every link, so no interface belongs to it.
    #[error("{ip} is no link-local address (fe80::/10), so it names no interface such as `{interface}`")]
    NotLinkLocal {
        /// The address.
        ip: IpAddr,
        /// The interface in the text.
        interface: String,
    },
    /// This machine, or the thread's network namespace, has no such interface.
    #[error("there is no interface `{interface}`, which {address} names")]
    NoInterface {
        /// The address.
        address: ScopedAddress,
        /// The interface's name, or its index.
        interface: String,
        /// The error of the operating system.
        source: io::Error,
    },
}

impl ScopedAddress {
    /// The address.
    pub fn ip(&self) -> IpAddr {
        self.ip
    }

    /// The name of the interface, or its index, as the text has it.
    pub fn interface(&self) -> Option<&str> {
        self.interface.as_deref()
    }

    /// The address with a port, for a socket of the calling thread's network namespace.
    ///
    /// # Errors
    /// [`ScopeError::NoInterface`].
    pub fn with_port(&self, port: u16) -> Result<SocketAddr, ScopeError> {
        let (IpAddr::V6(ip), Some(interface)) = (self.ip, self.interface()) else {
            return Ok(SocketAddr::new(self.ip, port));
        };
        let scope = index_of(interface).map_err(|source| ScopeError::NoInterface {
            address: self.clone(),
            interface: interface.to_owned(),
            source,
        })?;
        Ok(SocketAddrV6::new(ip, port, 0, scope).into())
    }
}

impl FromStr for ScopedAddress {
    type Err = ScopeError;

    fn from_str(text: &str) -> Result<Self, ScopeError> {
        let (ip, interface) = match text.split_once('%') {
            Some((ip, interface)) => (ip, Some(interface)),
            None => (text, None),
        };
        let ip: IpAddr = ip.parse().map_err(|source| ScopeError::Address { text: text.to_owned(), source })?;
        let Some(interface) = interface.map(str::to_owned) else { return Ok(Self { ip, interface: None }) };
        if !is_name(&interface) {
            return Err(ScopeError::Name { text: text.to_owned(), interface });
        }
        match ip {
            IpAddr::V6(v6) if v6.is_unicast_link_local() => Ok(Self { ip, interface: Some(interface) }),
            ip => Err(ScopeError::NotLinkLocal { ip, interface }),
        }
    }
}

impl fmt::Display for ScopedAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.interface {
            Some(interface) => write!(f, "{}%{interface}", self.ip),
            None => self.ip.fmt(f),
        }
    }
}

/// The kernel's rule for names (`dev_valid_name` in net/core/dev.c).
fn is_name(text: &str) -> bool {
    let is_part = |byte: u8| byte != b'/' && byte != b':' && byte != 0 && !byte.is_ascii_whitespace() && byte != 0x0b;
    (1..libc::IFNAMSIZ).contains(&text.len()) && text != "." && text != ".." && text.bytes().all(is_part)
}

/// The index of the interface of that name, or else of that index.
fn index_of(interface: &str) -> io::Result<u32> {
    let by_index = || interface.parse().ok().filter(|index| interfaces::name_of(*index).is_some());
    let index = interfaces::index_of(interface).or_else(by_index);
    index.ok_or_else(|| io::Error::from_raw_os_error(libc::ENODEV))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parsed(text: &str) -> Result<ScopedAddress, String> {
        text.parse().map_err(|error: ScopeError| error.to_string())
    }

    #[test]
    fn addresses_with_and_without_an_interface() {
        let loopback = nix::net::if_::if_nametoindex("lo").expect("every machine has a loopback interface");
        for (text, socket) in [
            ("10.0.0.1", "10.0.0.1:80".to_owned()),
            ("fe80::1", "[fe80::1]:80".to_owned()),
            ("fe80:0::1%lo", format!("[fe80::1%{loopback}]:80")),
            (&format!("fe80::1%{loopback}"), format!("[fe80::1%{loopback}]:80")),
        ] {
            let address = parsed(text).expect("an address");
            assert_eq!(address.with_port(80).expect("the interface is there").to_string(), socket);
        }
    }

    #[test]
    fn wrong_interfaces_with_the_reason() {
        for (text, reason) in [
            ("", "no IP address"),
            ("host%eth0", "no IP address"),
            ("fe80::1%", "no interface's name"),
            ("fe80::1%eth0:80", "[ADDRESS%INTERFACE]:PORT"),
            ("fe80::1%a-name-of-more-than-15", "no interface's name"),
            ("fd00::1%eth0", "no link-local address"),
            ("10.0.0.1%eth0", "no link-local address"),
        ] {
            let error = parsed(text).expect_err("it is wrong");
            assert!(error.contains(reason), "{text}: {error}");
        }
        for unknown in ["no-such-one", "4000000000"] {
            let error = parsed(&format!("fe80::1%{unknown}")).expect("an address").with_port(1).unwrap_err();
            assert_eq!(error.to_string(), format!("there is no interface `{unknown}`, which fe80::1%{unknown} names"));
        }
    }

    proptest! {
        #[test]
        fn printed_addresses_are_read_back(text in "\\PC{0,30}|fe80::[1-9]%[a-z0-9.:/% ]{0,17}") {
            if let Ok(address) = text.parse::<ScopedAddress>() {
                prop_assert_eq!(address.to_string().parse::<ScopedAddress>().ok(), Some(address));
            }
        }
    }
}
