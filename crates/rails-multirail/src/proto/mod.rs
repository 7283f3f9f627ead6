//! What the two ends decide, as state machines: no socket, no clock, no task.
//!
//! - [`wire`]: the bytes of a lane after it has joined: chunks, acknowledgements, resets;
//! - [`handshake`]: how a lane joins a stream and how both ends prove that they know its secret;
//! - [`policy`]: how bytes are shared out among lanes;
//! - [`scheduler`]: which bytes a free lane takes next, and which come back when a lane is lost or silent;
//! - [`seal`]: the encryption of a lane's frames, where they are encrypted;
//! - [`reassembler`]: chunks in any order in, bytes in order out, inside a bounded window;
//! - [`messages`]: the same for messages: what waits by priority, and what arrives in their own buffers;
//! - [`opening`]: which lanes try to open a stream, and when;
//! - [`backoff`]: how long to wait before a lost lane is dialled again;
//! - [`connection`]: one end of one stream, made of the above; this is what the driver drives.
//!
//! Time is an argument ([`std::time::Instant`] values are passed in), bytes are arguments, random nonces are arguments.
//! So the same code runs on sockets, under a simulated clock, and under property tests.
#![deny(clippy::disallowed_methods)]

pub mod backoff;
pub mod connection;
pub mod handshake;
pub mod messages;
pub mod opening;
pub mod policy;
pub mod reassembler;
pub mod scheduler;
pub mod seal;
pub mod wire;

/// How many chunks a sender keeps until they are acknowledged, at most, for an end with that window. A receiver takes what such a sender can leave
/// unfinished, twice over, and not more: what it notes of tiny pieces is to be a small part of its window.
fn most_chunks(window: u64) -> usize {
    (window.min(scheduler::MOST_KEPT) >> 11).max(1 << 10) as usize
}
