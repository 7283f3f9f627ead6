//! Celeritas: a rate-based transport over UDP for long and lossy paths.
//!
//! A sender that knows its rate does not slow down because a packet was lost. The receiver tells
//! which bytes are missing ([`ErrorList`](proto::wire::ErrorList)), every few milliseconds and over
//! a control channel of its own, and the sender sends just those again, at the same rate. It
//! descends from RBUDP and from the Celeritas of the LambdaRAM thesis (section 4.2.2.4).
//!
//! # Map
//! [`CeleritasOptions`] opens a [`Connection`] or a [`CeleritasListener`]. [`Connection::send`]
//! sends a message, a list of blocks; [`Connection::receive`] and [`Connection::receive_into`]
//! receive one. [`Connection::into_stream`] makes a stream of bytes of it, and
//! [`CeleritasTransport`] a lane of any stream over lanes. [`SharedRate`] divides one rate
//! among several connections. [`proto`] is the protocol, without I/O:
//! [`ConnectionProtocol`](proto::connection::ConnectionProtocol) is one end of it.
//!
//! The repository's `docs/celeritas.md` draws the bytes, has figures, and says when not to use it.
//!
//! # Smallest use
//! ```
//! use bytes::Bytes;
//! use rails_celeritas::CeleritasOptions;
//! use rails_topo::Bandwidth;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let options = CeleritasOptions::fixed(Bandwidth::mbps(500));
//! let listener = options.listen("127.0.0.1:0".parse()?)?;
//! let address = listener.local_addr();
//! let (near, far) = tokio::join!(options.connect(address), listener.accept());
//! let (near, far) = (near?, far?);
//!
//! let sending = near.send(vec![Bytes::from_static(b"two "), Bytes::from_static(b"blocks")]).await?;
//! let message = far.receive().await?.expect("one was sent");
//! assert_eq!(message.blocks.concat(), b"two blocks");
//! sending.await?; // it has arrived; a message that was refused or given up is an error
//! # Ok(())
//! # }
//! ```
//!
//! # Privileges
//! None.
//!
//! # Features
//! - `encryption`: connections with a secret ([`CeleritasOptions::security`]). It brings aws-lc-rs,
//!   which takes a C compiler to build.
//! - `tls`: connections that are opened by TLS 1.3. It brings rustls, and `encryption`.
//!
//! # Limits
//! Without [security](CeleritasOptions::security) segments are not encrypted: an attacker on the
//! path reads and changes them. Linux only.
#![forbid(unsafe_code)]

// clippy.toml lists the calls. Tests read the clock once, at their start.
#[cfg_attr(not(test), deny(clippy::disallowed_methods))]
#[cfg_attr(test, allow(clippy::disallowed_methods))]
pub mod proto;

#[allow(clippy::disallowed_methods, reason = "it keeps the time for the protocol")]
mod io;

pub use io::{
    CeleritasListener, CeleritasOptions, CeleritasStream, CeleritasTransport, CloseError, Connection, ConnectionError,
    ConnectionStats, HelperStats, OpenConnectionError, ReceiveError, ScatterStats, SendError, Sending, TurnedAway,
};
pub use proto::{
    incoming::ReceivedMessage,
    rate::{AdaptiveOptions, NoRate, SharedRate},
};
