//! The first bytes of the control channel: 24 from each end, and nothing else before both have
//! come.

use crate::proto::wire::Token;
use rails_proto::handshake::HandshakeMessage;

/// The length of a greeting.
pub(super) const GREETING_LEN: usize = 24;
/// The version of the protocol: both ends have the same.
pub(super) const VERSION: u16 = 2;

/// The first bytes of an end on the control channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Greeting {
    /// The token of the segments that the end takes.
    pub(super) token: Token,
    /// The UDP port that the end takes them at.
    pub(super) port: u16,
    /// The most bytes of a datagram's payload that the end takes.
    pub(super) max_datagram: u16,
}

/// Bytes that are no greeting of this version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GreetingError {
    Foreign,
    /// The bytes are the first of a handshake with a secret.
    Secured,
    Version(u16),
}

impl Greeting {
    pub(super) fn encode(&self) -> [u8; GREETING_LEN] {
        let mut bytes = [0; GREETING_LEN];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..10].copy_from_slice(&VERSION.to_be_bytes());
        bytes[10..12].copy_from_slice(&self.port.to_be_bytes());
        bytes[12..20].copy_from_slice(&self.token.0.to_be_bytes());
        bytes[20..22].copy_from_slice(&self.max_datagram.to_be_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8; GREETING_LEN]) -> Result<Self, GreetingError> {
        let number = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        if &bytes[..8] != MAGIC {
            let prefix = bytes.first_chunk().expect("a greeting is longer");
            let is_handshake = HandshakeMessage::body_len(prefix).is_ok();
            return Err(if is_handshake { GreetingError::Secured } else { GreetingError::Foreign });
        }
        if number(8) != VERSION {
            return Err(GreetingError::Version(number(8)));
        }
        let token = bytes[12..20].iter().fold(0, |token, byte| token << 8 | u64::from(*byte));
        let greeting = Self { token: Token(token), port: number(10), max_datagram: number(20) };
        // Such a datagram takes no payload, and no socket has port 0.
        match greeting.port == 0 || greeting.max_datagram < 64 {
            true => Err(GreetingError::Foreign),
            false => Ok(greeting),
        }
    }
}

/// The first bytes of a greeting.
pub(super) const MAGIC: &[u8; 8] = b"celerity";

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn greetings_come_back(token: u64, port in 1..=u16::MAX, max_datagram in 64..=u16::MAX) {
            let greeting = Greeting { token: Token(token), port, max_datagram };
            prop_assert_eq!(Greeting::decode(&greeting.encode()), Ok(greeting));
        }

        #[test]
        fn other_bytes_are_refused(bytes: [u8; GREETING_LEN], version: u16) {
            prop_assert!(Greeting::decode(&bytes).is_err());
            let mut other = Greeting { token: Token(1), port: 1, max_datagram: 1472 }.encode();
            other[8..10].copy_from_slice(&version.to_be_bytes());
            prop_assert_eq!(Greeting::decode(&other).is_err(), version != VERSION);
        }
    }
}
