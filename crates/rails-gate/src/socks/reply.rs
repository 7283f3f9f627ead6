//! The answers to a request (RFC 1928, section 6).

use std::{
    io::{self, ErrorKind},
    net::{IpAddr, Ipv4Addr, SocketAddr},
};

/// The reason why a client does not get its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reply {
    /// For none of the other reasons.
    GeneralFailure,
    /// The rules of this host do not allow it.
    NotAllowed,
    /// The network is unreachable.
    NetworkUnreachable,
    /// The host is unreachable, or its name is unknown.
    HostUnreachable,
    /// The destination refused.
    ConnectionRefused,
    /// Nobody answered in time.
    TtlExpired,
    /// The command is none that is served.
    CommandNotSupported,
    /// The type of the address is none that is served.
    AddressTypeNotSupported,
}

impl Reply {
    /// The number.
    pub fn code(self) -> u8 {
        match self {
            Self::GeneralFailure => 1,
            Self::NotAllowed => 2,
            Self::NetworkUnreachable => 3,
            Self::HostUnreachable => 4,
            Self::ConnectionRefused => 5,
            Self::TtlExpired => 6,
            Self::CommandNotSupported => 7,
            Self::AddressTypeNotSupported => 8,
        }
    }

    /// The message.
    pub(super) fn message(self) -> Vec<u8> {
        message(self.code(), NO_ADDRESS)
    }
}

/// The reason of a failed connect(2) or look-up.
impl From<&io::Error> for Reply {
    fn from(error: &io::Error) -> Self {
        match error.kind() {
            ErrorKind::ConnectionRefused => Self::ConnectionRefused,
            ErrorKind::NetworkUnreachable | ErrorKind::NetworkDown => Self::NetworkUnreachable,
            ErrorKind::HostUnreachable => Self::HostUnreachable,
            ErrorKind::PermissionDenied => Self::NotAllowed,
            ErrorKind::TimedOut => Self::TtlExpired,
            _ => Self::GeneralFailure,
        }
    }
}

/// The message of a connection that came about from `bound`.
pub(super) fn granted(bound: SocketAddr) -> Vec<u8> {
    message(0, bound)
}

fn message(code: u8, bound: SocketAddr) -> Vec<u8> {
    let mut message = vec![5, code, 0];
    match bound.ip() {
        IpAddr::V4(ip) => {
            message.push(1);
            message.extend(ip.octets());
        }
        IpAddr::V6(ip) => {
            message.push(4);
            message.extend(ip.octets());
        }
    }
    message.extend(bound.port().to_be_bytes());
    message
}

const NO_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

#[cfg(test)]
mod tests {
    use super::*;
    use nix::errno::Errno;

    #[test]
    fn the_codes_of_system_errors() {
        for (errno, code) in [
            (Errno::ECONNREFUSED, 5),
            (Errno::ENETUNREACH, 3),
            (Errno::EHOSTUNREACH, 4),
            (Errno::EACCES, 2),
            (Errno::EPERM, 2),
            (Errno::ETIMEDOUT, 6),
            (Errno::EINVAL, 1),
        ] {
            let error = io::Error::from(errno);
            assert_eq!(Reply::from(&error).code(), code, "{error}");
        }
    }

    #[test]
    fn messages_have_the_form_of_the_rfc() {
        assert_eq!(granted("10.0.0.1:258".parse().unwrap()), [5, 0, 0, 1, 10, 0, 0, 1, 1, 2]);
        let v6 = granted("[::1]:1".parse().unwrap());
        assert_eq!((v6.len(), &v6[..4], v6[19..].to_vec()), (22, &[5, 0, 0, 4][..], vec![1, 0, 1]));
        assert_eq!(Reply::ConnectionRefused.message(), [5, 5, 0, 1, 0, 0, 0, 0, 0, 0]);
    }
}
