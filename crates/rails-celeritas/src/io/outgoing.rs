//! The messages that are sent, and their memory, until they have arrived.

use super::{
    SendError,
    lock::{call_caught, drop_caught, keep},
};
use crate::proto::{blocks::SentBlocks, sender::Segment};
use bytes::Bytes;
use std::collections::BTreeMap;
use tokio::sync::oneshot;

/// The messages of a connection that were submitted and have not arrived.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    messages: BTreeMap<u32, Sent>,
    /// Messages that have come to an end, until the lock is free: their destructors and wakers are
    /// the application's.
    settled: Vec<Settled>,
    /// A message was refused, or was too late.
    has_failed: bool,
}

#[derive(Debug)]
struct Sent {
    blocks: SentBlocks,
    done: oneshot::Sender<Result<(), SendError>>,
}

/// A message that has come to an end. Its memory is freed, and the caller that waits for it woken,
/// by [`tell`](Self::tell).
#[derive(Debug)]
pub(super) struct Settled {
    sent: Sent,
    /// `None`: the caller learns of the connection's end.
    outcome: Option<Result<(), SendError>>,
}

impl Outgoing {
    pub(super) fn insert(&mut self, number: u32, blocks: SentBlocks) -> oneshot::Receiver<Result<(), SendError>> {
        let (done, wait) = oneshot::channel();
        self.messages.insert(number, Sent { blocks, done });
        wait
    }

    /// The message has come to this outcome.
    pub(super) fn settle(&mut self, number: u32, outcome: Result<(), SendError>) {
        self.has_failed |= outcome.is_err();
        let sent = self.messages.remove(&number);
        self.settled.extend(sent.map(|sent| Settled { sent, outcome: Some(outcome) }));
    }

    /// The message was given up, and no caller waits for it.
    pub(super) fn forget(&mut self, number: u32) {
        self.settled.extend(self.messages.remove(&number).map(|sent| Settled { sent, outcome: None }));
    }

    /// Whether all messages have come to an end.
    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Whether a message was refused or too late.
    pub(super) fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Lets go of all messages: those who wait learn of the connection's end.
    pub(super) fn clear(&mut self) {
        let messages = std::mem::take(&mut self.messages).into_values();
        self.settled.extend(messages.map(|sent| Settled { sent, outcome: None }));
    }

    /// The messages that have come to an end since the last call, to be told and dropped without
    /// the lock.
    pub(super) fn take_settled(&mut self) -> Vec<Settled> {
        std::mem::take(&mut self.settled)
    }

    /// Adds the pieces of a segment's payload, which keep their memory, and may be dropped under
    /// the lock. Returns whether its message is still there.
    pub(super) fn pieces(&self, segment: &Segment, pieces: &mut Vec<Bytes>) -> bool {
        let Some(sent) = self.messages.get(&segment.header.message) else { return false };
        let start = segment.header.in_message;
        pieces.extend(sent.blocks.pieces(start..start + u64::from(segment.payload_len)).map(keep));
        true
    }

    /// The slices of a segment's payload, if its message is still there.
    pub(super) fn slices(&self, segment: &Segment) -> Option<impl Iterator<Item = &[u8]>> {
        // A segment of a message that was given up is not in flight any more.
        let sent = self.messages.get(&segment.header.message)?;
        let start = segment.header.in_message;
        Some(sent.blocks.slices(start..start + u64::from(segment.payload_len)))
    }
}

impl Settled {
    pub(super) fn tell(self) {
        let Sent { blocks, done } = self.sent;
        // The memory is free when the caller learns of it.
        drop_caught(blocks);
        // The caller that waits wakes, also where the channel is dropped.
        call_caught("the waker of a caller that sends", || match self.outcome {
            // Perhaps no caller waits for it.
            Some(outcome) => drop(done.send(outcome)),
            None => drop(done),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        io::lock::Lock,
        proto::wire::{SegmentHeader, Token},
    };
    use std::sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    };

    struct Owner(Arc<AtomicBool>);

    impl AsRef<[u8]> for Owner {
        fn as_ref(&self) -> &[u8] {
            b"owned"
        }
    }

    impl Drop for Owner {
        fn drop(&mut self) {
            self.0.store(true, Relaxed);
        }
    }

    /// A burst that is sealed ahead has the last of the bytes of a message that was given up.
    #[test]
    fn owner_of_pieces_is_dropped_behind_the_lock() {
        let (lock, is_dropped) = (Lock::new(Outgoing::default()), Arc::new(AtomicBool::new(false)));
        let blocks = SentBlocks::new(vec![Bytes::from_owner(Owner(Arc::clone(&is_dropped)))]);
        let header = SegmentHeader { token: Token(1), packet: 0, offset: 0, message: 0, message_len: 5, in_message: 0 };
        let segment = Segment { header, is_short: false, payload_len: 5, is_again: false };
        let mut pieces = Vec::new();
        let mut outgoing = lock.lock();
        drop(outgoing.insert(0, blocks));
        assert!(outgoing.pieces(&segment, &mut pieces));
        outgoing.forget(0);
        let settled = outgoing.take_settled();
        drop(outgoing);
        settled.into_iter().for_each(Settled::tell);
        let outgoing = lock.lock();
        drop(pieces);
        assert!(!is_dropped.load(Relaxed));
        drop(outgoing);
        assert!(is_dropped.load(Relaxed));
    }
}
