//! The notifications of one program, and their answers.

use super::{
    counters::{Counters, Passed},
    journal::{Journal, Slot},
    keeper::Keeper,
    loopback::Loopback,
};
use crate::sys::seccomp::{Listener, Notification, Ready, Waiting, is_gone};
use nix::poll::PollTimeout;
use std::{
    collections::VecDeque,
    io,
    os::fd::{AsFd, BorrowedFd},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Shared by a notifier and its attempts.
#[derive(Debug)]
pub(super) struct Watch {
    listener: Listener,
    waiting: Waiting,
    journal: Journal,
    keeper: Keeper,
    /// Held from the receipt of a notification until it is in the journal, so that at most one is
    /// not.
    receiving: Mutex<()>,
    /// Sockets that are being diverted for tasks that signals interrupt, by their cookies: such a
    /// task will call `connect(2)` once more, and expect success.
    interruptible: Mutex<VecDeque<u64>>,
    pub(super) loopback: Loopback,
    pub(super) counters: Arc<Counters>,
}

/// The result of looking for a notification.
#[derive(Debug)]
pub(super) enum Received {
    Pending(Pending),
    /// There is none at the moment.
    Nothing,
    /// No task has the filter any more.
    End,
}

/// A notification that waits for an answer. Dropped without one, the call goes on in the kernel.
#[derive(Debug)]
pub(super) struct Pending {
    watch: Arc<Watch>,
    notification: Notification,
    /// `None` once it is answered.
    slot: Option<Slot>,
    /// The cookie of a socket that is being diverted, if the task can be interrupted.
    cookie: Option<u64>,
}

impl Watch {
    pub(super) fn new(
        listener: Listener,
        waiting: Waiting,
        journal: Journal,
        keeper: Keeper,
        loopback: Loopback,
    ) -> Self {
        Self {
            listener,
            waiting,
            journal,
            keeper,
            receiving: Mutex::default(),
            interruptible: Mutex::default(),
            loopback,
            counters: Arc::default(),
        }
    }

    /// Takes a notification, if there is one; blocks for `timeout` until there is.
    pub(super) fn receive(self: &Arc<Self>, timeout: PollTimeout) -> io::Result<Received> {
        let _one_at_a_time = self.receiving.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match self.listener.wait(timeout)? {
                Ready::Notification => {}
                Ready::Nothing => return Ok(Received::Nothing),
                Ready::End => return Ok(Received::End),
            }
            // Otherwise the task has ended its call in the meantime.
            if let Some(notification) = self.listener.receive()? {
                return self.take(notification).map(Received::Pending);
            }
        }
    }

    fn take(self: &Arc<Self>, notification: Notification) -> io::Result<Pending> {
        match self.journal.note(&notification) {
            Ok(slot) => Ok(Pending { watch: Arc::clone(self), notification, slot: Some(slot), cookie: None }),
            Err(error) => {
                let _ = self.listener.go_on(notification.id);
                Err(error)
            }
        }
    }

    /// Forgets the socket with this cookie. Returns whether the socket is being diverted, or was
    /// when its task was interrupted.
    fn forget_interruptible(&self, cookie: u64) -> bool {
        let mut sockets = self.interruptible();
        let found = sockets.iter().position(|known| *known == cookie);
        found.and_then(|index| sockets.remove(index)).is_some()
    }

    fn interruptible(&self) -> MutexGuard<'_, VecDeque<u64>> {
        self.interruptible.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.keeper.leave(matches!(self.listener.wait(PollTimeout::ZERO), Ok(Ready::End)));
    }
}

impl Pending {
    pub(super) fn notification(&self) -> &Notification {
        &self.notification
    }

    pub(super) fn watch(&self) -> &Arc<Watch> {
        &self.watch
    }

    /// Whether the task still waits: so its number, its memory and its descriptors were its own
    /// until now.
    pub(super) fn is_waiting(&self) -> bool {
        self.watch.listener.is_waiting(self.notification.id)
    }

    /// Lets the call go on, for a reason.
    pub(super) fn pass(self, reason: Passed) {
        // The reason may be that the task is no more.
        let doubtful = matches!(reason, Passed::BadAddress | Passed::NotTcp | Passed::Untouchable);
        if doubtful && !self.is_waiting() {
            return self.forget();
        }
        self.watch.counters.count_passed(reason);
        self.end(|listener, id| listener.go_on(id));
    }

    /// Lets the call go on that only tells the first number.
    pub(super) fn skip(self) {
        self.end(|listener, id| listener.go_on(id));
    }

    /// Lets the call go on, since it could not be diverted.
    pub(super) fn fail(self) {
        self.watch.counters.count_failed();
        self.end(|listener, id| listener.go_on(id));
    }

    /// Drops the notification of a task that no longer waits.
    pub(super) fn forget(mut self) {
        self.watch.counters.count_gone();
        self.release();
    }

    /// Says that the socket will be connected to this process. If this process dies before the
    /// answer, the keeper takes the connection away again. The cookie is that of a socket whose
    /// task can be interrupted.
    pub(super) fn note_divert(&mut self, cookie: Option<u64>) -> io::Result<()> {
        let slot = self.slot.as_mut().expect("it is not answered yet");
        self.watch.journal.divert(slot)?;
        self.cookie = cookie;
        if let Some(cookie) = cookie {
            let mut sockets = self.watch.interruptible();
            sockets.truncate(MAX_INTERRUPTIBLE - 1);
            sockets.push_front(cookie);
        }
        Ok(())
    }

    /// Ends the call: the socket is connected to this process.
    pub(super) fn diverted(mut self, nonblocking: bool) {
        self.watch.counters.count_diverted();
        if !self.answer(|listener, id| listener.answer(id, if nonblocking { libc::EINPROGRESS } else { 0 })) {
            // The task will call again, unless it has died.
            self.cookie = None;
        }
    }

    /// Whether signals can end the task's wait and start its call anew.
    pub(super) fn is_interruptible(&self) -> bool {
        self.watch.waiting == Waiting::Interruptible
    }

    /// Whether the socket with this cookie was diverted while its task was interrupted.
    pub(super) fn was_interrupted(&self, cookie: u64) -> bool {
        self.watch.forget_interruptible(cookie)
    }

    /// Ends the call that began anew, with success.
    pub(super) fn end_again(self) {
        self.end(|listener, id| listener.answer(id, 0));
    }

    /// Answers. Returns whether the task still waited.
    fn end(mut self, answer: impl FnOnce(&Listener, u64) -> io::Result<()>) -> bool {
        self.answer(answer)
    }

    fn answer(&mut self, answer: impl FnOnce(&Listener, u64) -> io::Result<()>) -> bool {
        let answered = answer(&self.watch.listener, self.notification.id);
        self.release();
        if let Err(error) = &answered
            && !is_gone(error)
        {
            tracing::warn!(%error, tid = self.notification.tid, "a call of connect(2) cannot be answered");
        }
        answered.is_ok()
    }

    fn release(&mut self) {
        if let Some(slot) = self.slot.take() {
            self.watch.journal.release(slot);
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let Some(cookie) = self.cookie {
            self.watch.forget_interruptible(cookie);
        }
        if self.slot.is_none() {
            return;
        }
        if self.answer(|listener, id| listener.go_on(id)) {
            self.watch.counters.count_plain();
        } else {
            self.watch.counters.count_gone();
        }
    }
}

/// Calls begin anew at once, so few are between their two calls; a task that dies in between
/// leaves one behind.
const MAX_INTERRUPTIBLE: usize = 1024;
