//! The server's side up to the request, without I/O (RFC 1928).

use super::{Destination, SocksError};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A client that has not said all of its request. The caller reads exactly the bytes that are
/// wanted, so that bytes behind the request stay in the socket.
#[derive(Debug)]
pub(super) struct Handshake {
    awaits: Awaits,
    is_connect: bool,
}

/// Whatever follows from bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// More bytes are wanted.
    More,
    /// More bytes are wanted, and the client is to have this answer first.
    Answer([u8; 2]),
    /// The request.
    Request(Destination),
}

#[derive(Debug, Clone, Copy)]
enum Awaits {
    /// Version, number of methods.
    Greeting,
    /// As many methods.
    Methods(u8),
    /// Version, command, reserved, type of the address.
    Request,
    /// The length of a name.
    NameLength,
    /// A name of that length, and the port.
    Name(u8),
    /// An address, and the port.
    V4,
    V6,
}

impl Handshake {
    pub(super) fn new() -> Self {
        Self { awaits: Awaits::Greeting, is_connect: false }
    }

    /// The number of bytes to read next; 257 at most, and never 0.
    pub(super) fn wanted(&self) -> usize {
        match self.awaits {
            Awaits::Greeting => 2,
            Awaits::Methods(count) => count.into(),
            Awaits::Request => 4,
            Awaits::NameLength => 1,
            Awaits::Name(length) => usize::from(length) + PORT_BYTES,
            Awaits::V4 => 4 + PORT_BYTES,
            Awaits::V6 => 16 + PORT_BYTES,
        }
    }

    /// Takes the bytes that are wanted.
    ///
    /// # Errors
    /// The client asks for something that is not served; [`SocksError::answer`] is to be sent, and
    /// the connection ends.
    ///
    /// # Panics
    /// It is another number of bytes than [`wanted`](Self::wanted).
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<Step, SocksError> {
        assert_eq!(bytes.len(), self.wanted(), "the caller reads the bytes that are wanted");
        match (self.awaits, bytes) {
            (Awaits::Greeting, &[version, count]) => {
                if version != VERSION {
                    return Err(SocksError::Version { version, is_request: false });
                }
                if count == 0 {
                    return Err(SocksError::Authentication);
                }
                self.awaits = Awaits::Methods(count);
            }
            (Awaits::Methods(_), methods) => {
                if !methods.contains(&NO_AUTHENTICATION) {
                    return Err(SocksError::Authentication);
                }
                self.awaits = Awaits::Request;
                return Ok(Step::Answer([VERSION, NO_AUTHENTICATION]));
            }
            (Awaits::Request, &[version, command, _, kind]) => {
                if version != VERSION {
                    return Err(SocksError::Version { version, is_request: true });
                }
                self.is_connect = command == CONNECT;
                self.awaits = match kind {
                    1 => Awaits::V4,
                    3 => Awaits::NameLength,
                    4 => Awaits::V6,
                    kind => return Err(SocksError::AddressType { kind }),
                };
            }
            (Awaits::NameLength, &[length]) => self.awaits = Awaits::Name(length),
            (_, bytes) => return self.request(bytes).map(Step::Request),
        }
        Ok(Step::More)
    }

    /// The destination of a whole request: the host and the port.
    fn request(&self, bytes: &[u8]) -> Result<Destination, SocksError> {
        let (host, port) = bytes.split_last_chunk::<PORT_BYTES>().unwrap_or((bytes, &[0; PORT_BYTES]));
        let port = u16::from_be_bytes(*port);
        if !self.is_connect {
            return Err(SocksError::Command);
        }
        let address: IpAddr = if let (Awaits::V4, Ok(octets)) = (self.awaits, <[u8; 4]>::try_from(host)) {
            Ipv4Addr::from(octets).into()
        } else if let (Awaits::V6, Ok(octets)) = (self.awaits, <[u8; 16]>::try_from(host)) {
            Ipv6Addr::from(octets).into()
        } else {
            let is_name = |name: &&str| !name.is_empty() && !name.contains(|c: char| c.is_control() || c == ' ');
            let name = str::from_utf8(host).ok().filter(is_name).ok_or(SocksError::Name)?;
            match name.parse() {
                Ok(address) => address,
                Err(_) => return Ok(Destination::Name(name.to_owned(), port)),
            }
        };
        Ok(Destination::Address((address, port).into()))
    }
}

const VERSION: u8 = 5;

const NO_AUTHENTICATION: u8 = 0;

const CONNECT: u8 = 1;

const PORT_BYTES: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::vec, prelude::*};
    use std::net::SocketAddr;

    /// The end of a client that says this, and the bytes of it that were taken.
    fn heard(mut bytes: &[u8]) -> (Option<Result<Destination, SocksError>>, usize) {
        let (mut handshake, length) = (Handshake::new(), bytes.len());
        loop {
            let Some((now, rest)) = bytes.split_at_checked(handshake.wanted()) else { return (None, length) };
            bytes = rest;
            match handshake.take(now) {
                Ok(Step::Request(destination)) => return (Some(Ok(destination)), length - rest.len()),
                Ok(_) => {}
                Err(error) => return (Some(Err(error)), length - rest.len()),
            }
        }
    }

    fn request(command: u8, kind: u8, host: &[u8], port: u16) -> Vec<u8> {
        [&[5, 2, 2, 0, 5, command, 0, kind], host, &port.to_be_bytes()].concat()
    }

    fn name(text: &[u8]) -> Vec<u8> {
        [&[text.len() as u8], text].concat()
    }

    #[test]
    fn the_answer_to_the_greeting_comes_before_the_request() {
        let mut handshake = Handshake::new();
        assert_eq!(handshake.take(&[5, 2]).unwrap(), Step::More);
        assert_eq!(handshake.take(&[2, 0]).unwrap(), Step::Answer([5, 0]));
        assert_eq!(handshake.wanted(), 4);
    }

    #[test]
    fn clients_that_are_not_served() {
        let longest = [b'a'; 255];
        for (bytes, reason, answer) in [
            (b"\x04\x01".to_vec(), "version 4", None),
            (b"GET / HTTP/1.1\r\n".to_vec(), "HTTP", None),
            (b"\x05\x00".to_vec(), "without authentication", Some(vec![5, 0xff])),
            (b"\x05\x01\x02".to_vec(), "without authentication", Some(vec![5, 0xff])),
            (b"\x05\x01\0\x04\x01\0\x01".to_vec(), "version 4", Some(vec![5, 1])),
            (request(2, 1, &[10, 0, 0, 1], 80), "CONNECT alone", Some(vec![5, 7])),
            (request(3, 3, &name(b"host"), 80), "CONNECT alone", Some(vec![5, 7])),
            (request(1, 2, &[10, 0, 0, 1], 80), "type 2", Some(vec![5, 8])),
            (request(1, 3, &name(b""), 80), "no name", Some(vec![5, 1])),
            (request(1, 3, &name(b"a\nb"), 80), "no name", Some(vec![5, 1])),
            (request(1, 3, &name(b"\xff"), 80), "no name", Some(vec![5, 1])),
        ] {
            let error = heard(&bytes).0.unwrap().unwrap_err();
            assert!(error.to_string().contains(reason), "{error}");
            let begin = error.answer().map(|answer| answer[..2].to_vec());
            assert_eq!(begin, answer, "{error}");
        }
        let text = String::from_utf8(longest.to_vec()).unwrap();
        let (end, taken) = heard(&request(1, 3, &name(&longest), 80));
        assert_eq!((end.unwrap().unwrap(), taken), (Destination::Name(text, 80), 8 + 256 + 2));
    }

    #[test]
    fn an_address_as_a_name_is_the_address() {
        for text in ["127.0.0.1", "fd00::1"] {
            let (end, _) = heard(&request(1, 3, &name(text.as_bytes()), 80));
            assert_eq!(end.unwrap().unwrap(), Destination::Address(SocketAddr::new(text.parse().unwrap(), 80)));
        }
    }

    proptest! {
        #[test]
        fn an_address_is_read_and_no_byte_behind_it(address in any::<SocketAddr>(), behind in vec(any::<u8>(), 0..9)) {
            let bytes = match address.ip() {
                IpAddr::V4(ip) => request(1, 1, &ip.octets(), address.port()),
                IpAddr::V6(ip) => request(1, 4, &ip.octets(), address.port()),
            };
            let (end, taken) = heard(&[bytes.clone(), behind].concat());
            let read = SocketAddr::new(address.ip(), address.port());
            prop_assert_eq!((end.unwrap().unwrap(), taken), (Destination::Address(read), bytes.len()));
            for cut in 0..bytes.len() {
                prop_assert!(heard(&bytes[..cut]).0.is_none());
            }
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in vec(prop_oneof![0_u8..6, any::<u8>()], 0..600)) {
            let (_, taken) = heard(&bytes);
            prop_assert!(taken <= 2 + 255 + 4 + 1 + 255 + 2 || taken == bytes.len());
        }
    }
}
