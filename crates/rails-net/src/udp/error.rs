//! The errors of opening, connecting and reading UDP sockets.

use crate::{BindEndError, SocketOptionError};
use std::{io, net::SocketAddr};

/// A UDP socket could not be opened or connected, or its settings could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UdpError {
    /// An option could not be set or read.
    #[error(transparent)]
    Option(#[from] SocketOptionError),

    /// The local end could not be bound, or is of another address family than the remote end.
    #[error(transparent)]
    LocalEnd(#[from] BindEndError),

    /// The kernel has no route to the remote end, or refuses the address.
    #[error("connect failed for the UDP socket at {local} to {remote}")]
    Connect {
        /// The socket's own address.
        local: SocketAddr,
        /// The remote address.
        remote: SocketAddr,
        /// The error of the operating system.
        source: io::Error,
    },

    /// The call failed in another way: no descriptors, a network namespace without interfaces, a
    /// removed interface.
    #[error("{call} failed for a UDP socket with {address}")]
    Call {
        /// The system call, or the kind of netlink message.
        call: &'static str,
        /// The remote address if there is one, else the local one.
        address: SocketAddr,
        /// The error of the operating system.
        source: io::Error,
    },
}
