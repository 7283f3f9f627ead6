//! One end of one lane: what lies between the bytes of its connection and the [`Connection`] of its stream.
//!
//! [`LaneProtocol`] combines four parts. `Sender` chooses the next frame. `Receiver` decodes frames, and reads chunks straight into their
//! final memory. `Progress` tells the stream what the transport knows, and `Closing` says how the lane ends.

mod closing;
mod error;
mod progress;
mod protocol;
mod receive;
mod send;

pub use error::LaneError;
pub use progress::TransportSample;
pub use protocol::LaneProtocol;
pub use receive::Received;
pub use send::Next;

use crate::{connection::Connection, messages::MessageBuffer};
use bytes::Bytes;
use std::ops::DerefMut;

/// What the driver of a lane has for it: its stream, and memory.
pub trait Stream {
    /// Memory for a chunk.
    type Buffer: DerefMut<Target = [u8]>;

    /// Does something to the stream. Where lanes are driven on several threads, they share it under a lock: nothing is copied, sealed or summed in `act`.
    fn with<T>(&mut self, act: impl FnOnce(&mut Connection) -> T) -> T;

    /// Memory for a chunk of `length` bytes, whatever is in it.
    fn chunk(&mut self, length: usize) -> Self::Buffer;

    /// The bytes of a chunk, to be shared.
    fn freeze(buffer: Self::Buffer) -> Bytes;

    /// Memory for a message of `length` bytes, whatever is in it.
    fn message(&mut self, length: usize) -> MessageBuffer;
}

/// For one thread, with memory from the allocator.
impl Stream for Connection {
    type Buffer = Vec<u8>;

    fn with<T>(&mut self, act: impl FnOnce(&mut Connection) -> T) -> T {
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
