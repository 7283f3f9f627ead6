//! The bytes of a channel that may be on their way, in both directions.

use std::sync::atomic::{AtomicU64, Ordering};

/// How far each direction of a channel has come, and may go.
///
/// The receiver of a direction promises to take its bytes up to a limit: those that were consumed,
/// and a window more. The window is [`Windows::FIRST`] bytes at first. A sender without credit says
/// so, and a receiver whose reader keeps up then doubles the window.
#[derive(Debug)]
pub(super) struct Flow {
    /// Bytes that this end has sent.
    sent: u64,
    /// The offset up to which the peer takes bytes.
    limit: u64,
    /// The peer was told that this end has more bytes than credit, at the present limit.
    is_blocked: bool,
    received: u64,
    consumed: u64,
    /// The limit that the peer was told.
    promised: u64,
    window: u64,
}

/// The windows of all channels of a peer, whose sum is bounded.
#[derive(Debug)]
pub(super) struct Windows {
    max: u64,
    taken: AtomicU64,
}

/// The peer did something that no gate does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Violation {
    /// The peer sent more than it may.
    #[error("bytes beyond the limit of a channel")]
    BeyondLimit,
    /// The peer opened a channel by a number that is not its next.
    #[error("a channel by a number that was used, or is not the peer's to use")]
    Number,
    /// A frame for a channel that was never opened.
    #[error("a frame of a channel that was never opened")]
    NeverOpened,
    /// Bytes, or a second end, behind the end of a direction.
    #[error("bytes behind the end of a channel")]
    BehindTheEnd,
    /// Bytes, or an end, of a channel that is not open yet.
    #[error("bytes of a channel before it was open")]
    BeforeOpen,
    /// An answer to a question that was not asked.
    #[error("an answer for a channel that does not wait for one")]
    Answer,
    /// The peer does not read what this end has to answer.
    #[error("the peer asks, and takes no answers")]
    TakesNothing,
    /// The peer said something else first.
    #[error("the first frame is no greeting, or a greeting came later")]
    Greeting,
}

impl Windows {
    /// The window of a new channel, in bytes.
    pub(super) const FIRST: u64 = 64 << 10;
    /// The largest window of a channel, in bytes.
    const LARGEST: u64 = 16 << 20;

    /// At most `max` bytes for all channels.
    pub(super) fn new(max: u64) -> Self {
        Self { max, taken: AtomicU64::new(0) }
    }

    /// Takes the window of a new channel; `false` if there is no room.
    pub(super) fn take_first(&self) -> bool {
        self.take(Self::FIRST)
    }

    fn take(&self, bytes: u64) -> bool {
        let more = |taken: u64| taken.checked_add(bytes).filter(|taken| *taken <= self.max);
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// Gives the window of a channel back that has ended.
    pub(super) fn give_back(&self, flow: &Flow) {
        self.taken.fetch_sub(flow.window, Ordering::Relaxed);
    }

    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }
}

impl Flow {
    /// A channel whose window was [taken](Windows::take_first), and whose peer takes `limit` bytes.
    pub(super) fn new(limit: u64) -> Self {
        Self {
            sent: 0,
            limit,
            is_blocked: false,
            received: 0,
            consumed: 0,
            promised: Windows::FIRST,
            window: Windows::FIRST,
        }
    }

    /// How many bytes this end may send.
    pub(super) fn credit(&self) -> u64 {
        self.limit - self.sent
    }

    /// Notes that bytes were sent, at most as many as there is credit.
    pub(super) fn send(&mut self, bytes: u64) {
        debug_assert!(bytes <= self.credit(), "a sender asks for credit first");
        self.sent += bytes;
    }

    /// Notes that there are bytes to send, and no credit. Says whether the peer is to be told.
    pub(super) fn block(&mut self) -> bool {
        !std::mem::replace(&mut self.is_blocked, true)
    }

    /// Takes the peer's new limit, which may come late; says whether there is more credit now.
    pub(super) fn raise(&mut self, limit: u64) -> bool {
        let raised = limit > self.limit;
        if raised {
            (self.limit, self.is_blocked) = (limit, false);
        }
        raised
    }

    /// Notes that bytes arrived.
    pub(super) fn arrive(&mut self, bytes: u64) -> Result<(), Violation> {
        if bytes > self.promised - self.received {
            return Err(Violation::BeyondLimit);
        }
        self.received += bytes;
        Ok(())
    }

    /// Notes that the service, or the program, has taken bytes that arrived. The new limit, if it
    /// is worth a message: once half of the window was consumed.
    pub(super) fn consume(&mut self, bytes: u64) -> Option<u64> {
        self.consumed += bytes;
        debug_assert!(self.consumed <= self.received, "only what arrived is consumed");
        let limit = self.consumed + self.window;
        (limit - self.promised >= self.window / 2).then(|| self.promise(limit))
    }

    /// The peer has more bytes than credit. The new limit, if the window was too small for a reader
    /// that keeps up, and there is room for a larger one.
    pub(super) fn widen(&mut self, windows: &Windows) -> Option<u64> {
        let keeps_up = self.received - self.consumed <= self.window / 2;
        let more = self.window.min(Windows::LARGEST.saturating_sub(self.window));
        if !keeps_up || more == 0 || !windows.take(more) {
            return None;
        }
        self.window += more;
        Some(self.promise(self.consumed + self.window))
    }

    fn promise(&mut self, limit: u64) -> u64 {
        self.promised = self.promised.max(limit);
        self.promised
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Steps of a sender and a receiver whose messages arrive in order, late.
    #[derive(Debug, Clone)]
    enum Step {
        Send(u64),
        Deliver,
        Consume(u64),
        Credit,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            (1..300_000_u64).prop_map(Step::Send),
            Just(Step::Deliver),
            (1..300_000_u64).prop_map(Step::Consume),
            Just(Step::Credit),
        ];
        prop::collection::vec(step, 0..400)
    }

    proptest! {
        #[test]
        fn a_sender_that_heeds_its_credit_violates_nothing_and_never_starves(steps in steps(), max in 65_536..4_000_000_u64) {
            let windows = Windows::new(max);
            prop_assert!(windows.take_first());
            let (mut sender, mut receiver) = (Flow::new(Windows::FIRST), Flow::new(0));
            // Messages on their way: bytes or a word that the sender is blocked; and limits.
            let (mut forth, mut back) = (std::collections::VecDeque::new(), std::collections::VecDeque::new());
            let mut waiting = 0;
            for step in steps {
                match step {
                    Step::Send(wanted) => {
                        let bytes = wanted.min(sender.credit());
                        if bytes > 0 {
                            sender.send(bytes);
                            forth.push_back(Some(bytes));
                        } else if sender.block() {
                            forth.push_back(None);
                        }
                    }
                    Step::Deliver => match forth.pop_front() {
                        Some(Some(bytes)) => {
                            prop_assert_eq!(receiver.arrive(bytes), Ok(()));
                            waiting += bytes;
                        }
                        Some(None) => back.extend(receiver.widen(&windows)),
                        None => {}
                    },
                    Step::Consume(wanted) => {
                        let bytes = wanted.min(waiting);
                        waiting -= bytes;
                        back.extend(receiver.consume(bytes));
                    }
                    Step::Credit => {
                        if let Some(limit) = back.pop_front() {
                            sender.raise(limit);
                        }
                    }
                }
                prop_assert!(waiting <= receiver.window, "what waits fits in the window");
                prop_assert!(windows.taken.load(Ordering::Relaxed) <= max);
            }
            // Once all is delivered and consumed, the sender has credit again.
            forth.into_iter().flatten().for_each(|bytes| {
                receiver.arrive(bytes).unwrap();
                waiting += bytes;
            });
            back.extend(receiver.consume(waiting));
            for limit in back {
                sender.raise(limit);
            }
            prop_assert!(sender.credit() >= Windows::FIRST / 2);
            windows.give_back(&receiver);
            prop_assert_eq!(windows.taken.load(Ordering::Relaxed), 0);
        }
    }

    #[test]
    fn bytes_beyond_the_limit_are_a_violation() {
        let mut flow = Flow::new(0);
        assert_eq!(flow.arrive(Windows::FIRST), Ok(()));
        assert_eq!(flow.arrive(1), Err(Violation::BeyondLimit));
        assert_eq!(Flow::new(0).arrive(u64::MAX), Err(Violation::BeyondLimit));
    }

    #[test]
    fn a_reader_that_does_not_keep_up_gets_no_larger_window() {
        let windows = Windows::new(u64::MAX);
        let mut flow = Flow::new(0);
        flow.arrive(Windows::FIRST).unwrap();
        assert_eq!(flow.widen(&windows), None);
        flow.consume(Windows::FIRST);
        assert_eq!(flow.widen(&windows), Some(3 * Windows::FIRST), "what was consumed and two windows");
    }
}
