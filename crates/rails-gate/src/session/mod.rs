//! A session: the connections between two gates, as channels of one stream of messages.
//!
//! `flow` counts the bytes that may be on their way, without I/O; `limits` bounds the channels of a
//! peer, and `arrived` keeps bytes that wait; `shared` routes frames to
//! channels, whose state is in `channel_state`; `channel` is one connection as its owner has it.

mod arrived;
mod channel;
mod channel_state;
mod flow;
mod inbound;
mod limits;
mod shared;
#[cfg(test)]
mod tests;

pub(crate) use channel::{Asking, Channel, Reset, Unfinished};
pub(crate) use limits::Limits;
pub(crate) use shared::{MAX_MESSAGE, NotOpened, Session, SessionError, Side};
