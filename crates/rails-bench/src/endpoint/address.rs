//! Addresses as people write them.

use rails_multirail::Scheme;
use std::{
    fmt,
    net::{IpAddr, Ipv6Addr, SocketAddr},
    str::FromStr,
};

/// An address or a host's name, with a port, and the transport that is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    scheme: Scheme,
    host: String,
    port: u16,
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (scheme, text) = Scheme::split(text).map_err(|error| error.to_string())?;
        // An IPv6 address without brackets has colons of its own, and no port.
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Self { scheme, host: address.to_string(), port: DEFAULT_PORT });
        }
        let port = |digits: &str| digits.parse().map_err(|_| format!("`{digits}` is no port (0 to 65535)"));
        if let Some(rest) = text.strip_prefix('[') {
            let (address, rest) = rest.split_once(']').ok_or_else(|| format!("`{text}` has no closing bracket"))?;
            let address: Ipv6Addr = address.parse().map_err(|_| format!("`{address}` is no IPv6 address"))?;
            let port = match rest.strip_prefix(':') {
                Some(digits) => port(digits)?,
                None if rest.is_empty() => DEFAULT_PORT,
                None => return Err(format!("`{rest}` follows the bracket where a port could")),
            };
            return Ok(Self { scheme, host: address.to_string(), port });
        }
        let (host, port) = match text.split_once(':') {
            Some((_, rest)) if rest.contains(':') => {
                return Err(format!("`{text}` has too many colons; an IPv6 address with a port is [ADDRESS]:PORT"));
            }
            Some((host, digits)) => (host, port(digits)?),
            None => (text, DEFAULT_PORT),
        };
        if host.is_empty() || host.contains(|c: char| c.is_whitespace() || c == '/') {
            return Err(format!("`{host}` is no address and no host's name"));
        }
        Ok(Self { scheme, host: host.to_owned(), port })
    }
}

impl Address {
    /// The host.
    pub(super) fn host(&self) -> &str {
        &self.host
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.scheme != Scheme::TCP {
            write!(f, "{}://", self.scheme)?;
        }
        match self.host.parse::<IpAddr>() {
            Ok(address) => SocketAddr::new(address, self.port).fmt(f),
            Err(_) => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

/// The port of an address that names none.
const DEFAULT_PORT: u16 = 7575;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parsed(text: &str) -> String {
        text.parse::<Address>().map_or_else(|error| error, |address| address.to_string())
    }

    #[test]
    fn addresses_are_read_with_and_without_a_port() {
        assert_eq!(parsed("10.0.0.1"), "10.0.0.1:7575");
        assert_eq!(parsed("10.0.0.1:0"), "10.0.0.1:0");
        assert_eq!(parsed("fd00::1"), "[fd00::1]:7575");
        assert_eq!(parsed("[fd00::1]"), "[fd00::1]:7575");
        assert_eq!(parsed("[fd00::1]:80"), "[fd00::1]:80");
        assert_eq!("[fd00:0::1]".parse::<Address>(), "fd00::1".parse(), "however it is written");
        assert_eq!(parsed("storage.example"), "storage.example:7575");
        assert_eq!(parsed("storage.example:9"), "storage.example:9");
        assert_eq!(parsed("tcp://10.0.0.1"), "10.0.0.1:7575");
        assert_eq!(parsed("udp://[fd00::1]:80"), "udp://[fd00::1]:80");
    }

    #[test]
    fn wrong_addresses_with_the_reason() {
        for (text, reason) in [
            ("", "no address"),
            (":80", "no address"),
            ("a b", "no address"),
            ("10.0.0.1:x", "no port"),
            ("10.0.0.1:65536", "no port"),
            ("fd00::1:99999", "too many colons"),
            ("[fd00::1", "no closing bracket"),
            ("[fd00::1]80", "follows the bracket"),
            ("[host]:80", "no IPv6 address"),
            ("UDP://host:80", "no transport"),
            ("tcp://tcp://host", "no port"),
        ] {
            assert!(parsed(text).contains(reason), "{text}: {}", parsed(text));
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in "\\PC{0,40}") {
            let _ = text.parse::<Address>();
        }

        #[test]
        fn a_printed_address_is_read_back(address: std::net::IpAddr, port: u16) {
            let address = Address { scheme: Scheme::TCP, host: address.to_string(), port };
            prop_assert_eq!(address.to_string().parse(), Ok(address));
        }
    }
}
