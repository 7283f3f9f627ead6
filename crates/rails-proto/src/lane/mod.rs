//! One end of one lane, between the bytes of its connection and the [`Session`] of its stream.
//!
//! [`LaneProtocol`] combines five parts. `Sender` chooses the next frame, and [`Outgoing`] has its
//! bytes. `Receiver` decodes frames, and reads chunks straight into their final memory. `Progress`
//! tells the stream the transport's figures, and `Closing` decides how the lane ends.

mod closing;
mod error;
mod outgoing;
mod progress;
mod protocol;
mod receive;
mod send;

use crate::{messages::MessageBuffer, session::Session};
use bytes::Bytes;
pub use error::LaneError;
pub use outgoing::Outgoing;
pub use progress::TransportSample;
pub use protocol::LaneProtocol;
pub use receive::{READ_AHEAD, Received};
pub use send::Next;
use std::ops::DerefMut;

/// Access to the stream and to memory, which a lane's driver lends it.
pub trait StreamAccess {
    /// Memory for a chunk.
    type Buffer: DerefMut<Target = [u8]>;

    /// Calls `act` with the stream. Lanes on several threads share it under a lock: `act` copies,
    /// seals and sums nothing.
    fn with<T>(&mut self, act: impl FnOnce(&mut Session) -> T) -> T;

    /// Gives memory for a chunk of `length` bytes, with any content.
    fn chunk(&mut self, length: usize) -> Self::Buffer;

    /// Turns a chunk's memory into bytes that can be shared.
    fn freeze(buffer: Self::Buffer) -> Bytes;

    /// Gives memory for a message of `length` bytes, with any content.
    fn message(&mut self, length: usize) -> MessageBuffer;

    /// Gives [`READ_AHEAD`] bytes of memory, with any content, in which a lane reads ahead.
    fn read_ahead(&mut self) -> Box<[u8]> {
        vec![0; READ_AHEAD].into()
    }

    /// Takes that memory back at the end of a call, unless an incomplete frame is in it. Lanes of
    /// one thread can share it.
    fn keep_read_ahead(&mut self, memory: Box<[u8]>) {
        drop(memory);
    }
}

/// A stream on one thread, with memory from the allocator.
impl StreamAccess for Session {
    type Buffer = Vec<u8>;

    fn with<T>(&mut self, act: impl FnOnce(&mut Session) -> T) -> T {
        act(self)
    }

    fn chunk(&mut self, length: usize) -> Vec<u8> {
        vec![0; length]
    }

    fn freeze(buffer: Vec<u8>) -> Bytes {
        buffer.into()
    }

    fn message(&mut self, length: usize) -> MessageBuffer {
        MessageBuffer::zeroed(length)
    }
}
