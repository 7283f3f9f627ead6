//! The application's calls: a small write is sent, and a small arrival received, on the caller's
//! thread.

use super::{
    active_lane::{ActiveLane, MAX_INLINE},
    drive::Access,
    shared::{StreamShared, StreamState},
};
use rails_proto::connection::Connection;
use std::{
    cell::Cell,
    io::Result as IoResult,
    sync::{Arc, Weak},
    task::{Context, Poll, ready},
    time::Instant,
};
use tokio::{
    runtime::Handle,
    task::{self, coop},
};

impl StreamShared {
    /// Calls `act` under the lock to write a number of bytes. One lane sends few bytes inline: at
    /// once, or with those that follow in the same turn of the writer's task.
    pub(crate) fn write<T>(self: &Arc<Self>, length: usize, act: impl FnOnce(&mut StreamState) -> T) -> T {
        if length > MAX_INLINE {
            let result = self.with(act);
            self.send_waiting();
            return result;
        }
        // A task of a runtime has an end of its turn.
        let is_task = task::try_id().is_some() && Handle::try_current().is_ok();
        let at_hand = self.has_at_hand();
        let (waits, is_led) = (Cell::new(false), Cell::new(false));
        let write = |state: &mut StreamState| {
            state.prefer_lane_here();
            let before = state.connection.sent();
            let result = act(state);
            if is_task && state.connection.sent() != before {
                let has_more = at_hand || state.connection.is_readable();
                waits.set(state.note_write(length, has_more));
            }
            result
        };
        let result = self.act(Connection::take_urgent_wakes, write, |lane| {
            is_led.set(true);
            match waits.get() {
                true => self.let_wait(lane),
                false => Access::elsewhere(self, lane).transmit_inline(),
            }
        });
        if !waits.get() {
            self.send_waiting();
        }
        // A lane that waits makes the call at the end of the turn.
        if !waits.get() || !is_led.get() {
            self.with(|_| ());
        }
        result
    }

    /// Has the lane send at the end of the turn of the calling task.
    fn let_wait(self: &Arc<Self>, lane: &ActiveLane) {
        self.add_waiting(lane.id);
        // The watch of the lane's task looks after the writes of a task whose turn does not end.
        if !lane.is_watched() {
            return self.send_waiting();
        }
        // The runtime polls it after this turn. If the runtime ends instead, it is dropped.
        let turn = EndOfTurn(Arc::downgrade(self));
        drop(tokio::spawn(async move { drop(turn) }));
    }

    /// Has the lanes send whose writes wait.
    pub(super) fn send_waiting(&self) {
        if let Some(lanes) = self.take_waiting() {
            lanes.iter().for_each(|lane| Access::elsewhere(self, lane).transmit_inline());
            self.with(|_| ());
        }
    }

    /// Waits for the next bytes or message that `read` gives; `None` at the end of the stream.
    pub(crate) fn poll_next<T>(
        &self,
        context: &mut Context<'_>,
        read: impl Fn(&mut Connection, Instant) -> Option<T>,
    ) -> Poll<IoResult<Option<T>>> {
        // A stream that always has bytes must not starve the other tasks of the caller's thread.
        let budget = ready!(coop::poll_proceed(context));
        let mut is_registered = false;
        loop {
            let next = self.with(|state| {
                if let Some(next) = read(&mut state.connection, Instant::now()) {
                    return Ok(Poll::Ready(Ok(Some(next))));
                }
                if state.connection.is_read() {
                    return Ok(Poll::Ready(Ok(None)));
                }
                if let Some(error) = self.error(state) {
                    return Ok(Poll::Ready(Err(error.into())));
                }
                if let Some(lane) = state.take_arrived() {
                    return Err(lane);
                }
                state.note_reader(is_registered);
                Ok(Poll::Pending)
            });
            match next {
                Ok(Poll::Pending) if !is_registered => {
                    self.register_reader(context.waker());
                    is_registered = true;
                }
                Ok(next) => {
                    if next.is_ready() {
                        budget.made_progress();
                    } else {
                        self.send_waiting();
                    }
                    return next;
                }
                Err(lane) => Access::elsewhere(self, &lane).receive_inline(),
            }
        }
    }

    /// Shuts the write side down. Writes that wait leave before the end.
    pub(super) fn finish(&self) {
        self.send_waiting();
        self.with(|state| {
            if !state.connection.is_finished() {
                state.connection.finish(Instant::now());
            }
        });
    }
}

/// Sends waiting writes at the end of the turn of the task that has let them wait.
struct EndOfTurn(Weak<StreamShared>);

impl Drop for EndOfTurn {
    fn drop(&mut self) {
        if let Some(shared) = self.0.upgrade() {
            shared.send_waiting();
        }
    }
}
