//! Writing bytes to a stream.

use super::{
    shared::{StreamShared, StreamState},
    tasks::StreamTasks,
};
use bytes::Bytes;
use std::{
    io::Result as IoResult,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Instant,
};

/// A stream as its writer sees it. `check` fails if nothing can be written any more, with or
/// without room.
pub(crate) struct Writing<'a, C> {
    pub(crate) shared: &'a Arc<StreamShared>,
    pub(crate) tasks: &'a StreamTasks,
    pub(crate) check: C,
}

impl StreamShared {
    /// The only stream as its writer sees it.
    pub(super) fn writing(self: &Arc<Self>) -> Writing<'_, impl Fn(&StreamState) -> IoResult<()>> {
        Writing { shared: self, tasks: &self.only, check: |state: &StreamState| self.writable(state) }
    }
}

impl<E, C: Fn(&StreamState) -> Result<(), E>> Writing<'_, C> {
    /// Waits for room, and gives it in bytes.
    pub(super) fn room(&self, state: &StreamState) -> Poll<Result<usize, E>> {
        (self.check)(state)?;
        match state.session.writable_bytes(self.tasks.number()) {
            0 => {
                self.tasks.note_writer();
                Poll::Pending
            }
            room => Poll::Ready(Ok(room)),
        }
    }

    /// Waits for room, and gives as much of it as one write copies, in bytes.
    pub(super) fn poll_room(&self, context: &mut Context<'_>) -> Poll<Result<usize, E>> {
        let room = || self.shared.with(|state| self.room(state));
        self.tasks.poll_as_writer(context, room).map_ok(|room| room.min(MAX_COPIED))
    }

    /// Writes as many of the bytes as there is room for, in the form in which `keep` gives them. An
    /// empty write succeeds at once, with or without room.
    pub(crate) fn poll_take(
        &self,
        context: &mut Context<'_>,
        bytes: &mut Bytes,
        keep: fn(Bytes) -> Bytes,
    ) -> Poll<Result<usize, E>> {
        let length = bytes.len();
        let mut take = |state: &mut StreamState| {
            if bytes.is_empty() {
                return Poll::Ready((self.check)(state).map(|()| 0));
            }
            let room = ready!(self.room(state))?;
            let taken = keep(bytes.split_to(room.min(bytes.len())));
            let length = taken.len();
            state.session.write(Instant::now(), self.tasks.number(), taken);
            Poll::Ready(Ok(length))
        };
        self.tasks.poll_as_writer(context, || self.shared.write(length, &mut take))
    }

    /// Waits for room, and then takes and writes all of the slices, beyond the room if they are
    /// longer. They are in the form in which a stream keeps them.
    pub(crate) fn poll_whole(&self, context: &mut Context<'_>, slices: &mut [Bytes]) -> Poll<Result<(), E>> {
        let length = slices.iter().map(Bytes::len).sum();
        let mut write = |state: &mut StreamState| {
            ready!(self.room(state))?;
            for slice in slices.iter_mut().filter(|slice| !slice.is_empty()) {
                state.session.write(Instant::now(), self.tasks.number(), std::mem::take(slice));
            }
            Poll::Ready(Ok(()))
        };
        self.tasks.poll_as_writer(context, || self.shared.write(length, &mut write))
    }

    /// Copies as many of the bytes as there is room for, outside the lock.
    pub(crate) fn poll_copy(&self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize, E>> {
        // There nearly always is room for few bytes. A stream has one writer, so the room for many cannot
        // shrink meanwhile.
        let max = match bytes.len() {
            short @ ..=SHORT => short,
            length => ready!(self.poll_room(context))?.min(length),
        };
        let mut copy = Bytes::copy_from_slice(&bytes[..max]);
        self.poll_take(context, &mut copy, |copy| copy)
    }
}

/// Copying this many bytes costs less than taking the lock.
const SHORT: usize = 4 << 10;
/// The most bytes that one write copies: as many as a lane takes at once, so that the first chunk
/// is on its way while the next is copied.
const MAX_COPIED: usize = 256 << 10;
