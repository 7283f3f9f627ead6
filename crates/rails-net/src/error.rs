//! The errors of opening and of reading lanes.
//!
//! Each error names the call or option and the addresses; its source is the error of the operating
//! system.

use crate::LocalEnd;
use std::{
    error::Error,
    io,
    net::{IpAddr, SocketAddr},
};

/// A socket option that could not be set or read.
#[derive(Debug, thiserror::Error)]
#[error("{call} failed for {option}{}{}", value.as_ref().map(|value| format!(" = {value}")).unwrap_or_default(), self.wants_privilege().map(|name| format!(", which takes {name}")).unwrap_or_default())]
pub struct SocketOptionError {
    /// The system call: `setsockopt`, `getsockopt`, or another that sets the option.
    pub call: &'static str,
    /// The kernel's name of the option.
    pub option: &'static str,
    /// The value to set; `None` for a read.
    pub value: Option<String>,
    /// The error of the operating system.
    pub source: io::Error,
}

impl SocketOptionError {
    /// The capability that the value needs, if the operating system refused the value for lack of
    /// it.
    pub fn wants_privilege(&self) -> Option<&'static str> {
        let is_privileged = matches!(self.option, "SO_BUSY_POLL" | "TCP_CONGESTION");
        (is_privileged && self.source.raw_os_error() == Some(libc::EPERM)).then_some("CAP_NET_ADMIN")
    }
}

/// A socket could not be bound to a local end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindEndError {
    /// The device does not exist, has an invalid name, or may not be used by the process.
    #[error("cannot bind to device `{device}`")]
    Device {
        /// The interface's name.
        device: String,
        /// The error of the operating system.
        source: io::Error,
    },

    /// The address is not one of this machine, or the port is in use.
    #[error("cannot bind to {address}")]
    Address {
        /// The address; port 0 stands for any.
        address: SocketAddr,
        /// The error of the operating system.
        source: io::Error,
    },

    /// One address is IPv4 and the other IPv6, or the caller gave a listener two addresses.
    #[error("the local end {local} does not go with {other}")]
    Mismatch {
        /// The local end of the options.
        local: IpAddr,
        /// The address to connect to or to listen on.
        other: SocketAddr,
    },
}

/// A connection could not be established.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// An option could not be set.
    #[error(transparent)]
    Option(#[from] SocketOptionError),

    /// The local end could not be bound.
    #[error(transparent)]
    LocalEnd(#[from] BindEndError),

    /// No process listens at the address, or a firewall refuses.
    #[error("{remote} refused a connection from {local}")]
    Refused {
        /// The remote address.
        remote: SocketAddr,
        /// The local end of the options.
        local: LocalEnd,
        /// The error of the operating system.
        source: io::Error,
    },

    /// No answer came within the connect timeout, or before the kernel gave up.
    #[error("{remote} did not answer a connection from {local} in time")]
    TimedOut {
        /// The remote address.
        remote: SocketAddr,
        /// The local end of the options.
        local: LocalEnd,
        /// The error of the operating system, or a text with the connect timeout.
        source: io::Error,
    },

    /// A self-connection: the kernel chose the remote port for the local end too, as no process
    /// listens on that port of this machine (RFC 9293, section 3.5, simultaneous open). Another
    /// attempt gets another port.
    #[error("no process listens on {address}: a connection to it came from the same port and met itself")]
    SelfConnect {
        /// The address of both ends.
        address: SocketAddr,
    },

    /// The call failed in another way: no route, no descriptors, a network namespace without
    /// interfaces.
    #[error("{call} failed from {local} to {remote}")]
    Call {
        /// The system call.
        call: &'static str,
        /// The remote address.
        remote: SocketAddr,
        /// The local end of the options.
        local: LocalEnd,
        /// The error of the operating system.
        source: io::Error,
    },

    /// An error of the transport's own.
    #[error("no connection from {local} to {remote}")]
    Other {
        /// The remote address.
        remote: SocketAddr,
        /// The local end of the lane.
        local: LocalEnd,
        /// The transport's error.
        source: Box<dyn Error + Send + Sync>,
    },
}

/// A listener could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// An option could not be set.
    #[error(transparent)]
    Option(#[from] SocketOptionError),

    /// The local end could not be bound.
    #[error(transparent)]
    LocalEnd(#[from] BindEndError),

    /// The call failed in another way.
    #[error("{call} failed on {local}")]
    Call {
        /// The system call.
        call: &'static str,
        /// The address to listen on.
        local: SocketAddr,
        /// The error of the operating system.
        source: io::Error,
    },

    /// An error of the transport's own.
    #[error("nothing listens on {local}")]
    Other {
        /// The address to listen on.
        local: SocketAddr,
        /// The transport's error.
        source: Box<dyn Error + Send + Sync>,
    },
}

/// A connection could not be accepted. The listener continues if
/// [`is_transient`](Self::is_transient).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AcceptError {
    /// The call failed.
    #[error("accept failed on {local}")]
    Accept {
        /// The listener's address.
        local: SocketAddr,
        /// The error of the operating system.
        source: io::Error,
    },

    /// The options of an accepted connection could not be read back. This concerns that connection
    /// alone.
    #[error("a connection accepted on {local} is lost")]
    Lost {
        /// The listener's address.
        local: SocketAddr,
        /// The failed read.
        source: StatsError,
    },

    /// A permanent error of the transport's own.
    #[error("no more lanes come to {local}")]
    Other {
        /// The listener's address.
        local: SocketAddr,
        /// The transport's error.
        source: Box<dyn Error + Send + Sync>,
    },
}

impl AcceptError {
    /// Whether the next accept may succeed: the error concerns a single connection, or a shortage
    /// that may pass.
    pub fn is_transient(&self) -> bool {
        match self {
            // accept(2): "Linux accept() passes already-pending network errors on the new socket as an error code from
            // accept()", which a caller treats as "try again"; EPERM is a firewall's rule against one connection.
            Self::Accept { source, .. } => {
                self.is_out_of_resources()
                    || matches!(
                        source.raw_os_error(),
                        Some(
                            libc::ECONNABORTED
                                | libc::EINTR
                                | libc::EAGAIN
                                | libc::EPERM
                                | libc::EPROTO
                                | libc::ENOPROTOOPT
                                | libc::EOPNOTSUPP
                                | libc::ENETDOWN
                                | libc::ENETUNREACH
                                | libc::ENONET
                                | libc::EHOSTDOWN
                                | libc::EHOSTUNREACH
                        )
                    )
            }
            Self::Lost { .. } => true,
            Self::Other { .. } => false,
        }
    }

    /// Whether the process or the system ran out of descriptors or memory. The connection still
    /// waits in the backlog. A caller should pause before the next accept, which would
    /// otherwise fail at once.
    pub fn is_out_of_resources(&self) -> bool {
        match self {
            Self::Accept { source, .. } => {
                matches!(source.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM))
            }
            Self::Lost { .. } | Self::Other { .. } => false,
        }
    }
}

/// Settings or figures of a lane could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StatsError {
    /// An option could not be read.
    #[error("cannot read the lane from {local} to {peer}")]
    Option {
        /// The lane's own address.
        local: SocketAddr,
        /// The peer's address.
        peer: SocketAddr,
        /// The option and the cause.
        source: Box<SocketOptionError>,
    },

    /// The call failed.
    #[error("{call} failed for the lane from {local} to {peer}")]
    Call {
        /// The system call.
        call: &'static str,
        /// The lane's own address.
        local: SocketAddr,
        /// The peer's address.
        peer: SocketAddr,
        /// The error of the operating system.
        source: io::Error,
    },

    /// An error of the transport's own.
    #[error("no figures of the lane from {local} to {peer}")]
    Other {
        /// The lane's own address.
        local: SocketAddr,
        /// The peer's address.
        peer: SocketAddr,
        /// The transport's error.
        source: Box<dyn Error + Send + Sync>,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accept_error(code: i32) -> AcceptError {
        AcceptError::Accept { local: ([127, 0, 0, 1], 80).into(), source: io::Error::from_raw_os_error(code) }
    }

    #[test]
    fn a_listener_outlives_what_concerns_one_connection() {
        for code in [libc::ECONNABORTED, libc::EPERM, libc::EHOSTUNREACH, libc::EINTR] {
            assert!(accept_error(code).is_transient(), "{code}");
            assert!(!accept_error(code).is_out_of_resources(), "{code}");
        }
        for code in [libc::EMFILE, libc::ENFILE, libc::ENOBUFS, libc::ENOMEM] {
            assert!(accept_error(code).is_transient() && accept_error(code).is_out_of_resources(), "{code}");
        }
        for code in [libc::EBADF, libc::EINVAL, libc::ENOTSOCK] {
            assert!(!accept_error(code).is_transient(), "{code}");
        }
    }

    #[test]
    fn an_option_error_names_option_value_and_errno() {
        let source = io::Error::from_raw_os_error(libc::EPERM);
        let value = Some("50".to_owned());
        let error = SocketOptionError { call: "setsockopt", option: "SO_BUSY_POLL", value, source };
        assert_eq!(error.to_string(), "setsockopt failed for SO_BUSY_POLL = 50, which takes CAP_NET_ADMIN");
        let source = io::Error::from_raw_os_error(libc::ENOENT);
        let error =
            SocketOptionError { call: "setsockopt", option: "TCP_CONGESTION", value: Some("`x`".to_owned()), source };
        assert_eq!(error.to_string(), "setsockopt failed for TCP_CONGESTION = `x`");
        let errno = error.source().and_then(|source| source.downcast_ref::<io::Error>()?.raw_os_error());
        assert_eq!(errno, Some(libc::ENOENT));
    }
}
