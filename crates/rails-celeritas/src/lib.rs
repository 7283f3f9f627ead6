//! Celeritas: a rate-based transport over UDP for long and lossy paths.
//!
//! A sender that knows its rate does not slow down because a packet was lost. The receiver tells which bytes are missing
//! ([`ErrorList`](proto::wire::ErrorList)), every few milliseconds and over a control channel of its own, and the sender
//! sends just those again, at the same rate. It descends from RBUDP and from the Celeritas of the LambdaRAM thesis
//! (section 4.2.2.4).
//!
//! # Map
//! [`proto`] is the protocol, without I/O: [`ConnectionProtocol`](proto::connection::ConnectionProtocol) is one end of it.
//!
//! # Limits
//! There is no driver on sockets yet, no handshake, no encryption, and [`Fixed`](proto::rate::Fixed) is the one rate
//! controller.
#![forbid(unsafe_code)]

// clippy.toml lists the calls. Tests read the clock once, at their start.
#[cfg_attr(not(test), deny(clippy::disallowed_methods))]
#[cfg_attr(test, allow(clippy::disallowed_methods))]
pub mod proto;

#[allow(clippy::disallowed_methods, reason = "it keeps the time for the protocol")]
mod io;

pub use io::{
    CeleritasListener, CeleritasOptions, Connection, ConnectionError, ConnectionStats, Delivery, Message, OpenError,
    ReceiveError, ScatterStats, SendError, Sending,
};
