//! Transports of lanes: connections from a rail's NIC, with their options read back and with
//! statistics. TCP is one transport. UDP sockets for other transports are here too.
//!
//! A *lane* is one connection on one rail. It leaves by the rail's NIC because it is bound to an
//! address or a device, and its socket is set for long, fast, watched transfers: no hold-back of
//! small writes, a bounded amount of unsent data in the kernel, and a dead peer noticed in seconds.
//!
//! # Smallest use
//! ```
//! use rails_net::TcpTransport;
//! use std::net::IpAddr;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let tcp = TcpTransport::new();
//! let listener = tcp.listen("127.0.0.1:0".parse()?)?;
//! // The lane begins at 127.0.0.2: on a machine with several NICs, this is how a rail's NIC is chosen.
//! let from = tcp.clone().local("127.0.0.2".parse::<IpAddr>()?);
//! let (near, far) = (from.connect(listener.local_addr()).await?, listener.accept().await?);
//! assert_eq!(near.local_addr(), far.peer_addr());
//! println!("{:?} round trip {:?}", near.stats()?.congestion, near.stats()?.rtt);
//! # Ok(())
//! # }
//! ```
//!
//! # Guarantees
//! * A lane begins at the requested address or device, or opening it fails; a device is read back.
//! * If the kernel changes the value of an option (buffer sizes, congestion control), the
//!   deviations of the [lane](TcpLane::deviations) or the [UDP socket](UdpSocket::deviations)
//!   report it. An option that cannot be set is an error that names it, its value and the errno.
//! * A figure that the kernel does not know, or has not measured, is `None` and never zero.
//! * A listener goes on after errors that concern one connection ([`AcceptError::is_transient`]).
//! * Only `sys` contains `unsafe`, and each block has its argument.
//!
//! # Map
//! [`Transport`] connects and accepts lanes; a [`Lane`] is one connection, an [`Acceptor`] gives
//! [`IncomingLane`]s, and [`TransportStats`] has the figures that all transports share. Another
//! transport implements these three traits; the crates above do not know its type.
//!
//! [`TcpTransport`] is TCP with its options, such as [`LocalEnd`] and [`KeepAlive`]; it opens a
//! [`TcpLane`] or a [`TcpAcceptor`]. [`TcpSettings`] are a lane's options read back, [`TcpStats`]
//! its figures. [`LinkWatch`] reports when the link under a lane goes down;
//! [`local_address_towards`] asks the routing table for the local address of a
//! lane. [`ScopedAddress`] reads an address that names its interface (`fe80::1%eth0`).
//! [`listen_steered`] listens with one socket per rail for an application's own connections.
//!
//! [`UdpOptions`] opens a [`UdpSocket`], which sends and receives bursts of equal datagrams by one
//! system call each (`UDP_SEGMENT`, `UDP_GRO`), headers and payload in places of their own. It
//! falls back to a call for each datagram where the kernel does not segment. [`UdpSettings`] are
//! its options read back, with the interface's MTU ([`UdpRoute`]) and whether times of sending are
//! heeded ([`PacingUse`]); [`UdpStats`] are its figures. It is no [`Lane`]: datagrams are lost, and
//! come in any order.
//!
//! # Privileges
//! None for the defaults. Binding to a device needs none since Linux 5.7, nor does
//! `SO_INCOMING_CPU` (measured on Linux 6.18). A congestion control outside of
//! `net.ipv4.tcp_allowed_congestion_control` and [`TcpTransport::busy_poll`] need `CAP_NET_ADMIN`,
//! and a listener or UDP socket below port 1024 `CAP_NET_BIND_SERVICE`. Times of sending
//! ([`Pacing`]) need `CAP_NET_ADMIN` with the queueing discipline `etf`, and nothing with `fq`.
//!
//! # Limits
//! This crate binds no threads and no memory (`rails-bind` does), resolves no names, does not
//! encrypt, and has no `SO_MAX_PACING_RATE` yet. UDP sockets neither repeat datagrams nor bound
//! their rate, take no multicast, and do not receive without copies. It runs on Linux only.
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(not(target_os = "linux"))]
compile_error!("rails-net uses Linux socket options and runs on Linux only");

mod error;
mod interfaces;
mod links;
mod local_end;
mod netlink;
mod repeated;
mod route;
mod scope;
mod socket;
mod steering;
mod sys;
mod tcp;
mod timer;
mod transport;
mod udp;

pub use error::{AcceptError, BindEndError, ConnectError, ListenError, SocketOptionError, StatsError};
pub use links::{LinkChange, LinkWatch};
pub use local_end::LocalEnd;
pub use repeated::Repeated;
pub use route::local_address_towards;
pub use scope::{ScopeError, ScopedAddress};
pub use steering::{Arrival, SteeredListeners, listen_steered};
pub use tcp::{
    Deviation, KeepAlive, TcpAcceptor, TcpLane, TcpSettings, TcpState, TcpStats, TcpTransport, ZeroCopy, ZeroCopyStats,
    is_answered,
};
pub use timer::Timer;
pub use transport::{Acceptor, Connecting, IncomingLane, Lane, Transport, TransportDetails, TransportStats};
pub use udp::{
    Ecn, Pacing, PacingUse, PathMtuDiscovery, Received, UdpError, UdpOptions, UdpRoute, UdpSettings, UdpSocket,
    UdpStats,
};
