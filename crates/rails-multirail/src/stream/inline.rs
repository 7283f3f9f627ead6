//! The application's calls: a small write is sent, and a small arrival received, on the caller's
//! thread.

use super::{
    active_lane::{ActiveLane, Driving, MAX_INLINE},
    drive::{Access, logs_decisions},
    shared::{StreamShared, StreamState},
    tasks::StreamTasks,
    turn::Word,
};
use crate::StreamError;
use rails_proto::{session::Session, stream_number::StreamNumber};
use std::{
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
        // The lane of the latest arrival, if no other thread drives it, asks under the same lock.
        let near = self.near().filter(|_| !logs_decisions());
        let mut driving = near.as_ref().and_then(|lane| lane.begin_or_leave(Word::SEND));
        let (mut waits, mut decided, mut led) = (false, None, None);
        let write = |state: &mut StreamState| {
            state.prefer_lane_here();
            let before = state.session.sent();
            let now = Instant::now();
            let asks =
                |near: &&Arc<ActiveLane>| driving.is_some() && state.is_up(near) && state.session.is_idle(near.id);
            let asks = near.as_ref().filter(asks).is_some();
            if asks {
                state.session.begin_turn();
            }
            let result = act(state);
            if is_task && state.session.sent() != before {
                let has_more = at_hand || state.session.is_readable();
                waits = state.note_write(now, length, has_more);
            }
            if asks {
                if !waits && let Some(driven) = driving.as_mut().and_then(Driving::started) {
                    driven.protocol.wake();
                    decided = Some(driven.protocol.transmit_locked(now, &mut state.session, false));
                }
                state.session.end_turn(now);
            }
            result
        };
        let result = self.act(|session| self.urgent_wakes(session), write, |lane| led = Some(lane.clone()));
        if let (Some(near), Some(driving), Some(decided)) = (&near, driving, decided) {
            Access::elsewhere(self, near).finish(driving, decided);
        }
        match &led {
            Some(lane) if waits => self.let_wait(lane),
            Some(lane) => Access::elsewhere(self, lane).transmit_inline(),
            None => {}
        }
        if !waits {
            self.send_waiting();
        }
        // A lane that waits makes the call at the end of the turn.
        if !waits || led.is_none() {
            self.wake_later();
        }
        result
    }

    /// Has the lane send at the end of the turn of the calling task.
    fn let_wait(self: &Arc<Self>, lane: &Arc<ActiveLane>) {
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
    pub(crate) fn send_waiting(&self) {
        if let Some(lanes) = self.take_waiting() {
            lanes.iter().for_each(|lane| Access::elsewhere(self, lane).transmit_inline());
            self.wake_later();
        }
    }

    /// Takes arrivals in for a lane that [has passed them on](Self::arrived).
    pub(crate) fn take_in(&self, lane: &Arc<ActiveLane>) {
        Access::elsewhere(self, lane).receive_inline();
    }

    /// Waits for the next bytes or message of a stream that `read` gives; `None` at the end of the
    /// stream.
    pub(crate) fn poll_next<T>(
        &self,
        context: &mut Context<'_>,
        tasks: &Arc<StreamTasks>,
        read: impl Fn(&mut Session, Instant, StreamNumber) -> Option<T>,
    ) -> Poll<Result<Option<T>, StreamError>> {
        // A stream that always has bytes must not starve the other tasks of the caller's thread.
        let budget = ready!(coop::poll_proceed(context));
        let (number, now) = (tasks.number(), Instant::now());
        loop {
            let next = self.with(|state| {
                if let Some(next) = read(&mut state.session, now, number) {
                    return Ok(Poll::Ready(Ok(Some(next))));
                }
                if state.session.is_read(number) {
                    return Ok(Poll::Ready(Ok(None)));
                }
                if let Some(failure) = state.session.read_failure(number) {
                    return Ok(Poll::Ready(Err(self.stream_error(state, failure))));
                }
                if let Some(lane) = state.take_arrived() {
                    return Err(lane);
                }
                state.note_reader(tasks);
                Ok(Poll::Pending)
            });
            match next {
                Ok(Poll::Pending) => {
                    if tasks.register_reader(context.waker()) {
                        self.send_waiting();
                        return Poll::Pending;
                    }
                }
                Ok(next) => {
                    budget.made_progress();
                    return next;
                }
                Err(lane) => self.take_in(&lane),
            }
        }
    }

    /// Shuts the write side down. Writes that wait leave before the end.
    pub(super) fn finish(&self) {
        self.send_waiting();
        self.with(|state| {
            if !state.session.is_finished(StreamNumber::FIRST) {
                state.session.finish(Instant::now(), StreamNumber::FIRST);
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
