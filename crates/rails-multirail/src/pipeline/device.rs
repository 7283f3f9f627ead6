//! Devices that work on the frames of a stage: a CPU, or an accelerator with several frames under
//! way.

use super::{Input, Output};
use std::{
    collections::VecDeque,
    error::Error,
    future::poll_fn,
    num::NonZeroUsize,
    task::{Context, Poll},
};

/// A device that changes frames in place.
///
/// [`run`] makes a stage of it. A device whose copies and computations overlap has several frames
/// under way: while one is computed, the next is on its way there and the last on its way back, and
/// the stages beside it send and receive others. Frames come back in the order in which they went
/// in.
pub trait FrameDevice<B> {
    /// The number of frames that may be under way at a time.
    fn depth(&self) -> NonZeroUsize;

    /// Begins with a frame. The caller has no more than [`depth`](Self::depth) of them under way.
    ///
    /// # Errors
    /// The device's. The frame was dropped.
    fn submit(&mut self, frame: B) -> Result<(), Box<dyn Error + Send + Sync>>;

    /// The oldest frame, once the device has done with it. The caller has at least one under way.
    ///
    /// # Errors
    /// The device's. The frame was dropped.
    fn poll_done(&mut self, context: &mut Context<'_>) -> Poll<Result<B, Box<dyn Error + Send + Sync>>>;
}

/// Host memory and the stage's own CPU as a device: one frame at a time, computed at once.
///
/// The computation occupies the thread of the stage's rail, so the stage belongs on a core without
/// lanes.
#[derive(Debug)]
pub struct HostDevice<F, B> {
    compute: F,
    done: VecDeque<B>,
}

impl<F: FnMut(&mut B), B> HostDevice<F, B> {
    /// A device that calls `compute` with each frame.
    pub fn new(compute: F) -> Self {
        Self { compute, done: VecDeque::with_capacity(1) }
    }
}

impl<F: FnMut(&mut B), B> FrameDevice<B> for HostDevice<F, B> {
    fn depth(&self) -> NonZeroUsize {
        NonZeroUsize::MIN
    }

    fn submit(&mut self, mut frame: B) -> Result<(), Box<dyn Error + Send + Sync>> {
        (self.compute)(&mut frame);
        self.done.push_back(frame);
        Ok(())
    }

    fn poll_done(&mut self, _: &mut Context<'_>) -> Poll<Result<B, Box<dyn Error + Send + Sync>>> {
        self.done.pop_front().map_or(Poll::Pending, |frame| Poll::Ready(Ok(frame)))
    }
}

/// A stage that has a device work on every item, with as many under way as the device allows.
///
/// # Errors
/// The device's, and those of the stages beside this one.
pub async fn run<B>(
    mut device: impl FrameDevice<B>,
    mut input: Input<B>,
    mut output: Output<B>,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let depth = device.depth().get();
    let (mut under_way, mut is_over) = (0, false);
    while !is_over || under_way > 0 {
        let done = poll_fn(|context| device.poll_done(context));
        let frame = tokio::select! {
            biased;
            done = done, if under_way > 0 => {
                under_way -= 1;
                output.send(done?).await?;
                continue;
            }
            // No item is lost if the other one is ready first.
            frame = input.recv(), if !is_over && under_way < depth => frame?,
        };
        match frame {
            Some(frame) => {
                device.submit(frame)?;
                under_way += 1;
            }
            None => is_over = true,
        }
    }
    Ok(())
}

/// Swaps red and blue of pixels of four bytes: from RGBA, which renderers make, to BGRA, which
/// displays take, and back. Bytes behind the last whole pixel stay as they are.
pub fn swap_red_and_blue(pixels: &mut [u8]) {
    for pixel in pixels.as_chunks_mut::<4>().0 {
        let [red, green, blue, alpha] = *pixel;
        *pixel = [blue, green, red, alpha];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn red_and_blue_change_places() {
        let mut pixels = [1, 2, 3, 4, 5, 6, 7, 8, 9];
        swap_red_and_blue(&mut pixels);
        assert_eq!(pixels, [3, 2, 1, 4, 7, 6, 5, 8, 9]);
    }

    proptest! {
        #[test]
        fn swapping_twice_changes_nothing(pixels in prop::collection::vec(any::<u8>(), 0..64)) {
            let mut swapped = pixels.clone();
            swap_red_and_blue(&mut swapped);
            swap_red_and_blue(&mut swapped);
            prop_assert_eq!(swapped, pixels);
        }
    }
}
