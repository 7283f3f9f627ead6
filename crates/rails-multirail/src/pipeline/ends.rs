//! The two ends of a stage: its items come from an [`Input`], and go to an [`Output`].

use super::{
    buffers::{Buffer, Buffers},
    channel::{Closing, Ending, NotSent, Received, Receiver, Sender},
    meter::{Meter, Wait},
};
use rails_bind::memory::{MemoryError, Residency};
use std::{
    fmt,
    future::poll_fn,
    hint::spin_loop,
    sync::Arc,
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};
use tokio::task::{coop, yield_now};

/// The source of a stage's items. A stage reads it to the end: dropping it before, or returning
/// while it lives elsewhere, ends the pipeline at once, with the name of the stage.
pub struct Input<T> {
    receiver: Receiver<T>,
    meter: Arc<Meter>,
    spin: Spin,
    /// The end that the input has heard of.
    ended: Option<Ending>,
}

/// Takes the items of a stage to the next one, and gives out buffers for them. The next stage gets
/// to its end when this stage has ended, also if the stage drops the output before. It takes
/// nothing after the end of its stage.
pub struct Output<T> {
    sender: Sender<T>,
    meter: Arc<Meter>,
    buffers: Option<Buffers>,
    closing: Closing,
    spin: Spin,
}

/// How long an end tries again and again before it sleeps.
#[derive(Debug)]
struct Spin {
    time: Duration,
    /// Whether the end has tried long enough for the rail's other tasks to be due, before the next
    /// item.
    owes_turn: bool,
}

/// The stage before did not end well, so the items that were received are not all. A stage returns
/// it with `?`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the stage before has failed")]
pub struct Broken;

/// The stage after receives no more, or the stage of the output has ended. A stage returns it with
/// `?`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the stage after receives no more items, or this stage has ended")]
pub struct Closed;

/// An output gave no buffer. A stage returns it with `?`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoBuffer {
    /// The link has none.
    #[error("the link to the next stage was made without buffers: Link::buffers adds them")]
    NotLinked,
    /// An item would not be sent.
    #[error(transparent)]
    Closed(#[from] Closed),
}

impl<T> Input<T> {
    pub(super) fn new(receiver: Receiver<T>, meter: Arc<Meter>, spin: Duration) -> Self {
        Self { receiver, meter, spin: Spin::new(spin), ended: None }
    }

    /// The next item, once it is there; `None` once the stage before has ended and all of its items
    /// were received.
    ///
    /// Dropping the future loses no item.
    ///
    /// # Errors
    /// [`Broken`] in place of `None` if the stage before failed.
    pub async fn recv(&mut self) -> Result<Option<T>, Broken> {
        self.spin.turn().await;
        if let Some(ended) = self.ended {
            return self.end(ended);
        }
        let received = match self.receiver.try_receive().or_else(|| self.spin()) {
            Some(received) => received,
            None => {
                let _waiting = self.meter.wait(Wait::Input);
                poll_fn(|context| self.receiver.poll_receive(context)).await
            }
        };
        match received {
            Received::Item(item) => {
                self.meter.count_in();
                Ok(Some(item))
            }
            Received::Ended(ended) => self.end(ended),
        }
    }

    fn spin(&mut self) -> Option<Received<T>> {
        self.spin.until(&self.meter, Wait::Input, || self.receiver.try_receive())
    }

    fn end(&mut self, ended: Ending) -> Result<Option<T>, Broken> {
        self.ended = Some(ended);
        self.meter.mark_read_all();
        match ended {
            Ending::Finished => Ok(None),
            Ending::Broken => {
                self.meter.mark_neighbour_ended();
                Err(Broken)
            }
        }
    }
}

impl<T> Drop for Input<T> {
    fn drop(&mut self) {
        if self.receiver.is_at_end() {
            self.meter.mark_read_all();
        }
        // The buffers of the items are back before the pipeline ends.
        self.receiver.close();
        if !self.meter.has_read_all() {
            self.meter.mark_stopped_reading();
        }
    }
}

impl<T> Output<T> {
    pub(super) fn new(sender: Sender<T>, meter: Arc<Meter>, buffers: Option<Buffers>, spin: Duration) -> Self {
        let closing = sender.closing();
        Self { sender, meter, buffers, closing, spin: Spin::new(spin) }
    }

    /// Hands an item over to the next stage, once there is room. If the future is dropped, the item
    /// may be dropped with it.
    ///
    /// # Errors
    /// [`Closed`]. The item was dropped.
    pub async fn send(&mut self, item: T) -> Result<(), Closed> {
        self.spin.turn().await;
        let mut item = match self.sender.try_send(item) {
            Ok(()) => return self.sent(),
            Err(NotSent::Closed(_)) => return Err(self.closed()),
            Err(NotSent::Full(item)) => Some(item),
        };
        let sender = &mut self.sender;
        let spun = self.spin.until(&self.meter, Wait::Room, || match sender.try_send(item.take()?) {
            Ok(()) => Some(Ok(())),
            Err(NotSent::Closed(_)) => Some(Err(Closed)),
            Err(NotSent::Full(unsent)) => {
                item = Some(unsent);
                None
            }
        });
        let sent = match spun {
            Some(sent) => sent,
            None => {
                let _waiting = self.meter.wait(Wait::Room);
                poll_fn(|context| self.sender.poll_send(context, &mut item)).await.map_err(|_| Closed)
            }
        };
        match sent {
            Ok(()) => self.sent(),
            Err(Closed) => Err(self.closed()),
        }
    }

    /// Hands an item over if there is room, and otherwise drops and
    /// [counts](super::StageStats::dropped) it: for sources that cannot wait, such as a camera.
    /// Returns whether it was handed over.
    ///
    /// # Errors
    /// [`Closed`]. The item was dropped, and not counted.
    pub fn offer(&mut self, item: T) -> Result<bool, Closed> {
        match self.sender.try_send(item) {
            Ok(()) => self.sent().map(|()| true),
            Err(NotSent::Closed(_)) => Err(self.closed()),
            Err(NotSent::Full(_)) => {
                self.count_dropped();
                Ok(false)
            }
        }
    }

    /// A buffer of the link to the next stage, once one is free. It has the bytes of the item that
    /// it carried last, so the stage overwrites it, or says how many of its bytes are the
    /// item's. A pool whose buffers are all out holds the stage up: this is the back-pressure
    /// on a source.
    ///
    /// # Errors
    /// [`NoBuffer`], also while it waits.
    pub async fn buffer(&mut self) -> Result<Buffer, NoBuffer> {
        self.spin.turn().await;
        let Self { closing, meter, spin, .. } = self;
        let buffers = self.buffers.as_ref().ok_or(NoBuffer::NotLinked)?;
        let take = || take(closing, buffers);
        let spun = match take() {
            Some(taken) => Some(taken),
            None => spin.until(meter, Wait::Buffer, take),
        };
        let taken = match spun {
            Some(taken) => taken,
            None => {
                let _waiting = meter.wait(Wait::Buffer);
                poll_fn(|context| poll_take(context, closing, buffers)).await
            }
        };
        taken.map_err(|Closed| self.closed().into())
    }

    /// A buffer, once one is free, for a stage that waits for something else besides: it is not
    /// held up.
    pub(super) async fn spare_buffer(&mut self) -> Result<Buffer, NoBuffer> {
        let Self { closing, buffers, .. } = self;
        let buffers = buffers.as_ref().ok_or(NoBuffer::NotLinked)?;
        let taken = poll_fn(|context| poll_take(context, closing, buffers)).await;
        taken.map_err(|Closed| self.closed().into())
    }

    /// A buffer, if one is free at this moment, with the bytes of the item that it carried last.
    ///
    /// # Errors
    /// [`NoBuffer`].
    pub fn try_buffer(&mut self) -> Result<Option<Buffer>, NoBuffer> {
        let buffers = self.buffers.as_ref().ok_or(NoBuffer::NotLinked)?;
        take(&self.closing, buffers).transpose().map_err(|Closed| self.closed().into())
    }

    /// Counts an item that the stage gave up by itself, for want of a buffer for example.
    pub fn count_dropped(&mut self) {
        self.meter.count_dropped();
    }

    /// The node of each page of the buffers, read from the kernel.
    ///
    /// # Errors
    /// [`MemoryError`]; `None` if the link has no buffers.
    pub fn buffer_residency(&self) -> Option<Result<Residency, MemoryError>> {
        self.buffers.as_ref().map(|buffers| buffers.pool.residency())
    }

    fn sent(&self) -> Result<(), Closed> {
        self.meter.count_out();
        Ok(())
    }

    fn closed(&self) -> Closed {
        // After the stage's own end, that end has closed the output.
        if !self.meter.has_ended() {
            self.meter.mark_neighbour_ended();
        }
        Closed
    }
}

/// A buffer if one is free, as long as an item can be sent.
fn take(closing: &Closing, buffers: &Buffers) -> Option<Result<Buffer, Closed>> {
    if closing.is_closed() { Some(Err(Closed)) } else { buffers.pool.take().map(Ok) }
}

/// As `take`; besides, a buffer that comes back wakes the task, and so does the end of the channel.
fn poll_take(context: &mut Context<'_>, closing: &Closing, buffers: &Buffers) -> Poll<Result<Buffer, Closed>> {
    closing.wait(context.waker());
    if closing.is_closed() { Poll::Ready(Err(Closed)) } else { buffers.pool.poll_take(context).map(Ok) }
}

impl Spin {
    fn new(time: Duration) -> Self {
        Self { time, owes_turn: false }
    }

    /// Lets the other tasks of the rail run, once the stage has used up its tokio budget of ready
    /// items, or has spun.
    async fn turn(&mut self) {
        if self.owes_turn {
            yield_now().await;
            self.owes_turn = false;
        }
        poll_fn(|context| {
            ready!(coop::poll_proceed(context)).made_progress();
            Poll::Ready(())
        })
        .await;
    }

    /// Tries again and again. The clock is read only after the first tries: reading it takes as
    /// long as several tries.
    fn until<R>(&mut self, meter: &Meter, wait: Wait, mut attempt: impl FnMut() -> Option<R>) -> Option<R> {
        if self.time.is_zero() {
            return None;
        }
        let mut tries = |count: u32| {
            (0..count).find_map(|_| {
                spin_loop();
                attempt()
            })
        };
        if let Some(done) = tries(UNTIMED_TRIES) {
            return Some(done);
        }
        let _waiting = meter.wait(wait);
        let start = Instant::now();
        while start.elapsed() < self.time {
            if let Some(done) = tries(TRIES) {
                self.owes_turn = true;
                return Some(done);
            }
        }
        // The stage sleeps next, which is a turn of the others.
        None
    }
}

impl<T> fmt::Debug for Input<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Input").field("stage", &self.meter.name).finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Output<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Output").field("stage", &self.meter.name).finish_non_exhaustive()
    }
}

/// Tries without the clock: a microsecond or two on x86, where a `pause` takes up to 140 cycles.
const UNTIMED_TRIES: u32 = 32;
/// The tries between two looks at the clock.
const TRIES: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::channel::channel;
    use std::num::NonZeroUsize;

    fn output(spin: Duration) -> (Output<u32>, Input<u32>) {
        let (sender, receiver) = channel(NonZeroUsize::MIN);
        let meter = |name: &str| Meter::new(name.to_owned(), Instant::now(), Arc::default());
        (Output::new(sender, meter("from"), None, spin), Input::new(receiver, meter("to"), spin))
    }

    /// A stage may move its ends into a task that goes from thread to thread.
    #[test]
    fn the_futures_of_both_ends_are_send() {
        fn is_send(_: impl Send) {}
        let (mut output, mut input) = output(Duration::ZERO);
        is_send(output.send(1));
        is_send(output.buffer());
        is_send(input.recv());
    }

    #[test]
    fn a_timed_spin_is_followed_by_a_turn_of_others() {
        let meter = Meter::new("stage".to_owned(), Instant::now(), Arc::default());
        let mut spin = Spin::new(Duration::MAX);
        let mut tries = 0;
        let done = spin.until(&meter, Wait::Input, || {
            tries += 1;
            (tries > UNTIMED_TRIES).then_some(())
        });
        assert_eq!(done, Some(()));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let other = tokio::spawn(async {});
            spin.turn().await;
            assert!(other.is_finished());
        });
        assert!(!spin.owes_turn);
    }
}
