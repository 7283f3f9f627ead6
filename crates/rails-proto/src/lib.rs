//! The rails protocol: the decisions of the two ends of a stream, as state machines without a
//! socket, a clock or a task.
//!
//! Time ([`std::time::Instant`]), bytes and random nonces are arguments. So the same code runs on
//! sockets, under a simulated clock, and under property tests. A driver, such as rails-multirail,
//! moves bytes and keeps the time.
//!
//! # Map
//! Each module depends only on those above it.
//! - [`parameters`], [`address`], [`stream_number`], [`chunk`], [`violation`], [`secret`]: the
//!   vocabulary;
//! - [`wire`]: the bytes of a lane after it has joined: chunks, acknowledgements, resets;
//! - [`seal`]: the encryption of a lane's frames;
//! - [`pairing`]: which rail here leads to which rail of the peer;
//! - [`handshake`]: how a lane joins a stream and how both ends prove that they know its secret;
//!   [`security`]: the application's choice among the modes;
//! - [`admission`]: which connections a listener keeps while their peers have not proved
//!   themselves;
//! - `stream_map`: values of streams, by number; `mutation`: faults for the models to find;
//! - `receive_window`: how far a stream has arrived and is read;
//! - `reassembler`: chunks in any order in, bytes in order out, inside a bounded window;
//! - [`messages`]: the same for messages: they wait by priority, and arrive in their own buffers;
//! - [`policy`]: which bytes a lane takes next;
//! - [`record`]: the decisions of a policy as a file, and their replay;
//! - `scheduler`: carries the decisions out, and knows which lane holds which byte;
//! - [`session`]: one end of one stream, made of the above;
//! - [`lane`]: one end of one lane, between its bytes and its connection;
//! - [`countdown`]: limits of time that do not run while the process is stopped;
//! - [`backoff`], [`redial`]: how long to wait before dialling a lost lane again; [`opening`]:
//!   which lanes try to open a stream, and when.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
// clippy.toml lists them. Tests read the clock once, at their start.
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod address;
pub mod admission;
mod append_map;
pub mod backoff;
pub mod chunk;
pub mod control;
pub mod countdown;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
pub mod handshake;
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod internals;
pub mod lane;
mod link;
pub mod messages;
// `internals` shows some of its items.
#[cfg_attr(not(feature = "internals"), allow(unreachable_pub))]
mod mutation;
pub mod opening;
pub mod pairing;
pub mod parameters;
pub mod policy;
mod receive_window;
pub mod session;
// `internals` shows some of its items.
#[cfg_attr(not(feature = "internals"), allow(unreachable_pub))]
mod reassembler;
pub mod record;
pub mod redial;
// `internals` shows some of its items.
#[cfg_attr(not(feature = "internals"), allow(unreachable_pub))]
mod scheduler;
pub mod seal;
pub mod secret;
pub mod security;
mod stream_map;
pub mod stream_number;
pub mod violation;
pub mod wire;

pub use address::{AddressError, LaneAddress, Scheme};
pub use pairing::RailId;
