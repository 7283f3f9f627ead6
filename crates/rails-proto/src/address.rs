//! Addresses of lanes: a transport and a socket address.

use serde::{Deserialize, Serialize};
use std::{
    fmt,
    net::{AddrParseError, SocketAddr},
    str::FromStr,
};

/// The name of a transport in addresses: `tcp` (RFC 3986, section 3.1).
///
/// A lower-case letter, then lower-case letters, digits, `+`, `-` and `.`, at most
/// [`MAX_BYTES`](Self::MAX_BYTES) in all.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Scheme([u8; Self::MAX_BYTES + 1]);

/// The address of a lane: `tcp://10.0.0.1:7575`. An address without a scheme, `10.0.0.1:7575`, is a
/// TCP address, and TCP addresses are printed like that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "String", into = "String")]
pub struct LaneAddress {
    /// The transport.
    pub scheme: Scheme,
    /// The address, as the transport uses it.
    pub socket: SocketAddr,
}

/// An error in the text of a lane's address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// The part before `://` is no transport.
    #[error(
        "`{0}` is no transport: a lower-case letter, then lower-case letters, digits, `+`, `-` and `.`, at most 15 in all"
    )]
    Scheme(String),
    /// The rest is no IP address with a port.
    #[error("`{text}` is no IP address with a port")]
    Socket {
        /// The text.
        text: String,
        /// The standard library's error.
        source: AddrParseError,
    },
}

impl Scheme {
    /// TCP, the default if an address names no transport.
    pub const TCP: Self = Self(*b"tcp\0\0\0\0\0\0\0\0\0\0\0\0\0");
    /// The longest name, in bytes.
    pub const MAX_BYTES: usize = 15;

    /// The transport of that name.
    ///
    /// # Errors
    /// [`AddressError::Scheme`] for a text that is no name.
    pub fn new(name: &str) -> Result<Self, AddressError> {
        let is_first = |byte: &u8| byte.is_ascii_lowercase();
        let is_next = |byte: &u8| is_first(byte) || byte.is_ascii_digit() || matches!(byte, b'+' | b'-' | b'.');
        let bytes = name.as_bytes();
        if bytes.len() > Self::MAX_BYTES || !bytes.first().is_some_and(is_first) || !bytes.iter().all(is_next) {
            return Err(AddressError::Scheme(name.to_owned()));
        }
        let mut padded = [0; Self::MAX_BYTES + 1];
        padded[..bytes.len()].copy_from_slice(bytes);
        Ok(Self(padded))
    }

    /// The transport that a text such as `tcp://HOST:PORT` names, and the text behind `://`. A text
    /// without `://` is an address of TCP.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn split(text: &str) -> Result<(Self, &str), AddressError> {
        match text.split_once("://") {
            Some((name, rest)) => Ok((Self::new(name)?, rest)),
            None => Ok((Self::TCP, text)),
        }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        let length = self.0.iter().position(|byte| *byte == 0).unwrap_or(self.0.len());
        std::str::from_utf8(&self.0[..length]).unwrap_or_default()
    }

    /// The name, padded with zeros.
    pub(crate) fn to_padded(self) -> [u8; Self::MAX_BYTES + 1] {
        self.0
    }

    /// The transport of a name padded with zeros; `None` if it is no name.
    pub(crate) fn from_padded(padded: &[u8; Self::MAX_BYTES + 1]) -> Option<Self> {
        let length = padded.iter().position(|byte| *byte == 0)?;
        let scheme = Self::new(std::str::from_utf8(&padded[..length]).ok()?).ok()?;
        (scheme.0 == *padded).then_some(scheme)
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

impl TryFrom<String> for Scheme {
    type Error = AddressError;

    fn try_from(name: String) -> Result<Self, AddressError> {
        Self::new(&name)
    }
}

impl From<Scheme> for String {
    fn from(scheme: Scheme) -> Self {
        scheme.to_string()
    }
}

impl LaneAddress {
    /// The port.
    pub fn port(&self) -> u16 {
        self.socket.port()
    }
}

/// An address of TCP.
impl From<SocketAddr> for LaneAddress {
    fn from(socket: SocketAddr) -> Self {
        Self { scheme: Scheme::TCP, socket }
    }
}

impl FromStr for LaneAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let (scheme, rest) = Scheme::split(text)?;
        let socket = rest.parse().map_err(|source| AddressError::Socket { text: rest.to_owned(), source })?;
        Ok(Self { scheme, socket })
    }
}

impl fmt::Display for LaneAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.scheme {
            Scheme::TCP => self.socket.fmt(f),
            scheme => f.pad(&format!("{scheme}://{}", self.socket)),
        }
    }
}

impl TryFrom<String> for LaneAddress {
    type Error = AddressError;

    fn try_from(text: String) -> Result<Self, AddressError> {
        text.parse()
    }
}

impl From<LaneAddress> for String {
    fn from(address: LaneAddress) -> Self {
        address.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn addresses_with_and_without_a_scheme() {
        let address = |text: &str| text.parse::<LaneAddress>().map(|address| address.to_string());
        assert_eq!(address("10.0.0.1:7575").unwrap(), "10.0.0.1:7575");
        assert_eq!(address("tcp://[fd00::1]:80").unwrap(), "[fd00::1]:80");
        assert_eq!(address("udp+gso://10.0.0.1:1").unwrap(), "udp+gso://10.0.0.1:1");
        for wrong in ["://10.0.0.1:1", "TCP://10.0.0.1:1", "1p://10.0.0.1:1", "sixteen-letters-://10.0.0.1:1"] {
            assert!(matches!(address(wrong), Err(AddressError::Scheme(_))), "{wrong}");
        }
        for wrong in ["10.0.0.1", "tcp://host:1", "tcp://tcp://10.0.0.1:1", ""] {
            assert!(matches!(address(wrong), Err(AddressError::Socket { .. })), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn printed_addresses_are_read_back(name in "[a-z][a-z0-9+.-]{0,14}", ip: std::net::IpAddr, port: u16) {
            let address = LaneAddress { scheme: Scheme::new(&name).unwrap(), socket: SocketAddr::new(ip, port) };
            prop_assert_eq!(address.to_string().parse(), Ok(address));
            prop_assert_eq!(Scheme::from_padded(&address.scheme.to_padded()), Some(address.scheme));
        }

        #[test]
        fn padded_names_are_one_way_to_write_a_scheme(padded: [u8; 16]) {
            if let Some(scheme) = Scheme::from_padded(&padded) {
                prop_assert_eq!(scheme.to_padded(), padded);
            }
        }
    }
}
