//! Addresses as people write them.

use rails_multirail::Scheme;
use rails_net::ScopedAddress;
use std::{fmt, net::IpAddr, str::FromStr};

/// An address or a host's name, with a port, and the transport that is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    scheme: Scheme,
    host: Host,
    port: u16,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Host {
    Ip(ScopedAddress),
    Name(String),
}

impl Address {
    /// The transport that is meant.
    pub(super) fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// The IP address, if it is none of a name.
    pub(super) fn ip(&self) -> Option<IpAddr> {
        match &self.host {
            Host::Ip(address) => Some(address.ip()),
            Host::Name(_) => None,
        }
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (scheme, text) = Scheme::split(text).map_err(|error| error.to_string())?;
        let ip = |text: &str| text.parse::<ScopedAddress>();
        // An IPv6 address without brackets contains colons, and has no port.
        match ip(text) {
            Ok(address) => return Ok(Self { scheme, host: Host::Ip(address), port: DEFAULT_PORT }),
            Err(error) if text.contains('%') && !text.starts_with('[') => return Err(error.to_string()),
            Err(_) => {}
        }
        let port = |digits: &str| digits.parse().map_err(|_| format!("`{digits}` is no port (0 to 65535)"));
        if let Some(rest) = text.strip_prefix('[') {
            // An interface's name may contain a bracket.
            let (address, rest) = rest.rsplit_once(']').ok_or_else(|| format!("`{text}` has no closing bracket"))?;
            let address = ip(address).map_err(|error| error.to_string())?;
            if address.ip().is_ipv4() {
                return Err(format!("`{address}` is no IPv6 address"));
            }
            let port = match rest.strip_prefix(':') {
                Some(digits) => port(digits)?,
                None if rest.is_empty() => DEFAULT_PORT,
                None => return Err(format!("`{rest}` follows the bracket where a port could")),
            };
            return Ok(Self { scheme, host: Host::Ip(address), port });
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
        let host = ip(host).map_or_else(|_| Host::Name(host.to_owned()), Host::Ip);
        Ok(Self { scheme, host, port })
    }
}

impl Address {
    /// The host alone, as a certificate names it.
    pub(super) fn host(&self) -> String {
        match &self.host {
            Host::Ip(address) => address.ip().to_string(),
            Host::Name(name) => name.clone(),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.scheme != Scheme::TCP {
            write!(f, "{}://", self.scheme)?;
        }
        match &self.host {
            Host::Ip(address) if address.ip().is_ipv6() => write!(f, "[{address}]:{}", self.port),
            Host::Ip(address) => write!(f, "{address}:{}", self.port),
            Host::Name(name) => write!(f, "{name}:{}", self.port),
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
        assert_eq!(parsed("fe80::1%eth0"), "[fe80::1%eth0]:7575");
        assert_eq!("fe80::1%a]b".parse::<Address>(), "[fe80::1%a]b]".parse());
        assert_eq!(parsed("celeritas://[fe80::1%eth0]:80"), "celeritas://[fe80::1%eth0]:80");
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
            ("[host]:80", "no IP address"),
            ("[10.0.0.1]:80", "no IPv6 address"),
            ("fe80::1%eth0:80", "[ADDRESS%INTERFACE]:PORT"),
            ("fd00::1%eth0", "no link-local address"),
            ("host%eth0", "no IP address"),
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
            let host = Host::Ip(address.to_string().parse().expect("an address"));
            let address = Address { scheme: Scheme::TCP, host, port };
            prop_assert_eq!(address.to_string().parse(), Ok(address));
        }
    }
}
