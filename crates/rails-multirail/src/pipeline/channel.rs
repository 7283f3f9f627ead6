//! The bounded channel between two stages, of one sender and one receiver: a ring, and how its ends sleep and close.

use super::{
    signal::Signal,
    sync::{
        Arc, AtomicU8, Consumer,
        Ordering::{AcqRel, Acquire, Relaxed},
        Producer, PushError, RingBuffer,
    },
};
use std::{
    collections::VecDeque,
    num::NonZeroUsize,
    task::{Context, Poll},
};

/// The end that sends. It stays open when it is dropped: [`SenderEnd`] closes it.
pub(super) struct Sender<T> {
    ring: Producer<T>,
    ends: Arc<Ends>,
}

/// The end that receives. It stays open when it is dropped: [`close`](Self::close) closes it, or [`ReceiverEnd`].
///
/// A long channel gives it several items at a time, for one fence instead of one each.
pub(super) struct Receiver<T> {
    ring: Consumer<T>,
    ends: Arc<Ends>,
    /// Items that were taken off the ring and not received; they count to the length of the channel.
    taken: VecDeque<T>,
    /// The items that are taken off the ring at a time.
    batch: usize,
}

/// Closes the sending end, from any place.
pub(super) struct SenderEnd(Arc<Ends>);

/// Closes the receiving end, from any place.
pub(super) struct ReceiverEnd(Arc<Ends>);

/// How a sender ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// It has sent all that it had.
    Finished,
    /// It failed.
    Broken,
}

/// What a receiver gets.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Received<T> {
    Item(T),
    /// The sender has ended, and all its items were received.
    Ended(Ending),
}

/// Why an item was not sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NotSent<T> {
    Full(T),
    /// The receiver has closed.
    Closed(T),
}

struct Ends {
    sender: End,
    receiver: End,
}

/// One end: it writes here when it sleeps and when it closes, and the other end reads here at every item. On cache
/// lines of its own, of which x86 fetches two at a time.
#[repr(align(128))]
struct End {
    signal: Signal,
    /// One of the constants below.
    state: AtomicU8,
}

/// A channel for so many items. All its memory is allocated here.
pub(super) fn channel<T>(length: NonZeroUsize) -> (Sender<T>, Receiver<T>) {
    let batch = (length.get() / BATCHES).max(1);
    // The first item of a batch is received at once.
    let taken = VecDeque::with_capacity(batch - 1);
    let (producer, consumer) = RingBuffer::new(length.get() - (batch - 1));
    let ends = Arc::new(Ends { sender: End::new(), receiver: End::new() });
    (Sender { ring: producer, ends: ends.clone() }, Receiver { ring: consumer, ends, taken, batch })
}

impl<T> Sender<T> {
    /// Sends an item if there is room.
    pub(super) fn try_send(&mut self, item: T) -> Result<(), NotSent<T>> {
        if self.ends.receiver.is_closed() {
            return Err(NotSent::Closed(item));
        }
        match self.ring.push(item) {
            Ok(()) => {
                self.ends.receiver.signal.tell();
                Ok(())
            }
            Err(PushError::Full(item)) => Err(NotSent::Full(item)),
        }
    }

    /// Sends the item once there is room; gives it back if the receiver has closed.
    ///
    /// # Panics
    /// Without an item.
    pub(super) fn poll_send(&mut self, context: &mut Context<'_>, item: &mut Option<T>) -> Poll<Result<(), T>> {
        for is_registered in [false, true] {
            match self.try_send(item.take().expect("the caller has an item to send")) {
                Ok(()) => return Poll::Ready(Ok(())),
                Err(NotSent::Closed(item)) => return Poll::Ready(Err(item)),
                Err(NotSent::Full(unsent)) => *item = Some(unsent),
            }
            if !is_registered {
                self.ends.sender.signal.wait(context.waker());
            }
        }
        Poll::Pending
    }

    pub(super) fn end(&self) -> SenderEnd {
        SenderEnd(self.ends.clone())
    }
}

impl<T> Receiver<T> {
    /// The next item or the end, if it is there.
    pub(super) fn try_receive(&mut self) -> Option<Received<T>> {
        if let Some(item) = self.pop() {
            return Some(Received::Item(item));
        }
        let ending = self.ends.sender.ending()?;
        // It may have sent more before it ended.
        Some(self.pop().map_or(Received::Ended(ending), Received::Item))
    }

    /// The next item or the end, once it is there.
    pub(super) fn poll_receive(&mut self, context: &mut Context<'_>) -> Poll<Received<T>> {
        if let Some(received) = self.try_receive() {
            return Poll::Ready(received);
        }
        self.ends.receiver.signal.wait(context.waker());
        self.try_receive().map_or(Poll::Pending, Poll::Ready)
    }

    /// Refuses further items, and drops those that wait.
    pub(super) fn close(&mut self) {
        self.end().close();
        self.taken.clear();
        while self.ring.pop().is_ok() {}
    }

    /// Whether the sender has ended, and nothing waits.
    pub(super) fn is_at_end(&self) -> bool {
        // In this order: what was sent before the end is seen after it.
        self.taken.is_empty() && self.ends.sender.ending().is_some() && self.ring.is_empty()
    }

    pub(super) fn end(&self) -> ReceiverEnd {
        ReceiverEnd(self.ends.clone())
    }

    fn pop(&mut self) -> Option<T> {
        if let Some(item) = self.taken.pop_front() {
            return Some(item);
        }
        let item = self.ring.pop().ok()?;
        self.taken.extend((1..self.batch).map_while(|_| self.ring.pop().ok()));
        self.ends.sender.signal.tell();
        Some(item)
    }
}

impl SenderEnd {
    /// Ends the channel after the items that were sent. A second call changes nothing.
    pub(super) fn close(&self, ending: Ending) {
        let state = match ending {
            Ending::Finished => FINISHED,
            Ending::Broken => BROKEN,
        };
        self.0.sender.close(state);
        self.0.receiver.signal.tell();
    }
}

impl ReceiverEnd {
    /// Refuses further items.
    pub(super) fn close(&self) {
        self.0.receiver.close(FINISHED);
        self.0.sender.signal.tell();
    }
}

impl End {
    fn new() -> Self {
        Self { signal: Signal::new(), state: AtomicU8::new(OPEN) }
    }

    fn is_closed(&self) -> bool {
        self.state.load(Acquire) != OPEN
    }

    fn ending(&self) -> Option<Ending> {
        match self.state.load(Acquire) {
            OPEN => None,
            FINISHED => Some(Ending::Finished),
            _ => Some(Ending::Broken),
        }
    }

    fn close(&self, state: u8) {
        // The first call counts, and has told the other end.
        let _ = self.state.compare_exchange(OPEN, state, AcqRel, Relaxed);
    }
}

/// A channel is as long as so many batches.
const BATCHES: usize = 4;
const OPEN: u8 = 0;
const FINISHED: u8 = 1;
const BROKEN: u8 = 2;
