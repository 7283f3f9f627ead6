//! The errors of finding a socket's NIC.

use std::{io, net::IpAddr};

/// The error of finding a socket's NIC or CPU.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SocketError {
    /// The socket has no peer.
    #[error("the socket is not connected")]
    NotConnected,

    /// The socket is not an IP socket.
    #[error("the socket is no IP socket")]
    NotIp,

    /// The socket belongs to another network namespace than the calling thread.
    #[error("the socket belongs to another network namespace")]
    OtherNamespace,

    /// The kernel does not state the network namespace of a socket (before Linux 5.14), so the
    /// routes of this namespace need not be the socket's.
    #[error("this kernel does not state the network namespace of a socket")]
    NamespaceUnknown {
        /// The answer of the kernel.
        source: io::Error,
    },

    /// The kernel has no route, or gave no answer that could be read.
    #[error("no route to {to}")]
    NoRoute {
        /// The peer.
        to: IpAddr,
        /// The answer of the kernel.
        source: io::Error,
    },

    /// The route has several next hops, and the kernel's choice for this connection is not visible.
    #[error("the connection leaves by one of {}, and its choice is unknown", interfaces.join(", "))]
    SeveralWays {
        /// The interfaces that the connection may use.
        interfaces: Vec<String>,
    },

    /// The interface is not part of the model.
    #[error("the socket uses the interface {name}, which the topology does not have")]
    UnknownInterface {
        /// The interface's name.
        name: String,
    },

    /// The call failed in another way.
    #[error("{call} failed")]
    Call {
        /// The call.
        call: &'static str,
        /// The answer of the kernel.
        source: io::Error,
    },
}

impl SocketError {
    pub(super) fn call(call: &'static str, source: io::Error) -> Self {
        Self::Call { call, source }
    }
}
