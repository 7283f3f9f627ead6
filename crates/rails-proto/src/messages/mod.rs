//! Messages over a stream: they keep their boundaries, go out by priority, and large ones arrive
//! straight in their final buffer.
//!
//! Messages are ranges of the stream's offsets, so window, acknowledgements and lost lanes work as
//! they do for bytes. `outbox` chooses the next message to cut, `inbox` reassembles messages from
//! the chunks that arrive, and `assembly` is the buffer of one large message that several lanes
//! fill at a time.
//!
//! A *small* message travels whole, with others of its priority, in a *packet*, and has its length
//! in four bytes before it (the aggregation of NewMadeleine: Aumage et al., "NewMadeleine: a Fast
//! Communication Scheduling Engine for High Performance Networks", IPDPS 2007). A *large* one
//! travels in *parts*.
//!
//! In a stream of a session with many, messages lie among the bytes: `delimited` finds them.

mod assembly;
mod buffer;
mod delimited;
// `internals` shows some of its items.
#[cfg_attr(not(feature = "internals"), allow(unreachable_pub))]
pub(crate) mod inbox;
mod outbox;

use crate::{chunk::Priority, parameters::MAX_WINDOW};
pub use buffer::{MessageBuffer, MessageMemory};
use bytes::{Buf, Bytes};
pub use delimited::{Delimited, DelimitedError};
pub(crate) use inbox::Inbox;
pub use inbox::{Delivery, Lent, Place};
pub(crate) use outbox::Outbox;

/// A message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The message's priority.
    pub priority: Priority,
    /// The message's bytes; there may be none.
    pub payload: Bytes,
}

/// How much of the window and of the stream's offsets a packet of `bytes` bytes takes up, in whole
/// slots. It includes [`PACKET_OVERHEAD`] bytes for the packet's overhead, so that the window
/// covers the overhead too.
pub fn packet_space(bytes: u32) -> u64 {
    (u64::from(bytes) + PACKET_OVERHEAD).div_ceil(SLOT) * SLOT
}

/// As [`packet_space`], for a large message, which has an overhead of [`MESSAGE_OVERHEAD`] bytes.
pub fn message_space(bytes: u32) -> u64 {
    (u64::from(bytes) + MESSAGE_OVERHEAD).div_ceil(SLOT) * SLOT
}

/// The longest message for an end with a window of `window` bytes.
pub fn longest_message(window: u64) -> u64 {
    longest_range(window).saturating_sub(MESSAGE_OVERHEAD)
}

/// The longest packet for an end with a window of `window` bytes.
pub fn longest_packet(window: u64) -> u64 {
    longest_range(window).saturating_sub(PACKET_OVERHEAD)
}

/// The longest range for which an end with that window has room sooner or later. It leaves out the
/// last quarter: the end may have read that much without having told its peer.
fn longest_range(window: u64) -> u64 {
    let window = window.min(MAX_WINDOW);
    (window - window / 4) / SLOT * SLOT
}

/// Takes the next message of a packet, whose lengths were checked on arrival. A small message gets
/// a buffer of its own, so that it does not hold the whole packet's buffer for as long as it lives.
pub fn next_of_packet(packet: &mut Bytes, whole: usize) -> Option<Bytes> {
    let length = packet.try_get_u32().ok()? as usize;
    Some(without_waste(packet.split_to(length.min(packet.len())), whole))
}

/// A message that is a part of a buffer of `whole` bytes. It is a copy if the message would keep a
/// buffer in memory that is more than eight times as long.
pub fn without_waste(message: Bytes, whole: usize) -> Bytes {
    if message.len() * MAX_WASTE < whole { Bytes::copy_from_slice(&message) } else { message }
}

/// Ranges of packets and messages are multiples of this.
pub const SLOT: u64 = 512;
/// A packet's overhead: entries in two maps, 230 bytes if their nodes are half full, and the
/// allocator's header before its buffer. Any cost above this is less than a tenth of its range.
pub const PACKET_OVERHEAD: u64 = 256;
/// A large message's overhead; the map of its pieces takes 700 bytes.
pub const MESSAGE_OVERHEAD: u64 = 1_024;
/// The bytes before each message of a packet, or among bytes: its length.
pub const PREFIX: usize = 4;
/// The least chunk length that an end must take to receive messages: many empty messages fit in it.
pub const MIN_CHUNK: usize = 64;
/// The least window for messages.
pub const MIN_WINDOW: u64 = 4 * SLOT;
/// A message may keep a buffer in memory that is longer than it by this factor.
const MAX_WASTE: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_message_does_not_hold_its_packet_s_buffer() {
        let mut packet = vec![0, 0, 0, 2, b'h', b'i', 0, 0, 0x10, 0];
        packet.extend_from_slice(&[7; 0x1000]);
        let whole = packet.len();
        let mut packet = Bytes::from(packet);
        let range = packet.as_ptr_range();
        let small = next_of_packet(&mut packet, whole).unwrap();
        let large = next_of_packet(&mut packet, whole).unwrap();
        assert_eq!((&small[..], large.len()), (&b"hi"[..], 0x1000));
        assert!(!range.contains(&small.as_ptr()) && range.contains(&large.as_ptr()));
        assert_eq!(next_of_packet(&mut packet, whole), None);
    }
}
