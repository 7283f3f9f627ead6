//! Why it is not known where a socket's traffic goes.

use std::{io, net::IpAddr};

/// A socket of which something could not be told.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SocketError {
    /// It has no peer yet, or no longer.
    #[error("the socket is not connected")]
    NotConnected,

    /// It is not an IP socket.
    #[error("the socket is not one of IP")]
    NotIp,

    /// It belongs to another network namespace than the calling thread.
    #[error("the socket belongs to another network namespace")]
    OtherNamespace,

    /// The kernel does not say which network namespace a socket belongs to (before Linux 5.14), so the routes that can
    /// be asked for from here need not be the socket's.
    #[error("this kernel does not say which network namespace the socket belongs to")]
    NamespaceUnknown {
        /// What the kernel said.
        source: io::Error,
    },

    /// The kernel has no route, or gave no answer that could be read.
    #[error("no route to {to}")]
    NoRoute {
        /// The peer.
        to: IpAddr,
        /// What the kernel said.
        source: io::Error,
    },

    /// The route has several next hops, and which of them the kernel chose for this connection is not to be seen.
    #[error("the connection leaves by one of {}, and the kernel does not say which", interfaces.join(", "))]
    SeveralWays {
        /// The interfaces that it may use.
        interfaces: Vec<String>,
    },

    /// The interface is not part of the model.
    #[error("the socket uses the interface {name}, which the topology does not have")]
    UnknownInterface {
        /// Its name.
        name: String,
    },

    /// The call failed in another way.
    #[error("{call} failed")]
    Call {
        /// The call.
        call: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
}

impl SocketError {
    pub(super) fn call(call: &'static str, source: io::Error) -> Self {
        Self::Call { call, source }
    }
}
