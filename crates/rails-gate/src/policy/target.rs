//! Destinations as people write them: a network and ports.

use super::ports::{Ports, PortsError};
use ipnet::{IpNet, Ipv4Net};
use serde::{Deserialize, Serialize};
use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    str::FromStr,
};

/// A network, or one address, and ports of it.
///
/// | text | destinations |
/// |---|---|
/// | `10.0.0.0/8` | every port of every address of the network |
/// | `10.0.0.0/8:*` | the same |
/// | `10.1.2.3:80,443` | two ports of one address |
/// | `10.0.0.0/24:8000-8100` | a range of ports |
/// | `fd00::/64` | every port of an IPv6 network |
/// | `[fd00::]/64:443`, `[::1]:5432` | with ports, an IPv6 address stands in brackets |
///
/// An IPv4 address that is written or called as an IPv6 address (`::ffff:10.0.0.1`) is the IPv4
/// address. No IPv6 network contains IPv4 addresses: `::/0` is every IPv6 address, and `0.0.0.0/0`
/// every IPv4 address.
///
/// A loopback address is a destination of networks of loopback addresses alone (`127.0.0.0/8` and
/// narrower, `::1`): `0.0.0.0/0` does not contain `127.0.0.1`. The unspecified address means
/// loopback, as the kernel takes it for that when a program connects.
///
/// # Examples
/// ```
/// use rails_gate::policy::Target;
///
/// let target: Target = "10.0.0.0/8:80,443".parse()?;
/// assert!(target.contains("10.1.2.3:443".parse().unwrap()));
/// assert!(target.contains("[::ffff:10.1.2.3]:443".parse().unwrap()));
/// assert!(!target.contains("10.1.2.3:22".parse().unwrap()));
/// # Ok::<(), rails_gate::policy::TargetError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Target {
    net: IpNet,
    ports: Ports,
}

/// The fault of a text that is no [`Target`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TargetError {
    /// The text is no network and no address.
    #[error(
        "`{text}` is no destination; write ADDRESS:PORTS or NETWORK/PREFIX:PORTS, such as 10.0.0.0/8:80,443 or [fd00::]/64:443"
    )]
    Network {
        /// The text.
        text: String,
    },
    /// Bits behind the prefix are set.
    #[error("`{text}` has an address behind the prefix; write {network} for the network, or {address} for the address")]
    BitsBehindPrefix {
        /// The text of the network.
        text: String,
        /// The network of that prefix.
        network: IpNet,
        /// The address alone.
        address: IpAddr,
    },
    /// An address of IPv6 has ports, and no brackets around it.
    #[error("`{text}` has an IPv6 address without brackets; write [{address}]{rest}")]
    NoBrackets {
        /// The text.
        text: String,
        /// The address.
        address: String,
        /// The prefix and the ports.
        rest: String,
    },
    /// The ports are none.
    #[error(transparent)]
    Ports(#[from] PortsError),
    /// Ports are missing where they have to be stated.
    #[error("`{text}` names no ports, and they have to be stated here; write {text}:443, or {text}:* for all of them")]
    NoPorts {
        /// The network or address, in the form that takes ports.
        text: String,
    },
}

impl Target {
    /// These ports of a network. Bits behind the prefix do not count.
    pub fn new(net: IpNet, ports: Ports) -> Self {
        Self { net: canonical_net(net), ports }
    }

    /// Reads a target that states its ports.
    ///
    /// # Errors
    /// As from parsing, and [`TargetError::NoPorts`].
    pub(super) fn with_ports(text: &str) -> Result<Self, TargetError> {
        let (net, ports) = parts(text)?;
        match ports {
            Some(ports) => Ok(Self::new(net, ports)),
            None => Err(TargetError::NoPorts { text: Network(net).to_string() }),
        }
    }

    /// The network; of one address, with the longest prefix.
    pub fn net(&self) -> IpNet {
        self.net
    }

    /// The ports.
    pub fn ports(&self) -> &Ports {
        &self.ports
    }

    /// Whether a destination is one of these.
    pub fn contains(&self, destination: SocketAddr) -> bool {
        let destination = canonical(destination);
        self.net.contains(&destination.ip())
            && self.net.prefix_len() >= min_prefix(destination.ip())
            && self.ports.contain(destination.port())
    }
}

/// The destination that a program reaches which connects to `address`: an IPv4 address in an IPv6
/// one is the IPv4 address, and the unspecified address is loopback.
///
/// Whoever may reach an address may reach it in each of its forms, and in no other form of another
/// address.
///
/// # Examples
/// ```
/// use rails_gate::policy::canonical;
///
/// for text in ["[::ffff:127.0.0.1]:80", "0.0.0.0:80", "[::ffff:0.0.0.0]:80", "127.0.0.1:80"] {
///     assert_eq!(canonical(text.parse().unwrap()), "127.0.0.1:80".parse().unwrap());
/// }
/// ```
pub fn canonical(address: SocketAddr) -> SocketAddr {
    let mut canonical = address;
    let ip = match address.ip().to_canonical() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    canonical.set_ip(ip);
    canonical
}

/// The shortest prefix of the networks that may contain an address: loopback addresses are in
/// networks of loopback addresses alone.
pub(super) fn min_prefix(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(address) if address.is_loopback() => 8,
        IpAddr::V6(address) if address.is_loopback() => 128,
        _ => 0,
    }
}

/// Reads `10.0.0.0/8` as all ports of the network.
impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        let (net, ports) = parts(text)?;
        Ok(Self::new(net, ports.unwrap_or(Ports::ALL)))
    }
}

/// Writes the ports always.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", Network(self.net), self.ports)
    }
}

impl TryFrom<String> for Target {
    type Error = TargetError;

    fn try_from(text: String) -> Result<Self, TargetError> {
        text.parse()
    }
}

impl From<Target> for String {
    fn from(target: Target) -> Self {
        target.to_string()
    }
}

/// A network in the form that takes ports; one address without a prefix.
struct Network(IpNet);

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.addr() {
            IpAddr::V4(address) => write!(f, "{address}")?,
            IpAddr::V6(address) => write!(f, "[{address}]")?,
        }
        if self.0.prefix_len() < self.0.max_prefix_len() { write!(f, "/{}", self.0.prefix_len()) } else { Ok(()) }
    }
}

/// The network of a text, and its ports if it names some.
fn parts(text: &str) -> Result<(IpNet, Option<Ports>), TargetError> {
    let text = text.trim();
    // An IPv6 address alone, with colons of its own.
    if let Some(net) = network(text)? {
        return Ok((net, None));
    }
    let (written, ports) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, rest)) => {
            let (prefix, ports) = rest.split_once(':').map_or((rest, None), |(prefix, ports)| (prefix, Some(ports)));
            let has_address = address.parse::<Ipv6Addr>().is_ok() && (prefix.is_empty() || prefix.starts_with('/'));
            (has_address.then(|| format!("{address}{prefix}")), ports)
        }
        None => {
            let (address, ports) = text.rsplit_once(':').unwrap_or((text, ""));
            if address.contains(':') && network(address)?.is_some() {
                let (address, prefix) = address.split_at(address.find('/').unwrap_or(address.len()));
                let (address, rest) = (address.to_owned(), format!("{prefix}:{ports}"));
                return Err(TargetError::NoBrackets { text: text.to_owned(), address, rest });
            }
            (Some(address.to_owned()), Some(ports))
        }
    };
    let net = written.as_deref().map(network).transpose()?.flatten();
    let net = net.ok_or_else(|| TargetError::Network { text: text.to_owned() })?;
    Ok((net, ports.map(str::parse).transpose()?))
}

/// The network or the address of a text; `None` if it is neither.
fn network(text: &str) -> Result<Option<IpNet>, TargetError> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok(Some(canonical_net(address.into())));
    }
    let Ok(written) = text.parse::<IpNet>() else { return Ok(None) };
    let net = written.trunc();
    if net.addr() != written.addr() {
        return Err(TargetError::BitsBehindPrefix { text: text.to_owned(), network: net, address: written.addr() });
    }
    Ok(Some(canonical_net(net)))
}

/// The network with the canonical addresses, without bits behind the prefix.
fn canonical_net(net: IpNet) -> IpNet {
    let net = net.trunc();
    if net.prefix_len() == net.max_prefix_len() {
        return canonical(SocketAddr::new(net.addr(), 0)).ip().into();
    }
    match net {
        IpNet::V6(v6) if v6.prefix_len() >= MAPPED_PREFIX => match v6.addr().to_ipv4_mapped() {
            Some(address) => Ipv4Net::new(address, v6.prefix_len() - MAPPED_PREFIX).map_or(net, IpNet::V4),
            None => net,
        },
        _ => net,
    }
}

/// The prefix of the IPv6 addresses that stand for IPv4 addresses (RFC 4291, section 2.5.5.2).
const MAPPED_PREFIX: u8 = 96;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::generate;
    use proptest::prelude::*;

    fn target(text: &str) -> Target {
        text.parse().unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn every_way_to_write_a_target() {
        for (text, written) in [
            ("10.0.0.0/8", "10.0.0.0/8:*"),
            ("10.0.0.0/8:*", "10.0.0.0/8:*"),
            (" 10.1.2.3:80 ", "10.1.2.3:80"),
            ("10.1.2.3:443,80,81,80", "10.1.2.3:80-81,443"),
            ("10.0.0.0/24:8000-8100", "10.0.0.0/24:8000-8100"),
            ("10.0.0.1/32:1-65535", "10.0.0.1:*"),
            ("fd00::/64", "[fd00::]/64:*"),
            ("[fd00::]/64:443", "[fd00::]/64:443"),
            ("[fd00::]/64", "[fd00::]/64:*"),
            ("[::1]:5432", "[::1]:5432"),
            ("[::1]", "[::1]:*"),
            ("fd00::1", "[fd00::1]:*"),
            ("::ffff:10.0.0.0/104", "10.0.0.0/8:*"),
            ("[::ffff:10.0.0.1]:80", "10.0.0.1:80"),
            ("[::ffff:0:0]/96:80", "0.0.0.0/0:80"),
            ("::/0", "[::]/0:*"),
            ("0.0.0.0:80", "127.0.0.1:80"),
            ("[::]:80", "[::1]:80"),
        ] {
            assert_eq!(target(text).to_string(), written, "{text}");
        }
    }

    #[test]
    fn texts_that_are_no_target_and_the_remedy() {
        for (text, remedy) in [
            ("", "write ADDRESS:PORTS"),
            ("host:80", "write ADDRESS:PORTS"),
            ("10.0.0.0/33:80", "write ADDRESS:PORTS"),
            ("[10.0.0.1]:80", "write ADDRESS:PORTS"),
            ("[fd00::/64]:80", "write ADDRESS:PORTS"),
            ("[fd00::]64:80", "write ADDRESS:PORTS"),
            ("[fd00::1", "write ADDRESS:PORTS"),
            ("10.0.0.1/8", "write 10.0.0.0/8 for the network, or 10.0.0.1 for the address"),
            ("fd00::1/64:80", "write fd00::/64"),
            ("fd00::/64:443", "write [fd00::]/64:443"),
            ("fd00::1:2:3:4:5:6:7", "write [fd00::1:2:3:4:5:6]:7"),
            ("10.0.0.1:", "`` is no port"),
            ("10.0.0.1:0", "`0` is no port"),
            ("10.0.0.1:65536", "`65536` is no port"),
            ("10.0.0.1:90-80", "write 80-90"),
            ("10.0.0.1:80,", "`` is no port"),
            ("10.0.0.1:*,80", "`*` is no port"),
        ] {
            let error = text.parse::<Target>().map(|target| target.to_string()).unwrap_err().to_string();
            assert!(error.contains(remedy), "{text}: {error}");
        }
    }

    #[test]
    fn ports_can_be_required() {
        assert_eq!(Target::with_ports("[fd00::]/64:*"), Ok(target("[fd00::]/64:*")));
        for (text, remedy) in [("10.0.0.0/8", "10.0.0.0/8:443"), ("fd00::1:443", "[fd00::1:443]:443")] {
            let error = Target::with_ports(text).unwrap_err().to_string();
            assert!(error.contains(remedy), "{text}: {error}");
        }
    }

    #[test]
    fn loopback_has_to_be_named() {
        let contains = |text: &str, address: &str| target(text).contains(address.parse().unwrap());
        for address in ["127.0.0.1:80", "127.1.2.3:80", "[::ffff:127.0.0.1]:80", "0.0.0.0:80", "[::ffff:0:0]:80"] {
            for wide in ["0.0.0.0/0", "126.0.0.0/7", "::/0", "::/64", "0.0.0.0/8", "::ffff:0:0/96"] {
                assert!(!contains(wide, address), "{address} in {wide}");
            }
            assert!(contains("127.0.0.0/8:80", address), "{address}");
        }
        for address in ["[::1]:80", "[::]:80"] {
            assert!(!contains("::/0", address) && !contains("::/127", address) && contains("[::1]:80", address));
        }
        assert!(contains("::/0", "[::2]:80") && contains("0.0.0.0/0", "128.0.0.1:80"));
        assert!(!contains("::/0", "[::ffff:128.0.0.1]:80"));
    }

    proptest! {
        #[test]
        fn a_printed_target_is_read_back(target in generate::target()) {
            let text = target.to_string();
            prop_assert_eq!(Target::with_ports(&text), Ok(target.clone()));
            prop_assert_eq!(text.parse(), Ok(target));
        }

        #[test]
        fn a_form_of_an_address_means_the_same(target in generate::target(), address in generate::address()) {
            prop_assert_eq!(canonical(canonical(address)), canonical(address));
            prop_assert_eq!(target.contains(address), target.contains(canonical(address)));
            if let SocketAddr::V4(v4) = address {
                let mapped = SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port());
                prop_assert_eq!(canonical(mapped), canonical(address));
                prop_assert_eq!(target.contains(mapped), target.contains(address));
            }
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "[0-9a-f:./,*\\[\\] -]{0,40}|\\PC{0,20}") {
            if let Ok(target) = text.parse::<Target>() {
                prop_assert_eq!(target.to_string().parse(), Ok(target));
            }
        }
    }
}
