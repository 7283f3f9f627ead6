//! UDP sockets that send and receive bursts of equal datagrams, one system call each.
//!
//! [`UdpOptions`] opens a [`UdpSocket`]. Sending gives the kernel one list of slices, `[header,
//! payload]` for each datagram, and the size at which the kernel cuts it (`UDP_SEGMENT`). Receiving
//! scatters datagrams that the kernel has coalesced (`UDP_GRO`) into such a list, so payload may
//! land in its final place.
//!
//! The socket is the bottom of a transport: it neither repeats datagrams nor bounds their rate.

mod arrivals;
mod bursts;
mod control;
mod error;
mod open;
mod options;
mod pacing;
mod receive;
mod received;
mod room;
mod route;
mod send;
mod settings;
mod slices;
mod socket;
mod stats;

pub use error::UdpError;
pub use options::{Ecn, Pacing, PathMtuDiscovery, UdpOptions};
pub use pacing::PacingUse;
pub use received::Received;
pub use route::UdpRoute;
pub use settings::UdpSettings;
pub use socket::UdpSocket;
pub use stats::UdpStats;
