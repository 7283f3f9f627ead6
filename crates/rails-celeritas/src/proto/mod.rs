//! The protocol: state machines without a socket, a clock or a task. Time and bytes are arguments.
//!
//! Each module depends only on those above it, and the last two on each other.
//! - [`wire`]: the bytes of segments and of control frames;
//! - [`rtt`], [`pacer`]: the time of a round trip, and when bytes may leave;
//! - [`path_mtu`], [`peer_address`]: how large packets may be, and where they go; [`replay`]: which
//!   have come before;
//! - [`sender`]: which bytes go next, and which have arrived; [`receiver`]: the bytes that have
//!   come, and the error lists;
//! - [`blocks`]: the memory of messages; [`incoming`]: the callers that receive them, and how far
//!   the peer may send;
//! - [`silence`]: how long nothing was heard; [`rate`]: at which rate to send; [`deadlines`]: by
//!   when messages have to arrive;
//! - [`connection`]: one end, made of the above;
//! - [`control`], [`round`]: the control channel's frames, and the order in which a driver moves
//!   bytes and keeps the time;
//! - [`hold_off`]: when segments do not wake the driver.

pub mod blocks;
mod closing;
pub mod connection;
pub mod control;
pub mod deadlines;
mod grace;
pub mod hold_off;
mod in_flight;
pub mod incoming;
mod io;
pub mod pacer;
pub mod path_mtu;
pub mod peer_address;
pub mod rate;
pub mod receiver;
pub mod replay;
pub mod round;
pub mod rtt;
pub mod sender;
pub mod silence;
mod skipped;
mod windowed_min;
pub mod wire;
