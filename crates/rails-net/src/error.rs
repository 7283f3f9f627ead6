//! Why a lane could not be opened, or not be read.
//!
//! Each error names the call or option and the addresses; what the operating system said is its source.

use crate::LocalEnd;
use std::{
    error::Error,
    io,
    net::{IpAddr, SocketAddr},
};

/// A socket option that could not be set or read.
#[derive(Debug, thiserror::Error)]
#[error("{call} failed for {option}{}{}", value.as_ref().map(|value| format!(" = {value}")).unwrap_or_default(), self.wants_privilege().map(|name| format!(", which takes {name}")).unwrap_or_default())]
pub struct OptionError {
    /// `setsockopt` or `getsockopt`, or another that the option takes.
    pub call: &'static str,
    /// The kernel's name of the option.
    pub option: &'static str,
    /// The value that was to be set.
    pub value: Option<String>,
    /// What the operating system said.
    pub source: io::Error,
}

impl OptionError {
    /// The capability whose want the operating system refused the value for, where it did.
    pub fn wants_privilege(&self) -> Option<&'static str> {
        let is_privileged = matches!(self.option, "SO_BUSY_POLL" | "TCP_CONGESTION");
        (is_privileged && self.source.raw_os_error() == Some(libc::EPERM)).then_some("CAP_NET_ADMIN")
    }
}

/// A local end that a socket could not be bound to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindEndError {
    /// The device does not exist, its name is not one, or it may not be used.
    #[error("cannot bind to device `{device}`")]
    Device {
        /// The interface's name.
        device: String,
        /// What the operating system said.
        source: io::Error,
    },

    /// The address is not of this machine, or its port is taken.
    #[error("cannot bind to {address}")]
    Address {
        /// The address; port 0 stands for any.
        address: SocketAddr,
        /// What the operating system said.
        source: io::Error,
    },

    /// One address is IPv4 and the other IPv6, or a listener was given two addresses.
    #[error("the local end {local} does not go with {other}")]
    Mismatch {
        /// The local end of the options.
        local: IpAddr,
        /// The address to connect to or to listen on.
        other: SocketAddr,
    },
}

/// A connection that was not made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// An option could not be set.
    #[error(transparent)]
    Option(#[from] OptionError),

    /// The local end could not be bound.
    #[error(transparent)]
    LocalEnd(#[from] BindEndError),

    /// Nothing listens there, or a firewall says so.
    #[error("{remote} refused a connection from {local}")]
    Refused {
        /// The address that was called.
        remote: SocketAddr,
        /// The local end of the options.
        local: LocalEnd,
        /// What the operating system said.
        source: io::Error,
    },

    /// No answer came in time: in the options' time for connecting, or the kernel gave up before.
    #[error("{remote} did not answer a connection from {local} in time")]
    TimedOut {
        /// The address that was called.
        remote: SocketAddr,
        /// The local end of the options.
        local: LocalEnd,
        /// What the operating system said, or how long was waited.
        source: io::Error,
    },

    /// The call failed in another way: no route, no descriptors, a name space without the network.
    #[error("{call} failed from {local} to {remote}")]
    Call {
        /// The system call.
        call: &'static str,
        /// The address that was called.
        remote: SocketAddr,
        /// The local end of the options.
        local: LocalEnd,
        /// What the operating system said.
        source: io::Error,
    },

    /// The transport failed in a way of its own.
    #[error("no connection from {local} to {remote}")]
    Other {
        /// The address that was called.
        remote: SocketAddr,
        /// Where the lane was to begin.
        local: LocalEnd,
        /// The transport's error.
        source: Box<dyn Error + Send + Sync>,
    },
}

/// A listener that was not opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// An option could not be set.
    #[error(transparent)]
    Option(#[from] OptionError),

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
        /// What the operating system said.
        source: io::Error,
    },

    /// The transport failed in a way of its own.
    #[error("nothing listens on {local}")]
    Other {
        /// The address to listen on.
        local: SocketAddr,
        /// The transport's error.
        source: Box<dyn Error + Send + Sync>,
    },
}

/// A connection that was not accepted. The listener itself goes on unless [`is_transient`](Self::is_transient) denies
/// it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AcceptError {
    /// The call failed.
    #[error("accept failed on {local}")]
    Accept {
        /// The address that is listened on.
        local: SocketAddr,
        /// What the operating system said.
        source: io::Error,
    },

    /// The accepted connection could not be read back, which concerns it alone.
    #[error("a connection accepted on {local} is lost")]
    Lost {
        /// The address that is listened on.
        local: SocketAddr,
        /// What could not be read.
        source: StatsError,
    },

    /// The transport failed in a way of its own, and for good.
    #[error("no more lanes come to {local}")]
    Other {
        /// The address that is listened on.
        local: SocketAddr,
        /// The transport's error.
        source: Box<dyn Error + Send + Sync>,
    },
}

impl AcceptError {
    /// Whether the next accept may succeed: this one concerned a single connection, or a want that may pass.
    pub fn is_transient(&self) -> bool {
        match self {
            // accept(2): "Linux accept() passes already-pending network errors on the new socket as an error code from
            // accept()", to be treated like "try again"; EPERM is a firewall's rule against one connection.
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

    /// Whether the process or the system ran out of descriptors or memory. The connection still waits, so a caller does
    /// well to pause before the next try: trying at once would fail at once.
    pub fn is_out_of_resources(&self) -> bool {
        match self {
            Self::Accept { source, .. } => {
                matches!(source.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM))
            }
            Self::Lost { .. } | Self::Other { .. } => false,
        }
    }
}

/// Settings or figures of a lane that could not be read.
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
        /// Which option, and why.
        source: Box<OptionError>,
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
        /// What the operating system said.
        source: io::Error,
    },

    /// The transport failed in a way of its own.
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
        let error = OptionError { call: "setsockopt", option: "SO_BUSY_POLL", value, source };
        assert_eq!(error.to_string(), "setsockopt failed for SO_BUSY_POLL = 50, which takes CAP_NET_ADMIN");
        let source = io::Error::from_raw_os_error(libc::ENOENT);
        let error = OptionError { call: "setsockopt", option: "TCP_CONGESTION", value: Some("`x`".to_owned()), source };
        assert_eq!(error.to_string(), "setsockopt failed for TCP_CONGESTION = `x`");
        let errno = error.source().and_then(|source| source.downcast_ref::<io::Error>()?.raw_os_error());
        assert_eq!(errno, Some(libc::ENOENT));
    }
}
