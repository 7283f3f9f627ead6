//! The bounded channel between two stages, of one sender and one receiver: a ring, and how its ends
//! sleep and close.

use super::{
    signal::Signal,
    sync::{
        Arc, AtomicU8, Consumer, Mutex,
        Ordering::{AcqRel, Acquire, Relaxed},
        Producer, PushError, RingBuffer,
    },
};
use std::{
    collections::VecDeque,
    num::NonZeroUsize,
    sync::PoisonError,
    task::{Context, Poll, Waker},
};

/// The end that sends. Dropping it leaves the channel open: [`SenderEnd`] closes it.
pub(super) struct Sender<T> {
    ring: Producer<T>,
    items: Items<T>,
    ends: Arc<Ends>,
}

/// The end that receives. Dropping it leaves the channel open: [`close`](Self::close) or
/// [`ReceiverEnd`] closes it.
///
/// From a long channel, the receiver takes several items at a time, with one fence for all of them.
pub(super) struct Receiver<T> {
    items: Items<T>,
    ends: Arc<Ends>,
    /// Items that were taken off the ring and not received: one less than a batch at most.
    taken: VecDeque<T>,
    /// The items that are taken off the ring at a time.
    batch: usize,
}

/// Closes the sending end, from any place.
pub(super) struct SenderEnd(Arc<Ends>);

/// Closes the receiving end, from any place, and drops the items in the ring.
pub(super) struct ReceiverEnd {
    ends: Arc<Ends>,
    /// Empties the ring, and tells whether it was empty.
    drain: Box<dyn Fn() -> bool + Send>,
}

/// Tells a sender whether an item would be refused.
pub(super) struct Closing(Arc<Ends>);

/// The consuming end of the ring. The receiver has it, and so have the handles that may have to
/// empty the ring after the receiver has closed or was leaked: while the channel is open, no other
/// thread takes the lock.
struct Items<T>(Arc<Mutex<Consumer<T>>>);

/// The end of a sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// The sender has sent all that it had.
    Finished,
    /// The sender failed.
    Broken,
}

/// An item, or the end of the items.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Received<T> {
    Item(T),
    /// The sender has ended, and all its items were received.
    Ended(Ending),
}

/// An item that was not sent, and the reason.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NotSent<T> {
    Full(T),
    /// One of the two ends has closed.
    Closed(T),
}

struct Ends {
    sender: End,
    receiver: End,
    /// Wakes a sender that waits for something other than room, when the receiver closes.
    closing: Signal,
}

/// The state of one end. The end writes it to sleep and to close; the peer reads it at every item.
/// On cache lines of its own, of which x86 fetches two at a time.
#[repr(align(128))]
struct End {
    signal: Signal,
    /// One of the constants below.
    state: AtomicU8,
}

/// A channel whose ring holds `length` items; the receiver takes off less than a quarter of them
/// besides. All its memory is allocated here.
pub(super) fn channel<T>(length: NonZeroUsize) -> (Sender<T>, Receiver<T>) {
    let batch = (length.get() / BATCHES).max(1);
    // The first item of a batch is received at once.
    let taken = VecDeque::with_capacity(batch - 1);
    let (ring, consumer) = RingBuffer::new(length.get());
    let items = Items(Arc::new(Mutex::new(consumer)));
    let ends = Arc::new(Ends { sender: End::new(), receiver: End::new(), closing: Signal::new() });
    (Sender { ring, items: items.clone(), ends: ends.clone() }, Receiver { items, ends, taken, batch })
}

impl<T> Sender<T> {
    /// Sends an item if there is room.
    pub(super) fn try_send(&mut self, item: T) -> Result<(), NotSent<T>> {
        if self.ends.is_refusing() {
            return Err(NotSent::Closed(item));
        }
        match self.ring.push(item) {
            Ok(()) => {
                self.ends.receiver.signal.notify();
                // The fence in `notify` is between the item and this look, as one is between the end and its drain:
                // one of the two sees the other.
                if self.ends.receiver.is_closed() {
                    self.items.drain();
                }
                Ok(())
            }
            Err(PushError::Full(item)) => Err(NotSent::Full(item)),
        }
    }

    /// Sends the item once there is room; gives it back if one of the two ends has closed.
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

    pub(super) fn closing(&self) -> Closing {
        Closing(self.ends.clone())
    }
}

impl<T> Receiver<T> {
    /// The next item or the end, if it is there.
    pub(super) fn try_receive(&mut self) -> Option<Received<T>> {
        if let Some(item) = self.pop() {
            return Some(Received::Item(item));
        }
        let ending = self.ends.sender.ending()?;
        // The sender may have sent more before it ended.
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
        self.ends.close_receiver();
        self.taken.clear();
        self.items.drain();
    }

    /// Whether the sender has ended, and nothing waits.
    pub(super) fn is_at_end(&self) -> bool {
        // In this order: an item that was sent before the end is seen after it.
        self.taken.is_empty() && self.ends.sender.ending().is_some() && self.items.is_empty()
    }

    pub(super) fn end(&self) -> ReceiverEnd
    where
        T: Send + 'static,
    {
        let items = self.items.clone();
        ReceiverEnd { ends: self.ends.clone(), drain: Box::new(move || items.drain()) }
    }

    fn pop(&mut self) -> Option<T> {
        if let Some(item) = self.taken.pop_front() {
            return Some(item);
        }
        let item = self.items.pop(self.batch, &mut self.taken)?;
        self.ends.sender.signal.notify();
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
        self.0.receiver.signal.notify();
        // A stage may have given its output to a task that waits.
        self.0.sender.signal.notify();
        self.0.closing.notify();
    }
}

impl ReceiverEnd {
    /// Refuses further items, and drops those in the ring. Returns whether there were none, and the
    /// sender had ended.
    pub(super) fn close(&self) -> bool {
        self.ends.close_receiver();
        // In this order: the items that were sent before the end are in the ring after it.
        let has_ended = self.ends.sender.is_closed();
        (self.drain)() && has_ended
    }
}

impl Closing {
    pub(super) fn is_closed(&self) -> bool {
        self.0.is_refusing()
    }

    /// Has the close of the receiver wake this task. Only one task waits.
    pub(super) fn wait(&self, waker: &Waker) {
        self.0.closing.wait(waker);
    }
}

impl Ends {
    /// Whether items are refused: the receiver has closed, or the sender's own end.
    fn is_refusing(&self) -> bool {
        self.receiver.is_closed() || self.sender.is_closed()
    }

    fn close_receiver(&self) {
        self.receiver.close(FINISHED);
        self.sender.signal.notify();
        self.closing.notify();
    }
}

impl<T> Items<T> {
    /// Takes a batch: its first item, and the others into `rest`.
    fn pop(&self, batch: usize, rest: &mut VecDeque<T>) -> Option<T> {
        let mut ring = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let item = ring.pop().ok()?;
        rest.extend((1..batch).map_while(|_| ring.pop().ok()));
        Some(item)
    }

    fn is_empty(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Drops all items, and tells whether there were none.
    fn drain(&self) -> bool {
        let pop = || self.0.lock().unwrap_or_else(PoisonError::into_inner).pop().ok();
        // Without the lock while an item is dropped, which may run code of the user.
        std::iter::from_fn(pop).map(drop).count() == 0
    }
}

impl<T> Clone for Items<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
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

/// The number of batches in a channel.
const BATCHES: usize = 4;
const OPEN: u8 = 0;
const FINISHED: u8 = 1;
const BROKEN: u8 = 2;
