//! The slots of a device in turn: their frames, the thread that waits for them, and the order.
//!
//! The ring knows nothing of CUDA, and its tests have a fake device. A thread waits for the device,
//! rather than a function that the driver calls (`cuLaunchHostFunc`): the driver does not call it
//! after an error, so that the task would sleep for ever, and the function may not call the driver,
//! which a waker can do by dropping a task.

use crate::CudaError;
use std::{
    collections::VecDeque,
    io,
    num::NonZeroUsize,
    sync::mpsc::{self, SyncSender},
    task::{Context, Poll, ready},
    thread::{self, JoinHandle},
};
use tokio::sync::mpsc as results;

/// A place for one frame at a time, at the host and on the device.
pub(crate) trait Slot {
    /// The memory at the host. Called only while the slot is idle: at first, and after it has
    /// settled.
    fn staging(&mut self) -> &mut [u8];

    /// Starts the device's work: it copies that many bytes, whole pixels, from the memory at the
    /// host, changes them, and copies them back. Returns at once.
    fn begin(&mut self, bytes: usize) -> Result<(), CudaError>;

    /// Takes the memory at the host back. Called after the wait for the slot.
    fn settle(&mut self) -> Result<(), CudaError>;
}

/// Slots in turn.
#[derive(Debug)]
pub(crate) struct Ring<B, S> {
    slots: Vec<S>,
    /// The bytes of the longest frame.
    longest: usize,
    /// The frames under way, the oldest first, with their lengths at submission.
    frames: VecDeque<(B, usize)>,
    /// The slot of the oldest frame; the later ones are in those after it.
    oldest: usize,
    /// Sends the thread the slots to wait for; `None` once the ring is being dropped.
    begun: Option<SyncSender<usize>>,
    /// The results of those waits, in the same order.
    over: results::Receiver<Result<(), CudaError>>,
    waiter: Option<JoinHandle<()>>,
    /// Whether the device has failed, after which it is unknown which memory it uses.
    is_broken: bool,
}

impl<B, S> Ring<B, S> {
    /// A ring of at least one slot, each for frames of up to `longest` bytes. `wait` blocks until
    /// the device has done with the slot of that number; it is called on a thread of its own,
    /// once for each frame, in the order of the frames.
    pub(crate) fn new(
        slots: Vec<S>,
        longest: usize,
        mut wait: impl FnMut(usize) -> Result<(), CudaError> + Send + 'static,
    ) -> io::Result<Self> {
        let depth = slots.len();
        // Both channels have room for every frame under way, so that no sender waits.
        let (begun, beginnings) = mpsc::sync_channel(depth);
        let (results, over) = results::channel(depth);
        let waiter = thread::Builder::new().name(THREAD.to_owned()).spawn(move || {
            for slot in beginnings {
                // There is room for every result. The ring is gone only if a waker dropped it, on this thread.
                if results.try_send(wait(slot)).is_err() {
                    break;
                }
            }
        })?;
        let frames = VecDeque::with_capacity(depth);
        Ok(Self { slots, longest, frames, oldest: 0, begun: Some(begun), over, waiter: Some(waiter), is_broken: false })
    }

    /// The number of frames that can be under way.
    pub(crate) fn depth(&self) -> NonZeroUsize {
        NonZeroUsize::new(self.slots.len()).expect("a ring has a slot")
    }
}

impl<B: AsMut<[u8]>, S: Slot> Ring<B, S> {
    /// Submits a frame. An error drops it.
    pub(crate) fn submit(&mut self, mut frame: B) -> Result<(), CudaError> {
        let depth = self.slots.len();
        if self.is_broken {
            return Err(CudaError::Broken);
        }
        if self.frames.len() == depth {
            return Err(CudaError::Full { depth });
        }
        let bytes = frame.as_mut();
        let (frame_bytes, longest) = (bytes.len(), self.longest);
        if frame_bytes > longest {
            return Err(CudaError::FrameTooLong { frame_bytes, longest });
        }
        let number = (self.oldest + self.frames.len()) % depth;
        let slot = &mut self.slots[number];
        let pixels = whole_pixels(frame_bytes);
        slot.staging()[..pixels].copy_from_slice(&bytes[..pixels]);
        if let Err(error) = slot.begin(pixels) {
            self.is_broken = true;
            return Err(error);
        }
        self.frames.push_back((frame, frame_bytes));
        let begun = self.begun.as_ref().expect("the ring is not being dropped");
        begun.try_send(number).expect("there is room for every slot, and the thread waits as long as this exists");
        Ok(())
    }

    /// The oldest frame, once the device is done with it. An error drops it. Pending without a
    /// frame under way.
    pub(crate) fn poll_done(&mut self, context: &mut Context<'_>) -> Poll<Result<B, CudaError>> {
        let result = ready!(self.over.poll_recv(context)).expect("the thread waits as long as this exists");
        let (frame, frame_bytes) = self.frames.pop_front().expect("each result is that of a frame");
        let number = self.oldest;
        self.oldest = (number + 1) % self.slots.len();
        let settled = result.and_then(|()| self.slots[number].settle());
        self.is_broken |= settled.is_err();
        Poll::Ready(settled.and_then(|()| filled(frame, frame_bytes, self.slots[number].staging())))
    }
}

impl<B, S> Drop for Ring<B, S> {
    /// Waits until the device is done with every frame; the slots are dropped after that.
    fn drop(&mut self) {
        self.begun = None;
        // A waker may drop a task on the waiting thread, and the ring with it. Slots wait by themselves
        // then.
        if let Some(waiter) = self.waiter.take().filter(|waiter| waiter.thread().id() != thread::current().id()) {
            // The thread ends when it has waited for each slot at work. A panic of the thread was
            // printed.
            let _ = waiter.join();
        }
    }
}

/// The frame with the bytes that came back.
fn filled<B: AsMut<[u8]>>(mut frame: B, submitted: usize, staging: &[u8]) -> Result<B, CudaError> {
    let bytes = frame.as_mut();
    if bytes.len() != submitted {
        return Err(CudaError::FrameChanged { submitted, now: bytes.len() });
    }
    let pixels = whole_pixels(submitted);
    bytes[..pixels].copy_from_slice(&staging[..pixels]);
    Ok(frame)
}

/// The bytes of the whole pixels in `bytes`; a rest stays as it is.
fn whole_pixels(bytes: usize) -> usize {
    bytes - bytes % PIXEL_BYTES
}

/// Red, green, blue and alpha.
pub(crate) const PIXEL_BYTES: usize = 4;
/// The name of the thread that waits.
const THREAD: &str = "rails-cuda";

#[cfg(test)]
mod tests;
