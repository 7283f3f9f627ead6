//! A connection as two runs of bytes: written bytes go out in messages, and the peer's messages are
//! read one after the other. It waits by wakers: lanes and `AsyncRead` are built on it.

use super::{
    Connection,
    shared::{ConnectionShared, ConnectionState},
    waiting::Writer,
};
use crate::proto::{blocks::SentBlocks, incoming::Outcome};
use bytes::{Buf, Bytes, BytesMut};
use std::{
    collections::VecDeque,
    io::{self, IoSliceMut},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Poll},
    time::Instant,
};

/// A connection that carries bytes both ways. Dropping it delivers the written bytes, if the
/// runtime lives on, and drops those that were not read.
#[derive(Debug)]
pub(super) struct ByteStream {
    pub(super) connection: Connection,
    reading: Mutex<Reading>,
    max_unsent: AtomicU64,
}

/// The reading half.
#[derive(Debug)]
struct Reading {
    /// The bytes of messages that have been taken.
    blocks: VecDeque<BytesMut>,
    /// The number of the message that is read next.
    awaited: u32,
    /// The peer sends no more.
    is_over: bool,
    /// Bytes in between are lost for ever.
    is_broken: bool,
}

impl ByteStream {
    /// The stream of a connection that has carried no message yet.
    pub(super) fn new(connection: Connection) -> Self {
        let awaited = connection.shared.change(|state| state.protocol.reserve(Instant::now(), None));
        let reading = Mutex::new(Reading { blocks: VecDeque::new(), awaited, is_over: false, is_broken: false });
        Self { connection, reading, max_unsent: AtomicU64::new(MAX_UNSENT) }
    }

    /// The most bytes that wait unsent before a write has to wait. Each message costs more than its
    /// bytes.
    pub(super) fn max_unsent(&self) -> u64 {
        self.max_unsent.load(Relaxed)
    }

    pub(super) fn limit_unsent(&self, bytes: u64) {
        self.max_unsent.store(bytes.max(1), Relaxed);
    }

    /// Takes bytes of the slices, as one run, for one message. Returns how many.
    pub(super) fn try_write(&self, control: &[u8], payload: &[Bytes]) -> io::Result<usize> {
        let max_unsent = self.max_unsent();
        self.shared().change(|state| {
            match &state.end {
                Some(Err(error)) => return Err(error.clone().into()),
                // Also of a connection that has ended as it should: the peer refused bytes before.
                _ if state.outgoing.has_failed() => return Err(io::ErrorKind::ConnectionReset.into()),
                Some(Ok(())) => return Err(io::ErrorKind::BrokenPipe.into()),
                None if state.protocol.is_finished() => return Err(io::ErrorKind::BrokenPipe.into()),
                None if state.protocol.unsent_cost() >= max_unsent => return Err(io::ErrorKind::WouldBlock.into()),
                None => {}
            }
            let mut blocks = Vec::with_capacity(1 + payload.len());
            let mut room = MAX_WRITTEN;
            for bytes in [&Bytes::copy_from_slice(&control[..control.len().min(room)])].into_iter().chain(payload) {
                let some = bytes.slice(..bytes.len().min(room));
                room -= some.len();
                if !some.is_empty() {
                    blocks.push(some);
                }
            }
            let blocks = SentBlocks::new(blocks);
            let length = blocks.len();
            if length > 0 {
                let number = state.protocol.submit(Instant::now(), length).map_err(io::Error::other)?;
                drop(state.outgoing.insert(number, blocks));
            }
            Ok(length as usize)
        })
    }

    /// Waits until [`try_write`](Self::try_write) takes bytes, or has an error; with a `divisor` of
    /// 2, until half of the bytes that may wait do not.
    pub(super) fn poll_writable(&self, context: &mut Context<'_>, divisor: u64) -> Poll<io::Result<()>> {
        let threshold = self.max_unsent().div_ceil(divisor);
        let look = |state: &mut ConnectionState| {
            let has_room = state.protocol.unsent_cost() < threshold;
            let is_closed = state.end.is_some() || state.protocol.is_finished();
            (is_closed || state.outgoing.has_failed() || has_room).then_some(Ok(()))
        };
        let (outcome, _unused) = self.shared().poll(context.waker().clone(), look, |waiting, waker| {
            let writer = Writer { unsent: threshold - 1, heeds_failures: true, waker };
            waiting.writer.replace(writer).map(|replaced| replaced.waker)
        });
        outcome
    }

    /// Ends the direction: the peer reads zero bytes behind all that was written.
    pub(super) fn finish(&self) {
        self.connection.finish();
    }

    /// Waits until all that was written is in the peer's memory.
    pub(super) fn poll_delivered(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let look = |state: &mut ConnectionState| match &state.end {
            Some(Err(error)) => Some(Err(error.clone().into())),
            _ if state.outgoing.has_failed() => Some(Err(io::ErrorKind::ConnectionReset.into())),
            Some(Ok(())) => Some(Ok(())),
            None => state.outgoing.is_empty().then_some(Ok(())),
        };
        let (outcome, _unused) =
            self.shared().poll(context.waker().clone(), look, |waiting, waker| waiting.flush.replace(waker));
        outcome
    }

    /// Copies bytes that have arrived into the buffers. Returns how many; zero if the peer sends no
    /// more.
    pub(super) fn try_read(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let mut reading = self.reading();
        let before = (reading.awaited, reading.is_broken);
        let read = self.read(&mut reading, buffers);
        let has_taken = (reading.awaited, reading.is_broken) != before;
        drop(reading);
        if has_taken {
            // The driver tells the peer that it may send further.
            self.shared().change(|_| {});
        }
        read
    }

    fn read(&self, reading: &mut Reading, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let mut buffers = buffers.iter_mut().filter(|buffer| !buffer.is_empty());
        let Some(mut buffer) = buffers.next().map(|buffer| &mut buffer[..]) else { return Ok(0) };
        let mut received = 0;
        loop {
            let Some(front) = reading.blocks.front_mut() else {
                match self.take(reading) {
                    Ok(()) if reading.is_over => return Ok(received),
                    Ok(()) => continue,
                    Err(_) if received > 0 => return Ok(received),
                    Err(error) => return Err(error),
                }
            };
            let count = front.len().min(buffer.len());
            let (now, later) = buffer.split_at_mut(count);
            front.copy_to_slice(now);
            buffer = later;
            received += count;
            if front.is_empty() {
                reading.blocks.pop_front();
            }
            if buffer.is_empty() {
                match buffers.next() {
                    Some(next) => buffer = next,
                    None => return Ok(received),
                }
            }
        }
    }

    /// Waits until [`try_read`](Self::try_read) has bytes, the end, or an error.
    pub(super) fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let waker = context.waker().clone();
        let (outcome, _unused) = {
            let reading = self.reading();
            let is_ready = !reading.blocks.is_empty() || reading.is_over || reading.is_broken;
            let has_news =
                |state: &mut ConnectionState| state.end.is_some() || state.protocol.has_outcome(reading.awaited);
            let look = |state: &mut ConnectionState| (is_ready || has_news(state)).then_some(Ok(()));
            self.shared().poll(waker, look, |waiting, waker| waiting.receivers.insert(reading.awaited, waker))
        };
        outcome
    }

    /// Takes the next message, or learns that there is none.
    fn take(&self, reading: &mut Reading) -> io::Result<()> {
        if reading.is_over {
            return Ok(());
        }
        if reading.is_broken {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let now = Instant::now();
        let mut state = self.shared().lock();
        match state.protocol.take(now, reading.awaited) {
            Some(Outcome::Message(message)) => {
                reading.blocks.extend(message.blocks);
                reading.awaited = state.protocol.reserve(now, None);
            }
            Some(Outcome::None) => reading.is_over = true,
            Some(Outcome::GivenUp | Outcome::TooLong { .. }) => {
                reading.is_broken = true;
                return Err(io::ErrorKind::InvalidData.into());
            }
            None => match &state.end {
                Some(Err(error)) => return Err(error.clone().into()),
                Some(Ok(())) => reading.is_over = true,
                None => return Err(io::ErrorKind::WouldBlock.into()),
            },
        }
        Ok(())
    }

    fn reading(&self) -> MutexGuard<'_, Reading> {
        self.reading.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn shared(&self) -> &Arc<ConnectionShared> {
        &self.connection.shared
    }
}

impl Drop for ByteStream {
    fn drop(&mut self) {
        self.shared().change(|state| state.protocol.abandon(Instant::now()));
    }
}

/// The bytes that may wait unsent, unless the caller limits them: two chunks of 512 KiB, one on its
/// way and one in reserve.
const MAX_UNSENT: u64 = 1 << 20;
/// The longest message that is made of written bytes. The peer reads it once it is whole.
pub(super) const MAX_WRITTEN: usize = 256 << 10;
